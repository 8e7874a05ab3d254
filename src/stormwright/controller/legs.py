"""One topology's way from slot to slot: which ports its workers get, which run on, and which go by way of others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain

import numpy as np

from stormwright.controller.plan import Leg, TopologyMove
from stormwright.controller.room import Room, Workers, workers_of
from stormwright.model import UNPLACED, Problem, WorkerSlot
from stormwright.model.arrays import IntArray
from stormwright.model.assignment import name_slots


def choose_ports(room: Room, topologies: Collection[int]) -> dict[int, IntArray]:
    """Slots of topologies that go to their targets at one go; there must be room for them.

    Which port of a node a worker gets is free to choose. One whose executors stay together on their node keeps its
    slot and runs on; any other gets a port that nobody holds, if the node has one, else one that one of these
    topologies leaves.
    """
    chosen = {
        topology: kept_workers(room.problem, room.workers(topology), room.target_workers(topology))
        for topology in topologies
    }
    taken = {slot for kept in chosen.values() for slot in kept.values()}
    moving, ports, slots = set(topologies), dict[int, Iterator[int]](), {}
    for topology, kept in chosen.items():
        target = room.target[room.problem.executors_of(topology)].tolist()
        for slot in dict.fromkeys(target):
            if slot not in kept:
                node = int(room.problem.slot_node[slot])
                if node not in ports:
                    ports[node] = chain(*room.free_ports(node, moving))
                kept[slot] = next(port for port in ports[node] if port not in taken)
                taken.add(kept[slot])
        slots[topology] = np.array([kept[slot] for slot in target], dtype=np.int32)
    return slots


def kept_workers(problem: Problem, now: Workers, target: Workers) -> dict[int, int]:
    """Wished slot → slot now, of the workers of a topology whose executors stay together on their node."""
    found = {members.tobytes(): slot for slot, members in now.items()}
    kept = {slot: found[key] for slot, members in target.items() if (key := members.tobytes()) in found}
    return {slot: there for slot, there in kept.items() if problem.slot_node[there] == problem.slot_node[slot]}


def make_move(
    room: Room, topology: int, slots: IntArray, started: Workers, *, alone: bool, arrives: bool = True
) -> TopologyMove:
    """The move of a topology to `slots` from where it is in `room`.

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
    whole = _leg(problem, slots, running, started)
    legs: tuple[Leg, ...] = (whole,)
    if alone:
        detour = _around_running(room, topology, slots, started)
        if detour is not slots:
            passing = workers_of(detour)
            legs = (_leg(problem, detour, running, passing), _leg(problem, slots, passing, started))
    return TopologyMove(
        topology=problem.topologies[topology],
        before=name_slots(problem, now),
        after=whole.after,
        moved_executors=int(np.count_nonzero(now != slots)),
        stopped_workers=whole.stopped_workers,
        started_workers=whole.started_workers,
        kept_workers=whole.kept_workers,
        legs=legs,
        arrives=arrives,
    )


def _around_running(room: Room, topology: int, slots: IntArray, after: Workers) -> IntArray:
    """`slots` with a free slot, of any node with room, for each worker that starts where another of its own runs."""
    before = room.workers(topology)
    kept = _kept(before, after)
    waiting = [slot for slot in after if slot in before and slot not in kept]
    if not waiting:
        return slots
    moved = room.copy()
    around, nowhere = slots, np.zeros(len(room.problem.supervisors), dtype=bool)
    # The ports of old workers, of which the new ones have not all been taken over, are still held meanwhile.
    moved.put({topology: slots})
    moved.hold(before, topology)
    for slot in waiting:
        others = around.copy()
        others[after[slot]] = UNPLACED
        spare = moved.spare_slot(topology, after[slot], others, nowhere)
        if spare is not None:
            around = np.where(others == UNPLACED, np.int32(spare), others)
            moved.put({topology: around})
            moved.hold([*before, *after], topology)
    return around


def _kept(old: Workers, new: Workers) -> set[int]:
    """Slots whose worker stays as it is."""
    return {slot for slot, members in new.items() if slot in old and old[slot].tobytes() == members.tobytes()}


def _leg(problem: Problem, after: IntArray, old: Workers, new: Workers) -> Leg:
    kept = _kept(old, new)
    nodes = problem.slot_node
    left = sorted(set(nodes[list(old)].tolist()) - set(nodes[list(new)].tolist()))
    return Leg(
        after=name_slots(problem, after),
        stopped_workers=_named(problem, [slot for slot in old if slot not in kept]),
        started_workers=_named(problem, [slot for slot in new if slot not in kept]),
        kept_workers=_named(problem, sorted(kept)),
        vacated=tuple(problem.supervisors[node] for node in left),
    )


def _named(problem: Problem, slots: Sequence[int]) -> tuple[WorkerSlot, ...]:
    return tuple(problem.slots[slot] for slot in slots)
