"""Moves towards a placement that newly violate no constraint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stormwright.controller.objectives.placements import Placements
from stormwright.controller.planning.order import Forbidden, MoveBudget, MoveOrder
from stormwright.controller.planning.planner import plan_moves
from stormwright.model import Assignment, Problem
from stormwright.model.arrays import IntArray
from stormwright.plans.plan import TopologyMove

#: Maximum number of attempts to plan moves that newly violate no constraint.
_ATTEMPTS = 8


def plan_valid_moves(
    placements: Placements,
    assignment: Assignment,
    budget: MoveBudget,
    staying: Mapping[str, str | Forbidden],
    *,
    cpu_limits: bool,
) -> MoveOrder:
    """Return the moves towards a placement, without those by which a constraint is newly violated.

    Topologies that would enter a node of which a limit would be newly exceeded stay, with the limit as the reason.

    Parameters
    ----------
    placements
        Placements of the problem.
    assignment, budget, staying, cpu_limits
        Placement, limits and exceptions, as in `stormwright.controller.planning.planner.plan_moves`.
    """
    problem, stay = placements.problem, dict(staying)
    order = plan_moves(problem, assignment, budget, stay, cpu_limits=cpu_limits)
    for _ in range(_ATTEMPTS):
        slots = planned_slots(problem, order.moves)
        broken = placements.newly_broken(slots) if order.moves else []
        if not broken:
            return order
        arrives = slots != problem.current_slot
        for violation in broken:
            entered = np.ones(len(slots), bool)
            if violation.topology is not None:
                entered = problem.executor_topology == problem.topology_index[violation.topology]
            elif violation.supervisor is not None:
                entered = problem.slot_node[slots] == problem.node_index[violation.supervisor]
            for index in np.unique(problem.executor_topology[arrives & entered]).tolist():
                stay[problem.topologies[index].id] = Forbidden(f"would newly exceed a limit: {violation}")
        order = plan_moves(problem, assignment, budget, stay, cpu_limits=cpu_limits)
    return MoveOrder((), order.blocked)


def planned_slots(problem: Problem, moves: Sequence[TopologyMove]) -> IntArray:
    """Return the slot of every executor after moves, shape (E,).

    Topologies that get other numbers of executors are left where they are: `problem` has those of before.
    """
    slots = problem.current_slot.copy()
    for move in moves:
        if move.executors:
            continue
        own = [problem.slot_index[move.after.slots[slot]] for slot in move.after.slot_of_executor]
        slots[problem.executors_of(problem.topology_index[move.topology])] = own
    return slots
