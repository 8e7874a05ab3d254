"""Graph partitioning with METIS: the executors of a topology in as many parts as it has workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.arrays import FloatArray
from stormwright.schedulers.placement.placing import FreeResources, Placing
from stormwright.schedulers.templates.waiting import Rule, place_waiting
from stormwright.schedulers.toolkit.params import ParameterSet, Params, param
from stormwright.schedulers.toolkit.partition import partition
from stormwright.schedulers.toolkit.traffic import Exchange


@dataclass(frozen=True, kw_only=True)
class MetisParams(Params):
    """Parameters of the scheduler."""

    objective: str = param(
        "cut",
        "objective of METIS; cut: traffic between workers; volume: number of workers that executors send to",
        choices=("cut", "volume"),
    )
    weight: str = param(
        "cpu",
        "of an executor, balanced over the parts; cpu: its CPU; tuples: the tuples/s that it sends and receives",
        choices=("cpu", "tuples"),
    )
    imbalance: float = param(
        30.0, "percent by which the weight of a part may exceed the mean; METIS's own is 3", low=0.1, high=1000
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
    2. METIS partitions it into as many parts as the topology has workers, with minimum traffic between them.
    3. Workers go to nodes as with Storm's own EvenScheduler: round robin, those with most free slots first.

    Differences, and points that the paper leaves open:

    1. The published code weighs a vertex by the tuples that it sends and receives, and lets METIS balance these sums
       within 3 %. Here it is the executor's CPU, within `imbalance`: few executors of different CPU leave METIS hardly
       any other partition within 3 %. `weight` ``tuples`` and `imbalance` 3 are as in the published code.
    2. The published code minimises the communication volume, for which METIS counts which vertex sends to which part,
       not how much. Sizes of vertices, which METIS could count instead, cannot be given by its Python package. So here
       METIS minimises the edges that are cut, weighed by tuples/s: the traffic between workers. `objective` ``volume``
       is as in the published code, and may send more tuples between nodes than Storm's EvenScheduler does.
    3. With ``cut`` METIS is called for `imbalance` and for a half, a quarter and an eighth of it, and the partition
       with least traffic between parts is used: its heuristic may find less with more freedom.
    4. A part that METIS leaves empty or makes larger than a worker may be is repaired.
    5. A node too full for a worker is skipped, so that CPU and memory suffice.
    6. In the published code a part is a supervisor's share of the topology: supervisors without workers come first, and
       the part's executors are distributed over all free slots of one, whatever number of workers the topology
       requests; with fewer supervisors than parts nothing is placed. `part` ``supervisor`` does the same, except that
       the topology has its requested number of workers: they are distributed over as many parts as there are
       supervisors with free slots, if there are not fewer workers. A part too large for any supervisor is placed worker
       by worker.
    7. Only executors without a slot are placed. The published code frees all slots of a topology whose partition has
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
    variants: ClassVar[Mapping[str, ParameterSet]] = {
        "authors": ParameterSet(
            "as in the published code: differences 1 to 3 do not apply, and 6 only to the number of workers",
            {"objective": "volume", "weight": "tuples", "imbalance": 3.0, "part": "supervisor"},
        )
    }
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
        executors, volume = placing.wanted.executors, self.params.objective == "volume"
        divisors = (1,) if volume else (1, 2, 4, 8)  # difference 3
        parts = partition(
            exchange.within(executors),
            self._weight(placing.placement.problem, exchange)[executors],
            [placing.limit * each for each in workers],
            least=workers,
            volume=volume,
            imbalances=[self.params.imbalance / divisor for divisor in divisors],
            seed=self.params.seed,
        )
        return [executors[part].tolist() for part in parts]

    def _weight(self, problem: Problem, exchange: Exchange) -> FloatArray:
        """Return the weight of every executor; difference 1."""
        return exchange.total() if self.params.weight == "tuples" else problem.executor_cpu_hz
