"""The cost of a placement by differences: what a move changes, without adding up all traffic again."""

from __future__ import annotations

import numpy as np

from stormwright.model import UNPLACED, CostWeights
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.model.traffic_matrix import pair_traffic
from stormwright.schedulers.draft.draft import Draft
from stormwright.schedulers.frame.search import ExecutorPairs


class LiveCost:
    """What the traffic of a group of executors costs in each of several places.

    The cost is that of `cost_of`: flows go to the nearest executors of their component, so it also counts what a move
    does to flows of others. Exact where all executors of a topology are placed and none gets more of flows than it can
    take: `TopologyLoad.flow_limit_tps` is not looked at.

    Parameters
    ----------
    draft
        The placement to start from; later changes are to be made in `worker` and `node`.

    Attributes
    ----------
    worker
        Worker of every executor, shape (E,).
    node
        Node of every worker, shape (W,).
    """

    def __init__(self, draft: Draft, weights: CostWeights) -> None:
        problem = draft.problem
        self._weights = weights
        self.worker, self.node = draft.worker.copy(), np.array(draft.node, dtype=np.int64)
        self._rack, self._num_nodes = problem.node_rack, len(problem.supervisors)
        self._num_racks = int(self._rack.max(initial=-1)) + 1
        self._inside = np.zeros(problem.num_executors, dtype=bool)
        pairs = ExecutorPairs.of(pair_traffic(problem), problem.num_executors)
        self._first, self._neighbour, self._tps = pairs.by_executor(problem.num_executors)
        self._read_flows(draft)

    def costs_at(self, group: IndexArray, workers: IndexArray, nodes: IndexArray) -> FloatArray:
        """Cost of all traffic with `group`, and of flows to its components, at each place, shape (K,).

        Parameters
        ----------
        group
            One executor, or all executors of a worker.
        workers, nodes
            The places: as part of which worker, on which node; shape (K,).
        """
        self._inside[group] = True
        racks = self._rack[nodes]
        costs = self._pairs_at(group, workers, nodes, racks)
        if self._has_flows:
            outgoing: dict[int, FloatArray] = {}
            for executor in group.tolist():
                for component, rates in self._flows_from.get(executor, ()):
                    outgoing[component] = outgoing.get(component, np.zeros(2)) + rates
            for component, rates in outgoing.items():
                costs += self._flow_from_group(component, rates, workers, nodes, racks)
            for component in np.unique(self._component[group]).tolist():
                if component in self._flows_to:
                    costs += self._flows_to_group(component, workers, nodes, racks)
        self._inside[group] = False
        return costs

    def neighbours(self, executor: int) -> IndexArray:
        """The placed executors that `executor` exchanges tuples with, flows of others left out."""
        fixed = self._neighbour[self._first[executor] : self._first[executor + 1]]
        flowing = [self._members[component] for component, _ in self._flows_from.get(executor, ())]
        near: IndexArray = np.concatenate([fixed, *flowing])
        placed: IndexArray = near[self.worker[near] != UNPLACED]
        return placed

    # Pairs ---------------------------------------------------------------------------------------

    def _pairs_at(self, group: IndexArray, workers: IndexArray, nodes: IndexArray, racks: IndexArray) -> FloatArray:
        stretches = [slice(self._first[e], self._first[e + 1]) for e in group.tolist()]
        if len(stretches) == 1:
            others, tps = self._neighbour[stretches[0]], self._tps[stretches[0]]
        else:
            others = np.concatenate([self._neighbour[stretch] for stretch in stretches])
            tps = np.concatenate([self._tps[stretch] for stretch in stretches])
        worker = self.worker[others]
        outside = (worker != UNPLACED) & ~self._inside[others]
        worker, tps = worker[outside], tps[outside]
        w = self._weights
        levels = [w.inter_rack * tps, w.inter_node * tps, w.inter_worker * tps, w.same_worker * tps]
        return self._at_places(levels, worker, workers, nodes, racks)

    def _at_places(
        self, levels: list[FloatArray], worker: IndexArray, workers: IndexArray, nodes: IndexArray, racks: IndexArray
    ) -> FloatArray:
        """Cost at each place of traffic with executors in `worker`.

        Parameters
        ----------
        levels
            Cost with each of these executors from another rack, from its rack, its node and its worker.
        """
        far, in_rack, on_node, in_worker = levels
        node = self.node[worker]
        costs: FloatArray = (
            far.sum()
            - np.bincount(self._rack[node], far - in_rack, self._num_racks)[racks]
            - np.bincount(node, in_rack - on_node, self._num_nodes)[nodes]
            - np.bincount(worker, on_node - in_worker, len(self.node))[workers]
        )
        return costs

    # Flows ---------------------------------------------------------------------------------------

    def _read_flows(self, draft: Draft) -> None:
        """Components are numbered over the problem; rates are those of shuffle and of local_or_shuffle."""
        problem = draft.problem
        first = np.cumsum([0, *(len(topology.components) for topology in problem.topologies)])
        parts = [t.executor_component + first[i] for i, t in enumerate(problem.topologies)]
        self._component: IndexArray = np.concatenate([np.empty(0, np.int64), *parts])
        self._flows_from: dict[int, list[tuple[int, FloatArray]]] = {}
        to: dict[int, list[tuple[int, FloatArray]]] = {}
        for index, load in enumerate(problem.loads):
            flows = zip(load.flow_source, load.flow_component, load.flow_grouping, load.flow_tps, strict=True)
            for source, target, grouping, tps in flows:
                executor, component = int(source + problem.executor_offset[index]), int(target + first[index])
                if component == self._component[executor] or self.worker[executor] == UNPLACED:
                    continue  # what goes to its own component stays in the executor
                local = grouping == "local_or_shuffle"
                rates = np.array([0.0, tps] if local else [tps, 0.0])
                self._flows_from.setdefault(executor, []).append((component, rates))
                to.setdefault(component, []).append((executor, rates))
        self._flows_to = {
            c: (np.array([executor for executor, _ in flows]), np.array([rates for _, rates in flows]).T)
            for c, flows in to.items()
        }
        self._members = {c: np.flatnonzero(self._component == c) for c in to}
        self._has_flows = bool(to)

    def _counts(self, component: int) -> tuple[int, int, IndexArray, IndexArray, IndexArray]:
        """Executors of a component in and outside the group, and those outside by worker, node and rack."""
        members = self._members[component]
        inside = self._inside[members]
        worker = self.worker[members[~inside]]
        worker = worker[worker != UNPLACED]
        node = self.node[worker]
        by_worker = np.bincount(worker, minlength=len(self.node))
        by_node = np.bincount(node, minlength=self._num_nodes)
        by_rack = np.bincount(self._rack[node], minlength=self._num_racks)
        return int(np.count_nonzero(inside)), len(worker), by_worker, by_node, by_rack

    def _nearest(self, in_worker: BoolArray, on_node: BoolArray, in_rack: BoolArray, far: float) -> FloatArray:
        w = self._weights
        return np.where(
            in_worker, w.same_worker, np.where(on_node, w.inter_worker, np.where(in_rack, w.inter_node, far))
        )

    def _sum(self, total: int, in_worker: IndexArray, on_node: IndexArray, in_rack: IndexArray) -> FloatArray:
        """Weights of executors, counted by where they are, added up."""
        w = self._weights
        sums: FloatArray = (
            w.inter_rack * (total - in_rack)
            + w.inter_node * (in_rack - on_node)
            + w.inter_worker * (on_node - in_worker)
            + w.same_worker * in_worker
        )
        return sums

    def _flow_from_group(
        self, component: int, rates: FloatArray, workers: IndexArray, nodes: IndexArray, racks: IndexArray
    ) -> FloatArray:
        """Cost of what the group sends to a component."""
        inside, outside, by_worker, by_node, by_rack = self._counts(component)
        if inside or not outside:
            return np.full(len(nodes), self._weights.same_worker * rates.sum() if inside else 0.0)
        in_worker, on_node, in_rack = by_worker[workers], by_node[nodes], by_rack[racks]
        nearest = self._nearest(in_worker > 0, on_node > 0, in_rack > 0, self._weights.inter_rack)
        evenly = self._sum(outside, in_worker, on_node, in_rack) / outside
        costs: FloatArray = rates[0] * nearest
        costs += rates[1] * np.where(in_worker > 0, self._weights.same_worker, evenly)
        return costs

    def _flows_to_group(self, component: int, workers: IndexArray, nodes: IndexArray, racks: IndexArray) -> FloatArray:
        """Cost of what executors outside the group send to a component that has executors in it."""
        w = self._weights
        inside, outside, by_worker, by_node, by_rack = self._counts(component)
        sources, rates = self._flows_to[component]
        elsewhere = ~self._inside[sources]
        worker, rates = self.worker[sources[elsewhere]], rates[:, elsewhere]
        node = self.node[worker]
        rack = self._rack[node]
        in_worker, on_node, in_rack = by_worker[worker], by_node[node], by_rack[rack]
        distances = (w.inter_rack, w.inter_node, w.inter_worker, w.same_worker)
        far = w.inter_rack if outside else np.inf
        without = self._nearest(in_worker > 0, on_node > 0, in_rack > 0, far)
        levels = [rates[0] * np.minimum(without, distance) for distance in distances]
        if rates[1].any():
            others = self._sum(outside, in_worker, on_node, in_rack)
            for level, distance in zip(levels[:3], distances, strict=False):
                evenly = (others + inside * distance) / (inside + outside)
                level += rates[1] * np.where(in_worker > 0, w.same_worker, evenly)
            levels[3] += rates[1] * w.same_worker
        return self._at_places(levels, worker, workers, nodes, racks)
