"""What becomes of a delivery once it is on disk."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stormwright.controller.tally import Tally
from stormwright.perflog.columns import RecordLanding
from stormwright.perflog.records import encode
from stormwright.perflog.schema import LATENCY_EDGES_MS
from stormwright.service.http.deliveries import Deliveries
from stormwright.service.intake import Intake
from tests.controller.builders import record


def line(seq: int) -> bytes:
    latency = {"edges_ms": LATENCY_EDGES_MS, "counts": [0] * (len(LATENCY_EDGES_MS) + 1)}
    return encode({**record("t", "n0", seq), "complete_latency": latency})


def intake(directory: Path, count: Any) -> tuple[Intake, RecordLanding]:
    landing = RecordLanding(directory)
    return Intake(landing, Tally(), SimpleNamespace(count=count)), landing  # type: ignore[arg-type]


def test_stored_delivery_is_accepted_despite_counting_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Refused, it would be delivered again, and be on disk twice."""
    failing = [True]

    def count(_: object) -> None:
        if failing[0]:
            raise ValueError("no such window")

    taking, landing = intake(tmp_path, count)

    async def deliver(*seqs: int) -> None:
        through = Deliveries(taking)
        for seq in seqs:
            assert await through.take(encode(record("t", "n0", seq))) is None

    asyncio.run(deliver(0, 1, 2))
    assert [entry.getMessage() for entry in caplog.records] == [
        "records on disk are missing in the live counts: ValueError: no such window"
    ], "told once"
    failing[0] = False
    asyncio.run(deliver(3))
    failing[0] = True
    asyncio.run(deliver(4))
    assert len(caplog.records) == 2, "and again once it was over"
    assert len(landing.files()) == 5


def test_delivery_fails_if_disk_write_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    taking, _ = intake(tmp_path, lambda _: None)
    monkeypatch.setattr("stormwright.perflog.landing.write_whole", full)
    with pytest.raises(OSError, match="No space left"):
        taking.store([taking.parse([line(0)])])


def test_only_valid_records_are_counted_once_each(tmp_path: Path) -> None:
    counted: list[dict[str, Any]] = []
    taking, _ = intake(tmp_path, counted.extend)
    taking.count(taking.parse([line(0) + b"\n" + line(0), b"nonsense\n", line(1)]))
    assert [each["seq"] for each in counted] == [0, 1]


def test_nothing_is_collected_while_records_are_counted(tmp_path: Path) -> None:
    """Each collection looks at all that the service holds, and Nimbus may wait for it."""
    enabled: list[bool] = []
    taking, _ = intake(tmp_path, lambda _: enabled.append(gc.isenabled()))
    taking.count(taking.parse([line(0)]))
    assert enabled == [False]
    assert gc.isenabled()
