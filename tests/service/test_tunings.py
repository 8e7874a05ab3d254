"""Tunings on a virtual Storm: which configurations stay, when a tuning ends, and what it learns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from stormwright.client.shapes import TuningRequest
from stormwright.controller.reports import MoveReport
from stormwright.controller.tuning.knobs import PARKS_KEY
from stormwright.model import Problem, Topology
from stormwright.model.batches import MAX_SPOUT_PENDING
from stormwright.plans.plan import Move
from stormwright.plans.tuning import Tuning
from stormwright.predict.changes import with_executors
from tests.service.test_trials import Staying
from tests.service.virtual import Deciding, Place, T, VirtualStorm

PENDING = 20

#: Multiple of the rate by a knob.
Worth = Callable[[Topology], float]


class Storm(VirtualStorm):
    """A topology whose rate depends on its configuration."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, worth: Worth) -> None:
        super().__init__(monkeypatch, lambda _: self._place())
        self.topology = replace(T, conf={MAX_SPOUT_PENDING: PENDING, "topology.message.timeout.secs": 30})
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
        begun.append(Deciding(storm, tmp_path, Staying()))
        begun[-1].run(150)
        return begun[-1]

    yield start
    begun[-1].end()


def asleep(topology: Topology) -> bool:
    return topology.conf.get(PARKS_KEY) == 0


def tuned(service: Deciding, **more: Any) -> Tuning:
    """The result of a tuning."""
    found = service.plan_service.tunings.start(TuningRequest(reason="faster", by="ann", topology="t", **more))
    return finished(service, found.id)


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
    assert asleep(service.storm.topology)  # type: ignore[attr-defined]
    assert found.gain == pytest.approx(1.5, rel=0.1)
    assert found.latency < 1
    assert all(trial.pause_s > 0 for trial in found.trials)
    kept = [trial for trial in found.trials if trial.state == "kept"]
    assert prod(trial.measured.value for trial in kept if trial.measured) == pytest.approx(found.gain)
