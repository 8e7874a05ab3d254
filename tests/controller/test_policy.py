"""The paper's triggers: overload for X, gain of R every P, never within T."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stormwright.controller.objectives.objective import PlacementAim
from stormwright.controller.planning.order import MoveBudget
from stormwright.controller.policy import DecisionTimes, decide, with_possible_trial
from stormwright.controller.requests import NoPlan
from stormwright.model import UNPLACED, Assignment, LoadProfile, Problem, Topology, TopologyAssignment, WorkerSlot
from stormwright.model.load import assumed_load
from stormwright.pipeline.monitoring.drift import Drift
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.from_scratch import FromScratchScheduler
from stormwright.schedulers.toolkit.registry import traits_of
from stormwright.schedulers.toolkit.triggers import Adaptation, TriggerParams
from stormwright.service.decider import drift_text
from stormwright.service.memory import Backoff
from stormwright.testing.word_counts import WordCount
from tests.controller.builders import on, problem, searched, topology

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
    decision = decide(
        now, OnOneNode(), TRIGGERS, MoveBudget(), DecisionTimes(1000, 1000 - since_change, 1000 - since_look)
    )
    return searched(decision), len(decision.moves)


def test_periodic_look_makes_moves_with_sufficient_gain(spread: Problem) -> None:
    assert ask(spread, since_change=500, since_look=61) == (True, 1)


def test_no_placement_is_computed_between_periods(spread: Problem) -> None:
    assert ask(spread, since_change=500, since_look=59) == (False, 0)


def test_overload_triggers_between_periods_but_only_after_x(spread: Problem) -> None:
    for seconds, expected in ((10.0, (False, 0)), (10.5, (True, 1))):
        loaded = spread.with_load(replace(spread.load, overload_s={"n1": seconds}))
        assert ask(loaded, since_change=500, since_look=5) == expected


def test_node_metadata_overrides_overload_threshold(spread: Problem) -> None:
    for seconds, expected in (("20", (False, 0)), ("3", (True, 1)), ("0", (True, 1))):
        first, second, *others = spread.supervisors
        second = replace(second, scheduler_meta={"stormwright.overload_s": seconds})
        loaded = replace(spread, supervisors=(first, second, *others))
        loaded = loaded.with_load(replace(spread.load, overload_s={"n1": 15.0 if seconds == "20" else 5.0}))
        assert ask(loaded, since_change=500, since_look=5) == expected


def test_nothing_happens_while_cooling_down(spread: Problem) -> None:
    loaded = spread.with_load(replace(spread.load, overload_s={"n1": 99.0}))
    assert ask(loaded, since_change=29, since_look=500) == (False, 0)


def test_gain_below_minimum_moves_nothing_and_is_reported(spread: Problem) -> None:
    class AsItIs:
        def schedule(self, problem: Problem) -> Assignment:
            return Assignment(problem.current_slot)

    decision = decide(spread, AsItIs(), TRIGGERS, MoveBudget(), DecisionTimes(1000, 0, 0))
    assert searched(decision)
    assert decision.moves == ()
    assert decision.code == "small_gain"


def test_unmeasured_topology_stays_and_adds_no_traffic(spread: Problem) -> None:
    decision = decide(
        spread.with_load(LoadProfile({}, overload_s={"n1": 99.0})),
        OnOneNode(),
        TRIGGERS,
        MoveBudget(),
        DecisionTimes(1000, 0, 0),
    )
    assert searched(decision)
    assert decision.moves == ()
    assert decision.reason.startswith("nothing can move: t stays: not measured; ")
    assert decision.search is not None
    assert decision.search.before.inter_node == 0


def test_topology_stays_during_backoff_after_failed_move(spread: Problem) -> None:
    backoff = Backoff()
    backoff.note("t-1-0", 900.0, "trees pending")
    stay = backoff.stay(1000.0)
    decision = decide(spread, OnOneNode(), TRIGGERS, MoveBudget(), DecisionTimes(1000, 0, 0), stay)
    assert decision.moves == ()
    assert decision.reason.startswith("nothing can move: t stays: ")
    assert "trees pending" in decision.reason
    assert backoff.stay(900.0 + 601) == {}
    backoff.note("t-1-0", 2000.0, "trees pending")
    assert backoff.stay(2000.0 + 1199), "the second time it waits twice as long"


def test_unresolved_overload_is_examined_again_only_after_a_period(spread: Problem) -> None:
    loaded = spread.with_load(replace(spread.load, overload_s={"n1": 99.0}))
    for idle_look, looked in ((900.0, True), (950.0, False)):
        found = decide(loaded, OnOneNode(), TRIGGERS, MoveBudget(), DecisionTimes(1000, 0, 0, idle_look))
        assert searched(found) is looked


def test_topology_configuration_can_forbid_moves(spread: Problem) -> None:
    pinned = replace(spread, topologies=(replace(spread.topologies[0], conf={"stormwright.move": False}),))
    decision = decide(pinned, OnOneNode(), TRIGGERS, MoveBudget(), DecisionTimes(1000, 0, 0))
    assert decision.moves == ()
    assert decision.reason.startswith("nothing can move: t stays: stormwright.move is false in its configuration; ")


def test_drift_triggers_unscheduled_look_outside_cool_down(spread: Problem) -> None:
    drifted = "load has drifted: CPU of t +52 % since 12:00:00 UTC"
    for since_change, looked in ((500, True), (29, False)):
        clock = DecisionTimes(1000, 1000 - since_change, 1000 - 5, 1000 - 5)
        decision = decide(spread, OnOneNode(), TRIGGERS, MoveBudget(), clock, drifted=drifted)
        assert (searched(decision), len(decision.moves)) == (looked, looked)
    assert not searched(decide(spread, OnOneNode(), TRIGGERS, MoveBudget(), DecisionTimes(1000, 0, 995, 995)))
    moved = decide(spread, OnOneNode(), TRIGGERS, MoveBudget(), DecisionTimes(1000, 0, 995, 995), drifted=drifted)
    assert moved.reason.startswith(f"{drifted}; inter-node traffic falls by 100 %")

    class AsItIs:
        def schedule(self, problem: Problem) -> Assignment:
            return Assignment(problem.current_slot)

    stays = decide(spread, AsItIs(), TRIGGERS, MoveBudget(), DecisionTimes(1000, 0, 995, 995), drifted=drifted)
    assert drifted in stays.reason
    assert stays.code == "small_gain"


def test_later_alarm_triggers_another_look_at_overload(spread: Problem) -> None:
    """A look just before has moved nothing; the alarm is of later."""
    loaded = spread.with_load(replace(spread.load, overload_s={"n1": 99.0}))
    for alarm_s, looked in ((949.0, False), (951.0, True)):
        clock = DecisionTimes(1000, 0, 0, last_idle_search_s=950.0, last_alarm_s=alarm_s)
        assert searched(decide(loaded, OnOneNode(), TRIGGERS, MoveBudget(), clock)) is looked


def test_drift_text_names_quantities_changes_and_start_times(spread: Problem) -> None:
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
    """What a scheduler that is adaptive by its source decides, placing from scratch."""
    clock = DecisionTimes(1000, 0, 1000 - since_look)
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


def test_t_storm_runs_periodically_and_moves_to_reduce_traffic(crossing: Problem) -> None:
    assert not searched(decided_by("t_storm", crossing, since_look=59))
    decision = decided_by("t_storm", crossing, since_look=61)
    assert len(decision.moves) == 1
    assert "inter-node traffic falls by 100 %" in decision.reason


def test_p_scheduler_is_triggered_by_load_drift(crossing: Problem) -> None:
    pytest.importorskip("pymetis")
    assert not searched(decided_by("p_scheduler", crossing, since_look=999))
    decision = decided_by("p_scheduler", crossing, since_look=0, drifted="load has drifted: CPU of t +52 %")
    assert len(decision.moves) == 1


def test_d_storm_is_triggered_by_node_overload(crossing: Problem) -> None:
    assert not searched(decided_by("d_storm", crossing, since_look=999, drifted="load has drifted"))
    loaded = crossing.with_load(replace(crossing.load, overload_s={"n1": 11.0}))
    decision = decided_by("d_storm", loaded, since_look=0)
    assert len(decision.moves) == 1
    assert decision.reason.startswith("host1: over CPU capacity for more than 10 s")


def test_toss_moves_to_balance_workers_regardless_of_traffic(crossing: Problem) -> None:
    load = crossing.load.topologies["t-1-0"]
    uneven = replace(load, cpu_hz=np.array([9e8, 1e8, 1e8, 9e8]))
    busy = crossing.with_load(LoadProfile({"t-1-0": uneven}))
    decision = decided_by("toss", busy, since_look=61)
    assert len(decision.moves) == 1
    assert "CPU of the busiest workers falls by 44 %" in decision.reason
    even = crossing.with_load(LoadProfile({"t-1-0": replace(load, cpu_hz=np.full(4, 2e8))}))
    decision = decided_by("toss", even, since_look=61)
    assert (searched(decision), decision.moves) == (True, ())


def test_placement_unassigning_running_topology_moves_nothing(spread: Problem) -> None:
    class LeavesOut:
        def schedule(self, problem: Problem) -> Assignment:
            return Assignment(np.full(4, UNPLACED, dtype=np.int32))

    decision = decide(spread, LeavesOut(), TRIGGERS, MoveBudget(), DecisionTimes(1000, 0, 0))
    assert (searched(decision), decision.moves) == (True, ())
    assert decision.code == "no_slots"


def test_empty_gain_list_allows_moves_with_less_gain(spread: Problem) -> None:
    class Turned:
        def schedule(self, problem: Problem) -> Assignment:
            return Assignment(np.array([0, 2, 0, 2], dtype=np.int32))

    for gains, moves in ((("traffic",), 0), ((), 1)):
        aim = PlacementAim(adapts=Adaptation(on_period=True, gains=gains))
        decision = decide(spread, Turned(), TRIGGERS, MoveBudget(), DecisionTimes(1000, 0, 0), aim=aim)
        assert len(decision.moves) == moves


def test_decision_names_anomaly_causing_the_move(spread: Problem) -> None:
    loaded = spread.with_load(replace(spread.load, overload_s={"n1": 99.0}))
    not_due, due = DecisionTimes(1000, 0, 995, 995, 999), DecisionTimes(1000, 0, 0)
    for now, clock, drifted, because in (
        (loaded, not_due, "", "overload"),
        (loaded, due, "", ""),
        (spread, not_due, "load has drifted", "drift"),
        (spread, due, "load has drifted", ""),
        (loaded, not_due, "load has drifted", "drift"),
    ):
        decision = decide(now, OnOneNode(), TRIGGERS, MoveBudget(), clock, drifted=drifted)
        assert len(decision.moves) == 1
        assert decision.because == because


def test_small_gain_names_a_trial_that_is_worth_it() -> None:
    words = WordCount(cores=0.1, rate_tps=6000.0).problem()
    spread = words.with_current(Assignment(np.array([0, 2, 4] * 4)).by_topology(words))
    small, full = NoPlan("small_gain", "nothing better"), NoPlan("blocked", "all better moves are blocked")
    optimizer = make_scheduler("optimizer", {"iterations": 3000, "caution": 0.0}, objective="throughput")
    found = with_possible_trial(small, spread, optimizer, {})
    assert found.reason.startswith("nothing better; words: worth a trial: reachable throughput rises by ")
    assert ", between ×0." in found.reason
    assert found.figures.why == found.reason
    assert with_possible_trial(full, spread, optimizer, {}) is full
    stays = {topology.id: "pinned" for topology in spread.topologies}
    assert with_possible_trial(small, spread, optimizer, stays) is small
