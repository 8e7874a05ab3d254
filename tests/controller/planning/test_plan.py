"""Moves come in an order that Storm can make, keep what need not move, and stay within the budget."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.controller.planning.order import Missing, MoveBudget, NoRoom, OverBudget
from stormwright.controller.planning.planner import plan_moves
from stormwright.model import Assignment, Problem, WorkerSlot
from tests.controller.builders import on, problem, topology


def wanted(of: Problem, *slots: str) -> Assignment:
    """An assignment by ``node:port`` per executor."""
    indices = [of.slot_index[WorkerSlot(name.split(":")[0], int(name.split(":")[1]))] for name in slots]
    return Assignment(np.array(indices, dtype=np.int32))


def test_unchanged_worker_retains_its_slot() -> None:
    t = topology("t")
    now = problem([t], current={t.id: on("n0", "n1")})
    plan = plan_moves(now, wanted(now, "n0:6701", "n0:6701", "n2:6700", "n2:6700"), MoveBudget())
    (move,) = plan.moves
    assert move.unchanged_workers == (WorkerSlot("n0", 6700),)
    assert move.started_workers == (WorkerSlot("n2", 6700),)
    assert move.stopped_workers == (WorkerSlot("n1", 6700),)
    assert move.moved_executors == 2


def test_changed_worker_starts_on_currently_free_port() -> None:
    t = topology("t")
    now = problem([t], current={t.id: on("n0", "n1")})
    plan = plan_moves(now, wanted(now, "n0:6700", "n0:6700", "n0:6700", "n1:6700"), MoveBudget())
    (move,) = plan.moves
    assert set(move.started_workers) == {WorkerSlot("n0", 6701), WorkerSlot("n1", 6701)}


def test_worker_with_occupied_port_moves_through_a_free_slot() -> None:
    """Storm would take half a minute to repair connections that its peers have made to the predecessor."""
    t = topology("t")
    now = problem([t], nodes=3, slots=1, current={t.id: on("n0", "n1")})
    (move,) = plan_moves(now, wanted(now, "n0:6700", "n1:6700", "n1:6700", "n1:6700"), MoveBudget()).moves
    first, last = move.legs
    assert last.after == move.after
    assert set(first.after.slots) == {WorkerSlot("n2", 6700), WorkerSlot("n1", 6700)}
    assert [leg.started_workers for leg in move.legs] == [
        (WorkerSlot("n1", 6700), WorkerSlot("n2", 6700)),
        (WorkerSlot("n0", 6700),),
    ]
    assert last.unchanged_workers == (WorkerSlot("n1", 6700),)


def test_nothing_to_move_is_an_empty_plan() -> None:
    t = topology("t")
    now = problem([t], current={t.id: on("n0", "n1")})
    plan = plan_moves(now, wanted(now, "n0:6700", "n0:6700", "n1:6701", "n1:6701"), MoveBudget())
    assert plan.moves == ()
    assert plan.blocked == {}


def test_move_waits_for_the_move_freeing_its_slot() -> None:
    a, b = topology("a", workers=1), topology("b", workers=1)
    now = problem([a, b], nodes=3, slots=1, current={a.id: on("n0"), b.id: on("n1")})
    plan = plan_moves(now, wanted(now, *["n1:6700"] * 4, *["n2:6700"] * 4), MoveBudget())
    assert [move.topology for move in plan.moves] == [b.id, a.id]


def test_mutually_blocking_topologies_swap_in_one_step() -> None:
    a, b = topology("a", workers=1), topology("b", workers=1)
    now = problem([a, b], nodes=2, slots=1, current={a.id: on("n0"), b.id: on("n1")})
    (step,) = plan_moves(now, wanted(now, *["n1:6700"] * 4, *["n0:6700"] * 4), MoveBudget()).steps
    assert [(move.topology, move.after) for move in step.moves] == [(a.id, on("n1")), (b.id, on("n0"))]


def test_a_spare_slot_saves_them_being_paused_together() -> None:
    a, b = topology("a", workers=1), topology("b", workers=1)
    now = problem([a, b], nodes=3, slots=1, current={a.id: on("n0"), b.id: on("n1")})
    plan = plan_moves(now, wanted(now, *["n1:6700"] * 4, *["n0:6700"] * 4), MoveBudget())
    assert [[(m.topology, m.after, m.arrives) for m in step.moves] for step in plan.steps] == [
        [(b.id, on("n2"), False)],
        [(a.id, on("n1"), True)],
        [(b.id, on("n0"), True)],
    ]
    assert [step.depends_on for step in plan.steps] == [set(), {b.id}, {a.id, b.id}]


def test_exchange_over_budget_is_blocked_with_reason() -> None:
    a, b = topology("a", workers=1), topology("b", workers=1)
    now = problem([a, b], nodes=2, slots=1, current={a.id: on("n0"), b.id: on("n1")})
    plan = plan_moves(now, wanted(now, *["n1:6700"] * 4, *["n0:6700"] * 4), MoveBudget(max_topologies=1))
    assert plan.steps == ()
    assert plan.blocked == dict.fromkeys((a.id, b.id), OverBudget(2, 8, 1, 10_000))


def test_unreachable_target_reports_missing_resources() -> None:
    a, b = topology("a", workers=1), topology("b", workers=1)
    now = problem([a, b], nodes=2, slots=1, current={a.id: on("n0"), b.id: on("n1")})
    plan = plan_moves(now, wanted(now, *["n1:6700"] * 4, *["n1:6700"] * 4), MoveBudget())
    assert plan.blocked == {a.id: NoRoom((Missing("host1", "slots", 1.0, ""),))}
    assert str(plan.blocked["a-1-0"]) == "no room where it should move to: host1: slots short by 1"


def test_moves_beyond_budget_are_blocked() -> None:
    a, b = topology("a", workers=1), topology("b", workers=1)
    now = problem([a, b], current={a.id: on("n0"), b.id: on("n1")})
    target = wanted(now, *["n2:6700"] * 4, *["n2:6701"] * 4)
    assert len(plan_moves(now, target, MoveBudget(max_topologies=1)).moves) == 1
    plan = plan_moves(now, target, MoveBudget(max_executors=5))
    assert len(plan.moves) == 1
    assert [str(why) for why in plan.blocked.values()] == ["move budget: 4 executors, 1 left"]


@pytest.mark.long
@given(st.lists(st.integers(0, 5), min_size=8, max_size=8), st.lists(st.integers(0, 5), min_size=8, max_size=8))
def test_every_plan_step_is_executable_by_storm(before: list[int], after: list[int]) -> None:
    """No move ever goes into a slot that another topology holds at that moment, and nodes are as wished."""
    # Topology a on even slots, b on odd ones, so that each side is a valid placement.
    a, b = topology("a"), topology("b")
    empty = problem([a, b])
    sides = [[2 * (s % 3) for s in side[:4]] + [2 * (s % 3) + 1 for s in side[4:]] for side in (before, after)]
    current = Assignment(np.array(sides[0], dtype=np.int32)).by_topology(empty)
    now = empty.with_current(current)
    target = Assignment(np.array(sides[1], dtype=np.int32))
    plan = plan_moves(now, target, MoveBudget())
    held = {slot: t for t, placement in current.items() for slot in placement.slots}
    for move in plan.moves:
        held = {slot: t for slot, t in held.items() if t != move.topology}
        for slot in move.after.slots:
            assert slot not in held
            held[slot] = move.topology
        node = [move.after.slots[s].supervisor for s in move.after.slot_of_executor]
        executors = now.executors_of(now.topology_index[move.topology])
        assert node == [now.slots[s].supervisor for s in target.slot_of_executor[executors]]
