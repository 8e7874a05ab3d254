"""Simulated annealing on the cost of a placement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, Assignment, CostWeights, Problem, cost_of
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray, IntArray
from stormwright.model.traffic_matrix import pair_traffic
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.templates.search import ExecutorPairs, SearchParams, search
from stormwright.schedulers.toolkit.limits import max_executors_per_worker
from stormwright.schedulers.toolkit.params import param

_WEIGHTS = CostWeights()

#: Gains below this fraction of the cost are rounding errors.
_NOISE = 1e-9


class LiveCost:
    """Incremental cost of the traffic of a group of executors at several places.

    The cost is that of `cost_of`: flows go to the nearest executors of their component, so a move's effect on flows of
    other executors counts, too. It is exact if all executors of a topology are placed and no flow limit is reached:
    `TopologyLoad.flow_limit_tps` is ignored.

    Parameters
    ----------
    placement
        Initial placement; apply later changes to `worker` and `node`.

    Attributes
    ----------
    worker
        Worker of every executor, shape (E,).
    node
        Node of every worker, shape (W,).
    """

    def __init__(self, placement: PartialPlacement, weights: CostWeights) -> None:
        problem = placement.problem
        self._weights = weights
        self.worker, self.node = placement.worker.copy(), np.array(placement.node, dtype=np.int64)
        self._rack, self._num_nodes = problem.node_rack, len(problem.supervisors)
        self._num_racks = int(self._rack.max(initial=-1)) + 1
        self._inside = np.zeros(problem.num_executors, dtype=bool)
        pairs = ExecutorPairs.of(pair_traffic(problem), problem.num_executors)
        self._first, self._neighbour, self._tps = pairs.by_executor(problem.num_executors)
        self._read_flows(placement)

    def costs_at(self, group: IndexArray, workers: IndexArray, nodes: IndexArray) -> FloatArray:
        """Return the cost of all traffic with `group`, and of flows to its components, at each place, shape (K,).

        Parameters
        ----------
        group
            One executor, or all executors of a worker.
        workers, nodes
            The places, each given by worker and node; shape (K,).
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
        """Return the placed executors that `executor` exchanges tuples with, except by flows of others."""
        fixed = self._neighbour[self._first[executor] : self._first[executor + 1]]
        flowing = [self._members[component] for component, _ in self._flows_from.get(executor, ())]
        near: IndexArray = np.concatenate([fixed, *flowing])
        placed: IndexArray = near[self.worker[near] != UNPLACED]
        return placed

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
        """Return the cost of traffic with executors in `worker` at each place.

        Parameters
        ----------
        levels
            Cost with each of these executors from another rack, from the same rack, node and worker.
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

    def _read_flows(self, placement: PartialPlacement) -> None:
        """Read shuffle and local_or_shuffle rates; components are numbered over the problem."""
        problem = placement.problem
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
                    continue  # traffic to its own component stays in the executor
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
        """Count a component's executors inside and outside the group, the latter by worker, node and rack."""
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
        """Sum the weights of executors counted by location."""
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
        """Return the cost of flows from the group to a component."""
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
        """Return the cost of flows from outside the group to a component with executors in the group."""
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


@dataclass(frozen=True, kw_only=True)
class AnnealingParams(SearchParams):
    """Parameters of the scheduler."""

    sweeps: int = param(30, "steps per movable executor", low=0, high=10**6)
    max_steps: int = param(30_000, "maximum number of steps", low=0, high=10**9)
    heat: float = param(
        0.1, "initial temperature, as a fraction of the highest cost of an executor's traffic", low=1e-6, high=100
    )
    cold: float = param(0.001, "final temperature, likewise", low=1e-6, high=100)


class AnnealingScheduler:
    """Improves the placement of `online` by simulated annealing: random steps, ever less often for the worse.

    Own; simulated annealing after S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, "Optimization by Simulated Annealing",
    Science 220, 1983, https://doi.org/10.1126/science.220.4598.671.

    It lowers the cost of a placement (traffic by distance, with flows that follow the placement) and never violates a
    constraint. Each step is one of:

    1. an executor moves to a worker of its topology, selected at random by cost (heat bath);
    2. a worker moves to a node, selected likewise;
    3. two executors of a topology swap workers;
    4. two workers swap nodes; the second is on the node of a worker that the first exchanges tuples with, or anywhere.

    Steps 3 and 4 are accepted with probability exp(-rise / temperature); the temperature falls geometrically. Places
    without enough free resources are excluded. The best placement encountered is returned, so it never costs more than
    that of `online`. The same problem and seed give the same answer; there is no time limit. Running executors stay
    unless `move_running`. Ties go to the placement found first.

    When to use
    -----------
    The placement will be used for long enough that some seconds of computation pay off. With more than a thousand
    executors `max_steps` leaves fewer steps for each.

    Ignores
    -------
    Load balance, as long as no node is overloaded; the speed of links.

    Honours
    -------
    CPU, memory, executors per worker, traffic, racks
    """

    params_type = AnnealingParams
    quick_up_to = 30

    def __init__(self, params: AnnealingParams | None = None) -> None:
        self.params = params or AnnealingParams()
        self.moves_running = self.params.move_running

    def schedule(self, problem: Problem) -> Assignment:
        """Place the executors without a slot, or all executors."""

        def objective(slots: IntArray) -> float:
            return cost_of(problem, slots, _WEIGHTS).total

        return search(problem, "annealing", self.params, objective, self._improve)

    def _improve(self, placement: PartialPlacement) -> None:
        annealer = _Annealer(placement, np.random.default_rng(self.params.seed))
        steps = min(self.params.sweeps * annealer.num_executors, self.params.max_steps)
        mean = annealer.mean_cost()
        if mean <= 0:
            return
        for part in np.linspace(0, 1, steps):
            annealer.step(mean * self.params.heat ** (1 - part) * self.params.cold**part)
        placement.worker, placement.node = annealer.best


class _Annealer:
    """State of the annealing: the current placement, the free resources of its nodes, and the best placement so far."""

    def __init__(self, placement: PartialPlacement, rng: np.random.Generator) -> None:
        problem = placement.problem
        self._rng = rng
        self._live = LiveCost(placement, _WEIGHTS)
        self._demand = problem.executor_demand
        left = placement.capacity - placement.node_use()
        self._left, self._slots = left[:-1], np.where(placement.usable, left[-1].round(), 0)
        self._workers = np.flatnonzero(~np.array(placement.fixed, dtype=bool))
        movable = np.append(~np.array(placement.fixed, dtype=bool), False)
        self._executors = np.flatnonzero(movable[placement.worker])
        self._size = np.bincount(placement.worker[self._executors], minlength=len(placement.node))
        topology = np.array(placement.topology)
        self._siblings = {t: self._workers[topology[self._workers] == t] for t in np.unique(topology[self._workers])}
        self._peers = {t: self._executors[problem.executor_topology[self._executors] == t] for t in self._siblings}
        self._limit = {t: max_executors_per_worker(problem.topologies[t]) for t in self._siblings}
        self._topology = problem.executor_topology
        self._cost = self._lowest = 0.0  # difference from the initial cost
        self.best: tuple[IndexArray, list[int]] = (placement.worker.copy(), list(placement.node))

    @property
    def num_executors(self) -> int:
        """Number of executors that may move."""
        return len(self._executors)

    def mean_cost(self) -> float:
        """Return the mean cost, over a sample, of an executor's traffic in the worst of its topology's workers."""
        costs = []
        for executor in self._executors[:: max(len(self._executors) // 50, 1)]:
            workers = self._siblings[int(self._topology[executor])]
            costs.append(self._live.costs_at(np.array([executor]), workers, self._live.node[workers]).max())
        return float(np.mean(costs))

    def step(self, temperature: float) -> None:
        """Try one random change and accept or reject it."""
        kind = self._rng.random()
        executor = int(self._executors[self._draw(len(self._executors))])
        worker = int(self._workers[self._draw(len(self._workers))])
        if kind < 0.35:
            self._move_executor(executor, temperature)
        elif kind < 0.6:
            self._swap_executors(executor, temperature)
        elif kind < 0.8:
            self._move_worker(worker, temperature)
        else:
            self._swap_workers(worker, self._partner(executor, worker), temperature)
        if self._cost < self._lowest - _NOISE * abs(self._lowest) - 1e-12:
            self._lowest = self._cost
            self.best = (self._live.worker.copy(), self._live.node.tolist())

    def _draw(self, count: int) -> int:
        return int(self._rng.random() * count)

    def _choose(self, costs: FloatArray, temperature: float) -> int:
        """Select a place with probability proportional to exp(-cost / temperature) (heat bath)."""
        chances = np.cumsum(np.exp((costs.min() - costs) / temperature))
        chosen = np.searchsorted(chances, self._rng.random() * chances[-1], side="right")
        return min(int(chosen), len(costs) - 1)  # rounding could yield one past the end

    def _accepts(self, rise: float, temperature: float) -> bool:
        return rise <= 0 or self._rng.random() < np.exp(-rise / temperature)

    def _move_executor(self, executor: int, temperature: float) -> None:  # 1
        live, topology = self._live, int(self._topology[executor])
        workers, own = self._siblings[topology], int(live.worker[executor])
        if len(workers) < 2 or self._size[own] == 1:
            return
        nodes = live.node[workers]
        fits = (self._left[:, nodes] >= self._demand[:, executor, None]).all(axis=0) | (nodes == live.node[own])
        able = workers[(fits & (self._size[workers] < self._limit[topology])) | (workers == own)]
        if len(able) < 2:
            return
        costs = live.costs_at(np.array([executor]), able, live.node[able])
        chosen = self._choose(costs, temperature)
        self._cost += costs[chosen] - costs[np.searchsorted(able, own)]
        self._put_executor(executor, int(able[chosen]))

    def _put_executor(self, executor: int, worker: int) -> None:
        live, own = self._live, self._live.worker[executor]
        self._left[:, live.node[own]] += self._demand[:, executor]
        self._left[:, live.node[worker]] -= self._demand[:, executor]
        self._size[own] -= 1
        self._size[worker] += 1
        live.worker[executor] = worker

    def _swap_executors(self, one: int, temperature: float) -> None:  # 3
        live, peers = self._live, self._peers[int(self._topology[one])]
        other = int(peers[self._draw(len(peers))])
        a, b = int(live.worker[one]), int(live.worker[other])
        if a == b:
            return
        places = np.array([a, b])
        nodes = live.node[places]
        if nodes[0] != nodes[1]:
            more = self._demand[:, other] - self._demand[:, one]
            if (self._left[:, nodes[0]] < more).any() or (self._left[:, nodes[1]] < -more).any():
                return
        first = live.costs_at(np.array([one]), places, nodes)
        self._put_executor(one, b)
        second = live.costs_at(np.array([other]), places, nodes)
        rise = float(first[1] - first[0] + second[0] - second[1])
        if self._accepts(rise, temperature):
            self._put_executor(other, a)
            self._cost += rise
        else:
            self._put_executor(one, a)

    def _members(self, worker: int) -> IndexArray:
        return np.flatnonzero(self._live.worker == worker)

    def _move_worker(self, worker: int, temperature: float) -> None:  # 2
        live, members = self._live, self._members(worker)
        own, demand = int(live.node[worker]), self._demand[:, members].sum(axis=1)
        able = (self._slots >= 1) & (self._left >= demand[:, None]).all(axis=0)
        able[own] = True
        nodes = np.flatnonzero(able)
        if len(nodes) < 2:
            return
        costs = live.costs_at(members, np.full(len(nodes), worker), nodes)
        chosen = self._choose(costs, temperature)
        self._cost += costs[chosen] - costs[np.searchsorted(nodes, own)]
        self._put_worker(worker, demand, int(nodes[chosen]))

    def _put_worker(self, worker: int, demand: FloatArray, node: int) -> None:
        own = self._live.node[worker]
        self._left[:, own] += demand
        self._left[:, node] -= demand
        self._slots[own] += 1
        self._slots[node] -= 1
        self._live.node[worker] = node

    def _partner(self, executor: int, worker: int) -> int:
        """Return a random worker, or one on the node of a worker that `worker` exchanges tuples with."""
        live = self._live
        if self._rng.random() < 0.5:
            return int(live.worker[executor])
        members = self._members(worker)
        near = live.neighbours(int(members[self._draw(len(members))]))
        if not len(near):
            return int(live.worker[executor])
        node = live.node[live.worker[near[self._draw(len(near))]]]
        there = self._workers[live.node[self._workers] == node]
        return int(there[self._draw(len(there))]) if len(there) else worker

    def _swap_workers(self, one: int, other: int, temperature: float) -> None:  # 4
        live = self._live
        nodes = live.node[[one, other]]
        if one == other or nodes[0] == nodes[1]:
            return
        groups = self._members(one), self._members(other)
        demands = [self._demand[:, group].sum(axis=1) for group in groups]
        more = demands[1] - demands[0]
        if (self._left[:, nodes[0]] < more).any() or (self._left[:, nodes[1]] < -more).any():
            return
        first = live.costs_at(groups[0], np.array([one, one]), nodes)
        self._put_worker(one, demands[0], int(nodes[1]))
        second = live.costs_at(groups[1], np.array([other, other]), nodes)
        rise = float(first[1] - first[0] + second[0] - second[1])
        if self._accepts(rise, temperature):
            self._put_worker(other, demands[1], int(nodes[0]))
            self._cost += rise
        else:
            self._put_worker(one, demands[0], int(nodes[0]))
