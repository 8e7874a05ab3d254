"""Scheduling with METIS: the graph of executors in as many parts as the topology wants workers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.schedulers.placement.placing import NodeRoom, Placing
from stormwright.schedulers.templates.waiting import Rule, place_waiting
from stormwright.schedulers.toolkit.params import Params, param
from stormwright.schedulers.toolkit.partition import partition
from stormwright.schedulers.toolkit.traffic import Exchange


@dataclass(frozen=True, kw_only=True)
class MetisParams(Params):
    """Parameters of the scheduler."""

    objective: str = param(
        "volume",
        "what METIS minimises; volume: to how many workers executors send; cut: what is exchanged between workers",
        choices=("volume", "cut"),
    )
    part: str = param(
        "worker",
        "what a part is; supervisor: what one supervisor has of the topology, dealt to its workers there",
        choices=("worker", "supervisor"),
    )
    seed: int = param(0, "of METIS's own random numbers", low=0, high=2**31 - 1)


class MetisScheduler:
    """Partitions the executors of a topology into its workers with METIS, and deals the workers to nodes.

    L. Fischer, A. Bernstein, "Workload scheduling in distributed stream processors using graph partitioning", IEEE Big
    Data 2015, https://doi.org/10.1109/BigData.2015.7363749; and the code its authors published.

    1. The graph has a vertex for every executor and an edge between two that exchange tuples.
    2. METIS partitions it into as many parts as the topology wants workers, with minimum communication volume.
    3. Workers go to nodes as with Storm's own EvenScheduler: round robin, those with most free slots first.

    What the paper leaves open, or different here:

    1. The weight of a vertex is the executor's CPU, which METIS keeps even over the parts (within 3 %). The published
       code weighs a vertex by the tuples that it sends and receives.
    2. For the communication volume METIS counts who sends to which part, not how much; `objective` ``cut`` weighs edges
       by tuples/s.
    3. A part that METIS leaves empty or makes larger than a worker may be is mended.
    4. A node too full for a worker is passed over, so that CPU and memory hold.
    5. In the published code a part is what a supervisor has of the topology: those without workers come first, and the
       part's executors are dealt to all free slots of one, whatever number of workers the topology wants; with fewer
       supervisors than parts nothing is placed. With `part` ``supervisor`` it is so here, but that the topology keeps
       its number of workers: they are dealt to as many parts as there are supervisors with free slots, if there are
       not fewer workers. A part too large for any supervisor goes on worker by worker.
    6. Only what has no slot is placed. The published code frees all slots of a topology whose partition has changed.

    Needs METIS: ``pip install "stormwright[metis]"``. Ties go to the lower index of executor and node.

    When to use
    -----------
    Traffic was measured, and a topology has many executors of which groups exchange much with each other and little
    with the rest.

    Ignores
    -------
    Racks, streams, and what workers exchange when they are dealt to nodes. With `objective` ``volume`` the aim is blind
    to how much executors exchange. Memory, other than to keep limits.

    Honours
    -------
    CPU, memory, executors per worker, traffic
    """

    params_type = MetisParams
    quick_up_to = 50_000

    def __init__(self, params: MetisParams | None = None) -> None:
        self.params = params or MetisParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place what has no slot."""
        exchange = Exchange.of(problem)
        rule = self._on_supervisors if self.params.part == "supervisor" else self._on_workers

        def make_rule(_: NodeRoom) -> Rule:
            return lambda placing: rule(placing, exchange)

        return place_waiting(problem, "metis", self.params, make_rule)

    def _on_workers(self, placing: Placing, exchange: Exchange) -> None:
        """A part is a worker."""
        for members in self._parts(placing, exchange, [1] * placing.wanted.workers):
            placing.put_worker(members, placing.in_turn(placing.can_host(members)))

    def _on_supervisors(self, placing: Placing, exchange: Exchange) -> None:
        """A part is what one supervisor has of the topology, in its share of the workers."""
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
                dealt = members[number::share]
                to = node if node != UNPLACED else placing.in_turn(placing.can_host(dealt))
                placing.put_worker(dealt, to)

    def _parts(self, placing: Placing, exchange: Exchange, workers: list[int]) -> list[list[int]]:
        """The executors of every part, of which each has so many workers."""
        executors = placing.wanted.executors
        parts = partition(
            exchange.within(executors),
            placing.draft.problem.executor_cpu_hz[executors],
            [placing.limit * each for each in workers],
            least=workers,
            volume=self.params.objective == "volume",
            seed=self.params.seed,
        )
        return [executors[part].tolist() for part in parts]
