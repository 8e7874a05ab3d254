"""Measurements against sums done by hand."""

from __future__ import annotations

import pytest

from stormwright.history.evaluation.observed_traffic import ObservedTraffic
from stormwright.workbench.demo.measure import acked_series, longest_silence_s, measure
from tests.controller.builders import record


def test_rates_latency_and_crossing_traffic() -> None:
    records = [
        record("t", "n0", 0, tasks=(1, 1), acked=10, pairs=[[1, 2, 0, 30, 0], [1, 1, 0, 5, 0]], latency=[0, 99]),
        record("t", "n1", 0, tasks=(2, 2), kind="bolt", latency=[0, 0, 0, 1]),
        record("other", "n0", 0, acked=1000),
    ]
    found = measure(records, "t", 0, 1000)
    assert found.acked_tps == pytest.approx(10)
    assert found.inter_node_tps == pytest.approx(30)
    assert found.inter_node_per_acked == pytest.approx(3)
    # 99 acks in 1–2 ms and one in 4–8 ms, each at its bucket's geometric middle.
    assert found.mean_latency_ms == pytest.approx((99 * 2**0.5 + 32**0.5) / 100)
    assert found.p99_latency_ms == pytest.approx(2**0.5)
    assert (found.nodes, found.workers) == (2, 2)


def test_measured_inter_node_traffic_matches_history() -> None:
    """Also of tuples to the system's own task, and to tasks that were never reported."""
    pairs = [[1, 2, 0, 30, 0], [1, -1, 0, 500, 0], [1, 77, 0, 9, 0], [1, 1, 0, 5, 0]]
    records = [
        record(
            "t", node, second, tasks=(task, task), acked=10, start_ms=second * 1000, pairs=pairs if task == 1 else None
        )
        for second in range(60)
        for node, task in (("n1", 2), ("n0", 1))
    ]
    traffic = ObservedTraffic()
    traffic.add(records)
    window = traffic.windows("t")[0]
    found = measure(records, "t", window.start_ms, window.start_ms + traffic.window_ms)
    assert (window.crossing, window.unknown) == (300, 90)
    assert found.inter_node_tps == pytest.approx(30)
    assert found.inter_node_per_acked == pytest.approx(window.crossing / window.acked)


def test_nothing_measured_is_zero_and_unknown() -> None:
    found = measure([], "t", 0, 1000)
    assert (found.acked_tps, found.mean_latency_ms) == (0.0, None)


def test_the_series_keeps_the_total() -> None:
    records = [record("t", "n0", i, acked=10, start_ms=700 * i, length_ms=700) for i in range(10)]
    seconds, tps = acked_series(records, "t", 0, 7000, 1000)
    assert seconds[0] == pytest.approx(0.5)
    assert sum(tps) == pytest.approx(100)


def test_silence_is_an_upper_bound_between_acking_records() -> None:
    acking = [record("t", "n0", i, acked=1, start_ms=start) for i, start in enumerate((0, 1000, 5000, 6000))]
    silent = [record("t", "n0", 9, start_ms=2000)]
    # Acks at 1000 the earliest and 6000 the latest: between them at most 5 s, less is certain only by finer records.
    assert longest_silence_s([*acking, *silent], "t", 0, 7000) == pytest.approx(5.0)
