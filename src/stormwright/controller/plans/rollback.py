"""Rollback: the moves that bring topologies back to exactly where they were."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from stormwright.controller.planning.capacity import MoveRoom
from stormwright.controller.planning.expected_pauses import starts_per_core
from stormwright.controller.planning.hops import make_move
from stormwright.controller.planning.places import workers_of
from stormwright.controller.planning.plan import MoveBudget, MovePlan, Step
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.plans.document import where
from stormwright.controller.policy import planned_slots
from stormwright.errors import Fault, InputError
from stormwright.model import UNPLACED, Assignment, Problem, TopologyAssignment, WorkerSlot
from stormwright.model.arrays import IntArray
from stormwright.model.humanize import counted
from stormwright.model.problem import name_slots

#: Budget without limits, for a plan that is applied completely.
WHOLE = MoveBudget(max_topologies=2**31, max_executors=2**31)


def rollback_moves(
    problem: Problem,
    placements: Mapping[str, TopologyAssignment],
    name: Callable[[WorkerSlot], str] = str,
    *,
    same_ports: bool = True,
) -> MovePlan:
    """Return all moves from the current placement to `placements` (by topology id).

    Parameters
    ----------
    problem, placements
        Current problem, and target placements.
    name
        Returns the display name of a slot that is gone.
    same_ports
        Whether topologies return to the same ports: `plan_moves` chooses any of a node, so those that would arrive on
        others go on in a further step. Else any port of the same node will do.

    Raises
    ------
    InputError
        Some topologies cannot get there; with the reason for each.
    """
    wanted, workers = _wanted(problem, placements, name, same_ports)
    plan = plan_moves(problem, Assignment(wanted, num_workers=workers), WHOLE, cpu_limits=False)
    if plan.blocked:
        raise InputError(_SOURCE, [Fault(str(why), topology) for topology, why in plan.blocked.items()])
    if not same_ports:
        return plan
    there = planned_slots(problem, plan.moves)
    astray = np.unique(problem.executor_topology[there != wanted]).tolist()
    return MovePlan((*plan.steps, *_to_their_ports(problem, there, wanted, astray, workers)))


_SOURCE = "the placement of then"


def _wanted(
    problem: Problem, placements: Mapping[str, TopologyAssignment], name: Callable[[WorkerSlot], str], same_ports: bool
) -> tuple[IntArray, dict[str, int]]:
    """Return the slot of every executor, and worker counts that differ from the requested ones."""
    faults, wanted, workers = list[Fault](), problem.current_slot.copy(), dict[str, int]()
    known = problem.slot_index
    for topology, placement in placements.items():
        index = problem.topology_index.get(topology)
        if index is None:
            faults.append(Fault("is gone", topology))
            continue
        own = problem.executors_of(index)
        if gone := sorted(name(slot) for slot in placement.slots if slot not in known):
            faults.append(Fault(f"was on {', '.join(gone)}, which {'are' if len(gone) > 1 else 'is'} gone", topology))
        elif len(placement.slot_of_executor) != problem.topologies[index].num_executors:
            faults.append(Fault(f"had {counted(len(placement.slot_of_executor), 'executor')} then", topology))
        elif (problem.current_slot[own] == UNPLACED).any():
            faults.append(Fault("has executors without a slot now", topology))
        else:
            wanted[own] = [known[slot] for slot in where(placement) if slot is not None]
            if len(placement.slots) != problem.topologies[index].num_workers:
                workers[topology] = len(placement.slots)
    moving = np.isin(problem.executor_topology, [problem.topology_index.get(each, -1) for each in placements])
    others = set(problem.current_slot[~moving].tolist()) - {UNPLACED}
    held = moving & np.isin(wanted, list(others)) if same_ports else np.zeros(len(wanted), bool)
    for index in np.unique(problem.executor_topology[held]).tolist():
        faults.append(Fault("another topology has a slot of it now", problem.topologies[index].id))
    if faults:
        raise InputError(_SOURCE, faults)
    return wanted, workers


def _to_their_ports(
    problem: Problem, there: IntArray, wanted: IntArray, astray: list[int], workers: Mapping[str, int]
) -> list[Step]:
    """Return steps of topologies (indices) that are on the right nodes but on wrong ports.

    Each moves as soon as its ports are free; only topologies that hold each other's ports move together.
    """
    if not astray:
        return []
    own = {topology.id: problem.executors_of(index) for index, topology in enumerate(problem.topologies)}
    now = problem.with_current({topology: name_slots(problem, there[each]) for topology, each in own.items()})
    room, steps = MoveRoom(now, wanted, cpu_limits=False), list[Step]()
    groups = _that_wait_for_each_other(room, astray)
    wanting = {slot: n for n, group in enumerate(groups) for index in group for slot in room.target_workers(index)}
    waiting, ready = set(range(len(groups))), deque(range(len(groups)))
    while ready:
        number = ready.popleft()
        group = groups[number]
        if number in waiting and all(room.is_free(room.target_workers(index), group) for index in group):
            waiting.remove(number)
            ready.extend(wanting[slot] for index in group for slot in room.workers(index) if slot in wanting)
            steps.append(_step(room, group).with_workers(workers))
    return steps


def _that_wait_for_each_other(room: MoveRoom, topologies: list[int]) -> list[list[int]]:
    """Return cycles of topologies that hold each other's slots; any other topology alone."""
    number = {topology: at for at, topology in enumerate(topologies)}
    holder = {slot: at for topology, at in number.items() for slot in room.workers(topology)}
    waits = [
        (number[topology], holder[slot])
        for topology in topologies
        for slot in room.target_workers(topology)
        if slot in holder
    ]
    matrix = coo_array((np.ones(len(waits)), np.array(waits).reshape(-1, 2).T), shape=(len(topologies),) * 2)
    _, of = connected_components(matrix, connection="strong")
    groups: dict[int, list[int]] = {}
    for topology, group in zip(topologies, of.tolist(), strict=True):
        groups.setdefault(group, []).append(topology)
    return list(groups.values())


def _step(room: MoveRoom, topologies: list[int]) -> Step:
    """Return the step of topologies to their targets, from the state in `room`."""
    slots = {index: room.target[room.problem.executors_of(index)] for index in topologies}
    alone = len(topologies) == 1
    moves = tuple(make_move(room, index, to, workers_of(to), alone=alone) for index, to in slots.items())
    room.put(slots)
    return Step(moves, starts_per_core=starts_per_core(room.problem, moves))
