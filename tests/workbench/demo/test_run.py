"""What the demonstration measures, and when."""

from __future__ import annotations

from stormwright.workbench.demo.measure import longest_silence_s, move_period
from tests.controller.builders import record


def test_silence_after_the_run_is_none_of_the_moves():
    """Warming up for 60 s and measuring for 10: the spouts are paused from 90 s on."""
    after = (80_000.0, 90_000.0)
    assert move_period(20_000.0, after, warm_up_s=60.0) == (20_000.0, 90_000.0)
    assert move_period(20_000.0, after, warm_up_s=5.0) == (20_000.0, 85_000.0)
    records = [acked(second) for second in range(20, 90) if not 30 <= second < 44]
    assert longest_silence_s(records, "t", *move_period(20_000.0, after, warm_up_s=60.0)) <= 16


def acked(second: int) -> dict[str, object]:
    made = record("t", "n0", second)
    spout = {**made["executors"][0], "type": "spout", "acked": 5, "trees": 5}
    return made | {"start_ms": second * 1000, "length_ns": 10**9, "executors": [spout]}
