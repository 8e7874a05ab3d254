"""Simulated annealing on the cost of a placement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model import Assignment, CostWeights, Problem, cost_of
from stormwright.model.arrays import FloatArray, IndexArray, IntArray
from stormwright.schedulers.draft.draft import Draft
from stormwright.schedulers.frame.live_cost import LiveCost
from stormwright.schedulers.frame.search import SearchParams, search
from stormwright.schedulers.kit.limits import max_executors_per_worker
from stormwright.schedulers.kit.params import param

_WEIGHTS = CostWeights()

#: A gain below this part of the cost is rounding.
_NOISE = 1e-9


@dataclass(frozen=True, kw_only=True)
class AnnealingParams(SearchParams):
    """Parameters of the scheduler."""

    sweeps: int = param(30, "steps for each executor that may move", low=0, high=10**6)
    max_steps: int = param(30_000, "steps in all, at most", low=0, high=10**9)
    heat: float = param(0.1, "first temperature, in parts of what an executor's traffic may cost", low=1e-6, high=100)
    cold: float = param(0.001, "last temperature, likewise", low=1e-6, high=100)


class AnnealingScheduler:
    """Improves the placement of `online` by random steps that seldom, and ever more seldom, make it worse.

    Own; simulated annealing after S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, "Optimization by Simulated Annealing",
    Science 220, 1983, https://doi.org/10.1126/science.220.4598.671.

    It lowers the cost of a placement (traffic by distance, with flows that follow the placement) and never breaks a
    limit. Each step is one of:

    1. an executor goes to a worker of its topology, drawn by how little each costs (heat bath);
    2. a worker goes to a node, drawn likewise;
    3. two executors of a topology change workers;
    4. two workers change nodes; the second is on the node of one that the first exchanges tuples with, or anywhere.

    3 and 4 are taken with probability exp(-rise / temperature); the temperature falls geometrically. A place without
    room is no choice. The best placement seen is the answer, so it never costs more than that of `online`. The same
    problem and seed give the same answer; there is no clock. What runs stays unless `move_running`. Ties go to the
    placement seen first.

    When to use
    -----------
    The placement stays for long, so that some seconds of computing pay. With more than a thousand executors `max_steps`
    leaves fewer steps for each.

    Ignores
    -------
    How evenly nodes are loaded, as long as none is overloaded; the speed of links.

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
        """Place what has no slot, or everything."""

        def objective(slots: IntArray) -> float:
            return cost_of(problem, slots, _WEIGHTS).total

        return search(problem, "annealing", self.params, objective, self._improve)

    def _improve(self, draft: Draft) -> None:
        annealer = _Annealer(draft, np.random.default_rng(self.params.seed))
        steps = min(self.params.sweeps * annealer.num_executors, self.params.max_steps)
        mean = annealer.mean_cost()
        if mean <= 0:
            return
        for part in np.linspace(0, 1, steps):
            annealer.step(mean * self.params.heat ** (1 - part) * self.params.cold**part)
        draft.worker, draft.node = annealer.best


class _Annealer:
    """A placement under way: what its nodes have left, and the best seen so far."""

    def __init__(self, draft: Draft, rng: np.random.Generator) -> None:
        problem = draft.problem
        self._rng = rng
        self._live = LiveCost(draft, _WEIGHTS)
        self._demand = problem.executor_demand
        left = draft.capacity - draft.node_use()
        self._left, self._slots = left[:-1], np.where(draft.usable, left[-1].round(), 0)
        self._workers = np.flatnonzero(~np.array(draft.fixed, dtype=bool))
        movable = np.append(~np.array(draft.fixed, dtype=bool), False)
        self._executors = np.flatnonzero(movable[draft.worker])
        self._size = np.bincount(draft.worker[self._executors], minlength=len(draft.node))
        topology = np.array(draft.topology)
        self._siblings = {t: self._workers[topology[self._workers] == t] for t in np.unique(topology[self._workers])}
        self._peers = {t: self._executors[problem.executor_topology[self._executors] == t] for t in self._siblings}
        self._limit = {t: max_executors_per_worker(problem.topologies[t]) for t in self._siblings}
        self._topology = problem.executor_topology
        self._cost = self._lowest = 0.0  # above that of the start
        self.best: tuple[IndexArray, list[int]] = (draft.worker.copy(), list(draft.node))

    @property
    def num_executors(self) -> int:
        """Executors that may move."""
        return len(self._executors)

    def mean_cost(self) -> float:
        """Cost of an executor's traffic in the worst of its topology's workers, on average over a few."""
        costs = []
        for executor in self._executors[:: max(len(self._executors) // 50, 1)]:
            workers = self._siblings[int(self._topology[executor])]
            costs.append(self._live.costs_at(np.array([executor]), workers, self._live.node[workers]).max())
        return float(np.mean(costs))

    def step(self, temperature: float) -> None:
        """One random change, taken or not."""
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
        """Heat bath: a place with probability in proportion to exp(-cost / temperature)."""
        chances = np.cumsum(np.exp((costs.min() - costs) / temperature))
        chosen = np.searchsorted(chances, self._rng.random() * chances[-1], side="right")
        return min(int(chosen), len(costs) - 1)  # rounding could draw one more

    def _accepts(self, rise: float, temperature: float) -> bool:
        return rise <= 0 or self._rng.random() < np.exp(-rise / temperature)

    # Executors -----------------------------------------------------------------------------------

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

    # Workers -------------------------------------------------------------------------------------

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
        """Any worker, or one on the node of a worker that the first executor of `worker` exchanges tuples with."""
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
