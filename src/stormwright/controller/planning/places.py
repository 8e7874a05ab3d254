"""Resources of nodes that each topology takes now and at its target."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import FloatArray, IndexArray, IntArray
from stormwright.model.constraints.isolation import isolated
from stormwright.model.topology_config import MACHINES

# Workers ------------------------------------------------------------------------------------------
# Workers of a topology and their resource use.

#: Slot → executors of the worker in it, numbered in their topology; slots in ascending order.
NodeWorkers: TypeAlias = dict[int, IndexArray]


def workers_of(slots: IntArray) -> NodeWorkers:
    """Return the workers of a topology whose executors are in `slots`."""
    order = np.argsort(slots, kind="stable")
    ordered = slots[order]
    starts = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist()]
    ends = pairwise([*starts, len(order)])
    return {
        slot: order[start:end]
        for slot, (start, end) in zip(ordered[starts].tolist(), ends, strict=True)
        if slot != UNPLACED
    }


class WorkerLoads(NamedTuple):
    """Demand of the workers of a topology: column by slot, and slots and resources by column, shape (R, W)."""

    column: dict[int, int]
    amounts: FloatArray

    def of(self, slot: int) -> list[float]:
        """Return the demand of the worker in a slot."""
        amounts: list[float] = self.amounts[:, self.column[slot]].tolist()
        return amounts

    @classmethod
    def of_workers(cls, demand: FloatArray, workers: NodeWorkers) -> WorkerLoads:
        """Return the demand of workers whose executors take `demand`, shape (R - 1, E)."""
        starts = np.cumsum([0, *map(len, workers.values())])[:-1]
        amounts = np.add.reduceat(demand[:, np.concatenate(list(workers.values()))], starts, axis=1)
        columns = {slot: column for column, slot in enumerate(workers)}
        return cls(columns, np.vstack([np.ones(len(workers)), amounts]))


# Nodes of topologies ------------------------------------------------------------------------------

#: Rows of slots and CPU in arrays by resource: slots, then the problem's resources (CPU first), then isolation, if any.
SLOTS, CPU = 0, 1


@dataclass(frozen=True, eq=False)
class TakenResources:
    """Resources of M nodes that one topology takes now and at its target, for R resources.

    Parameters
    ----------
    nodes
        Node indices, ascending, shape (M,).
    before, after
        Use there now and at the target, shape (R, M).
    """

    nodes: IndexArray
    before: FloatArray
    after: FloatArray

    @cached_property
    def change(self) -> FloatArray:
        """Additional demand after the move, shape (R, M)."""
        return self.after - self.before

    @cached_property
    def entered(self) -> IndexArray:
        """Nodes of which the topology takes more of a resource after the move."""
        return self.nodes[(self.change > 0).any(axis=0)]

    def is_entered(self, node: int) -> bool:
        """Return whether the topology takes more of a resource of a node after the move."""
        column = self.column.get(node)
        return column is not None and bool((self.after[:, column] > self.before[:, column]).any())

    @cached_property
    def gives(self) -> dict[int, list[float]]:
        """Additional demand by resource, for each node on which the topology releases a resource."""
        columns = np.flatnonzero((self.change < 0).any(axis=0))
        return dict(zip(self.nodes[columns].tolist(), self.change[:, columns].T.tolist(), strict=True))

    @cached_property
    def arrived(self) -> TakenResources:
        """Return the place of the topology once it is at its target."""
        there = self.after.any(axis=0)
        return TakenResources(self.nodes[there], self.after[:, there], self.after[:, there])

    @cached_property
    def column(self) -> dict[int, int]:
        """Column of each node."""
        return {node: column for column, node in enumerate(self.nodes.tolist())}


class Measure:
    """Demand of topologies on nodes: slots, the problem's resources, and isolation of hosts.

    Isolation counts as a resource of the first node of each host: there is 1 of it, of which an isolated topology
    takes all, and any other so little that all of them together find room.

    Parameters
    ----------
    problem
        Problem with nodes and demands.
    cpu_limits
        False if nodes may have more work than CPU.
    """

    def __init__(self, problem: Problem, cpu_limits: bool = True) -> None:
        self.problem = problem
        self.names = ["slots", *(resource.name for resource in problem.resources)]
        self.units = ["", *(resource.unit for resource in problem.resources)]
        nodes = len(problem.supervisors)
        rows = [np.bincount(problem.slot_node, minlength=nodes).astype(float), *problem.node_capacity]
        if not cpu_limits:
            rows[CPU] = np.full(nodes, np.inf)
        first: dict[str, int] = {}
        #: First node of each node's host.
        self.host_node: IndexArray = np.array([first.setdefault(s.host, n) for n, s in enumerate(problem.supervisors)])
        #: Part of a host's isolation that each topology takes, if any topology is isolated.
        self.share: FloatArray | None = None
        machines = isolated(problem)
        if machines:
            self.share = np.full(len(problem.topologies), 0.5 / len(problem.topologies))
            self.share[list(machines)] = 1.0
            self.names.append(MACHINES)
            self.units.append("host")
            rows.append(np.ones(nodes))
        #: Capacity of nodes, shape (R, N).
        self.capacity: FloatArray = np.array(rows)

    def places(self, now: IntArray, target: IntArray) -> list[TakenResources]:
        """Return the place of every topology; `now` and `target` are slots of all executors, shape (E,)."""
        size = len(self.problem.supervisors)
        sides = [self._keys(slots) for slots in (now, target)]
        keys = np.unique(np.concatenate([of_worker for side in sides for of_worker in side[:2]]))
        before, after = (self._amounts(keys, *side) for side in sides)
        edges = np.searchsorted(keys // size, np.arange(len(self.problem.topologies) + 1))
        return [
            TakenResources(keys[start:end] % size, before[:, start:end], after[:, start:end])
            for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        ]

    def use(self, places: list[TakenResources]) -> FloatArray:
        """Return the current use of every node, shape (R, N)."""
        used = np.zeros_like(self.capacity)
        for place in places:
            used[:, place.nodes] += place.before
        return used

    def _keys(self, slots: IntArray) -> tuple[IndexArray, IndexArray, IndexArray]:
        """Return topology and node as one number: per worker, per worker's host, and per executor (or -1)."""
        problem = self.problem
        size = len(problem.supervisors)
        placed = slots != UNPLACED
        topology = problem.executor_topology.astype(np.int64)
        workers = np.unique(topology[placed] * len(problem.slots) + slots[placed])
        of, node = workers // len(problem.slots), problem.slot_node[workers % len(problem.slots)]
        executors = np.where(placed, topology * size + problem.slot_node[slots], UNPLACED)
        hosts = of * size + self.host_node[node] if self.share is not None else np.empty(0, np.int64)
        return of * size + node, hosts, executors

    def _amounts(self, keys: IndexArray, workers: IndexArray, hosts: IndexArray, executors: IndexArray) -> FloatArray:
        """Return the demand under each of `keys`, shape (R, P)."""
        placed = executors != UNPLACED
        at = np.searchsorted(keys, executors[placed])
        rows = [np.bincount(np.searchsorted(keys, workers), minlength=len(keys)).astype(float)]
        rows += [
            np.bincount(at, weights=demand[placed], minlength=len(keys)) for demand in self.problem.executor_demand
        ]
        if self.share is not None:
            isolation = np.zeros(len(keys))
            isolation[np.searchsorted(keys, hosts)] = self.share[hosts // len(self.problem.supervisors)]
            rows.append(isolation)
        return np.array(rows)
