"""Live heaps by the records of workers."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stormwright.controller.live_heaps import FORGOTTEN_S, SWEEP_S, WARM_S, WINDOW_MIN, LiveHeaps
from stormwright.model import LoadProfile, Problem
from stormwright.model.constraints.constraint import PlacedExecutors
from stormwright.model.constraints.heaps import WORKER_BASE_MB, WorkerHeaps
from stormwright.model.load import silent_load
from stormwright.perflog.records import LogRecord
from tests.controller.builders import on, problem, record, topology

T = topology("t")

#: Tasks of the four executors: three bolts, then the spout.
ALL = ((1, 1), (2, 2), (3, 3), (4, 4))


class ManualClock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


def running(*nodes: str, of: Any = T, **more: Any) -> Problem:
    state = problem([of], slots=4, current={of.id: on(*nodes)}, **more)
    return state.with_load(LoadProfile({of.id: silent_load(of, state.core_hz)}))


def used(
    node: str,
    mb: float,
    minute: float,
    tasks: tuple[tuple[int, int], ...],
    collections: int | None = 1,
    born: int = 0,
    limit_mb: float | None = None,
) -> LogRecord:
    """A record that ends with so much heap in use."""
    made: Any = record(T.id, node, int(minute * 60), start_ms=int(minute * 60_000))
    (executor,) = made["executors"]
    made["executors"] = [{**executor, "first_task": first, "last_task": last} for first, last in tasks]
    made["worker"] = {**made["worker"], "start_ms": born, "pid": born}
    made["heap_bytes"] = int(mb * 2**20)
    made["heap_limit_bytes"] = None if limit_mb is None else int(limit_mb * 2**20)
    made["gc"] = None if collections is None else {"collections": collections, "ms": 1}
    return made  # type: ignore[no-any-return]


def measured(state: Problem, *records: LogRecord) -> list[float] | None:
    heaps = LiveHeaps()
    heaps.count(records)
    assert state.load is not None
    live = heaps.with_heaps(state.load, state).topologies[T.id].live_heap_mb
    return None if live is None else live.tolist()


def test_minimum_after_collections_is_shared_by_requests() -> None:
    base = WORKER_BASE_MB
    records = [used("n0", base + mb, minute, ALL) for minute, mb in ((2, 400), (3, 200), (4, 300))]
    assert measured(running("n0"), *records) == [50, 50, 50, 50]
    spout, bolt = T.components
    large = replace(T, components=(replace(spout, resources={"onheap.memory.mb": 640.0}), bolt))
    state = running("n0", of=large)
    live = measured(state, *records)
    assert live is not None
    by_component = dict(zip(state.topologies[0].executor_component.tolist(), live, strict=True))
    assert by_component == {0: 125, 1: 25}


@pytest.mark.parametrize("other", [used("n0", 40, 3, ALL, 0), used("n0", 40, 3, ALL, None), used("n0", 40, 0.5, ALL)])
def test_records_without_collection_and_of_the_start_do_not_count(other: LogRecord) -> None:
    assert WARM_S > 30
    assert measured(running("n0"), other) is None
    assert measured(running("n0"), other, used("n0", WORKER_BASE_MB + 80, 4, ALL)) == [20, 20, 20, 20]


def test_old_minima_expire_but_for_the_newest() -> None:
    low, high = used("n0", WORKER_BASE_MB + 40, 2, ALL), used("n0", WORKER_BASE_MB + 80, 2 + WINDOW_MIN, ALL)
    within = used("n0", WORKER_BASE_MB + 80, 1 + WINDOW_MIN, ALL)
    assert measured(running("n0"), low, within) == [10, 10, 10, 10]
    assert measured(running("n0"), low, high) == [20, 20, 20, 20]
    assert measured(running("n0"), low, used("n0", 300, 60, ALL, 0)) == [10, 10, 10, 10]


def test_use_of_a_worker_is_predicted_with_the_executors_that_it_will_have() -> None:
    state = running("n0", "n1")
    heaps = LiveHeaps()
    heaps.count([used("n0", WORKER_BASE_MB + 100, 2, ALL[:2]), used("n1", WORKER_BASE_MB + 20, 2, ALL[2:])])
    assert state.load is not None
    load = heaps.with_heaps(state.load, state)
    assert heaps.with_heaps(state.load, state) is load, "nothing is computed twice"
    known = state.with_load(load)
    now = WorkerHeaps.of(PlacedExecutors(known, known.current_slot))
    assert now.live_mb.tolist() == [WORKER_BASE_MB + 100, WORKER_BASE_MB + 20]
    together = WorkerHeaps.of(PlacedExecutors(known, np.full(4, 8, np.int32)))
    assert together.live_mb.tolist() == [WORKER_BASE_MB + 120]
    assert together.size_mb.tolist() == [4 * 128]


def test_new_worker_has_what_its_executors_had_before() -> None:
    state = running("n2")
    before = [used("n0", WORKER_BASE_MB + 100, 2, ALL[:2]), used("n1", WORKER_BASE_MB + 20, 2, ALL[2:])]
    started = used("n2", 30, 3.5, ALL, born=180_000)
    assert measured(state, *before, started) == [50, 50, 10, 10]
    assert measured(state, *before, started, used("n2", WORKER_BASE_MB + 80, 5, ALL, born=180_000)) == [20] * 4


def test_unmeasured_executors_have_the_mean_of_their_component() -> None:
    # Executors 0 to 2 are of one component, 3 of another.
    state = running("n0", "n1")
    assert measured(state, used("n0", WORKER_BASE_MB + 100, 2, ALL[:2])) == [50, 50, 50, 50]
    assert measured(state, used("n0", 10, 2, ALL[:2])) == [0, 0, 0, 0], "it has less than is assumed"
    assert measured(state, used("n0", 100, 2, ((7, 7),))) is None, "tasks that no executor has"


@pytest.mark.parametrize("other_mb", [128, 512])
def test_heap_of_another_size_than_by_the_options_is_unknown(other_mb: int, caplog: pytest.LogCaptureFixture) -> None:
    state = running("n0", conf={"worker.childopts": "-Xmx256m"})
    # A worker that was a standby may use more for half a second; the serial collector reports a survivor space less.
    for fitting_mb in (None, 247.5, 256):
        assert measured(state, used("n0", 300, 3, ALL, limit_mb=fitting_mb)) is not None
    with caplog.at_level(logging.WARNING):
        assert measured(state, used("n0", 100, 3, ALL, limit_mb=other_mb)) is None
    assert f"that of a worker is {other_mb} MB, but by the options of Nimbus 256 MB" in caplog.text
    without_size = running("n0", conf={"worker.childopts": "-Xss1m"})
    assert measured(without_size, used("n0", 100, 3, ALL, limit_mb=other_mb)) is not None


def test_workers_that_are_silent_are_forgotten() -> None:
    clock: Any = ManualClock()
    heaps, state = LiveHeaps(clock), running("n0")
    assert state.load is not None
    heaps.count([used("n0", 100, 2, ALL)])
    clock.now_s = FORGOTTEN_S + SWEEP_S
    heaps.count([])
    assert heaps.with_heaps(state.load, state) is state.load
