"""From a wished placement to moves in an order in which Storm can make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem, Supervisor, Topology, TopologyAssignment, WorkerSlot, diff
from stormwright.model.arrays import IntArray
from stormwright.model.assignment import name_slots
from stormwright.model.limits.limit import RELATIVE_TOLERANCE, node_sum
from stormwright.model.texts import counted


@dataclass(frozen=True)
class MoveBudget:
    """How much may move in one decision.

    Parameters
    ----------
    max_topologies
        Topologies that may be paused.
    max_executors
        Executors that may change their slot, over all topologies.
    """

    max_topologies: int = 10
    max_executors: int = 10_000


@dataclass(frozen=True)
class Leg:
    """Workers of one topology exchanged at one go; `vacated` are the nodes that it leaves altogether."""

    after: TopologyAssignment
    stopped_workers: tuple[WorkerSlot, ...]
    started_workers: tuple[WorkerSlot, ...]
    kept_workers: tuple[WorkerSlot, ...]
    vacated: tuple[Supervisor, ...]


@dataclass(frozen=True)
class TopologyMove:
    """One topology from where it runs to where it shall run, in one leg or, by way of free slots, in two."""

    topology: Topology
    before: TopologyAssignment
    after: TopologyAssignment
    moved_executors: int
    stopped_workers: tuple[WorkerSlot, ...]
    started_workers: tuple[WorkerSlot, ...]
    kept_workers: tuple[WorkerSlot, ...]
    legs: tuple[Leg, ...]


@dataclass(frozen=True)
class MovePlan:
    """Moves in the order to make them, and topologies left where they are with the reason."""

    moves: tuple[TopologyMove, ...]
    left: Mapping[str, str]


def plan_moves(
    problem: Problem, wanted: Assignment, budget: MoveBudget, stay: Mapping[str, str] | None = None
) -> MovePlan:
    """Order the moves that lead from what runs to `wanted`; topologies in `stay` (id → reason) do not move.

    1. Which port of a node a worker gets is free to choose. A worker whose executors stay together on their node
       keeps its slot and runs on; any other gets a port that nobody uses now, if the node has one, so that it
       starts while its predecessor still stops. If it has none, the worker starts in a free slot of another node
       first and goes on from there when its predecessor has ended.
    2. A topology moves when every slot it goes to is free or its own and no node that it goes to is then short of CPU
       or memory; the others wait until a move has made room. Those that wait for each other stay, and say so.
    3. Among those that can move, the one with the most moved executors per restarted worker goes first, then the
       one that comes first in the problem; what is beyond the budget stays.
    """
    now = problem.current_slot.copy()
    waiting = {
        index: wanted.slot_of_executor[problem.executors_of(index)]
        for index, topology in enumerate(problem.topologies)
        if topology.id not in (stay or {})
        and _placed(wanted.slot_of_executor[problem.executors_of(index)])
        and _placed(now[problem.executors_of(index)])
    }
    moves: list[TopologyMove] = []
    left: dict[str, str] = dict(stay or {})
    executors_left = budget.max_executors
    while waiting:
        ready = [move for index, target in waiting.items() if (move := _move(problem, now, index, target)) is not None]
        if not ready:
            for index in waiting:
                left[problem.topologies[index].id] = "no free slot, CPU or memory on a node it should move to"
            break
        move = max(ready, key=lambda m: (m.moved_executors / max(len(m.started_workers), 1), -_index(problem, m)))
        index = _index(problem, move)
        del waiting[index]
        if not move.moved_executors:
            continue
        if len(moves) == budget.max_topologies:
            left[move.topology.id] = f"move budget: {counted(budget.max_topologies, 'topology')}"
        elif move.moved_executors > executors_left:
            left[move.topology.id] = f"move budget: {counted(move.moved_executors, 'executor')}, {executors_left} left"
        else:
            moves.append(move)
            executors_left -= move.moved_executors
            now[problem.executors_of(index)] = [
                problem.slot_index[move.after.slots[s]] for s in move.after.slot_of_executor
            ]
    return MovePlan(tuple(moves), left)


def _placed(slots: IntArray) -> bool:
    return bool(np.all(slots != UNPLACED))


def _index(problem: Problem, move: TopologyMove) -> int:
    return problem.topology_index[move.topology.id]


def _move(problem: Problem, now: IntArray, index: int, target: IntArray) -> TopologyMove | None:
    """The move of one topology with its ports chosen, or None while a node has no port for it."""
    executors = problem.executors_of(index)
    ported = _choose_ports(problem, now, index, target)
    if ported is None:
        return None
    after = now.copy()
    after[executors] = ported
    if _overloads(problem, now, after):
        return None
    detour = now.copy()
    detour[executors] = _around_running(problem, now, index, ported)
    stations = [now, after] if np.array_equal(detour, after) else [now, detour, after]
    changes = diff(problem, now, after)
    return TopologyMove(
        topology=problem.topologies[index],
        before=name_slots(problem, now[executors]),
        after=name_slots(problem, ported),
        moved_executors=len(changes.moved_executors),
        stopped_workers=changes.stopped_workers,
        started_workers=changes.started_workers,
        kept_workers=_own(problem, changes.kept_workers, ported),
        legs=tuple(_leg(problem, index, *pair) for pair in pairwise(stations)),
    )


def _leg(problem: Problem, index: int, before: IntArray, after: IntArray) -> Leg:
    executors = problem.executors_of(index)
    changes = diff(problem, before, after)
    left = set(problem.slot_node[before[executors]].tolist()) - set(problem.slot_node[after[executors]].tolist())
    return Leg(
        after=name_slots(problem, after[executors]),
        stopped_workers=changes.stopped_workers,
        started_workers=changes.started_workers,
        kept_workers=_own(problem, changes.kept_workers, after[executors]),
        vacated=tuple(problem.supervisors[node] for node in sorted(left)),
    )


def _own(problem: Problem, slots: Sequence[WorkerSlot], of_executors: IntArray) -> tuple[WorkerSlot, ...]:
    own = set(of_executors.tolist())
    return tuple(slot for slot in slots if problem.slot_index[slot] in own)


def _around_running(problem: Problem, now: IntArray, index: int, ported: IntArray) -> IntArray:
    """`ported` with a free slot, of any node, for each worker that starts where another of its topology still runs.

    A new worker connects to its peers as soon as their ports answer. Where the one that is about to stop still does,
    the connection breaks with it, and Storm looks for such connections only every 30 s (CHANNEL_ALIVE_INTERVAL_MS of
    its Client): so long the new worker would not begin.
    """
    own = now[problem.executors_of(index)]
    taken = set(now.tolist()) | set(ported.tolist())
    here = set(problem.slot_node[own].tolist())
    free = iter(
        sorted(
            (slot for slot in range(len(problem.slots)) if slot not in taken and _is_usable(problem, slot)),
            # Where the topology runs already its files need not be fetched.
            key=lambda slot: int(problem.slot_node[slot]) not in here,
        )
    )
    around = ported.copy()
    for slot in np.intersect1d(own, ported).tolist():
        if not np.array_equal(own == slot, ported == slot):
            around[ported == slot] = next(free, slot)
    return around


def _is_usable(problem: Problem, slot: int) -> bool:
    return bool(problem.node_usable[problem.slot_node[slot]])


def _overloads(problem: Problem, now: IntArray, after: IntArray) -> bool:
    """Whether a node has more of a resource in use after than before, and more than it has."""
    for demand, capacity in zip(problem.executor_demand, problem.node_capacity, strict=True):
        used = node_sum(problem, after, demand)
        limit = np.maximum(capacity, node_sum(problem, now, demand)) * (1 + RELATIVE_TOLERANCE)
        if np.any(used > limit):
            return True
    return False


def _choose_ports(problem: Problem, now: IntArray, index: int, target: IntArray) -> IntArray | None:
    """`target` with the ports chosen by rule 1 of `plan_moves`."""
    executors = problem.executors_of(index)
    own = now[executors]
    others = set(now[problem.executor_topology != index].tolist())
    groups = {int(slot): np.flatnonzero(target == slot) for slot in dict.fromkeys(target.tolist())}
    chosen: dict[int, int] = {}
    for slot, members in groups.items():
        present = np.unique(own[members])
        same_node = problem.slot_node[present[0]] == problem.slot_node[slot]
        if len(present) == 1 and same_node and np.count_nonzero(own == present[0]) == len(members):
            chosen[slot] = int(present[0])
    for slot in groups:
        if slot in chosen:
            continue
        ports = np.flatnonzero(problem.slot_node == problem.slot_node[slot]).tolist()
        free = [port for port in ports if port not in others and port not in chosen.values()]
        if not free:
            return None
        unused = [port for port in free if port not in own]
        chosen[slot] = (unused or free)[0]
    return np.array([chosen[slot] for slot in target.tolist()], dtype=np.int32)
