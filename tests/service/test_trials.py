"""Trials on a virtual Storm: a topology stays in an unsure place only if it is measurably better there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stormwright.controller.objectives.outlook import THROUGHPUT
from stormwright.controller.propose import propose
from stormwright.controller.requests import NoPlan, Place, PlanInputs
from stormwright.model import Assignment, Problem, TopologyAssignment
from stormwright.plans.plan import Plan
from stormwright.service.safety.trial_budget import DAY_S
from tests.controller.builders import on
from tests.service.virtual import AllOn, Deciding, T, VirtualStorm
from tests.service.virtual import Place as Worth

SPREAD, TRIED = on("n0", "n1"), on("n2")

Begin = Callable[[Callable[[TopologyAssignment], Worth]], Deciding]


class Staying:
    """Finds nothing better."""

    def schedule(self, problem: Problem) -> Assignment:
        return Assignment(problem.current_slot)


def nodes(runs: TopologyAssignment) -> set[str]:
    return {slot.supervisor for slot in runs.slots}


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    """A service that would try out one placement, and cannot promise anything of it."""

    def unsure(problem: Problem, *_: object) -> Plan | NoPlan:
        found = propose(problem, Place({T.id: TRIED}, origin="service"), PlanInputs(predicts=False))
        return found.model_copy(update={"trial": True, "reason": "worth a trial"}) if isinstance(found, Plan) else found

    monkeypatch.setattr("stormwright.service.decider.try_out", unsure)
    begun: list[Deciding] = []

    def start(place: Callable[[TopologyAssignment], Worth]) -> Deciding:
        storm = VirtualStorm(monkeypatch, place)
        begun.append(Deciding(storm, tmp_path, Staying(), AllOn(2), objective=THROUGHPUT))
        return begun[-1]

    yield start
    for service in begun:
        service.end()


def worth(tps: float) -> Callable[[TopologyAssignment], Worth]:
    """Trees/s in the place that is tried out, where it is 1,000 otherwise."""
    return lambda runs: Worth(tps, 20_000 / tps) if nodes(runs) == {"n2"} else Worth(1000.0, 20.0)


def test_trial_that_is_better_stays(begin: Begin) -> None:
    service = begin(worth(1300.0))
    assert service.moved(300).trial
    assert service.run(300, lambda plan: bool(plan.moves)) is None
    assert nodes(service.storm.runs) == {"n2"}


@pytest.mark.parametrize("tps", [1000.0, 700.0])
@pytest.mark.long
def test_trial_that_is_no_better_is_taken_back(begin: Begin, tps: float) -> None:
    service = begin(worth(tps))
    assert service.moved(300).trial
    back = service.moved(300)
    assert (back.origin, back.trial) == ("rollback", False)
    assert nodes(service.storm.runs) == nodes(SPREAD)


def test_budget_of_trials_is_for_a_day(begin: Begin) -> None:
    service = begin(worth(1000.0))
    for _ in range(service.settings.trials_per_day):
        assert service.moved(300).trial
        service.moved(300)
        service.refused.__init__(service.state.document("none"))  # type: ignore[misc]
    assert service.run(400, lambda plan: bool(plan.moves)) is None
    service.storm.now_s += DAY_S
    assert service.moved(400).trial
