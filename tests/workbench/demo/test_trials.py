"""Trials of placements on a stage whose placements are as good as a test says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from stormwright.controller.objectives.outlook import LATENCY, NODES, THROUGHPUT, TRAFFIC
from stormwright.controller.propose import Plan
from stormwright.controller.requests import NoPlan
from stormwright.plans.plan import Move, TopologyMove
from stormwright.predict.prediction import Interval
from stormwright.workbench.demo.measure import TopologyRun
from stormwright.workbench.demo.promise import PlacementPromise, TopologyPromise
from stormwright.workbench.demo.settings import Criterion, MeasuredStart, MeasuredStretch, TrialPlan
from stormwright.workbench.demo.trials import CpuCorrection, DecidedPlacement, PlacementTrials, verdict_of
from tests.controller.builders import on, topology

T = topology("t")

HOME, AWAY, ELSEWHERE = on("n0", "n1"), on("n0"), on("n1")


@dataclass
class Place:
    """What a placement comes to, and what is promised of it."""

    acked_tps: float
    promised_tps: float
    latency_ms: float = 20.0
    nodes: int = 2


@dataclass
class Stage:
    """A cluster of one topology.

    `wanted` are the placements of decisions, in order; after the last nothing moves. `noise` multiplies what each start
    comes to.
    """

    places: Mapping[object, Place]
    wanted: list[object]
    noise: list[float] = field(default_factory=list)
    correction_us: tuple[float, float] = (36.0, 52.0)
    runs: object = HOME
    log: list[str] = field(default_factory=list)

    def measure(self, trial):
        self.log.append(f"measure {trial}")
        place, noise = self.places[self.runs], self.noise.pop(0) if self.noise else 1.0
        run = TopologyRun(noise * place.acked_tps, 0.0, 0.0, place.latency_ms / noise, None, place.nodes, 2)
        return MeasuredStart(trial, {T.id: self.runs}, MeasuredStretch(0.0, 1.0, 30.0, {}), {T.id: run})

    def decide(self, trial):
        self.log.append(f"decide {trial}")
        to = self.wanted.pop(0) if self.wanted else self.runs
        moves = () if to == self.runs else (TopologyMove(T.id, T.name, self.runs, to, 4, (), (), (), ()),)
        reason = f"decision {trial}"
        decision = Plan(reason=reason, steps=(Move(moves),)) if moves else NoPlan("small_gain", reason)
        return DecidedPlacement(decision, *(promise(self.places[at]) for at in (self.runs, to)))

    def act(self, decision):
        (move,) = decision.moves
        self.log.append("act")
        self.runs = move.after

    def place(self, placements, reason, promises):
        self.log.append("place")
        self.runs = placements[T.id]

    def roll_back(self, trial, placements, reason):
        self.log.append("roll back")
        self.runs = placements[T.id]

    def correction(self, trial, start):
        return CpuCorrection(*self.correction_us, 50.0)


def promise(place: Place) -> PlacementPromise:
    rate, latency = (Interval(value, value, value) for value in (place.promised_tps, place.latency_ms))
    return PlacementPromise({T.id: TopologyPromise(rate, latency, "")}, {})


def tried(stage: Stage, objective=THROUGHPUT, **plan) -> PlacementTrials:
    found = PlacementTrials(stage, TrialPlan(Criterion(objective), **({"look_back": True} | plan)))
    found.run()
    return found


HOME_PLACE = Place(1000.0, 1000.0)


def test_better_placement_stays_after_one_start_each():
    stage = Stage({HOME: HOME_PLACE, AWAY: Place(2000.0, 2100.0)}, [AWAY])
    found = tried(stage)
    assert stage.log == ["measure 0", "decide 1", "act", "measure 1"]
    (trial,) = found.trials
    assert (trial.outcome, trial.verdict, verdict_of(found.trials)) == ("kept", "better", "better")
    assert trial.promised == pytest.approx(2.1)
    assert stage.runs == AWAY


def test_worse_placement_is_rolled_back_and_second_decision_is_made():
    places = {HOME: HOME_PLACE, AWAY: Place(640.0, 1240.0), ELSEWHERE: Place(1500.0, 1400.0)}
    stage = Stage(places, [AWAY, ELSEWHERE])
    found = tried(stage)
    assert stage.log == [
        *("measure 0", "decide 1", "act", "measure 1", "roll back"),
        *("measure 0", "decide 2", "act", "measure 2"),
    ]
    first, second = found.trials
    assert (first.outcome, first.verdict) == ("rolled back", "rolled back")
    assert first.text.startswith("throughput promised +24 %, measured −36 %")
    assert first.text.endswith("rolled back")
    assert first.correction.text.startswith("CPU of a tuple tree in that placement corrected from 36 to 52 µs")
    assert second.verdict == verdict_of(found.trials) == "better"
    assert second.comparison.starts == (2, 1), "each start of where it was counts"
    assert stage.runs == ELSEWHERE


def test_undecided_placements_take_turns_until_rounds_are_over():
    stage = Stage({HOME: HOME_PLACE, AWAY: Place(1040.0, 1240.0)}, [AWAY])
    found = tried(stage, rounds=3)
    again = ["place", "measure 0", "place", "measure 1"]
    assert stage.log == ["measure 0", "decide 1", "act", "measure 1", *again, *again]
    (trial,) = found.trials
    assert (trial.outcome, trial.verdict) == ("kept", "undecided")
    assert trial.comparison.starts == (3, 3)
    assert trial.comparison.more_starts
    assert stage.runs == AWAY


def test_undecided_placement_without_gain_is_rolled_back():
    stage = Stage({HOME: HOME_PLACE, AWAY: Place(950.0, 1240.0)}, [AWAY])
    found = tried(stage, decisions=1)
    (trial,) = found.trials
    assert "no gain could be shown, rolled back" in trial.text
    assert stage.runs == HOME
    assert found.starts[-1].trial == 0, "what runs at the end was measured after the rollback"


def test_second_decision_without_moves_ends_at_original_placement():
    stage = Stage({HOME: HOME_PLACE, AWAY: Place(640.0, 1240.0)}, [AWAY])
    found = tried(stage)
    assert stage.log[-3:] == ["roll back", "measure 0", "decide 2"]
    assert [trial.verdict for trial in found.trials] == ["rolled back", "not moved"]
    assert verdict_of(found.trials) == "rolled back"


def test_no_more_decisions_than_given_are_made():
    places = {HOME: HOME_PLACE, AWAY: Place(640.0, 1240.0), ELSEWHERE: Place(600.0, 1400.0)}
    stage = Stage(places, [AWAY, ELSEWHERE, AWAY])
    assert len(tried(stage).trials) == 2
    assert stage.runs == HOME


def test_worse_placement_without_look_back_stays_with_its_verdict():
    stage = Stage({HOME: HOME_PLACE, AWAY: Place(640.0, 1240.0)}, [AWAY])
    found = tried(stage, look_back=False, rounds=5)
    assert stage.log == ["measure 0", "decide 1", "act", "measure 1"]
    assert (found.trials[0].outcome, found.trials[0].verdict) == ("shown", "worse")
    assert stage.runs == AWAY


def test_nothing_moved_is_measured_twice():
    stage = Stage({HOME: HOME_PLACE}, [])
    found = tried(stage)
    assert stage.log == ["measure 0", "decide 1", "measure 0"]
    assert verdict_of(found.trials) == "not moved"


@pytest.mark.parametrize(
    ("objective", "there", "stays"),
    [
        (NODES, Place(980.0, 1000.0, nodes=1), True),
        (NODES, Place(990.0, 1000.0, nodes=2), False),
        (NODES, Place(900.0, 1000.0, nodes=1), False),
        (LATENCY, Place(1000.0, 1000.0, latency_ms=19.0), True),
        (LATENCY, Place(1000.0, 1000.0, latency_ms=22.0), False),
        (LATENCY, Place(500.0, 1000.0, latency_ms=5.0), False),
        (TRAFFIC, Place(980.0, 1000.0), True),
        (TRAFFIC, Place(500.0, 1000.0), False),
    ],
)
def test_objective_decides_whether_placement_stays(objective, there, stays):
    stage = Stage({HOME: HOME_PLACE, AWAY: there}, [AWAY])
    tried(stage, objective, decisions=1)
    assert (stage.runs == AWAY) == stays


def test_latency_is_reported_as_change_of_latency():
    stage = Stage({HOME: HOME_PLACE, AWAY: Place(1000.0, 1000.0, latency_ms=10.0)}, [AWAY])
    (trial,) = tried(stage, LATENCY).trials
    assert trial.text.startswith("mean latency promised −50 %, measured −50 % (95 % interval −7")


@pytest.mark.long
def test_equal_placements_are_mostly_undecided_and_never_lose_track():
    """With starts that differ as real ones do, over whole demonstrations."""
    rng = np.random.default_rng(1)
    verdicts = []
    for _ in range(300):
        noise = np.exp(0.08 * rng.standard_normal(20)).tolist()
        stage = Stage({HOME: HOME_PLACE, AWAY: HOME_PLACE}, [AWAY], noise)
        (trial,) = tried(stage, decisions=1).trials
        verdicts.append(trial.comparison.verdict)
        assert (stage.runs == HOME) == (trial.outcome == "rolled back")
    assert verdicts.count("undecided") > 0.9 * len(verdicts)


def test_negligible_correction_is_not_mentioned():
    assert replace(CpuCorrection(36.0, 37.0, 40.0)).text == ""
