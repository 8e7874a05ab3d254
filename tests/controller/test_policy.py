"""The paper's triggers: overload for X, gain of R every P, never within T."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stormwright.controller.objectives.objective import PlacementAim
from stormwright.controller.planning.plan import Excluded, MoveBudget
from stormwright.controller.policy import LookBack, decide
from stormwright.model import UNPLACED, Assignment, LoadProfile, Problem, Topology, TopologyAssignment, WorkerSlot
from stormwright.model.load import assumed_load
from stormwright.pipeline.monitoring.drift import Drift
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.from_scratch import FromScratchScheduler
from stormwright.schedulers.toolkit.registry import traits_of
from stormwright.schedulers.toolkit.triggers import Adaptation, TriggerParams
from stormwright.service.decider import drift_text
from stormwright.service.memory import Backoff
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
    decision = decide(now, OnOneNode(), TRIGGERS, MoveBudget(), LookBack(1000, 1000 - since_change, 1000 - since_look))
    return decision.looked, len(decision.plan.moves)


def test_the_period_moves_what_gains_enough(spread: Problem) -> None:
    assert ask(spread, since_change=500, since_look=61) == (True, 1)


def test_between_periods_nothing_is_looked_at(spread: Problem) -> None:
    assert ask(spread, since_change=500, since_look=59) == (False, 0)


def test_overload_triggers_between_periods_but_only_after_x(spread: Problem) -> None:
    for seconds, expected in ((10.0, (False, 0)), (10.5, (True, 1))):
        loaded = spread.with_load(replace(spread.load, overload_s={"n1": seconds}))
        assert ask(loaded, since_change=500, since_look=5) == expected


def test_a_node_may_tell_an_x_of_its_own(spread: Problem) -> None:
    for told, expected in (("20", (False, 0)), ("3", (True, 1)), ("0", (True, 1))):
        first, second, *others = spread.supervisors
        second = replace(second, scheduler_meta={"stormwright.overload_s": told})
        loaded = replace(spread, supervisors=(first, second, *others))
        loaded = loaded.with_load(replace(spread.load, overload_s={"n1": 15.0 if told == "20" else 5.0}))
        assert ask(loaded, since_change=500, since_look=5) == expected


def test_nothing_happens_while_cooling_down(spread: Problem) -> None:
    loaded = spread.with_load(replace(spread.load, overload_s={"n1": 99.0}))
    assert ask(loaded, since_change=29, since_look=500) == (False, 0)


def test_a_gain_under_r_moves_nothing_and_says_so(spread: Problem) -> None:
    class AsItIs:
        def schedule(self, problem: Problem) -> Assignment:
            return Assignment(problem.current_slot)

    decision = decide(spread, AsItIs(), TRIGGERS, MoveBudget(), LookBack(1000, 0, 0))
    assert decision.looked
    assert decision.plan.moves == ()
    assert "not worth a move" in decision.reason


def test_what_was_not_measured_stays_and_counts_for_nothing(spread: Problem) -> None:
    decision = decide(
        spread.with_load(LoadProfile({}, overload_s={"n1": 99.0})),
        OnOneNode(),
        TRIGGERS,
        MoveBudget(),
        LookBack(1000, 0, 0),
    )
    assert decision.looked
    assert decision.plan.moves == ()
    assert decision.plan.blocked == {"t-1-0": Excluded("not measured")}
    assert decision.before is not None
    assert decision.before.inter_node == 0


def test_what_could_not_be_moved_lately_stays(spread: Problem) -> None:
    backoff = Backoff()
    backoff.note("t-1-0", 900.0, "trees pending")
    stay = backoff.stay(1000.0)
    decision = decide(spread, OnOneNode(), TRIGGERS, MoveBudget(), LookBack(1000, 0, 0), stay)
    assert decision.plan.moves == ()
    assert "trees pending" in str(decision.plan.blocked["t-1-0"])
    assert backoff.stay(900.0 + 601) == {}
    backoff.note("t-1-0", 2000.0, "trees pending")
    assert backoff.stay(2000.0 + 1199), "the second time it waits twice as long"


def test_an_overload_that_no_placement_cured_waits_a_period(spread: Problem) -> None:
    loaded = spread.with_load(replace(spread.load, overload_s={"n1": 99.0}))
    for idle_look, looked in ((900.0, True), (950.0, False)):
        assert decide(loaded, OnOneNode(), TRIGGERS, MoveBudget(), LookBack(1000, 0, 0, idle_look)).looked is looked


def test_a_topology_may_be_kept_from_moving(spread: Problem) -> None:
    kept = replace(spread, topologies=(replace(spread.topologies[0], conf={"stormwright.move": False}),))
    decision = decide(kept, OnOneNode(), TRIGGERS, MoveBudget(), LookBack(1000, 0, 0))
    assert decision.plan.moves == ()
    assert decision.plan.blocked == {"t-1-0": Excluded("stormwright.move is false in its configuration")}


def test_a_drift_is_looked_at_off_the_clock_and_said_but_not_while_cooling_down(spread: Problem) -> None:
    drifted = "load has drifted: CPU of t +52 % since 12:00:00 UTC"
    for since_change, looked in ((500, True), (29, False)):
        clock = LookBack(1000, 1000 - since_change, 1000 - 5, 1000 - 5)
        decision = decide(spread, OnOneNode(), TRIGGERS, MoveBudget(), clock, drifted=drifted)
        assert (decision.looked, len(decision.plan.moves)) == (looked, looked)
    assert decide(spread, OnOneNode(), TRIGGERS, MoveBudget(), LookBack(1000, 0, 995, 995)).looked is False
    moved = decide(spread, OnOneNode(), TRIGGERS, MoveBudget(), LookBack(1000, 0, 995, 995), drifted=drifted)
    assert moved.reason.startswith(f"{drifted}; inter-node traffic falls by 100 %")

    class AsItIs:
        def schedule(self, problem: Problem) -> Assignment:
            return Assignment(problem.current_slot)

    stays = decide(spread, AsItIs(), TRIGGERS, MoveBudget(), LookBack(1000, 0, 995, 995), drifted=drifted)
    assert stays.reason.startswith(drifted)
    assert stays.reason.endswith("not worth a move")


def test_an_alarm_makes_an_overload_be_looked_at_again(spread: Problem) -> None:
    """A look just before has moved nothing; the alarm is of later."""
    loaded = spread.with_load(replace(spread.load, overload_s={"n1": 99.0}))
    for alarm_s, looked in ((949.0, False), (951.0, True)):
        clock = LookBack(1000, 0, 0, last_idle_look_s=950.0, last_alarm_s=alarm_s)
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


def decided_by(name: str, now: Problem, since_look: float, drifted: str = ""):
    """What a scheduler that is adaptive by its source decides, placing anew."""
    clock = LookBack(1000, 0, 1000 - since_look)
    aim = PlacementAim(adapts=traits_of(name).adapts)
    return decide(
        now, FromScratchScheduler(make_scheduler(name)), TRIGGERS, MoveBudget(), clock, drifted=drifted, aim=aim
    )


@pytest.fixture
def crossing() -> Problem:
    """Two pairs that talk only within themselves, each of them on two nodes."""
    t = topology("t", spouts=2, bolts=2)
    silent = assumed_load(t, 3e9)
    talk = replace(
        silent,
        pair_source=np.array([0, 1], np.int32),
        pair_target=np.array([2, 3], np.int32),
        pair_tps=np.array([100.0, 100.0]),
        cpu_hz=np.full(4, 2e8),
    )
    crossed = TopologyAssignment((WorkerSlot("n0", 6700), WorkerSlot("n1", 6700)), (0, 1, 1, 0))
    return problem([t], current={t.id: crossed}, load=LoadProfile({t.id: talk}))


def test_t_storm_looks_by_the_clock_and_moves_for_traffic(crossing: Problem) -> None:
    assert not decided_by("t_storm", crossing, since_look=59).looked
    decision = decided_by("t_storm", crossing, since_look=61)
    assert len(decision.plan.moves) == 1
    assert "inter-node traffic falls by 100 %" in decision.reason


def test_p_scheduler_looks_once_the_load_has_drifted(crossing: Problem) -> None:
    pytest.importorskip("pymetis")
    assert not decided_by("p_scheduler", crossing, since_look=999).looked
    decision = decided_by("p_scheduler", crossing, since_look=0, drifted="load has drifted: CPU of t +52 %")
    assert len(decision.plan.moves) == 1


def test_d_storm_looks_once_a_node_is_overloaded(crossing: Problem) -> None:
    assert not decided_by("d_storm", crossing, since_look=999, drifted="load has drifted").looked
    loaded = crossing.with_load(replace(crossing.load, overload_s={"n1": 11.0}))
    decision = decided_by("d_storm", loaded, since_look=0)
    assert len(decision.plan.moves) == 1
    assert decision.reason.startswith("host1: over CPU capacity for more than 10 s")


def test_toss_moves_for_workers_that_are_equally_busy_whatever_traffic_says(crossing: Problem) -> None:
    load = crossing.load.topologies["t-1-0"]
    uneven = replace(load, cpu_hz=np.array([9e8, 1e8, 1e8, 9e8]))
    busy = crossing.with_load(LoadProfile({"t-1-0": uneven}))
    decision = decided_by("toss", busy, since_look=61)
    assert len(decision.plan.moves) == 1
    assert "CPU of the busiest workers falls by 44 %" in decision.reason
    even = crossing.with_load(LoadProfile({"t-1-0": replace(load, cpu_hz=np.full(4, 2e8))}))
    decision = decided_by("toss", even, since_look=61)
    assert (decision.looked, decision.plan.moves) == (True, ())


def test_a_placement_that_would_stop_what_runs_moves_nothing(spread: Problem) -> None:
    class LeavesOut:
        def schedule(self, problem: Problem) -> Assignment:
            return Assignment(np.full(4, UNPLACED, dtype=np.int32))

    decision = decide(spread, LeavesOut(), TRIGGERS, MoveBudget(), LookBack(1000, 0, 0))
    assert (decision.looked, decision.plan.moves) == (True, ())
    assert decision.reason == "t would be left without slots: not worth a move"


def test_where_no_gain_is_asked_for_it_moves_for_less(spread: Problem) -> None:
    class Turned:
        def schedule(self, problem: Problem) -> Assignment:
            return Assignment(np.array([0, 2, 0, 2], dtype=np.int32))

    for gains, moves in ((("traffic",), 0), ((), 1)):
        aim = PlacementAim(adapts=Adaptation(on_period=True, gains=gains))
        decision = decide(spread, Turned(), TRIGGERS, MoveBudget(), LookBack(1000, 0, 0), aim=aim)
        assert len(decision.plan.moves) == moves


def test_a_decision_names_the_anomaly_without_which_it_would_not_have_been_made(spread: Problem) -> None:
    loaded = spread.with_load(replace(spread.load, overload_s={"n1": 99.0}))
    not_due, due = LookBack(1000, 0, 995, 995, 999), LookBack(1000, 0, 0)
    for now, clock, drifted, because in (
        (loaded, not_due, "", "overload"),
        (loaded, due, "", ""),
        (spread, not_due, "load has drifted", "drift"),
        (spread, due, "load has drifted", ""),
        (loaded, not_due, "load has drifted", "drift"),
    ):
        decision = decide(now, OnOneNode(), TRIGGERS, MoveBudget(), clock, drifted=drifted)
        assert len(decision.plan.moves) == 1
        assert decision.because == because
