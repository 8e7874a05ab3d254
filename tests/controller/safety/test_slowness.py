"""Slow nodes, found from records in simulated time. How soon and how surely: benchmarks/service/slow_nodes.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stormwright.controller.safety.slowness import CPU, MOST_COMPONENTS, TIME, SlowNode, SlowNodes, WorkWindows

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
    """Keys are dealt unevenly: on one node tuples take twice as much, and always have."""
    return 20.0 if node == "n3" else 10.0


def test_a_node_that_becomes_slow_is_found_within_a_minute_and_told_until_it_is_well_again() -> None:
    run = Run()
    assert run.run(300, skewed) == []
    (found,) = run.run(60, lambda node, second: skewed(node, second) * (1.6 if node == "n1" else 1.0))
    assert (found.node, found.measure) == ("n1", "CPU per tuple")
    assert found.by == pytest.approx(0.6, abs=0.15)
    assert str(run.slow.slow["n1"]).startswith("CPU per tuple is up by ")
    assert run.run(120, skewed) == []
    assert run.slow.slow == {}


def test_what_makes_all_nodes_slower_or_the_others_faster_makes_none_slow() -> None:
    run = Run()
    run.run(300, skewed)
    assert run.run(300, lambda node, second: 2 * skewed(node, second)) == []
    assert run.run(300, lambda node, second: skewed(node, second) / (1.0 if node == "n1" else 2.0)) == []
    assert run.slow.slow == {}


def test_a_node_whose_tuples_wait_for_something_else_than_a_core_is_found_by_their_time() -> None:
    run = Run()
    run.run(300, skewed)
    (found,) = run.run(60, skewed, lambda node, _: 200.0 if node == "n2" else 0.0)
    assert (found.node, found.measure) == ("n2", "time per tuple")


def test_what_waits_for_a_core_takes_no_longer() -> None:
    """That is an overload, and known as such."""
    one = record("n0", 1, 10.0, 500.0)
    one["executors"][1]["waited_ns"] = 500_000_000
    work = WorkWindows()
    work.count([one, record("n1", 1, 10.0), record("n0", 15, 10.0)])
    (window,) = work.over()
    (sample,) = window["n0"]
    assert sample.own[TIME] == pytest.approx(sample.own[CPU])
    assert sample.own == pytest.approx(sample.peers)


def test_one_long_pause_is_no_alarm() -> None:
    run = Run()
    run.run(300, skewed)
    assert (
        run.run(60, lambda node, second: skewed(node, second) * (50.0 if node == "n0" and second == 310 else 1)) == []
    )


def test_other_executors_are_another_figure() -> None:
    run = Run()
    run.run(300, skewed)
    assert run.run(120, lambda node, _: 40.0 if node == "n0" else 10.0, tasks=7) == []


def test_young_workers_late_records_and_components_without_peers_tell_nothing() -> None:
    work = WorkWindows()
    young = record("n0", 1, 10.0)
    young["worker"]["start_ms"] = -60_000
    alone = record("n0", 1, 10.0)
    alone["executors"][1]["component"] = "alone"
    work.count([young, alone, record("n1", 1, 10.0), record("n1", 30, 10.0)])
    assert [dict(window) for window in work.over()] == [{}]
    work.count([record("n0", 1, 10.0)])
    assert list(work.over()) == []


def test_what_is_kept_grows_with_the_nodes_and_not_with_components_that_come_and_go() -> None:
    detector = SlowNodes()
    for number in range(200):
        work = WorkWindows()
        for node in NODES:
            one = record(node, 1, 10.0)
            one["executors"] = [{**one["executors"][1], "component": f"c{number}-{part}"} for part in range(20)]
            work.count([one, record(node, 30, 1.0)])
        for window in work.over():
            detector.take(window)
    kept = detector._nodes.values()  # noqa: SLF001
    assert [len(node.references) for node in kept] == [2 * MOST_COMPONENTS] * len(NODES)
    detector.forget(NODES)
    assert not detector._nodes  # noqa: SLF001
