"""Scheduling with METIS: the graph of executors in as many parts as the topology wants workers."""

from __future__ import annotations

from dataclasses import dataclass

from stormwright.model import Assignment, Problem
from stormwright.schedulers.frame.waiting import QueueParams, Rule, place_waiting
from stormwright.schedulers.kit.params import param
from stormwright.schedulers.placing.placing import Placing, Room
from stormwright.schedulers.traffic.exchange import Exchange
from stormwright.schedulers.traffic.partition import partition


@dataclass(frozen=True, kw_only=True)
class MetisParams(QueueParams):
    """Parameters of the scheduler."""

    objective: str = param(
        "volume",
        "what METIS minimises; volume: to how many workers executors send; cut: what is exchanged between workers",
        choices=("volume", "cut"),
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

    1. The weight of a vertex is the executor's CPU, which METIS keeps even over the parts (within 3 %).
    2. For the communication volume METIS counts who sends to which part, not how much; `objective` ``cut`` weighs edges
       by tuples/s.
    3. A part that METIS leaves empty or makes larger than a worker may be is mended.
    4. A node too full for a worker is passed over, so that CPU and memory hold.

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

    def __init__(self, params: MetisParams | None = None) -> None:
        self.params = params or MetisParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place what has no slot."""
        exchange = Exchange.of(problem)

        def make_rule(_: Room) -> Rule:
            def place(placing: Placing) -> None:
                executors = placing.wanted.executors
                workers = partition(
                    exchange.within(executors),
                    problem.executor_cpu_hz[executors],
                    [placing.limit] * placing.wanted.workers,
                    volume=self.params.objective == "volume",
                    seed=self.params.seed,
                )
                for worker in workers:
                    members = executors[worker].tolist()
                    placing.put_worker(members, placing.in_turn(placing.can_host(members)))

            return place

        return place_waiting(problem, "metis", self.params, make_rule)
