"""Tunings on a virtual Storm: which configurations stay, when a tuning ends, and what it learns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from stormwright.client.shapes import ChangeRequest, TuningRequest
from stormwright.controller.reports import MoveReport
from stormwright.controller.tuning.knobs import PARKS_KEY
from stormwright.errors import ConflictError, InputError, NotFoundError
from stormwright.model import Problem, Topology
from stormwright.model.batches import MAX_SPOUT_PENDING
from stormwright.plans.plan import Move
from stormwright.plans.tuning import Tuning, TuningAim
from stormwright.predict.changes import with_executors
from stormwright.schedulers import make_scheduler
from tests.service.test_trials import Staying
from tests.service.virtual import Deciding, Place, T, VirtualStorm

PENDING = 20

#: Multiple of the rate by a knob.
Worth = Callable[[Topology], float]


class Storm(VirtualStorm):
    """A topology whose rate depends on its configuration."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, worth: Worth) -> None:
        super().__init__(monkeypatch, lambda _: self._place())
        self.topology = replace(T, conf={MAX_SPOUT_PENDING: PENDING, "topology.message.timeout.secs": 3000})
        self._worth = worth

    def _place(self) -> Place:
        tps = 1000.0 * self._worth(self.topology)
        return Place(tps, 1000 * self.topology.conf[MAX_SPOUT_PENDING] / tps)

    def problem(self) -> Problem:
        found = super().problem()
        assert found.load is not None
        load = found.load.topologies[T.id]
        pending = np.where(np.arange(len(load.cpu_hz)) == 0, float(self.topology.conf[MAX_SPOUT_PENDING]), 0.0)
        load = replace(load, pending_trees=pending[: self.topology.num_executors])
        found = replace(found, topologies=(self.topology,), current={T.id: self.runs})
        busy = {node.id: 0.99 * node.cpu_hz for node in found.supervisors}
        return found.with_load(replace(found.load, topologies={T.id: load}, node_cpu_hz=busy))

    def move(self, step: Move, reason: str, stop: Event | None) -> Sequence[MoveReport]:
        (move,) = step.moves
        conf = {key: value for key, value in {**self.topology.conf, **move.conf}.items() if value is not None}
        self.topology = replace(with_executors(self.topology, move.executors), conf=conf)
        return super().move(step, reason, stop)


Begin = Callable[[Worth], Deciding]


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    begun: list[Deciding] = []

    def start(worth: Worth) -> Deciding:
        for service in begun:
            service.end()
        storm = Storm(monkeypatch, worth)
        begun.append(Deciding(storm, tmp_path, Staying(), repair_scheduler=make_scheduler("online")))
        begun[-1].run(150)
        return begun[-1]

    yield start
    begun[-1].end()


def asleep(topology: Topology) -> bool:
    return topology.conf.get(PARKS_KEY) == 0


def now(service: Deciding) -> Topology:
    found: Topology = service.storm.topology  # type: ignore[attr-defined]
    return found


def start(service: Deciding, topology: str = "t", **more: Any) -> Tuning:
    return service.plan_service.tunings.start(TuningRequest(reason="faster", by="ann", topology=topology, **more))


def tuned(service: Deciding, **more: Any) -> Tuning:
    """The result of a tuning."""
    for _ in range(200):
        try:
            return finished(service, start(service, **more).id)
        except ConflictError:  # measured for too short a time since the last one
            service.second()
    raise AssertionError("it cannot be tuned")


def finished(service: Deciding, tuning: str, seconds: int = 4000) -> Tuning:
    for _ in range(seconds):
        found = service.plan_service.tunings.find(tuning)
        if found.state != "running" and not found.plan:
            return found
        service.second()
    raise AssertionError(f"tuning is still {found.state}: {found}")


def test_changes_that_are_better_stay(begin: Begin) -> None:
    service = begin(lambda topology: 1.5 if asleep(topology) else 1.0)
    found = tuned(service)
    assert found.state == "done"
    assert asleep(now(service))
    assert found.gain == pytest.approx(1.5, rel=0.1)
    assert found.latency < 1
    assert all(trial.pause_s > 0 for trial in found.trials)
    # Each that is better stays in the topology, and each that is taken back has gone.
    wanted = {**T.executor_counts}
    for trial in found.improvements:
        wanted |= trial.executors
    assert now(service).executor_counts == wanted


def test_change_that_is_no_better_is_taken_back(begin: Begin) -> None:
    service = begin(lambda _: 1.0)
    before = now(service)
    found = tuned(service, trials=2)
    assert [trial.state for trial in found.trials] == ["taken back"] * len(found.trials)
    assert found.trials
    assert (found.gain, now(service).conf, now(service).executor_counts) == (1, before.conf, before.executor_counts)
    changes = [trial.change for trial in found.trials]
    assert len(set(changes)) == len(changes)


@pytest.mark.long
def test_rate_for_latency_is_no_gain_unless_latency_may_rise(begin: Begin) -> None:
    service = begin(lambda topology: (topology.conf[MAX_SPOUT_PENDING] / PENDING) ** 0.4)
    assert not tuned(service, trials=3).improvements
    assert tuned(service, trials=3, any_latency=True).gain > 1.2
    limit = 30.0  # trees of before take 20 ms
    found = tuned(
        begin(lambda topology: (topology.conf[MAX_SPOUT_PENDING] / PENDING) ** 0.4), aim=TuningAim(p99_ms=limit)
    )
    assert found.latency * 20 <= 1.2 * limit  # quantiles are known by buckets of 19 %


def test_budget_of_trials_and_pauses(begin: Begin) -> None:
    service = begin(lambda _: 1.0)
    assert len(tuned(service, trials=1).trials) == 1
    found = tuned(service, pauses_s=1.0)
    assert not found.trials
    assert "1 s are left" in found.why


def test_dry_run_changes_nothing(begin: Begin) -> None:
    service = begin(lambda _: 1.0)
    found = tuned(service, dry_run=True)
    (trial,) = found.trials
    assert (found.state, trial.state, service.storm.moves) == ("done", "planned", [])
    plan = service.plan_service.plan(trial.plan)
    assert plan.step_count == 1
    (promise,) = plan.promises.values()
    assert promise.sustained == pytest.approx(trial.predicted.value), "as the trial expects"


def test_rate_beyond_every_change_is_refused_without_a_trial(begin: Begin) -> None:
    found = tuned(begin(lambda _: 1.0), aim=TuningAim("cores", rate_tps=1e9))
    assert not found.trials
    assert "no change is predicted to reach 1,000,000,000 trees/s" in found.why


def test_stopped_tuning_evaluates_its_trial(begin: Begin) -> None:
    service = begin(lambda _: 1.0)
    begun = start(service)
    while not service.storm.moves:
        service.second()
    change = ChangeRequest(by="bob", reason="enough")
    assert service.plan_service.tunings.stop("t", change).state == "stopped"
    with pytest.raises(ConflictError, match="nothing to stop"):
        service.plan_service.tunings.stop("t", change)
    found = finished(service, begun.id)
    assert (found.state, [trial.state for trial in found.trials]) == ("stopped", ["taken back"])


def test_service_that_starts_again_goes_on(begin: Begin) -> None:
    def worth(topology: Topology) -> float:
        return 1.5 if asleep(topology) else 1.0

    service = begin(worth)
    begun = start(service)
    while not service.storm.moves:
        service.second()
    storm = service.storm
    other = begin(worth)
    other.storm.__dict__.update(storm.__dict__ | {"count": other.history.count})
    found = finished(other, begun.id)
    assert found.state == "done"
    assert asleep(now(other))


def test_what_cannot_be_tuned_is_refused(begin: Begin) -> None:
    service = begin(lambda _: 1.0)
    with pytest.raises(InputError, match="no topology u"):
        start(service, topology="u")
    start(service)
    with pytest.raises(ConflictError, match="is being tuned already"):
        start(service)
    with pytest.raises(NotFoundError, match="there is no tuning"):
        service.plan_service.tunings.find("u")


def test_nothing_else_moves_a_topology_that_is_tuned(begin: Begin) -> None:
    service = begin(lambda _: 1.0)
    begun = start(service)
    assert service.plan_service.tunings.running() == {T.id: f"tuning {begun.id}"}
    service.decider.decide()
    assert service.memory.staying[T.id] == f"tuning {begun.id}"


def test_what_was_learned_serves_the_next(begin: Begin) -> None:
    service = begin(lambda topology: 1.5 if asleep(topology) else 1.0)
    first = tuned(service, trials=1)
    service.storm.topology = replace(now(service), conf={**now(service).conf, PARKS_KEY: 1000})  # type: ignore[attr-defined]
    service.run(150)
    second = tuned(service, trials=1)
    (one,), (other,) = first.trials, second.trials
    assert 1.5 - (other.predicted.value or 0) < 1.5 - (one.predicted.value or 0)
