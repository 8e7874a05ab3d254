"""Schedules in virtual time: whatever fails, no topology stays paused, nothing is lost, and a revert is exact."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

import pytest
from stormwright_lab.chaos.catalogue import CATALOGUE
from stormwright_lab.chaos.invariants import Invariant
from stormwright_lab.chaos.scenarios import Action, FaultKind, FaultTarget, Moment, PlannedFault
from stormwright_lab.chaos.shrinking import smallest
from stormwright_lab.chaos.virtual.exploration import explore
from stormwright_lab.chaos.virtual.schedule import (
    Schedule,
    by_chance,
    death,
    every_death,
    of_scenario,
    why_no_counterpart,
)

#: Schedules by chance: `benchmarks/simulator/exploration.py` runs thousands.
SCHEDULES = int(os.environ.get("STORMWRIGHT_RANDOM_SCHEDULES", "16"))

#: Approximate numbers of steps and messages in a run without faults.
STEPS, MESSAGES = 250, 250


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "stormwright")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_invariants_hold_for_schedules_by_chance(seed: int) -> None:
    schedule = by_chance(seed, STEPS, MESSAGES)
    assert explore(schedule).text == "", smallest(schedule, lambda smaller: bool(explore(smaller).violations))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(3))
def test_safety_properties_hold_for_sampled_single_deaths(first: int) -> None:
    """At every step of every world: `benchmarks/simulator/exploration.py`."""
    steps = explore(Schedule(first)).steps
    some = list(every_death(first, steps))[first :: 3 * steps // 7]
    assert [(str(each), found) for each in some if (found := explore(each).text)] == []


@pytest.mark.long
def test_same_schedule_is_the_same_run() -> None:
    schedule = by_chance(5, STEPS, MESSAGES)
    one, other = explore(schedule), explore(schedule)
    assert (one.steps, one.messages, one.virtual_s) == (other.steps, other.messages, other.virtual_s)


def test_old_worker_whose_records_are_late_has_not_ended() -> None:
    """Its supervisor has no order to stop it either: an activated topology would lose the trees that it begins."""
    assert explore(Schedule(2622, late=((5, 2.0), (13, 0.0), (14, 11.0), (15, 11.0), (17, 11.0)))).text == ""


@pytest.mark.slow
@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("name", ["kill-service", "stop-nimbus", "fill-disk-service", "cut-target-node", "clock-back"])
def test_invariants_hold_for_scenarios_of_the_catalogue(name: str, moment: Moment) -> None:
    assert explore(of_scenario(CATALOGUE[name], moment, 1)).text == ""


@pytest.mark.parametrize("target", ["service", "nimbus", "moving-worker", "source-supervisor"])
@pytest.mark.parametrize("moment", Moment)
def test_configuration_is_whole_whatever_is_killed(target: str, moment: Moment) -> None:
    found = explore(of_scenario(CATALOGUE[f"reconfigure-kill-{target}"], moment, 2))
    assert (found.text, "done" in found.plans.values()) == ("", True)


@pytest.mark.parametrize("step", [50, 51, 195, 196])
def test_topology_is_not_resumed_while_supervisors_fetch_its_configuration(step: int) -> None:
    """Workers with the configuration of before would be ended with trees that they have begun."""
    killed = death(step, FaultTarget.SERVICE, which=step)
    assert explore(Schedule(0, (killed,), action=Action.RECONFIGURE)).text == ""


def test_topology_without_workers_is_not_resumed_before_it_has_some() -> None:
    """Its supervisors start them with the configuration of before: activated, they would begin trees and be ended."""
    assert explore(of_scenario(CATALOGUE["reconfigure-kill-service"], Moment.SWAPPING, 72)).text == ""


@pytest.mark.parametrize(
    ("name", "moment"), [("slow-link-source-node", Moment.PAUSED), ("stop-service-for-long", Moment.BEFORE)]
)
def test_topology_on_a_detour_is_resumed_without_workers_that_never_reported(name: str, moment: Moment) -> None:
    """In its spare slots they come up after the order to leave them: activated, they would begin trees and be ended."""
    assert explore(of_scenario(CATALOGUE[name], moment, 110)).text == ""


@pytest.mark.parametrize(
    ("name", "moment"),
    [
        ("kill-service", Moment.ORDERED),
        ("restart-service", Moment.ORDERED),
        ("cut-target-then-service", Moment.PAUSED),
        ("cut-target-then-service", Moment.ORDERED),
        ("full-disk-and-service", Moment.PAUSED),
        ("full-disk-and-service", Moment.ORDERED),
        ("drain-kill-service", Moment.ORDERED),
    ],
)
def test_topology_is_resumed_only_by_workers_with_their_new_executors(name: str, moment: Moment) -> None:
    """A service that starts again after its order finds workers alive, of before: each is still to be replaced."""
    assert explore(of_scenario(CATALOGUE[name], moment, 52)).text == ""


@pytest.mark.slow
def test_no_tree_is_lost_whenever_the_service_of_that_world_is_killed() -> None:
    schedules = [Schedule(52, (death(at, FaultTarget.SERVICE, which=at),)) for at in range(explore(Schedule(52)).steps)]
    assert [(str(each), found) for each in schedules if (found := explore(each).text)] == []


@pytest.mark.parametrize(("moment", "seed"), [(Moment.ORDERED, 2), (Moment.PAUSED, 10)])
def test_service_that_stalls_while_nimbus_schedules_repeats_its_order(moment: Moment, seed: int) -> None:
    """Without an answer in time Nimbus places the topology itself; the plan is not done before it is as ordered."""
    found = explore(of_scenario(CATALOGUE["stop-service"], moment, seed))
    assert (found.text, list(found.plans.values())) == ("", ["done"])


def test_scenarios_without_counterpart_state_a_reason() -> None:
    reasons = {name: [why_no_counterpart(each) for each in known.faults] for name, known in CATALOGUE.items()}
    assert all(not any(of) for name, of in reasons.items() if name in ("kill-service", "cut-source-node"))
    assert "Spark" in reasons["kill-spark"][0]


def test_fault_of_a_scenario_is_scheduled_at_its_moment() -> None:
    schedules = [of_scenario(CATALOGUE["kill-moving-worker"], moment, 3) for moment in Moment]
    assert [each.faults[0].when for each in schedules] == list(Moment)
    assert all(each.faults[0].fault == PlannedFault(FaultKind.KILL, FaultTarget.MOVING_WORKER) for each in schedules)


@pytest.mark.long
def test_exploration_detects_a_move_without_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    def undrained(topologies: Sequence[object], *_: object) -> list[object]:
        return []

    monkeypatch.setattr("stormwright.controller.move.drain", undrained)
    assert [each.invariant for each in explore(Schedule(1)).violations] == [Invariant.TREES]


@pytest.mark.slow
def test_exploration_shrinks_a_forgotten_pause_to_one_death(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stormwright.controller.safety.pauses.Pauses._write", lambda *_: None)

    def fails(schedule: Schedule) -> bool:
        return bool(explore(schedule, longest_s=200.0).violations)

    least = next(each for at in range(20, 80) if fails(each := Schedule(1, (death(at, FaultTarget.SERVICE),))))
    more = Schedule(
        1,
        (*least.faults, death(10_000, FaultTarget.MOVING_WORKER)),
        tuple((number, 0.3) for number in range(90_000, 90_004)),
    )
    assert "INACTIVE" in explore(more, longest_s=200.0).text
    assert smallest(more, fails) == least
