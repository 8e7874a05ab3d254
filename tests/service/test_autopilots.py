"""An autopilot on a virtual Storm: a topology gets nodes as its rate rises, and gives them back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stormwright.controller.autopilot import AutopilotSettings
from stormwright.history.evaluation.window import Sample
from stormwright.model import Problem, Topology, TopologyAssignment
from stormwright.model.topology_config import SLO_LAG, SLO_P99
from stormwright.schedulers.toolkit.resolve import scheduler_keeping_running
from stormwright.service.plans.autopilots import AutopilotService, arriving
from tests.controller.builders import on
from tests.service.test_trials import Staying
from tests.service.virtual import Deciding, Place, T, VirtualStorm

#: CPU of a tree in each of the four executors, by which two on a node of 6 GHz handle 1,000 trees/s.
TREE_HZ, NODE_TPS = 2.9e6, 517.0

QUICK = AutopilotSettings(settle_s=30.0, cool_down_s=200.0, look_back_s=200.0)

Offered = Callable[[float], float]


class Storm(VirtualStorm):
    """A topology whose rate depends on its number of nodes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, offered: Offered, slow_ms: float = 20.0, **conf: float) -> None:
        super().__init__(monkeypatch, self._handled, offered)
        self.topology: Topology = replace(T, conf=conf)
        self.rate_tps, self._slow_ms = 1.0, slow_ms

    def _handled(self, runs: TopologyAssignment) -> Place:
        nodes = len({slot.supervisor for slot in runs.slots})
        return Place(NODE_TPS * min(nodes, 2), 20.0 if nodes > 1 else self._slow_ms)

    def second(self) -> list[dict]:  # type: ignore[type-arg]
        found = super().second()
        self.rate_tps = 0.9 * self.rate_tps + 0.1 * max(sum(e["acked"] for r in found for e in r["executors"]), 1.0)
        return found

    def problem(self) -> Problem:
        found = super().problem()
        assert found.load is not None
        load = found.load.topologies[T.id]
        load = replace(load, cpu_hz=np.full(4, TREE_HZ * self.rate_tps), pair_tps=load.pair_tps * self.rate_tps)
        found = replace(found, topologies=(self.topology,))
        return found.with_load(replace(found.load, topologies={T.id: load}))


Begin = Callable[..., Deciding]


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    begun: list[Deciding] = []

    def start(offered: Offered, slow_ms: float = 20.0, **conf: float) -> Deciding:
        storm = Storm(monkeypatch, offered, slow_ms, **conf)
        storm.runs = on("n0")
        fewest = scheduler_keeping_running("optimizer", {"objective": "nodes"})
        service = Deciding(storm, tmp_path, Staying(), repair_scheduler=fewest)
        plans = service.plan_service
        plans.autopilots = AutopilotService(plans, plans._plans, service.history.recent, settings=QUICK)  # noqa: SLF001
        begun.append(service)
        return service

    yield start
    for service in begun:
        service.end()


def nodes(service: Deciding) -> int:
    return len({slot.supervisor for slot in service.storm.runs.slots})


def run(service: Deciding, seconds: int) -> None:
    for _ in range(seconds):
        service.plan_service.autopilots.advance()
        service.second()


def test_nodes_follow_the_rate(begin: Begin) -> None:
    service = begin(lambda at_s: 700.0 if 300 <= at_s < 900 else 150.0, **{SLO_LAG: 60.0})
    run(service, 300)
    assert (nodes(service), service.storm.moves) == (1, [])
    run(service, 300)
    assert nodes(service) == 2
    run(service, 900)
    assert nodes(service) == 1
    texts = [entry.reason for entry in service.plan_service.history().entries]
    assert any("trees/s arrive" in text for text in texts)
    assert any("arrived within 3 minutes" in text for text in texts)
    assert len(service.storm.moves) == 2


def test_nothing_else_moves_it_and_only_in_mode_auto(begin: Begin) -> None:
    service = begin(lambda _: 700.0, **{SLO_LAG: 60.0})
    service.plan_service.change_modes(_observing())
    run(service, 200)
    assert service.storm.moves == []
    service = begin(lambda _: 100.0)
    run(service, 30)
    assert service.plan_service.autopilots.held() == {}


def test_topology_that_is_too_slow_on_fewer_nodes_goes_back(begin: Begin) -> None:
    service = begin(lambda at_s: 700.0 if at_s < 300 else 150.0, slow_ms=500.0, **{SLO_P99: 100.0})
    run(service, 250)
    assert nodes(service) == 2
    run(service, 1600)
    assert [len({slot.supervisor for slot in placed.slots}) for _, placed in service.storm.moves] == [2, 1, 2]


def _observing():  # type: ignore[no-untyped-def]
    from stormwright.client.shapes import ModesChange

    return ModesChange(default="observe", by="ann", reason="look first")


def test_arrivals_are_completions_and_growth_of_the_backlog() -> None:
    """The source gets 120 trees/s, of which 100 are completed."""

    def windows(*backlogs: int | None) -> list[Sample]:
        return [
            Sample(10_000 * number, 10.0, 60.0, 1000, 0, 0, 0, backlog=backlog)
            for number, backlog in enumerate(backlogs)
        ]

    assert arriving(windows(0, 150, 480, 600)) == pytest.approx(120.0)
    assert arriving(windows(5000, 3000, 1000, 0)) == 0.0, "more than was completed was taken from it"
    assert arriving(windows(0, None, 400, 600)) is None
    assert arriving(windows(0, 200)) is None
    first, *later = windows(0, 200, 400, 600)
    assert arriving([first, *(replace(each, start_ms=each.start_ms + 20_000) for each in later)]) is None
