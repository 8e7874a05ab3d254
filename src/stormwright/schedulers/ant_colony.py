"""Ant colony optimisation of nodes for executors, after the improved ant colony of Wang and Wang."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray, IntArray
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.templates.search import SearchParams, search
from stormwright.schedulers.templates.utilisation import Utilisation
from stormwright.schedulers.toolkit.limits import max_executors_per_worker
from stormwright.schedulers.toolkit.params import param

#: Maximum number of pairs of executor and node.
_MAX_TRAILS = 2_000_000

#: Topology → number of its workers per ant and node, shape (A, N).
Opened = dict[int, IndexArray]

#: Lower bound of eta: a node without free CPU stays possible, as an executor may need none.
_MIN_ETA = 1e-3

#: Lower bound of the pheromone, so that every node stays possible.
_MIN_PHEROMONE = 1e-3


@dataclass(frozen=True, kw_only=True)
class AntColonyParams(SearchParams):
    """Parameters of the scheduler."""

    alpha: float = param(1.0, "weight of the pheromone", low=0, high=10)
    beta: float = param(2.0, "weight of a node's free CPU and of the traffic with it", low=0, high=10)
    rho_start: float = param(0.7, "fraction of the pheromone that evaporates in the first iteration", low=0, high=1)
    rho_end: float = param(0.1, "fraction that evaporates in the last iteration", low=0, high=1)
    ants: int = param(10, "placements per iteration", low=1, high=1000)
    iterations: int = param(10, "iterations", low=0, high=10**6)
    hop_cycles: float = param(10_000.0, "CPU cycles for a tuple to leave or enter a node", low=0, high=1e9)


class AntColonyScheduler:
    """Chooses nodes by ant colony optimisation, for low and even CPU load.

    After L. Wang, J. Wang, "Improved ant colony algorithm for Storm task scheduling"
    (改进蚁群算法的Storm任务调度优化), Computer Measurement & Control 27 (8), 2019, 236–240; only its abstract and
    the start of its introduction were available: an ant colony with the factors alpha and beta,
    evaporation rho adapted by a sigmoid while it runs, to lower the nodes' CPU load and even it out.

    Assumptions:

    1. An ant puts the executors one by one on a node with enough free resources, with probability proportional to
       pheromone^alpha · eta^beta. The pheromone is that of executor and node.
    2. eta = (free CPU fraction of the node including the executor) · (1 + fraction of the executor's traffic with
       executors on the node).
    3. The objective is the mean plus the standard deviation of the CPU utilisation of the nodes, by executors and by
       tuples between nodes (`hop_cycles` at either end): lower is better.
    4. After each iteration rho of the pheromone evaporates, and every placement adds (lowest objective so far) / (its
       own) to its pairs of executor and node; so does the best so far, initially that of `online`, or with `start`
       ``random`` that of `random`.
    5. rho falls from `rho_start` to `rho_end` along a sigmoid of the iterations done: the colony forgets quickly at the
       beginning.
    6. The paper's best alpha, beta and number of iterations are not known; the defaults are common ones.

    Executors on a node are distributed equally over the topology's workers there; an ant that finds no node for an
    executor, or leaves fewer slots than workers, adds no pheromone. With more than 2 million pairs of executor and node
    the placement of `online` is returned.

    The placement violates no constraint and is never worse than its start by this objective. The same problem and seed
    give the same answer; there is no time limit. Running executors stay unless `move_running`. Ties go to the
    older placement.

    When to use
    -----------
    Nodes should be evenly loaded and traffic between them low, loads were measured, and there is time to try about a
    hundred placements.

    Ignores
    -------
    Racks and traffic between workers of one node, except in the initial placement of `online`. The speed of links, and
    that shuffled traffic follows the placement.

    Honours
    -------
    CPU, memory, executors per worker, traffic
    """

    params_type = AntColonyParams
    quick_up_to = 500

    def __init__(self, params: AntColonyParams | None = None) -> None:
        self.params = params or AntColonyParams()
        self.moves_running = self.params.move_running

    def schedule(self, problem: Problem) -> Assignment:
        """Place the executors without a slot, or all executors."""
        utilisation = Utilisation(problem, self.params.hop_cycles)
        node_of_slot = np.append(problem.slot_node, UNPLACED)

        def objective(slots: IntArray) -> float:
            return float(_objective(utilisation, node_of_slot[slots][None])[0])

        def improve(placement: PartialPlacement) -> None:
            colony = _Colony(placement, utilisation, self.params)
            if colony.num_trails <= _MAX_TRAILS:
                colony.run()

        return search(problem, "ant_colony", self.params, objective, improve)


def _objective(utilisation: Utilisation, node: IndexArray) -> FloatArray:
    """Return mean plus standard deviation of the CPU utilisation of the nodes, shape (P,); assumption 3."""
    busy, _ = utilisation.of(node, node)
    worth: FloatArray = busy.mean(axis=1) + busy.std(axis=1)
    return worth


def evaporation(done: float, start: float, end: float) -> float:
    """Return rho after a fraction of all iterations (0 to 1), along a sigmoid; assumption 5."""
    return end + (start - end) / (1 + math.exp(10 * (done - 0.5)))


class _Colony:
    """Pheromone and the best placement so far; movable executors are numbered consecutively."""

    def __init__(self, placement: PartialPlacement, utilisation: Utilisation, params: AntColonyParams) -> None:
        self._placement, self._utilisation, self._params = placement, utilisation, params
        movable = np.append(~np.array(placement.fixed, dtype=bool), False)
        self._executors = np.flatnonzero(movable[placement.worker])
        self._best = placement.node_of_executor().astype(np.int64)
        self._lowest = float(_objective(utilisation, self._best[None])[0])
        self._opened: dict[int, IndexArray] = {}

    @property
    def num_trails(self) -> int:
        """Number of pairs of executor and node."""
        return len(self._executors) * len(self._placement.usable)

    def run(self) -> None:
        """Run all iterations and store the best placement in the partial placement."""
        params, rng = self._params, np.random.default_rng(self._params.seed)
        ants = _Ants(self._placement, self._utilisation, self._executors, params)
        trails = np.arange(len(self._executors))
        pheromone = np.ones((len(trails), len(self._placement.usable)))
        for iteration in range(params.iterations):
            nodes, opened, alive = ants.walk(pheromone, rng)
            worth = np.where(alive, _objective(self._utilisation, nodes), np.inf)
            best = int(np.argmin(worth))
            if worth[best] < self._lowest:
                self._lowest, self._best = float(worth[best]), nodes[best]
                self._opened = {topology: of_ant[best] for topology, of_ant in opened.items()}
            rho = evaporation(iteration / params.iterations, params.rho_start, params.rho_end)
            pheromone *= 1 - rho
            for placement, value in ((self._best, self._lowest), *zip(nodes[alive], worth[alive], strict=True)):
                pheromone[trails, placement[self._executors]] += self._lowest / value if value > 0 else 1.0
            np.maximum(pheromone, _MIN_PHEROMONE, out=pheromone)
        self._fill_workers()

    def _fill_workers(self) -> None:
        """Distribute the executors of every topology on every node equally over its workers there."""
        placement = self._placement
        for topology, opened in self._opened.items():
            free = iter(_movable_workers(placement)[topology])
            own = self._executors[placement.problem.executor_topology[self._executors] == topology]
            for node in np.flatnonzero(opened).tolist():
                for part in np.array_split(own[self._best[own] == node], opened[node]):
                    worker = next(free)
                    placement.worker[part], placement.node[worker] = worker, node


class _Ants:
    """Placements under construction, executor by executor, for all ants at once."""

    def __init__(
        self, placement: PartialPlacement, utilisation: Utilisation, executors: IndexArray, params: AntColonyParams
    ) -> None:
        self._placement, self._executors, self._params = placement, executors, params
        self._neighbours = utilisation.pairs.by_executor(placement.problem.num_executors)
        # Usage without the movable executors.
        bare = replace(placement, worker=placement.worker.copy(), node=list(placement.node))
        for topology in _movable_workers(placement):
            bare.take_out(topology)
        self._left = bare.capacity - bare.node_use()
        self._left[-1] = np.where(placement.usable, self._left[-1].round(), 0)
        self._node = bare.node_of_executor().astype(np.int64)

    def walk(self, pheromone: FloatArray, rng: np.random.Generator) -> tuple[IndexArray, Opened, BoolArray]:
        """Return, for every ant, nodes of executors, workers by topology and node, and whether all were placed."""
        ants, problem = np.arange(self._params.ants), self._placement.problem
        node = np.repeat(self._node[None], len(ants), axis=0)
        left = np.repeat(self._left[None], len(ants), axis=0)
        alive = np.ones(len(ants), dtype=bool)
        opened_of: Opened = {}
        for topology, workers in _movable_workers(self._placement).items():
            limit = max_executors_per_worker(problem.topologies[topology])
            opened = opened_of[topology] = np.zeros((len(ants), left.shape[2]), dtype=np.int64)
            count = np.zeros_like(opened)
            for position in np.flatnonzero(problem.executor_topology[self._executors] == topology).tolist():
                executor = int(self._executors[position])
                may_open = (opened.sum(axis=1) < len(workers))[:, None] & (left[:, -1] >= 1)
                can = (count < limit * opened) | may_open
                chances = np.cumsum(
                    np.where(can, self._chances(executor, pheromone[position], node, left), 0.0), axis=1
                )
                alive &= chances[:, -1] > 0
                # Below the sum of all chances, whatever the rounding.
                threshold = np.minimum(rng.random(len(ants)), 1 - 1e-9) * chances[:, -1]
                chosen = (chances <= threshold[:, None]).sum(axis=1)
                ant, to = ants[alive], chosen[alive]
                opens = count[ant, to] >= limit * opened[ant, to]
                opened[ant, to] += opens
                count[ant, to] += 1
                left[ant, :-1, to] -= problem.executor_demand[:, executor]
                left[ant, -1, to] -= opens
                node[ant, executor] = to
            _open_rest(len(workers), count, opened, left, alive)
        return node, opened_of, alive

    def _chances(self, executor: int, pheromone: FloatArray, node: IndexArray, left: FloatArray) -> FloatArray:
        """Return pheromone^alpha · eta^beta where resources suffice, else 0, shape (A, N); assumptions 1 and 2."""
        problem = self._placement.problem
        demand = problem.executor_demand[:, executor]
        capacity_hz = self._placement.capacity[0]
        idle = np.ones(left[:, 0].shape)
        np.divide(left[:, 0] - demand[0], capacity_hz, out=idle, where=np.isfinite(capacity_hz) & (capacity_hz > 0))
        first, neighbour, tps = self._neighbours
        stretch = slice(first[executor], first[executor + 1])
        at, rate = node[:, neighbour[stretch]], tps[stretch]
        near = np.zeros(idle.shape)
        ant, which = np.nonzero(at != UNPLACED)
        np.add.at(near, (ant, at[ant, which]), rate[which])
        eta = np.maximum(idle, _MIN_ETA) * (1 + near / max(float(rate.sum()), 1e-300))
        fits = (left[:, :-1] >= demand[:, None]).all(axis=1)
        chances: FloatArray = np.where(fits, pheromone**self._params.alpha * eta**self._params.beta, 0.0)
        return chances


def _movable_workers(placement: PartialPlacement) -> dict[int, list[int]]:
    """Return the workers that are not fixed, by topology."""
    workers: dict[int, list[int]] = {}
    for worker, (topology, fixed) in enumerate(zip(placement.topology, placement.fixed, strict=True)):
        if not fixed:
            workers.setdefault(topology, []).append(worker)
    return dict(sorted(workers.items()))


def _open_rest(wanted: int, count: IndexArray, opened: IndexArray, left: FloatArray, alive: BoolArray) -> None:
    """Open the remaining workers where most executors share one; an ant without such a node is discarded."""
    while True:
        ant = np.flatnonzero(alive & (opened.sum(axis=1) < wanted))
        if not len(ant):
            return
        can = (count[ant] > opened[ant]) & (left[ant, -1] >= 1)
        crowd = np.where(can, count[ant] / np.maximum(opened[ant], 1), 0.0)
        to = crowd.argmax(axis=1)
        found = crowd[np.arange(len(ant)), to] > 0
        alive[ant[~found]] = False
        opened[ant[found], to[found]] += 1
        left[ant[found], -1, to[found]] -= 1
