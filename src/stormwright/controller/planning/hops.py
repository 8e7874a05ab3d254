"""Moves of one topology from slot to slot: ports of its workers, running workers, and detours."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

import numpy as np

from stormwright.controller.planning.capacity import MoveRoom
from stormwright.controller.planning.places import NodeWorkers, workers_of
from stormwright.model import UNPLACED, Problem, WorkerSlot
from stormwright.model.answer import name_slots
from stormwright.model.arrays import BoolArray, IndexArray, IntArray
from stormwright.model.component_limits import count_components
from stormwright.model.constraints.optional import tags_of, tags_of_node
from stormwright.plans.plan import Leg, TopologyMove


def choose_ports(room: MoveRoom, topologies: Collection[int]) -> dict[int, IntArray]:
    """Return slots of topologies that move to their targets together; there must be capacity for them.

    Which port of a node a worker gets is free to choose. One whose executors stay together on their node keeps its
    slot and runs on; any other gets a free port of the node, preferably its target port; else one that one of these
    topologies leaves.
    """
    chosen = {
        topology: unchanged_workers(room.problem, room.workers(topology), room.target_workers(topology))
        for topology in topologies
    }
    taken = {slot for unchanged in chosen.values() for slot in unchanged.values()}
    moving, ports, slots = set(topologies), dict[int, tuple[list[int], list[int]]](), {}
    for topology, unchanged in chosen.items():
        target = room.target[room.problem.executors_of(topology)].tolist()
        for slot in dict.fromkeys(target):
            if slot not in unchanged:
                node = int(room.problem.slot_node[slot])
                if node not in ports:
                    ports[node] = room.free_ports(node, moving)
                free, _ = ports[node]
                wished = [slot] if slot in free else []
                unchanged[slot] = next(port for port in chain(wished, *ports[node]) if port not in taken)
                taken.add(unchanged[slot])
        slots[topology] = np.array([unchanged[slot] for slot in target], dtype=np.int32)
    return slots


def unchanged_workers(problem: Problem, now: NodeWorkers, target: NodeWorkers) -> dict[int, int]:
    """Return the current slot per target slot of workers whose executors stay together on their node."""
    found = {members.tobytes(): slot for slot, members in now.items()}
    unchanged = {slot: found[key] for slot, members in target.items() if (key := members.tobytes()) in found}
    return {slot: there for slot, there in unchanged.items() if problem.slot_node[there] == problem.slot_node[slot]}


def make_move(
    room: MoveRoom, topology: int, slots: IntArray, started: NodeWorkers, *, alone: bool, arrives: bool = True
) -> TopologyMove:
    """Return the move of a topology from its state in `room` to `slots`.

    One that moves `alone` goes by way of free slots where its ports are still held by its own workers: a new worker
    connects to its peers as soon as their ports answer. Where the one that is about to stop still does, the connection
    breaks with it, and Storm looks for such connections only every 30 s (CHANNEL_ALIVE_INTERVAL_MS of its Client): so
    long the new worker would not begin.

    Parameters
    ----------
    room
        The cluster as it is before the move; it stays as it is.
    topology
        Index of the topology.
    slots
        Slot that each of its executors goes to, numbered in the topology.
    started
        Its workers in them.
    alone
        Whether no other topology moves in the same step.
    arrives
        False where this is a spare slot that it will leave again for its target.
    """
    problem = room.problem
    now = room.now[problem.executors_of(topology)]
    running = room.workers(topology)
    unchanged = _unchanged(running, started)
    whole = _leg(room, slots, running, started, unchanged)
    legs: tuple[Leg, ...] = (whole,)
    if alone:
        detour = _around_running(room, topology, slots, started, unchanged)
        if detour is not slots:
            passing = workers_of(detour)
            legs = (
                _leg(room, detour, running, passing, _unchanged(running, passing)),
                _leg(room, slots, passing, started, _unchanged(passing, started)),
            )
    return TopologyMove(
        topology=problem.topologies[topology].id,
        name=problem.topologies[topology].name,
        before=name_slots(problem, now),
        after=whole.after,
        moved_executors=int(np.count_nonzero(now != slots)),
        stopped_workers=whole.stopped_workers,
        started_workers=whole.started_workers,
        unchanged_workers=whole.unchanged_workers,
        legs=legs,
        arrives=arrives,
    )


def _around_running(
    room: MoveRoom, topology: int, slots: IntArray, after: NodeWorkers, unchanged: set[int]
) -> IntArray:
    """Return `slots` with a free slot for each worker that would start in a slot still in use by its own."""
    before = room.workers(topology)
    waiting = [slot for slot in after if slot in before and slot not in unchanged]
    if not waiting:
        return slots
    moved = room.copy()
    around, nowhere = slots, np.zeros(len(room.problem.supervisors), dtype=bool)
    # Ports of old workers stay held until all new ones have taken over.
    moved.put({topology: slots})
    moved.hold(before, topology)
    for slot in waiting:
        others = around.copy()
        others[after[slot]] = UNPLACED
        spare = spare_slot(moved, topology, after[slot], others, nowhere)
        if spare is not None:
            around = np.where(others == UNPLACED, np.int32(spare), others)
            moved.put({topology: around})
            moved.hold([*before, *after], topology)
    return around


def spare_slot(
    room: MoveRoom,
    topology: int,
    members: IndexArray,
    slots: IntArray,
    avoid: BoolArray,
    load: Sequence[float] | None = None,
) -> int | None:
    """Return a free slot for the worker of some executors of a topology; None if there is none.

    Its own target is best, then nodes that as few topologies as possible wait for, then those where it runs
    already, as its files need not be fetched there, then the first. What the topology takes now is not taken off:
    the worker must fit beside it.

    Parameters
    ----------
    room
        Where the slots are; it stays as it is.
    topology
        Index of the topology in the problem.
    members
        Executors of the worker, numbered in the topology.
    slots
        Slot of each executor of the topology, -1 of those of the worker.
    avoid
        Nodes that it shall not be on, shape (N,).
    load
        What the worker takes (`Loads.of`); None: it is added up.
    """
    problem, rows = room.problem, 1 + len(room.problem.resources)
    if load is None:
        demand = problem.executor_demand[:, problem.executors_of(topology)][:, members].sum(axis=1)
        load = [1.0, *demand.tolist()]
    open_nodes = problem.node_usable & ~avoid
    for need, most, used in zip(load, room.most, room.used, strict=False):
        open_nodes &= need <= most - used
    own = set(slots.tolist()) - {UNPLACED}
    runs = list({room.node_of[slot] for slot in own})
    if room.measure.share is not None:
        alone = (room.used[rows] + room.measure.share[topology] <= 1)[room.measure.host_node]
        open_nodes &= alone | np.isin(room.measure.host_node, room.measure.host_node[runs])
    _keep_components_apart(problem, topology, members, slots, open_nodes)
    _keep_tags(problem, topology, members, open_nodes)
    dear = room.wanted.astype(float)
    dear[runs] -= 0.25
    dear[room.places[topology].entered] -= 1.5
    dear = np.where(open_nodes, dear, np.inf)
    while dear[node := int(dear.argmin())] < np.inf:
        free, _ = room.free_ports(node, ())
        port = next((port for port in free if port not in own), None)
        if port is not None:
            return port
        dear[node] = np.inf
    return None


def _keep_components_apart(
    problem: Problem, topology: int, members: IndexArray, slots: IntArray, open_nodes: BoolArray
) -> None:
    """Exclude nodes where a component would exceed its limit of executors."""
    limits = problem.component_limits.get(topology)
    if limits is None:
        return
    component = problem.topologies[topology].executor_component
    there = np.where(slots == UNPLACED, UNPLACED, problem.slot_node[slots])
    on_nodes = count_components(there, component, len(open_nodes), len(limits.most_on_node))
    on_nodes = on_nodes + np.bincount(component[members], minlength=len(limits.most_on_node))
    open_nodes &= ~(limits.crowded(on_nodes) > 0).any(axis=1)


def _keep_tags(problem: Problem, topology: int, members: IndexArray, open_nodes: BoolArray) -> None:
    """Exclude nodes without a tag that an executor requires (a GPU, for example)."""
    of = problem.topologies[topology]
    if not any(component.tags for component in of.components):
        return
    components = [of.components[component] for component in np.unique(of.executor_component[members]).tolist()]
    tags = tags_of([tag for component in components for tag in component.tags])
    if tags:
        open_nodes &= np.array([tags <= tags_of_node(node) for node in problem.supervisors])


def _unchanged(old: NodeWorkers, new: NodeWorkers) -> set[int]:
    """Return slots with an unchanged worker."""
    return {slot for slot, members in new.items() if slot in old and old[slot].tobytes() == members.tobytes()}


def _leg(room: MoveRoom, after: IntArray, old: NodeWorkers, new: NodeWorkers, unchanged: set[int]) -> Leg:
    problem = room.problem
    left = sorted({room.node_of[slot] for slot in old} - {room.node_of[slot] for slot in new})
    return Leg(
        after=name_slots(problem, after),
        stopped_workers=_named(problem, [slot for slot in old if slot not in unchanged]),
        started_workers=_named(problem, [slot for slot in new if slot not in unchanged]),
        unchanged_workers=_named(problem, sorted(unchanged)),
        vacated=tuple(problem.supervisors[node].id for node in left),
    )


def _named(problem: Problem, slots: Sequence[int]) -> tuple[WorkerSlot, ...]:
    return tuple(problem.slots[slot] for slot in slots)
