"""What fails in the middle of a plan that is applied: Nimbus, a node, the disk. The page is docs/failures.md."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from stormwright.client.shapes import PlanRequest
from stormwright.errors import StormwrightError
from stormwright.plans.states import ACTIVE_STATES
from stormwright.service.plans import executor
from tests.service.plans.nimbus import ANNA, Nimbus
from tests.service.plans.test_applying import Begin, begin, many, moving, planned, unpredicted  # noqa: F401

#: Moments of a plan at which something fails: more than its first moves have.
MOMENTS = range(12)


def turn(nimbus: Nimbus) -> bool:
    """A turn of the loop, which goes on whatever one ends with; whether a plan is under way."""
    with suppress(StormwrightError, OSError, sqlite3.Error):
        nimbus.pauses.resume(nimbus.activate)
        nimbus.executor.advance()
    return nimbus.plans.active() is not None


def until_it_ends(nimbus: Nimbus, happens: Callable[[int], None], most: int = 400) -> str:
    """Turns of the loop until no plan is under way; `happens` before each, with its number. The plan's state then."""
    for number in range(most):
        happens(number)
        if not turn(nimbus):
            (plan,) = [each for each in nimbus.plans.summaries() if not each.rolls_back]
            if plan.state != "waiting":
                break
            # What moved as it failed could not be measured, and a person takes it as good.
            nimbus.plan_service.resume(plan.id, ANNA)
    (plan,) = [each for each in nimbus.plans.summaries() if not each.rolls_back]
    assert plan.state not in ACTIVE_STATES
    return plan.state


def applying_plan(nimbus: Nimbus) -> str:
    plan = nimbus.propose(many()[1])
    nimbus.plan_service.apply(plan, ANNA)
    return plan


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "AGAIN_S", 0.0)


@pytest.mark.parametrize("moment", MOMENTS)
def test_nimbus_is_away_from_a_moment_of_a_move_on(begin: Begin, moment: int) -> None:  # noqa: F811
    nimbus = begin(many()[0])
    plan = applying_plan(nimbus)
    before, then = nimbus.where(), planned(nimbus, plan)
    nimbus.until_away = moment

    def happens(number: int) -> None:
        if nimbus.away and number % 7 == 0:
            nimbus.back()

    state = until_it_ends(nimbus, happens)
    assert state in ("done", "stopped", "rolled_back")
    assert nimbus.paused == set()
    if state == "done":
        assert nimbus.where() == then
    for topology in nimbus.where():
        assert any(nimbus.is_back(side, topology) for side in (before, then))


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_disk_is_full_for_a_while(begin: Begin, moment: int) -> None:  # noqa: F811
    nimbus = begin(many()[0])
    plan = applying_plan(nimbus)
    then = planned(nimbus, plan)

    def happens(number: int) -> None:
        nimbus.disk_full = moment <= number < moment + 5

    assert until_it_ends(nimbus, happens) == "done"
    assert (nimbus.where(), nimbus.paused) == (then, set())


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_disk_fills_up_at_any_moment_of_a_turn(begin: Begin, moment: int) -> None:  # noqa: F811
    nimbus = begin(many()[0])
    plan = applying_plan(nimbus)
    then, ticks = planned(nimbus, plan), nimbus.ticks

    def tick() -> None:
        nimbus.ticks += 1
        nimbus.disk_full = nimbus.ticks - ticks >= moment and not nimbus.over

    nimbus.over, nimbus.tick = False, tick  # type: ignore[attr-defined, method-assign]

    def happens(number: int) -> None:
        if nimbus.disk_full and number % 3 == 0:
            nimbus.over, nimbus.disk_full = True, False  # type: ignore[attr-defined]

    assert until_it_ends(nimbus, happens) == "done"
    assert (nimbus.where(), nimbus.paused) == (then, set())


@pytest.mark.parametrize("moment", range(6))
def test_plan_stops_if_required_node_fails_between_steps(begin: Begin, moment: int) -> None:  # noqa: F811
    nimbus = begin(many()[0])
    plan = applying_plan(nimbus)
    moves = [move for step in nimbus.plans.plan(plan).steps for move in step.moves]
    last = moves[-1].after.slots[0].supervisor

    def happens(number: int) -> None:
        if number == moment:
            nimbus.lose_node(last)

    state = until_it_ends(nimbus, happens)
    assert state in ("stopped", "rolled_back", "failed")
    assert nimbus.paused == set()
    assert f"node {last} is gone" in nimbus.plans.plan(plan).why or "gone" in nimbus.plans.plan(plan).why


@pytest.mark.parametrize("seed", range(6))
def test_plan_ends_cleanly_if_node_fails_during_move(begin: Begin, seed: int) -> None:  # noqa: F811
    cluster, wanted = moving(seed)
    nimbus = begin(cluster, seed)
    plan = nimbus.propose(wanted)
    nimbus.plan_service.apply(plan, ANNA)
    (first, *_) = nimbus.plans.plan(plan).steps
    node = first.moves[0].after.slots[0].supervisor
    nimbus.until_away = 3 + seed % 3

    def happens(number: int) -> None:
        if nimbus.away:
            nimbus.lose_node(node)
            nimbus.back()

    state = until_it_ends(nimbus, happens)
    assert state in ("done", "stopped", "rolled_back", "failed")
    assert nimbus.paused == set()


@pytest.mark.parametrize("moment", range(14))
def test_reconfiguration_is_finished_or_undone_wherever_the_service_is_killed(begin: Begin, moment: int) -> None:  # noqa: F811
    key = "topology.max.spout.pending"
    nimbus = begin(many()[0])
    topology = nimbus.now().topologies[0].id
    before = nimbus.where()
    request = PlanRequest(reason="for more", by="anna", conf={topology: {key: 50}})
    plan = nimbus.plan_service.request(request).id
    until = time.monotonic() + 60
    while nimbus.plans.plan(plan).state == "planning" and time.monotonic() < until:
        time.sleep(0.01)
    nimbus.plan_service.apply(plan, ANNA)
    nimbus.until_killed = moment
    nimbus.run()
    state = nimbus.plans.plan(plan).state
    assert nimbus.paused == set()
    now = nimbus.now().topologies[0].conf.get(key)
    assert (state in ("done", "waiting") and now == 50) or (state == "rolled_back" and now is None)
    assert nimbus.is_back(before)
