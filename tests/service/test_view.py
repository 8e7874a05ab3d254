"""What a service takes the cluster for, each second and for each page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from stormwright.controller.live_heaps import LiveHeaps
from stormwright.model import LoadProfile, Problem
from stormwright.model.constraints.heaps import WORKER_BASE_MB
from stormwright.perflog.schema import sample_record
from stormwright.service.view import View
from stormwright.testing.word_counts import two_word_counts


class LiveSource:
    """What bridge, stream and calibration return now."""

    def __init__(self) -> None:
        self.shown: Problem | None = None
        self.load: LoadProfile | None = None
        self.costs: dict[str, Any] = {}

    def snapshot(self) -> Problem | None:
        return self.shown

    def latest(self, _: Problem) -> LoadProfile | None:
        return self.load

    def with_speeds(self, problem: Problem) -> Problem:
        return problem

    def with_costs(self, load: LoadProfile) -> LoadProfile:
        return replace(load, costs=self.costs) if self.costs else load


def test_load_has_the_live_heap_of_executors() -> None:
    source, whole, heaps = LiveSource(), two_word_counts(), LiveHeaps()
    source.shown, source.load = replace(whole, load=None), whole.load
    view = View(*[cast(Any, source)] * 3, None, lambda problem: problem, heaps)
    first = view.problem()
    assert first is not None
    assert first.load is whole.load, "nothing was measured"
    (topology, *_) = whole.topologies
    executor = {"first_task": int(topology.executor_start_task[0]), "last_task": int(topology.executor_end_task[0])}
    made = sample_record(gc={"collections": 1, "ms": 1}, heap_bytes=200 * 2**20)
    made["executors"][0] |= executor
    made["worker"] |= {"topology": topology.id}
    heaps.count([cast(Any, made)])
    source.load = replace(cast(Any, whole.load), end_ms=1)
    second = view.problem()
    assert second is not None
    assert second.load is not None
    live_mb = second.load.topologies[topology.id].live_heap_mb
    assert live_mb is not None
    assert live_mb.tolist() == [200 - WORKER_BASE_MB] * topology.num_executors


def test_problem_is_rebuilt_only_after_changes_of_snapshot_load_or_costs() -> None:
    source, whole = LiveSource(), two_word_counts()
    view = View(*[cast(Any, source)] * 3, None, lambda problem: problem)
    assert view.problem() is None
    source.shown = replace(whole, load=None)
    assert view.problem() is source.shown
    source.load = whole.load
    first = view.problem()
    assert first is not None
    assert first.load is whole.load
    assert view.problem() is first
    source.shown = replace(source.shown, name="later")
    second = view.problem()
    assert second is not None
    assert (second.name, second.load) == ("later", whole.load)
    assert second.demand is first.demand, "topologies and load are the same"
    assert whole.load is not None
    source.load = replace(whole.load, end_ms=whole.load.end_ms + 1)
    third = view.problem()
    assert third is not None
    assert third.load is source.load
    assert third.demand is not first.demand
    source.costs = {"send_us": 2.0}
    fourth = view.problem()
    assert fourth is not None
    assert fourth.load is not None
    assert fourth.load.costs == source.costs
    source.load = None
    assert view.problem() is source.shown
