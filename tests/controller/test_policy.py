"""The paper's triggers: overload for X, gain of R every P, never within T."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stormwright.controller.planning.plan import Kept, MoveBudget
from stormwright.controller.policy import Clock, decide
from stormwright.controller.setbacks import Setbacks
from stormwright.model import Assignment, LoadProfile, Problem, Topology
from stormwright.model.load import assumed_load
from stormwright.pipeline.watch.drift import Drift
from stormwright.schedulers.kit.triggers import TriggerParams
from stormwright.service.drift_text import drift_text
from tests.controller.builders import on, problem, topology

TRIGGERS = TriggerParams(overload_s=10, period_s=60, min_gain_percent=20, cool_down_s=30)


def measured(t: Topology) -> LoadProfile:
    return LoadProfile({t.id: assumed_load(t, 3e9)})


class OnOneNode:
    """Puts every executor into the two workers of the first node."""

    def schedule(self, problem: Problem) -> Assignment:
        return Assignment(np.array([0, 0, 1, 1], dtype=np.int32))


@pytest.fixture
def spread() -> Problem:
    t = topology("t")
    return problem([t], current={t.id: on("n0", "n1")}, load=measured(t))


def ask(now: Problem, since_change: float, since_look: float) -> tuple[bool, int]:
    decision = decide(now, OnOneNode(), TRIGGERS, MoveBudget(), Clock(1000, 1000 - since_change, 1000 - since_look))
    return decision.looked, len(decision.plan.moves)


def test_the_period_moves_what_gains_enough(spread: Problem) -> None:
    assert ask(spread, since_change=500, since_look=61) == (True, 1)


def test_between_periods_nothing_is_looked_at(spread: Problem) -> None:
    assert ask(spread, since_change=500, since_look=59) == (False, 0)


def test_overload_triggers_between_periods_but_only_after_x(spread: Problem) -> None:
    for seconds, expected in ((10.0, (False, 0)), (10.5, (True, 1))):
        loaded = spread.with_load(replace(spread.load, overload_s={"n1": seconds}))
        assert ask(loaded, since_change=500, since_look=5) == expected


def test_nothing_happens_while_cooling_down(spread: Problem) -> None:
    loaded = spread.with_load(replace(spread.load, overload_s={"n1": 99.0}))
    assert ask(loaded, since_change=29, since_look=500) == (False, 0)


def test_a_gain_under_r_moves_nothing_and_says_so(spread: Problem) -> None:
    class AsItIs:
        def schedule(self, problem: Problem) -> Assignment:
            return Assignment(problem.current_slot)

    decision = decide(spread, AsItIs(), TRIGGERS, MoveBudget(), Clock(1000, 0, 0))
    assert decision.looked
    assert decision.plan.moves == ()
    assert "not worth a move" in decision.reason


def test_what_was_not_measured_stays_and_counts_for_nothing(spread: Problem) -> None:
    decision = decide(
        spread.with_load(LoadProfile({}, overload_s={"n1": 99.0})),
        OnOneNode(),
        TRIGGERS,
        MoveBudget(),
        Clock(1000, 0, 0),
    )
    assert decision.looked
    assert decision.plan.moves == ()
    assert decision.plan.left == {"t-1-0": Kept("not measured")}
    assert decision.before is not None
    assert decision.before.inter_node == 0


def test_what_could_not_be_moved_lately_stays(spread: Problem) -> None:
    setbacks = Setbacks()
    setbacks.note("t-1-0", 900.0, "trees pending")
    stay = setbacks.stay(1000.0)
    decision = decide(spread, OnOneNode(), TRIGGERS, MoveBudget(), Clock(1000, 0, 0), stay)
    assert decision.plan.moves == ()
    assert "trees pending" in str(decision.plan.left["t-1-0"])
    assert setbacks.stay(900.0 + 601) == {}
    setbacks.note("t-1-0", 2000.0, "trees pending")
    assert setbacks.stay(2000.0 + 1199), "the second time it waits twice as long"


def test_an_overload_that_no_placement_cured_waits_a_period(spread: Problem) -> None:
    loaded = spread.with_load(replace(spread.load, overload_s={"n1": 99.0}))
    for idle_look, looked in ((900.0, True), (950.0, False)):
        assert decide(loaded, OnOneNode(), TRIGGERS, MoveBudget(), Clock(1000, 0, 0, idle_look)).looked is looked


def test_a_topology_may_be_kept_from_moving(spread: Problem) -> None:
    kept = replace(spread, topologies=(replace(spread.topologies[0], conf={"stormwright.move": False}),))
    decision = decide(kept, OnOneNode(), TRIGGERS, MoveBudget(), Clock(1000, 0, 0))
    assert decision.plan.moves == ()
    assert decision.plan.left == {"t-1-0": Kept("stormwright.move is false in its configuration")}


def test_a_drift_is_looked_at_off_the_clock_and_said_but_not_while_cooling_down(spread: Problem) -> None:
    drifted = "load has drifted: CPU of t +52 % since 12:00:00 UTC"
    for since_change, looked in ((500, True), (29, False)):
        clock = Clock(1000, 1000 - since_change, 1000 - 5, 1000 - 5)
        decision = decide(spread, OnOneNode(), TRIGGERS, MoveBudget(), clock, drifted=drifted)
        assert (decision.looked, len(decision.plan.moves)) == (looked, looked)
    assert decide(spread, OnOneNode(), TRIGGERS, MoveBudget(), Clock(1000, 0, 995, 995)).looked is False
    moved = decide(spread, OnOneNode(), TRIGGERS, MoveBudget(), Clock(1000, 0, 995, 995), drifted=drifted)
    assert moved.reason.startswith(f"{drifted}; inter-node traffic falls by 100 %")

    class AsItIs:
        def schedule(self, problem: Problem) -> Assignment:
            return Assignment(problem.current_slot)

    stays = decide(spread, AsItIs(), TRIGGERS, MoveBudget(), Clock(1000, 0, 995, 995), drifted=drifted)
    assert stays.reason.startswith(drifted)
    assert stays.reason.endswith("not worth a move")


def test_an_alarm_makes_an_overload_be_looked_at_again(spread: Problem) -> None:
    """A look just before has moved nothing; the alarm is of later."""
    loaded = spread.with_load(replace(spread.load, overload_s={"n1": 99.0}))
    for alarm_s, looked in ((949.0, False), (951.0, True)):
        clock = Clock(1000, 0, 0, last_idle_look_s=950.0, last_alarm_s=alarm_s)
        assert decide(loaded, OnOneNode(), TRIGGERS, MoveBudget(), clock).looked is looked


def test_a_drift_in_words(spread: Problem) -> None:
    drifts = [
        Drift("t-1-0", "CPU", 2, 0.518, since_ms=1_700_000_000_000),
        Drift("t-1-0", "traffic", None, -0.4, since_ms=1_700_000_015_000),
        Drift("gone", "CPU", 2, 2, since_ms=1_700_000_000_000),
    ]
    assert drift_text(drifts, spread) == (
        "load has drifted: CPU of t/b-bolt +52 % since 22:13:20 UTC, traffic of t -40 % since 22:13:35 UTC, "
        "CPU of gone +200 % since 22:13:20 UTC"
    )
    assert drift_text([], spread) == ""
