"""Graph partitioning with METIS: the executors of a topology in as many parts as it has workers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.schedulers.placement.placing import FreeResources, Placing
from stormwright.schedulers.templates.waiting import Rule, place_waiting
from stormwright.schedulers.toolkit.params import Params, param
from stormwright.schedulers.toolkit.partition import partition
from stormwright.schedulers.toolkit.traffic import Exchange


@dataclass(frozen=True, kw_only=True)
class MetisParams(Params):
    """Parameters of the scheduler."""

    objective: str = param(
        "volume",
        "objective of METIS; volume: number of workers that executors send to; cut: traffic between workers",
        choices=("volume", "cut"),
    )
    part: str = param(
        "worker",
        "unit of partitioning; supervisor: a supervisor's share of the topology, distributed over its workers there",
        choices=("worker", "supervisor"),
    )
    seed: int = param(0, "seed of METIS's random numbers", low=0, high=2**31 - 1)


class MetisScheduler:
    """Partitions the executors of a topology into its workers with METIS, and distributes the workers over nodes.

    L. Fischer, A. Bernstein, "Workload scheduling in distributed stream processors using graph partitioning", IEEE Big
    Data 2015, https://doi.org/10.1109/BigData.2015.7363749; and the code its authors published.

    1. The graph has a vertex for every executor and an edge between two that exchange tuples.
    2. METIS partitions it into as many parts as the topology has workers, with minimum communication volume.
    3. Workers go to nodes as with Storm's own EvenScheduler: round robin, those with most free slots first.

    Differences, and points that the paper leaves open:

    1. The weight of a vertex is the executor's CPU, which METIS balances over the parts (within 3 %). The published
       code weighs a vertex by the tuples that it sends and receives.
    2. For the communication volume METIS counts which vertex sends to which part, not how much; `objective` ``cut``
       weighs edges by tuples/s.
    3. A part that METIS leaves empty or makes larger than a worker may be is repaired.
    4. A node too full for a worker is skipped, so that CPU and memory suffice.
    5. In the published code a part is a supervisor's share of the topology: supervisors without workers come first, and
       the part's executors are distributed over all free slots of one, whatever number of workers the topology
       requests; with fewer supervisors than parts nothing is placed. `part` ``supervisor`` does the same, except that
       the topology has its requested number of workers: they are distributed over as many parts as there are
       supervisors with free slots, if there are not fewer workers. A part too large for any supervisor is placed worker
       by worker.
    6. Only executors without a slot are placed. The published code frees all slots of a topology whose partition has
       changed.

    Needs METIS: ``pip install "stormwright[metis]"``. Ties go to the lower index of executor and node.

    When to use
    -----------
    Traffic was measured, and a topology has many executors in groups with much traffic inside and little between them.

    Ignores
    -------
    Racks, streams, and traffic between workers when they are assigned to nodes. With `objective` ``volume`` the amount
    of traffic is ignored, too. Memory, except as a constraint.

    Honours
    -------
    CPU, memory, executors per worker, traffic
    """

    params_type = MetisParams
    quick_up_to = 50_000

    def __init__(self, params: MetisParams | None = None) -> None:
        self.params = params or MetisParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place the executors without a slot."""
        exchange = Exchange.of(problem)
        rule = self._on_supervisors if self.params.part == "supervisor" else self._on_workers

        def make_rule(_: FreeResources) -> Rule:
            return lambda placing: rule(placing, exchange)

        return place_waiting(problem, "metis", self.params, make_rule)

    def _on_workers(self, placing: Placing, exchange: Exchange) -> None:
        """Partition into workers."""
        for members in self._parts(placing, exchange, [1] * placing.wanted.workers):
            placing.put_worker(members, placing.in_turn(placing.can_host(members)))

    def _on_supervisors(self, placing: Placing, exchange: Exchange) -> None:
        """Partition into supervisors, each with its share of the workers."""
        room, count = placing.room, placing.wanted.workers
        parts = max(1, min(int(np.count_nonzero(room.slots >= 1)), count))
        workers = [count // parts + (part < count % parts) for part in range(parts)]
        taken = np.zeros(room.num_nodes, bool)
        for members, share in zip(self._parts(placing, exchange, workers), workers, strict=True):
            free = placing.can_host(members) & (room.slots >= share) & ~taken
            idle = free & (room.executors == 0)
            node = placing.in_turn(idle if idle.any() else free)
            if node != UNPLACED:
                taken[node] = True
            for number in range(share):
                part = members[number::share]
                to = node if node != UNPLACED else placing.in_turn(placing.can_host(part))
                placing.put_worker(part, to)

    def _parts(self, placing: Placing, exchange: Exchange, workers: list[int]) -> list[list[int]]:
        """Return the executors of every part, given its number of workers."""
        executors = placing.wanted.executors
        parts = partition(
            exchange.within(executors),
            placing.placement.problem.executor_cpu_hz[executors],
            [placing.limit * each for each in workers],
            least=workers,
            volume=self.params.objective == "volume",
            seed=self.params.seed,
        )
        return [executors[part].tolist() for part in parts]
