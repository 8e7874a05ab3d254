"""P-Scheduler: as many nodes as the load needs, then two partitionings of the graph, into nodes and into workers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.schedulers.placement.placing import FreeResources, Placing
from stormwright.schedulers.templates.waiting import Rule, place_waiting
from stormwright.schedulers.toolkit.params import Params, param
from stormwright.schedulers.toolkit.partition import partition
from stormwright.schedulers.toolkit.traffic import Exchange
from stormwright.schedulers.toolkit.triggers import NODES, TRAFFIC, Adaptation


@dataclass(frozen=True, kw_only=True)
class PSchedulerParams(Params):
    """Parameters of the scheduler."""

    utilisation: float = param(
        0.8, "part of a node's free CPU and memory that the executors put there may use", low=0.1, high=1
    )
    seed: int = param(0, "seed of METIS's random numbers", low=0, high=2**31 - 1)


class PSchedulerScheduler:
    """Uses as few nodes as the load needs, and partitions the executors with METIS onto nodes, then into workers.

    After L. Eskandari, Z. Huang, D. Eyers, "P-Scheduler: Adaptive hierarchical scheduling in Apache Storm", ACSW 2016,
    https://doi.org/10.1145/2843043.2843056, of which only the abstract and descriptions by others were available.

    1. The number of nodes follows from the topology's load.
    2. The graph of executors, with their traffic as weights, is partitioned into as many parts as there are nodes, with
       little traffic between nodes.
    3. Each part is partitioned again into the workers of its node.

    Assumptions:

    1. The fewest nodes that can each take an equal share of the topology's CPU and memory within `utilisation` of their
       free resources, and together have enough slots; those with most free CPU first. If no number suffices, one node
       per worker.
    2. Workers are distributed over the nodes in turn, as far as these have slots.
    3. METIS balances the CPU of the parts (within 3 %), and minimises the traffic between them. As the paper assumes
       equal nodes, unequal nodes of one topology get equal parts.
    4. A part with fewer executors than workers, or more than these may hold, is repaired.
    5. A worker that does not fit its node goes wherever it fits.
    6. The paper reassigns a topology when its load changes, as ``--from-scratch`` does; by default running executors
       stay.
    7. A service reschedules once the load has drifted since the last change, if that reduces traffic between nodes or
       the number of nodes, which follows from the load, by at least R percent. R and T are those of `online`.

    Needs METIS: ``pip install "stormwright[metis]"``. Ties go to the lower index of executor and node.

    When to use
    -----------
    Traffic was measured, nodes are alike, and each topology should use no more of them than its load needs.

    Ignores
    -------
    Racks, streams, and that nodes differ: each gets an equal part.

    Honours
    -------
    CPU, memory, executors per worker, traffic
    """

    params_type = PSchedulerParams
    quick_up_to = 20_000
    adapts = Adaptation(on_drift=True, gains=(TRAFFIC, NODES))

    def __init__(self, params: PSchedulerParams | None = None) -> None:
        self.params = params or PSchedulerParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place the executors without a slot."""
        exchange = Exchange.of(problem)

        def make_rule(_: FreeResources) -> Rule:
            def place(placing: Placing) -> None:
                executors = placing.wanted.executors
                graph, cpu_hz = exchange.within(executors), problem.executor_cpu_hz[executors]
                nodes = self._nodes(placing)
                workers_of = _workers_of(placing.room.slots[nodes], placing.wanted.workers)
                on_nodes = partition(
                    graph,
                    cpu_hz,
                    [count * placing.limit for count in workers_of],
                    least=workers_of,
                    seed=self.params.seed,
                )
                for node, count, part in zip(nodes.tolist(), workers_of, on_nodes, strict=True):
                    for worker in self._workers(graph, cpu_hz, part, [placing.limit] * count):
                        members = executors[worker].tolist()
                        placing.put_worker(members, node if placing.can_host(members)[node] else UNPLACED)

            return place

        return place_waiting(problem, "p_scheduler", self.params, make_rule)

    def _nodes(self, placing: Placing) -> IndexArray:
        """Return the nodes of a topology, those with most free CPU first; assumption 1."""
        problem, room, executors = placing.room.problem, placing.room, placing.wanted.executors
        by_cpu = np.argsort(-room.cpu_hz, kind="stable")
        by_cpu = by_cpu[room.slots[by_cpu] >= 1][: placing.wanted.workers]
        count = np.arange(1, len(by_cpu) + 1)
        enough = np.cumsum(room.slots[by_cpu]) >= placing.wanted.workers
        for demand, free in (
            (problem.executor_demand[0], room.cpu_hz),
            (problem.executor_demand[1], room.memory_mb),
        ):
            least_free = np.minimum.accumulate(free[by_cpu])
            enough &= demand[executors].sum() / count <= self.params.utilisation * least_free
        fewest = int(np.argmax(enough)) + 1 if enough.any() else len(by_cpu)
        return by_cpu[:fewest]

    def _workers(self, graph: csr_array, cpu_hz: FloatArray, part: list[int], most: list[int]) -> list[list[int]]:
        """Return the executors of a node's workers, by position in the topology; rule 3."""
        own = np.array(part)
        inside = graph[own][:, own].tocsr()
        return [own[worker].tolist() for worker in partition(inside, cpu_hz[own], most, seed=self.params.seed)]


def _workers_of(slots: FloatArray, workers: int) -> list[int]:
    """Return the number of workers of each node; assumption 2."""
    counts = [0] * len(slots)
    for _ in range(workers):
        roomy = [node for node, count in enumerate(counts) if count < slots[node]]
        counts[min(roomy, key=lambda node: (counts[node], node))] += 1
    return counts
