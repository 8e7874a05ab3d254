"""Genetic algorithm for high throughput."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray, IntArray
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.templates.search import RANDOM, SearchParams, search
from stormwright.schedulers.templates.utilisation import Utilisation
from stormwright.schedulers.toolkit.limits import max_executors_per_worker
from stormwright.schedulers.toolkit.params import param


@dataclass(frozen=True, kw_only=True)
class GeneticParams(SearchParams):
    """Parameters of the scheduler."""

    population: int = param(24, "placements per generation", low=4, high=10_000)
    generations: int = param(40, "generations after the first", low=0, high=10**6)
    mutations: int = param(2, "random changes of each child", low=0, high=10**6)
    hop_cycles: float = param(10_000.0, "CPU cycles for a tuple to leave or enter a worker", low=0, high=1e9)


class GeneticScheduler:
    """Evolves placements by a genetic algorithm so that topologies process more tuples.

    After P. Smirnov, M. Melnik, D. Nasonov, "Performance-aware scheduling of streaming applications using genetic
    algorithm", Procedia Computer Science 108, 2017, https://doi.org/10.1016/j.procs.2017.05.249, of which only the
    abstract was available: a genetic algorithm in Storm whose criterion is the topology's throughput.

    Assumptions:

    1. A topology can process more until a node with one of its workers is saturated, so its throughput is its present
       load divided by the utilisation of the busiest such node. A node is busy with its executors and with tuples
       between workers (`hop_cycles` at either end). The objective is the sum over topologies of that utilisation: lower
       is better. At equal sums less traffic between nodes is better.
    2. The genes of a placement are the worker of every executor and the node of every worker.
    3. The first generation is the placement of `online` and mutations of it; with `start` ``random``, that of `random`
       and others in which each executor has a random worker of its topology, and each worker a random node. Parents are
       selected by tournaments of two. A child has one parent's genes up to a random cut and the other's behind it, for
       executors and for workers. How the paper's first generation is made, and the numbers of placements and
       generations, are not known.
    4. A mutation moves an executor to another worker, swaps two executors of a topology, moves a worker to another
       node, or swaps the nodes of two workers.
    5. A child that violates constraints ranks behind all that do not, by the amount of violation; the two best survive.

    The placement violates no constraint and is never worse than its start by this objective. The same problem and seed
    give the same answer; there is no time limit. Running executors stay unless `move_running`. Ties go to the
    older placement.

    When to use
    -----------
    Throughput matters, the busiest node limits it, and there is time to try about a thousand placements.

    Ignores
    -------
    Racks, except in the initial placement of `online`. The speed of links, latency, and that shuffled traffic follows
    the placement.

    Honours
    -------
    CPU, memory, executors per worker, traffic
    """

    params_type = GeneticParams
    quick_up_to = 1000

    def __init__(self, params: GeneticParams | None = None) -> None:
        self.params = params or GeneticParams()
        self.moves_running = self.params.move_running

    def schedule(self, problem: Problem) -> Assignment:
        """Place the executors without a slot, or all executors."""
        utilisation = Utilisation(problem, self.params.hop_cycles)

        def objective(slots: IntArray) -> float:
            topology = _topology_of_slot(problem, slots)
            return float(_objective(topology, utilisation, slots[None], problem.slot_node[None])[0])

        def improve(placement: PartialPlacement) -> None:
            _Evolution(placement, utilisation, self.params).run()

        return search(problem, "genetic", self.params, objective, improve)


def _topology_of_slot(problem: Problem, slots: IntArray) -> IndexArray:
    """Return the topology whose worker a slot has, -1 for none."""
    topology = np.full(len(problem.slots) + 1, UNPLACED)
    topology[slots] = problem.executor_topology
    return topology[:-1]


def _objective(topology: IndexArray, utilisation: Utilisation, worker: IndexArray, node: IndexArray) -> FloatArray:
    """Return the summed utilisation of topologies' busiest nodes, plus a little for traffic, shape (P,); assumption 1.

    Parameters
    ----------
    topology
        Topology of every worker, shape (W,).
    worker
        Worker of every executor in each of P placements, shape (P, E).
    node
        Node of every worker, shape (P, W).
    """
    node_of_executor = np.where(worker == UNPLACED, UNPLACED, np.take_along_axis(node, worker, axis=1))
    busy, between_tps = utilisation.of(worker, node_of_executor)
    by_topology = np.argsort(topology, kind="stable")
    by_topology = by_topology[topology[by_topology] != UNPLACED]
    share = 1e-6 * between_tps / max(utilisation.total_tps, 1e-300)
    if not len(by_topology):
        return share
    starts = np.flatnonzero(np.diff(topology[by_topology], prepend=UNPLACED))
    of_worker = np.take_along_axis(busy, node[:, by_topology], axis=1)
    # Sorted, so that rounding does not depend on the order of topologies.
    bottleneck: FloatArray = np.sort(np.maximum.reduceat(of_worker, starts, axis=1), axis=1).sum(axis=1)
    return bottleneck + share


class _Evolution:
    """Generations of placements; genes are those of movable executors and workers."""

    def __init__(self, placement: PartialPlacement, utilisation: Utilisation, params: GeneticParams) -> None:
        self._placement, self._utilisation, self._params = placement, utilisation, params
        self._rng = np.random.default_rng(params.seed)
        problem = placement.problem
        topology = self._topology = np.array(placement.topology)
        movable = ~np.array(placement.fixed, dtype=bool)
        # In order of topologies, so that those of one are contiguous.
        workers = np.flatnonzero(movable)
        self._workers = workers[np.argsort(topology[workers], kind="stable")]
        self._executors = np.flatnonzero(np.append(movable, False)[placement.worker])
        self._first_worker, self._num_workers = _stretch(topology[self._workers], problem.executor_topology)
        self._first_peer, self._num_peers = _stretch(
            problem.executor_topology[self._executors], problem.executor_topology
        )
        self._limit = np.array([max_executors_per_worker(problem.topologies[t]) for t in placement.topology])
        self._nodes = np.flatnonzero(placement.usable & (placement.capacity[-1] >= 1))

    def run(self) -> None:
        """Run all generations and store the best placement in the partial placement."""
        size = self._params.population
        worker: IndexArray = np.repeat(self._placement.worker[None].astype(np.int64), size, axis=0)
        node: IndexArray = np.repeat(np.array(self._placement.node, dtype=np.int64)[None], size, axis=0)
        if self._params.start == RANDOM:
            self._scatter(worker, node, np.arange(1, size))
        else:
            for rows in (np.arange(1, size), np.arange(size // 2, size)):
                self._mutate(worker, node, rows)
        worker, node = self._ranked(worker, node)
        for _ in range(self._params.generations):
            children = self._children(worker, node, size - 2)
            worker = np.concatenate([worker[:2], children[0]])
            node = np.concatenate([node[:2], children[1]])
            for _ in range(self._params.mutations):
                self._mutate(worker, node, np.arange(2, size))
            worker, node = self._ranked(worker, node)
        self._placement.worker, self._placement.node = worker[0], node[0].tolist()

    def _ranked(self, worker: IndexArray, node: IndexArray) -> tuple[IndexArray, IndexArray]:
        """Return the placements, best first; assumption 5."""
        excess = self._excess(worker, node)
        order = np.lexsort((_objective(self._topology, self._utilisation, worker, node), excess))
        return worker[order], node[order]

    def _excess(self, worker: IndexArray, node: IndexArray) -> FloatArray:
        """Return the amount of violation; 0 for a valid placement."""
        capacity = self._placement.capacity
        rows = np.arange(len(worker))[:, None]
        num_nodes, num_workers = capacity.shape[1], node.shape[1]
        node_bins = np.where(worker == UNPLACED, UNPLACED, np.take_along_axis(node, worker, axis=1))
        placed = worker != UNPLACED
        flat_nodes = (node_bins + num_nodes * rows)[placed]
        excess = np.zeros(len(worker))
        for demand, most in zip(self._placement.demand, capacity[:-1], strict=True):
            of_placed = np.broadcast_to(demand, worker.shape)[placed]
            used = np.bincount(flat_nodes, of_placed, len(worker) * num_nodes).reshape(-1, num_nodes)
            unit = max(float(demand.sum()), 1e-300)
            excess += np.maximum(used - most, 0).sum(axis=1) / unit
        slots = np.bincount((node + num_nodes * rows).ravel(), minlength=len(worker) * num_nodes)
        excess += np.maximum(slots.reshape(-1, num_nodes) - capacity[-1], 0).sum(axis=1)
        sizes = np.bincount((worker + num_workers * rows)[placed], minlength=len(worker) * num_workers)
        sizes = sizes.reshape(-1, num_workers)
        excess += np.maximum(sizes - self._limit, 0).sum(axis=1) + (sizes == 0).sum(axis=1)
        return excess

    def _children(self, worker: IndexArray, node: IndexArray, count: int) -> tuple[IndexArray, IndexArray]:
        """Return children of tournament winners; rows are ranked, so the lower index wins; assumption 3."""
        mothers, fathers = self._rng.integers(len(worker), size=(2, count, 2)).min(axis=2)
        children = []
        for genes, mixed in ((worker, self._executors), (node, self._workers)):
            cut = self._rng.integers(len(mixed) + 1, size=(count, 1))
            behind: BoolArray = np.zeros((count, genes.shape[1]), dtype=bool)
            behind[:, mixed] = np.arange(len(mixed)) >= cut
            children.append(np.where(behind, genes[fathers], genes[mothers]))
        return children[0], children[1]

    def _scatter(self, worker: IndexArray, node: IndexArray, rows: IndexArray) -> None:
        """Draw all genes of some rows at random; assumption 3."""
        topology = self._placement.problem.executor_topology[self._executors]
        luck = self._rng.random((len(rows), len(topology)))
        sibling = self._first_worker[topology] + (luck * self._num_workers[topology]).astype(int)
        worker[np.ix_(rows, self._executors)] = self._workers[sibling]
        node[np.ix_(rows, self._workers)] = self._rng.choice(self._nodes, (len(rows), len(self._workers)))

    def _mutate(self, worker: IndexArray, node: IndexArray, rows: IndexArray) -> None:
        """Apply one random change to each of some rows; assumption 4."""
        rng = self._rng
        kinds = rng.integers(4, size=len(rows))
        executor = self._executors[rng.integers(len(self._executors), size=len(rows))]
        topology = self._placement.problem.executor_topology[executor]
        luck = rng.random(len(rows))
        sibling = self._workers[self._first_worker[topology] + (luck * self._num_workers[topology]).astype(int)]
        peer = self._executors[self._first_peer[topology] + (luck * self._num_peers[topology]).astype(int)]
        one, other = self._workers[rng.integers(len(self._workers), size=(2, len(rows)))]
        target = self._nodes[rng.integers(len(self._nodes), size=len(rows))]
        row = rows[kinds == 0]
        worker[row, executor[kinds == 0]] = sibling[kinds == 0]
        _exchange(worker, rows[kinds == 1], executor[kinds == 1], peer[kinds == 1])
        row = rows[kinds == 2]
        node[row, one[kinds == 2]] = target[kinds == 2]
        _exchange(node, rows[kinds == 3], one[kinds == 3], other[kinds == 3])


def _exchange(genes: IndexArray, rows: IndexArray, one: IndexArray, other: IndexArray) -> None:
    genes[rows, one], genes[rows, other] = genes[rows, other], genes[rows, one]


def _stretch(topology: IndexArray, all_topologies: IntArray) -> tuple[IndexArray, IndexArray]:
    """Return where the entries of each topology start in a sorted array, and their number."""
    count = np.bincount(topology, minlength=int(all_topologies.max(initial=-1)) + 1)
    return np.cumsum(count) - count, count
