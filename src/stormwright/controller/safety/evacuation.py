"""Evacuation: moves that empty some hosts and do nothing else."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from stormwright.controller.objectives.objective import too_small_heaps
from stormwright.controller.objectives.outlook import Outlooks
from stormwright.controller.planning.plan import Forbidden, MovePlan
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.plans.draft import Proposal, problem_for_plans, with_promises
from stormwright.controller.plans.rollback import WHOLE
from stormwright.controller.policy import MOVE, planned_slots
from stormwright.errors import ConflictError
from stormwright.model import UNPLACED, Assignment, Problem, Scheduler
from stormwright.model.arrays import BoolArray, IntArray
from stormwright.model.humanize import counted

#: Maximum number of staying topologies listed by name.
_MAX_NAMED = 10


def propose_evacuation(
    problem: Problem,
    keeping: Scheduler,
    hosts: Collection[str],
    goal: str,
    forbidden: Mapping[str, Forbidden] | None = None,
) -> Proposal:
    """Return the moves that empty some hosts; topologies that cannot leave stay, with the reason.

    Workers on other hosts keep running. A shortage of CPU at the destination prevents no move: a drain has to empty the
    node, and the consequences are predicted, shown and measured.

    Parameters
    ----------
    problem
        Current problem, in which these hosts are unschedulable.
    keeping
        Scheduler that places executors without slots and leaves running ones alone.
    hosts
        Hosts to empty.
    goal
        Objective of the predictions.
    forbidden
        Topologies (ids) that may not be moved because of their kind, with the reason.

    Raises
    ------
    ConflictError
        No other host has capacity for any of it.
    """
    problem = problem_for_plans(problem)
    listed = np.array([node.host in hosts for node in problem.supervisors], dtype=bool)
    now = problem.current_slot
    leaving = (now != UNPLACED) & listed[problem.slot_node[now]]
    if not leaving.any():
        return Proposal(problem, MovePlan(), now, why="nothing runs there")
    wanted, no_room = _as_far_as_there_is_room(problem, _elsewhere(problem, keeping, leaving))
    workers = _workers(problem, wanted)
    stay: dict[str, str | Forbidden] = {
        **too_small_heaps(problem, wanted),
        **(forbidden or {}),
        **no_room,
        **_not_to_be_moved(problem),
    }
    plan = plan_moves(problem, Assignment(wanted, num_workers=workers), WHOLE, stay, cpu_limits=False)
    concerned = {problem.topologies[index].id for index in np.unique(problem.executor_topology[leaving]).tolist()}
    plan = replace(plan, blocked={topology: why for topology, why in plan.blocked.items() if topology in concerned})
    stays = [f"{_name(problem, topology)}: {why}" for topology, why in plan.blocked.items()]
    reasons = "; ".join(
        stays[:_MAX_NAMED] + ([f"and {len(stays) - _MAX_NAMED:,} more"] if len(stays) > _MAX_NAMED else [])
    )
    if not plan.steps:
        raise ConflictError(f"nothing can leave {', '.join(sorted(hosts))}: {reasons}")
    slots = planned_slots(problem, plan.moves)
    outlooks = Outlooks(problem, goal)
    why = f"not all of it can leave: {reasons}" if plan.blocked else ""
    return replace(with_promises(problem, plan, slots, outlooks, outlooks.of(slots).text), why=why)


def _elsewhere(problem: Problem, keeping: Scheduler, leaving: BoolArray) -> Assignment:
    """Return a placement of the leaving executors by a scheduler, under the measured load."""
    slots = problem.current_slot.copy()
    slots[leaving] = UNPLACED
    return keeping.schedule(problem.with_moved(Assignment(slots).by_topology(problem)))


def _as_far_as_there_is_room(problem: Problem, answer: Assignment) -> tuple[IntArray, dict[str, str]]:
    """Return the answer with incompletely placed topologies left where they were, and the reasons."""
    wanted = answer.slot_of_executor.copy()
    no_room = {}
    lost = (wanted == UNPLACED) & (problem.current_slot != UNPLACED)
    for index in np.unique(problem.executor_topology[lost]).tolist():
        own, topology = problem.executors_of(index), problem.topologies[index]
        short = counted(int(lost[own].sum()), "executor")
        reasons = dict.fromkeys(
            reason for each in answer.unplaced if each.topology == topology.id for reason in each.reasons
        )
        no_room[topology.id] = f"no room elsewhere for {short}" + (f" ({'; '.join(reasons)})" if reasons else "")
        wanted[own] = problem.current_slot[own]
    return wanted, no_room


def _not_to_be_moved(problem: Problem) -> dict[str, str]:
    """Return topologies that may not be moved, with the reason."""
    lost = np.bincount(problem.executor_topology[problem.current_slot == UNPLACED], minlength=len(problem.topologies))
    # Nimbus would give it other slots than planned.
    waiting = {problem.topologies[index].id: "it is being placed" for index in np.flatnonzero(lost).tolist()}
    fixed = [each.id for each in problem.topologies if each.conf.get(MOVE) is False]
    return waiting | dict.fromkeys(fixed, f"{MOVE} is false in its configuration")


def _workers(problem: Problem, wanted: IntArray) -> dict[str, int]:
    """Return the new worker count per topology (id) that moves, where it differs from Nimbus's."""
    found = {}
    for index in np.unique(problem.executor_topology[wanted != problem.current_slot]).tolist():
        used = np.unique(wanted[problem.executors_of(index)])
        if len(used) != problem.topologies[index].num_workers:
            found[problem.topologies[index].id] = len(used)
    return found


def _name(problem: Problem, topology: str) -> str:
    return problem.topologies[problem.topology_index[topology]].name
