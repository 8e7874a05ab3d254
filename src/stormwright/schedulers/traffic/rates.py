"""Traffic between pairs of executors, heaviest first: what greedy schedulers walk through."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model import Problem, Traffic
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
        """The rates that `traffic` amounts to."""
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
        """Directed pairs among some executors of a topology, numbered by their position in `members`, which rise."""
        positions = self.by_topology[self.topology_offset[topology] : self.topology_offset[topology + 1]]
        source, target = _positions(members, self.source[positions]), _positions(members, self.target[positions])
        inside = (source >= 0) & (target >= 0)
        return Pairs(source[inside], target[inside], self.tps[positions[inside]], len(members))

    def between(self, group: IndexArray, num_groups: int) -> Pairs:
        """Pairs of groups of executors, lower number first; `group` gives each executor's or -1."""
        a, b = group[self.source], group[self.target]
        crossing = (a != b) & (a >= 0) & (b >= 0)
        low, high = np.minimum(a, b)[crossing].astype(np.int64), np.maximum(a, b)[crossing]
        keys, position = np.unique(low * num_groups + high, return_inverse=True)
        tps = np.bincount(position, weights=self.tps[crossing], minlength=len(keys)).astype(np.float64)
        heaviest_first = np.argsort(-tps, kind="stable")
        low, high = np.divmod(keys[heaviest_first], max(num_groups, 1))
        return Pairs(low, high, tps[heaviest_first], num_groups)


def _positions(members: IndexArray, executors: IndexArray) -> IndexArray:
    """Where each of `executors` is in `members`, which rise; -1 where it is not among them."""
    position = np.minimum(np.searchsorted(members, executors), len(members) - 1)
    return np.where(members[position] == executors, position, -1).astype(np.int32)
