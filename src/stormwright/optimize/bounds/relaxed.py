"""Relaxation of a problem for bounds: with fewer limits, so that a bound of its cost is one of any placement.

Left out are limits on components, isolation, and which nodes are usable; all racks are one; flows cost nothing, as a
target in the same worker would make it so.

The remaining cost is linear in two numbers, the tuples/s that stay on nodes and those that stay in workers::

    cost ≥ base - near · (on nodes) - inner · (in workers)
    base = inter_node · all,   near = inter_node - inter_worker,   inner = inter_worker - same_worker

so that a bound on each of the two, or on both together, is one on the cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model import CostWeights, Problem, cost_under
from stormwright.model.arrays import FloatArray, IndexArray, IntArray
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER
from stormwright.model.traffic_matrix import pair_traffic
from stormwright.optimize.layout.links import Links

#: Rounding tolerance: nodes are slightly larger than the limits of a valid placement.
_LARGER = 1 + 2 * RELATIVE_TOLERANCE


@dataclass(frozen=True)
class Relaxation:
    """The relaxation of a problem.

    Parameters
    ----------
    first
        First executor of each topology, shape (T + 1,).
    links
        Traffic between executors, by executor.
    demand, capacity
        Demand of executors and capacity of nodes, by resource, shape (K, E) and (K, N).
    ports
        Number of ports of every node, shape (N,).
    workers, most
        Workers of each topology, and executors that one of them may have, shape (T,).
    total_tps
        All traffic between different executors.
    near, inner
        Saving of a tuple within a node over one between nodes, and additional saving within a worker.
    base
        Cost of all traffic before any saving.
    """

    first: IndexArray
    links: Links
    demand: FloatArray
    capacity: FloatArray
    ports: IndexArray
    workers: IndexArray
    most: IndexArray
    total_tps: float
    near: float
    inner: float
    base: float

    @classmethod
    def of(cls, problem: Problem, weights: CostWeights) -> Relaxation:
        """Return the relaxed `problem`. No topology has more workers than executors."""
        links = Links.fixed(problem, pair_traffic(problem))
        total_tps = float(links.tps.sum()) / 2
        sizes = np.diff(problem.executor_offset)
        workers = np.minimum([topology.num_workers for topology in problem.topologies], sizes)
        requested = [
            topology.conf.get(MAX_EXECUTORS_PER_WORKER) or topology.num_executors for topology in problem.topologies
        ]
        return cls(
            first=problem.executor_offset,
            links=links,
            demand=np.array(problem.executor_demand),
            capacity=problem.node_capacity * _LARGER,
            ports=np.array([len(node.ports) for node in problem.supervisors], int),
            workers=workers,
            # Every other worker has at least one.
            most=np.maximum(np.minimum(requested, sizes - workers + 1), 1).astype(np.int64),
            total_tps=total_tps,
            near=weights.inter_node - weights.inter_worker,
            inner=weights.inter_worker - weights.same_worker,
            base=weights.inter_node * total_tps,
        )

    def tps_between(self, first: int, last: int) -> FloatArray:
        """Return the traffic between executors `first` to before `last`, in tuples/s: symmetric, its diagonal 0."""
        matrix = np.zeros((last - first, last - first))
        counts = np.diff(self.links.first[first : last + 1])
        part = slice(self.links.first[first], self.links.first[last])
        inside = (self.links.executor[part] >= first) & (self.links.executor[part] < last)
        rows = np.repeat(np.arange(last - first), counts)[inside]
        matrix[rows, self.links.executor[part][inside] - first] = self.links.tps[part][inside]
        return matrix


def cost_of_pairs(problem: Problem, slots: IntArray, weights: CostWeights) -> float:
    """Return the cost of a placement as counted by `Relaxation`."""
    one_rack = CostWeights(
        same_executor=0.0,
        same_worker=weights.same_worker,
        inter_worker=weights.inter_worker,
        inter_node=weights.inter_node,
        inter_rack=weights.inter_node,
    )
    return cost_under(problem, slots, pair_traffic(problem), one_rack).total
