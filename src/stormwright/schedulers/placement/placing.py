"""Placing one topology on nodes, executor by executor or worker by worker, within all constraints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.schedulers.placement.admission import RequiredWorkers
from stormwright.schedulers.placement.favoured_hosts import favour, most_favoured
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.placement.separation import ComponentCounts
from stormwright.schedulers.toolkit.limits import max_executors_per_worker


class FreeResources:
    """Free resources of every node, and its executors.

    Attributes
    ----------
    left
        Free amount of each of the problem's resources on every node, shape (K, N).
    cpu_hz, memory_mb
        Rows of it, shape (N,).
    slots
        Free slots of every node, shape (N,); 0 for closed nodes.
    capacity_hz, capacity_mb
        Total capacity, shape (N,).
    executors
        Executors on every node, shape (N,).
    node_of
        Node of every executor of the problem, -1 for an unplaced one, shape (E,).
    """

    def __init__(self, placement: PartialPlacement) -> None:
        self.problem: Problem = placement.problem
        self.capacity_hz, self.capacity_mb = placement.capacity[0], placement.capacity[1]
        self.recount(placement)

    def recount(self, placement: PartialPlacement) -> None:
        """Recompute the free resources after changes other than by `Placing`."""
        left = placement.capacity - placement.node_use()
        self.left: FloatArray = left[:-1]
        # Nodes on which a generic resource is overdrawn can still take executors without demand for it.
        self.left[2:] = np.maximum(self.left[2:], 0.0)
        self.cpu_hz, self.memory_mb = self.left[0], self.left[1]
        self.slots: FloatArray = np.where(placement.usable, left[-1].round(), 0.0)
        self.node_of: IndexArray = placement.node_of_executor().astype(np.int64)
        on_nodes = self.node_of[self.node_of != UNPLACED]
        self.executors: IndexArray = np.bincount(on_nodes, minlength=len(self.slots)).astype(np.int64)

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.slots)


class Placing:
    """State of placing one topology; by `put`, or by `put_worker`.

    By `put`, a node has as many executors of the topology as fit into the workers opened there; a further worker takes
    a slot, and there are never more than requested. So at every step `can_take` has the nodes that can take an
    executor.

    Parameters
    ----------
    placement
        Partial placement that gets the workers at the end.
    room
        Free resources of nodes; updated at every step.
    wanted
        The topology, its executors to place, and their number of workers.
    soft_cpu
        Whether a node may take executors beyond its CPU capacity (R-Storm treats CPU as a soft constraint).
    """

    def __init__(
        self, placement: PartialPlacement, room: FreeResources, wanted: RequiredWorkers, *, soft_cpu: bool = False
    ) -> None:
        self.placement, self.room, self.wanted = placement, room, wanted
        self.topology = placement.problem.topologies[wanted.topology]
        self.limit = max_executors_per_worker(self.topology)
        self._demand = placement.problem.executor_demand
        #: Resources that are hard limits; CPU comes first.
        self._hard = range(1 if soft_cpu else 0, len(self._demand))
        #: Node → executors put on it, in order.
        self.on_node: dict[int, list[int]] = {}
        #: Node → workers opened on it.
        self.opened: dict[int, int] = {}
        #: Workers that may still be opened.
        self.workers_left = wanted.workers
        #: Whether the workers opened on a node have room for a further executor.
        self._open: BoolArray = np.zeros(room.num_nodes, dtype=bool)
        self._left_over: list[int] = []
        self._whole: list[tuple[list[int], int]] = []
        self._whole_on: IndexArray = np.zeros(room.num_nodes, dtype=np.int64)
        self._crowd = ComponentCounts.of(placement.problem, wanted.topology, room.node_of)
        #: Preference of every node; see `favour`.
        self.favour = favour(placement.problem, wanted.topology)

    @property
    def executors(self) -> list[int]:
        """Executors to place, numbered over the problem."""
        executors: list[int] = self.wanted.executors.tolist()
        return executors

    def can_take(self, executor: int) -> BoolArray:
        """Return which nodes can take `executor` now, shape (N,)."""
        room = self.room
        fits: BoolArray = (room.slots >= 1) | self._open if self.workers_left > 0 else self._open.copy()
        for resource in self._hard:
            fits &= room.left[resource] >= self._demand[resource, executor]
        return fits if self._crowd is None else fits & self._crowd.admits([executor])

    def takes(self, executor: int, node: int) -> bool:
        """Return whether one node can take `executor` now."""
        room = self.room
        return bool(
            self.is_open(node)
            and all(room.left[resource, node] >= self._demand[resource, executor] for resource in self._hard)
            and (self._crowd is None or self._crowd.admits([executor])[node])
        )

    def is_open(self, node: int) -> bool:
        """Return whether a node has a worker with a free place, or may open one."""
        return bool(self._open[node] or (self.workers_left > 0 and self.room.slots[node] >= 1))

    def put(self, executor: int, node: int) -> None:
        """Put an executor on a node that can take it, or, with node -1, leave it to `make_room`."""
        if node == UNPLACED:
            self._left_over.append(executor)
            return
        room, members = self.room, self.on_node.setdefault(node, [])
        if not self._open[node]:
            self._open_worker(node)
        members.append(executor)
        self._open[node] = len(members) < self.limit * self.opened[node]
        room.left[:, node] -= self._demand[:, executor]
        room.executors[node] += 1
        room.node_of[executor] = node
        if self._crowd is not None:
            self._crowd.add([executor], node)

    def can_host(self, executors: Sequence[int]) -> BoolArray:
        """Return which nodes can take a further worker of `executors` now, shape (N,)."""
        room, members = self.room, list(executors)
        fits: BoolArray = room.slots >= 1
        for resource in self._hard:
            fits &= room.left[resource] >= self._demand[resource, members].sum()
        return fits if self._crowd is None else fits & self._crowd.admits(members)

    def put_worker(self, executors: Sequence[int], node: int) -> None:
        """Put a worker of `executors` on a node that can host it, or, with node -1, leave it to `make_room`."""
        members = list(executors)
        self._whole.append((members, node))
        if node != UNPLACED:
            room = self.room
            room.slots[node] -= 1
            room.left[:, node] -= self._demand[:, members].sum(axis=1)
            room.executors[node] += len(members)
            room.node_of[members] = node
            self._whole_on[node] += 1
            if self._crowd is not None:
                self._crowd.add(members, node)

    def in_turn(self, nodes: BoolArray) -> int:
        """Return the node whose turn it is to get a worker, -1 if none of `nodes` is true.

        It has fewest workers of this topology, then most free slots; ties go to favoured nodes, then to the lower node.
        """
        if not nodes.any():
            return UNPLACED
        fewest = nodes & (self._whole_on == self._whole_on[nodes].min())
        roomiest = fewest & (self.room.slots == self.room.slots[fewest].max())
        return int(np.argmax(most_favoured(roomiest, self.favour)))

    def workers_on(self, node: int) -> int:
        """Return the number of workers of this topology placed on a node."""
        return self.opened.get(node, 0) + int(self._whole_on[node])

    def best(self, executor: int, scores: FloatArray) -> int:
        """Return the possible node with the lowest finite score; -1 if there is none.

        Ties go to favoured nodes, then to the lower node.
        """
        allowed = np.where(self.can_take(executor), scores, math.inf)
        lowest = allowed.min(initial=math.inf)
        return int(np.argmax(most_favoured(allowed == lowest, self.favour))) if lowest < math.inf else UNPLACED

    def finish(self) -> None:
        """Form exactly the requested number of workers on the nodes and add them to the partial placement.

        Executors without a node go into workers without one, for which `make_room` finds places or reasons.
        """
        if self._whole:
            workers = self._whole
        else:
            self._open_rest()
            workers = [
                (part.tolist(), node)
                for node, members in self.on_node.items()
                for part in np.array_split(np.array(members), self.opened[node])
            ]
            self._add_homeless(workers)
        for part, node in workers:
            self.placement.add_worker(self.wanted.topology, np.array(part, dtype=np.int64), node)

    def _open_worker(self, node: int) -> None:
        self.opened[node] = self.opened.get(node, 0) + 1
        self.workers_left -= 1
        self.room.slots[node] -= 1

    def _open_rest(self) -> None:
        """Open the remaining workers where most executors share one; ties go to the lower node."""
        crowded = [(-len(members) / self.opened[node], node) for node, members in self.on_node.items()]
        heapify(crowded)
        while self.workers_left > 0 and crowded:
            _, node = heappop(crowded)
            if len(self.on_node[node]) > self.opened[node] and self.room.slots[node] >= 1:
                self._open_worker(node)
                heappush(crowded, (-len(self.on_node[node]) / self.opened[node], node))

    def _add_homeless(self, workers: list[tuple[list[int], int]]) -> None:
        """Add the remaining workers without a node for the left-over executors.

        They take the left-over executors; an empty one gets an executor from the fullest worker.
        """
        placed = [part for part, _ in workers]
        homeless: list[list[int]] = [[] for _ in range(self.wanted.workers - len(workers))]
        for executor in self._left_over:
            roomy = [part for part in homeless if len(part) < self.limit]
            min(roomy or placed, key=len).append(executor)
        fill_empty([*placed, *homeless])
        workers += [(part, UNPLACED) for part in homeless]


def fill_empty(workers: Sequence[list[int]]) -> None:
    """Give every empty worker the last executor of the fullest; ties go to the earlier worker."""
    for worker in workers:
        if not worker:
            worker.append(max(workers, key=len).pop())
