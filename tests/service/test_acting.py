"""Steps are made in order; what a failed one was to make room for is not tried."""

from __future__ import annotations

import logging
from unittest.mock import Mock

import pytest

from stormwright.controller.planning.order import Excluded, Missing, MoveOrder, NoRoom
from stormwright.controller.planning.planner import MoveBudget, plan_moves
from stormwright.controller.propose import plan_of
from stormwright.controller.reports import MoveReport
from stormwright.errors import MoveError, MoveStoppedError
from stormwright.model import Assignment
from stormwright.plans.plan import Plan, Step
from stormwright.service.memory import ServiceMemory
from stormwright.service.plans.executor import PlanExecutor
from stormwright.service.plans.move_runner import MoveRunner
from tests.controller.builders import on, problem, topology


def report(topology_id: str) -> MoveReport:
    return MoveReport(topology_id, 4, 1, 1, 0, 0.0, 0.0, 0.0, 0, 0, complete=True)


@pytest.fixture
def plan() -> Plan:
    """By way of a spare slot: b makes room, a moves, b goes on; c moves alone."""
    a, b, c = (topology(name, workers=1) for name in "abc")
    now = problem([a, b, c], nodes=4, slots=1, current={a.id: on("n0"), b.id: on("n1"), c.id: on("n2")})
    wanted = Assignment(now.current_slot.copy())
    wanted.slot_of_executor[:] = [1] * 4 + [0] * 4 + [2] * 4
    return plan_of(now, plan_moves(now, wanted, MoveBudget()))


def act(plan: Plan, failing: str) -> tuple[list[str], ServiceMemory, Mock]:
    made: list[str] = []

    def move(step: Step, reason: str, stop: object) -> list[MoveReport]:
        (one,) = step.moves
        if one.topology == failing:
            raise MoveError(f"{failing} does not drain")
        made.append(one.topology)
        return [report(one.topology)]

    memory, history = ServiceMemory(), Mock()
    runner = MoveRunner(move, memory, history, "optimizer", 0.0, Mock())
    if failing:
        with pytest.raises(MoveError):
            runner.run(plan, plan.steps)
    else:
        runner.run(plan, plan.steps)
    return made, memory, history


def test_a_stay_in_a_spare_slot_is_noted_once_the_topology_has_arrived(plan: Plan) -> None:
    made, memory, history = act(plan, "")
    assert made == ["b-1-0", "a-1-0", "b-1-0"]
    assert [call.args[0] for call in history.record_move.call_args_list] == ["a-1-0", "b-1-0"]
    assert memory.counts.moves == 2, "topologies, not trips"


def test_move_into_slots_of_failed_move_is_skipped(plan: Plan) -> None:
    made, memory, _ = act(plan, "b-1-0")
    assert made == []
    assert set(memory.backoff.stay(0.0)) == {"a-1-0", "b-1-0"}
    assert memory.counts.failed_moves == 2, "each once, though b was to move twice"


def test_move_aborted_by_shutdown_does_not_count_as_failed(plan: Plan) -> None:
    def move(step: Step, reason: str, stop: object) -> list[MoveReport]:
        raise MoveStoppedError("b-1-0: nothing was moved, the service is being stopped")

    memory, history = ServiceMemory(), Mock()
    runner = MoveRunner(move, memory, history, "optimizer", 0.0, Mock())
    assert runner.run(plan, plan.steps) == []
    assert memory.counts.failed_moves == 0
    assert memory.backoff.stay(0.0) == {}
    history.record_move.assert_not_called()


def test_blocked_topologies_are_logged_before_moves(caplog: pytest.LogCaptureFixture) -> None:
    now = problem([topology("a")], current={})
    left = {"a-1-0": NoRoom((Missing("n1", "memory", 512.0, "MB"),)), "b-1-0": Excluded("not measured")}
    plans = Mock(plan=lambda _: Plan())
    with caplog.at_level(logging.INFO):
        PlanExecutor(plans, Mock(), Mock(), Mock()).execute(plan_of(now, MoveOrder((), left)))
    assert caplog.messages == ["a stays: no room where it should move to: n1: memory short by 512 MB"]
