"""Placements as a search by rates represents them: workers by topology, possibly including empty ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapify, heappop, heappush

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import BoolArray, IndexArray, IntArray
from stormwright.model.topology_config import WORKERS, WORKERS_KEY
from stormwright.optimize.throughput.improve import ImprovedPlacement
from stormwright.optimize.throughput.start import Seats
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.placement.staying import choose_slots
from stormwright.schedulers.toolkit.limits import max_executors_per_worker, num_workers


@dataclass(frozen=True)
class Seating:
    """Converts placements to seats, and search results to placements.

    Parameters
    ----------
    problem
        Problem with the running placement, if any.
    free
        Topologies that may be moved, shape (T,).
    workers
        Default of topologies without their own, one of `WORKERS`.
    """

    problem: Problem
    free: BoolArray
    workers: str

    def choice(self, topology: int) -> str:
        """Return how the number of workers of a topology is chosen: one of `WORKERS`."""
        configured = self.problem.topologies[topology].conf.get(WORKERS_KEY)
        return configured if configured in WORKERS else self.workers

    def may_stay(self, topology: int) -> bool:
        """Return whether a topology runs on an allowed number of workers."""
        return self.may_use(self.problem.current_slot, topology)

    def may_use(self, slots: IntArray, topology: int) -> bool:
        """Return whether a topology has an allowed number of workers in a placement, is left out, or may not move."""
        used = self._used_by(topology, slots)
        choice, wanted = self.choice(topology), num_workers(self.problem.topologies[topology])
        is_allowed = choice == "free" or used in (0, wanted) or (choice == "at_most" and used < wanted)
        return is_allowed or not self.free[topology]

    def chosen_workers(self, slots: IntArray) -> dict[str, int]:
        """Return the numbers of workers by topology id, of topologies with another number than requested."""
        chosen = {}
        for index, topology in enumerate(self.problem.topologies):
            used = self._used_by(index, slots)
            if used and used != num_workers(topology) and self.free[index] and self.choice(index) != "exactly":
                chosen[topology.id] = used
        return chosen

    def _used_by(self, topology: int, slots: IntArray) -> int:
        """Return the number of workers of a topology."""
        return len(set(slots[self.problem.executors_of(topology)].tolist()) - {UNPLACED})

    @cached_property
    def _most_workers(self) -> IndexArray:
        """Return the maximum number of workers of each topology, shape (T,)."""
        nodes = int(np.count_nonzero(self.problem.node_usable))
        return np.array(
            [
                min(each.num_executors, nodes) if self.choice(index) == "free" else num_workers(each)
                for index, each in enumerate(self.problem.topologies)
            ],
            np.int64,
        )

    @cached_property
    def _most_executors(self) -> IndexArray:
        return np.array([min(max_executors_per_worker(t), t.num_executors) for t in self.problem.topologies], np.int64)

    def seats(self, slots: IntArray) -> Seats:
        """Return the seats of a placement."""
        problem = self.problem
        used, first, worker = np.unique(slots, return_index=True, return_inverse=True)
        missing = int(UNPLACED in used)
        topology = problem.executor_topology[first[missing:]].astype(np.int64)
        node = problem.slot_node[used[missing:]].astype(np.int64)
        has = np.bincount(topology, minlength=len(problem.topologies))
        chosen = np.array([self.choice(t) != "exactly" for t in range(len(has))], bool) & self.free
        more = np.where(chosen & (has > 0), np.maximum(self._most_workers - has, 0), 0)
        topology = np.concatenate([topology, np.repeat(np.arange(len(has)), more)])
        node = np.concatenate([node, np.zeros(int(more.sum()), np.int64)])
        order = np.argsort(topology, kind="stable")
        number = np.full(len(order) + 1, UNPLACED)
        number[order] = np.arange(len(order))
        ports = np.array([len(supervisor.ports) for supervisor in problem.supervisors])
        return Seats(
            worker=number[worker - missing],
            topology=topology[order],
            node=node[order],
            most=self._most_executors,
            movable=self.free,
            may_be_empty=chosen,
            ports=np.where(problem.node_usable, ports, 0),
        )

    def on_its_nodes(self, slots: IntArray) -> Seats:
        """Return the seats of a placement, restricted to its nodes."""
        seats = self.seats(slots)
        nodes = np.bincount(self.problem.slot_node[slots[slots != UNPLACED]], minlength=len(seats.ports))
        return replace(seats, ports=np.where(nodes > 0, seats.ports, 0))

    def gathered(self, slots: IntArray) -> Iterator[Seats]:
        """Yield starts with every free topology in one worker if possible, on 1, 2, 4, … nodes and on all."""
        seats, problem = self.seats(slots), self.problem
        usable = np.flatnonzero(seats.ports > 0)
        if not np.any(seats.may_be_empty):
            return
        cpu_hz = np.bincount(problem.executor_topology, problem.executor_cpu_hz, len(seats.movable))
        largest = usable[np.argsort(-problem.node_cpu_hz[usable], kind="stable")]
        own = np.searchsorted(seats.topology, np.arange(len(cpu_hz)))
        gathers = [
            topology
            for topology in np.argsort(-cpu_hz, kind="stable").tolist()
            if seats.may_be_empty[topology]
            and seats.worker[problem.executors_of(topology)][0] != UNPLACED
            and problem.topologies[topology].num_executors <= seats.most[topology]
        ]
        together = np.zeros(len(cpu_hz), bool)
        counts = sorted({*(2**k for k in range(len(usable).bit_length())), len(usable)})
        for count in (c for c in counts if c <= len(usable)):
            room_hz, ports = problem.node_cpu_hz[largest[:count]].tolist(), seats.ports[largest[:count]].tolist()
            roomiest = [(-room, number) for number, room in enumerate(room_hz)]
            heapify(roomiest)
            node, together[:] = seats.node.copy(), False
            for topology in gathers:
                if not roomiest:
                    break
                room, to = heappop(roomiest)
                node[own[topology]], together[topology] = largest[to], True
                ports[to] -= 1
                if ports[to]:
                    heappush(roomiest, (room + cpu_hz[topology], to))
            moved = together[problem.executor_topology]
            yield replace(seats, worker=np.where(moved, own[problem.executor_topology], seats.worker), node=node)

    def fullest(self, seats: Seats) -> tuple[float, int]:
        """Return the highest measured CPU utilisation of a node, and the number of used nodes."""
        problem = self.problem
        node = np.append(seats.node, UNPLACED)[seats.worker]
        here = node != UNPLACED
        cpu_hz = np.bincount(node[here], problem.executor_cpu_hz[here], len(problem.supervisors))
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(cpu_hz > 0, cpu_hz / problem.node_cpu_hz, 0.0)
        return float(part.max(initial=0.0)), int(np.count_nonzero(np.bincount(node[here])))

    def holds(self, seats: Seats, found: ImprovedPlacement) -> bool:
        """Return whether no worker has too many executors."""
        held = np.bincount(found.worker[found.worker != UNPLACED], minlength=len(seats.topology))
        return bool(np.all(held <= seats.most[seats.topology]))

    def slots(self, seats: Seats, found: ImprovedPlacement) -> IntArray:
        """Return the slot of every executor, shape (E,)."""
        placement = PartialPlacement.empty(self.problem, seats.ports > 0)
        filled = np.bincount(found.worker[found.worker != UNPLACED], minlength=len(found.node)) > 0
        number = np.append(np.cumsum(filled) - 1, UNPLACED)
        placement.topology, placement.node = seats.topology[filled].tolist(), found.node[filled].tolist()
        placement.fixed = [False] * len(placement.node)
        placement.worker = number[found.worker]
        return choose_slots(placement)
