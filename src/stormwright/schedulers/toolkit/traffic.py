"""Traffic between executors as rows and pairs, for greedy schedulers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from stormwright.model import Problem, Topology, Traffic, measured_traffic
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.optimize.construction.greedy import Pairs


@dataclass(frozen=True)
class Rates:
    """R between different executors, each directed pair once, heaviest first; ties by source, then target.

    Parameters
    ----------
    source, target
        Executors, numbered over the problem, shape (P,).
    tps
        Tuples per second, above 0, shape (P,).
    topology_offset
        Where the pairs of each topology start in `by_topology`, shape (T + 1,).
    by_topology
        Positions of the pairs, topology by topology, each heaviest first, shape (P,).
    """

    source: IndexArray
    target: IndexArray
    tps: FloatArray
    topology_offset: IndexArray
    by_topology: IndexArray

    @classmethod
    def of(cls, problem: Problem, traffic: Traffic) -> Rates:
        """Return the rates of `traffic`."""
        num_executors = problem.num_executors
        pairs, position = np.unique(
            traffic.source.astype(np.int64) * num_executors + traffic.target, return_inverse=True
        )
        tps = np.bincount(position, traffic.tps, len(pairs)).astype(np.float64)
        source, target = np.divmod(pairs, max(num_executors, 1))
        real = np.flatnonzero((source != target) & (tps > 0))
        heaviest_first = real[np.argsort(-tps[real], kind="stable")]
        source, target = source[heaviest_first].astype(np.int32), target[heaviest_first].astype(np.int32)
        topology = problem.executor_topology[source]
        sizes = np.bincount(topology, minlength=len(problem.topologies))
        return cls(
            source=source,
            target=target,
            tps=tps[heaviest_first],
            topology_offset=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32),
            by_topology=np.argsort(topology, kind="stable").astype(np.int32),
        )

    def within(self, topology: int, members: IndexArray) -> Pairs:
        """Return directed pairs among some executors of a topology, numbered by position in the ascending `members`."""
        positions = self.by_topology[self.topology_offset[topology] : self.topology_offset[topology + 1]]
        source, target = _positions(members, self.source[positions]), _positions(members, self.target[positions])
        inside = (source >= 0) & (target >= 0)
        return Pairs(source[inside], target[inside], self.tps[positions[inside]], len(members))

    def between(self, group: IndexArray, num_groups: int) -> Pairs:
        """Return pairs of groups of executors, lower number first; `group` has each executor's group or -1."""
        a, b = group[self.source], group[self.target]
        crossing = (a != b) & (a >= 0) & (b >= 0)
        low, high = np.minimum(a, b)[crossing].astype(np.int64), np.maximum(a, b)[crossing]
        keys, position = np.unique(low * num_groups + high, return_inverse=True)
        tps = np.bincount(position, weights=self.tps[crossing], minlength=len(keys)).astype(np.float64)
        heaviest_first = np.argsort(-tps, kind="stable")
        low, high = np.divmod(keys[heaviest_first], max(num_groups, 1))
        return Pairs(low, high, tps[heaviest_first], num_groups)


def _positions(members: IndexArray, executors: IndexArray) -> IndexArray:
    """Return the position of each of `executors` in the ascending `members`; -1 if missing."""
    position = np.minimum(np.searchsorted(members, executors), len(members) - 1)
    return np.where(members[position] == executors, position, -1).astype(np.int32)


def upstream(topology: Topology) -> list[set[int]]:
    """Return the components that each component subscribes to, except itself."""
    return [
        {topology.component_index[g.source] for g in component.inputs if g.source in topology.component_index} - {index}
        for index, component in enumerate(topology.components)
    ]


def linearised(topology: Topology) -> list[int]:
    """Return the components in an order in which each follows those it subscribes to; ties in topology order.

    In a cycle the first component with a known source precedes its other sources.
    """
    sources = upstream(topology)
    order: list[int] = []
    done: set[int] = set()
    waiting = list(range(len(sources)))
    while waiting:
        ready = [component for component in waiting if sources[component] <= done]
        reached = [component for component in waiting if sources[component] & done]
        component = (ready or reached or waiting)[0]
        waiting.remove(component)
        done.add(component)
        order.append(component)
    return order


def breadth_first(topology: Topology) -> list[int]:
    """Return the components by distance from the spouts, then in topology order; unreachable ones last."""
    sources = upstream(topology)
    targets: list[list[int]] = [[] for _ in sources]
    for target, of_target in enumerate(sources):
        for source in of_target:
            targets[source].append(target)
    order = [index for index, component in enumerate(topology.components) if component.type == "spout"]
    reached = set(order)
    for component in order:  # grows during iteration
        for target in targets[component]:
            if target not in reached:
                reached.add(target)
                order.append(target)
    return order + [component for component in range(len(sources)) if component not in reached]


def by_component(topology: Topology, executors: Sequence[int], offset: int) -> dict[int, list[int]]:
    """Return `executors` by component (numbered over the problem, the topology's first being `offset`)."""
    members: dict[int, list[int]] = {component: [] for component in range(len(topology.components))}
    for executor in executors:
        members[int(topology.executor_component[executor - offset])].append(executor)
    return members


@dataclass(frozen=True)
class Exchange:
    """R + Rᵀ without its diagonal, as CSR: the partners of executor e are at ``first[e]`` to ``first[e + 1]``.

    Parameters
    ----------
    first
        Shape (E + 1,).
    partner
        Partners, ascending for each executor.
    tps
        Tuples/s exchanged with the partner, both directions together.
    """

    first: IndexArray
    partner: IndexArray
    tps: FloatArray

    @classmethod
    def of(cls, problem: Problem) -> Exchange:
        """Return the traffic between executors under the current placement."""
        matrix = measured_traffic(problem).symmetric(problem.num_executors)
        matrix.sum_duplicates()
        row = np.repeat(np.arange(problem.num_executors, dtype=np.int32), np.diff(matrix.indptr))
        real = (row != matrix.indices) & (matrix.data > 0)
        if real.all():
            return cls(matrix.indptr, matrix.indices, matrix.data)
        sizes = np.bincount(row[real], minlength=problem.num_executors)
        return cls(np.concatenate([[0], np.cumsum(sizes)]), matrix.indices[real], matrix.data[real])

    def total(self) -> FloatArray:
        """Return the traffic of every executor, shape (E,), rounded independently of the others."""
        row = np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))
        return np.bincount(row, self.tps, len(self.first) - 1).astype(np.float64)

    def of_executor(self, executor: int) -> tuple[IndexArray, FloatArray]:
        """Return the partners of an executor, and the traffic with each."""
        row = slice(self.first[executor], self.first[executor + 1])
        return self.partner[row], self.tps[row]

    def within(self, executors: IndexArray) -> csr_array:
        """Return the traffic among some executors, in ascending order; rows and columns by position among them."""
        size = len(self.first) - 1
        whole = csr_array((self.tps, self.partner, self.first), shape=(size, size))
        first, last = int(executors[0]), int(executors[-1]) + 1
        return whole[first:last, first:last][executors - first][:, executors - first].tocsr()
