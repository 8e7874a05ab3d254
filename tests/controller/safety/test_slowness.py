"""Slow nodes, found from records in simulated time. How soon and how surely: benchmarks/service/slow_nodes.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stormwright.controller.safety.slowness import CPU, MAX_COMPONENTS, TIME, SlowNode, SlowNodes, WorkWindows
from stormwright.service.safety.anomalies import SlowNodeMonitor

NODES = ("n0", "n1", "n2", "n3")

#: Microseconds of CPU that a tuple takes on a node at a second.
Takes = Callable[[str, int], float]


def record(node: str, second: int, cpu_us: float, waits_us: float = 0.0, tasks: int = 1) -> dict[str, Any]:
    """A second of a worker that began 10 minutes before the first, with a spout and a bolt."""
    tuples = 1000
    bolt = {
        "component": "count", "type": "bolt", "first_task": tasks, "received": tuples,
        "cpu_ns": round(cpu_us * tuples * 1000), "execute_ns": round((cpu_us + waits_us) * tuples * 1000),
    }  # fmt: skip
    spout = {**bolt, "component": "words", "type": "spout", "received": 0}
    worker = {"topology": "t-1-0", "supervisor": node, "start_ms": -600_000}
    return {"worker": worker, "start_ms": 1000 * second, "executors": [spout, bolt]}


class Run:
    """A cluster that is watched second by second, with noise of a tenth."""

    def __init__(self) -> None:
        self.work, self.slow, self.second = WorkWindows(), SlowNodes(), 0
        self._rng = np.random.default_rng(1)

    def run(self, seconds: int, takes: Takes, waits: Takes = lambda *_: 0.0, tasks: int = 1) -> list[SlowNode]:
        found = []
        for _ in range(seconds):
            for node in NODES:
                noise = float(np.exp(0.1 * self._rng.normal()))
                cpu, wait = noise * takes(node, self.second), noise * waits(node, self.second)
                self.work.count([record(node, self.second, cpu, wait, tasks)])
            self.second += 1
            for window in self.work.over():
                found += self.slow.take(window)
        return found


def skewed(node: str, _: int) -> float:
    """Keys are distributed unevenly: on one node tuples take twice as much, and always have."""
    return 20.0 if node == "n3" else 10.0


def test_slow_node_is_detected_within_a_minute_and_cleared_after_recovery() -> None:
    run = Run()
    assert run.run(300, skewed) == []
    (found,) = run.run(60, lambda node, second: skewed(node, second) * (1.6 if node == "n1" else 1.0))
    assert (found.node, found.measure) == ("n1", "CPU per tuple")
    assert found.by == pytest.approx(0.6, abs=0.15)
    assert str(run.slow.slow["n1"]).startswith("CPU per tuple is up by ")
    assert run.run(120, skewed) == []
    assert run.slow.slow == {}


def test_uniform_slowdown_or_faster_peers_mark_no_node_as_slow() -> None:
    run = Run()
    run.run(300, skewed)
    assert run.run(300, lambda node, second: 2 * skewed(node, second)) == []
    assert run.run(300, lambda node, second: skewed(node, second) / (1.0 if node == "n1" else 2.0)) == []
    assert run.slow.slow == {}


def test_node_with_slow_io_is_detected_by_time_per_tuple() -> None:
    run = Run()
    run.run(300, skewed)
    (found,) = run.run(60, skewed, lambda node, _: 200.0 if node == "n2" else 0.0)
    assert (found.node, found.measure) == ("n2", "time per tuple")


def test_time_waiting_for_a_core_is_excluded_from_tuple_time() -> None:
    """That is an overload, and known as such."""
    one = record("n0", 1, 10.0, 500.0)
    one["executors"][1]["waited_ns"] = 500_000_000
    work = WorkWindows()
    work.count([one, record("n1", 1, 10.0), record("n0", 15, 10.0)])
    (window,) = work.over()
    (sample,) = window["n0"]
    assert sample.own[TIME] == pytest.approx(sample.own[CPU])
    assert sample.own == pytest.approx(sample.peers)


def test_single_long_pause_raises_no_slowness_alarm() -> None:
    run = Run()
    run.run(300, skewed)
    assert (
        run.run(60, lambda node, second: skewed(node, second) * (50.0 if node == "n0" and second == 310 else 1)) == []
    )


def test_different_executors_on_a_node_start_a_new_reference() -> None:
    run = Run()
    run.run(300, skewed)
    assert run.run(120, lambda node, _: 40.0 if node == "n0" else 10.0, tasks=7) == []


def test_slowness_ignores_young_workers_late_records_and_lone_components() -> None:
    work = WorkWindows()
    young = record("n0", 1, 10.0)
    young["worker"]["start_ms"] = -60_000
    alone = record("n0", 1, 10.0)
    alone["executors"][1]["component"] = "alone"
    work.count([young, alone, record("n1", 1, 10.0), record("n1", 30, 10.0)])
    assert [dict(window) for window in work.over()] == [{}]
    work.count([record("n0", 1, 10.0)])
    assert list(work.over()) == []


def test_slowness_state_is_bounded_per_node_despite_component_churn() -> None:
    detector = SlowNodes()
    for number in range(200):
        work = WorkWindows()
        for node in NODES:
            one = record(node, 1, 10.0)
            one["executors"] = [{**one["executors"][1], "component": f"c{number}-{part}"} for part in range(20)]
            work.count([one, record(node, 30, 1.0)])
        for window in work.over():
            detector.take(window)
    stored = detector._nodes.values()  # noqa: SLF001
    assert [len(node.references) for node in stored] == [2 * MAX_COMPONENTS] * len(NODES)
    detector.forget(NODES)
    assert not detector._nodes  # noqa: SLF001


@pytest.mark.parametrize(("millicores", "is_slow"), [(2000, True), (1900, True), (1000, False)])
def test_node_is_compared_with_its_past_under_the_same_quota(millicores: int, is_slow: bool) -> None:
    monitor, rng = SlowNodeMonitor(), np.random.default_rng(1)
    for second in range(360):
        for node in NODES:
            slows = node == "n1" and second >= 300
            takes = float(np.exp(0.1 * rng.normal())) * (16.0 if slows else 10.0)
            of_node = {"millicores": millicores if slows else 2000}
            monitor.count([{**record(node, second, takes), "node": of_node}])
    assert set(monitor.slow()) == ({"n1"} if is_slow else set())
