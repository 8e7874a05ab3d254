"""Min-Min: small executors first, each to where it is done soonest."""

from __future__ import annotations

from dataclasses import dataclass

from stormwright.model import Assignment, Problem
from stormwright.schedulers.placement.scores import busy_with
from stormwright.schedulers.templates.waiting import by_score, place_waiting
from stormwright.schedulers.toolkit.params import Params


@dataclass(frozen=True, kw_only=True)
class MinMinParams(Params):
    """Parameters of the scheduler."""


class MinMinScheduler:
    """Puts the executor that can be done soonest next, each on the node where it is done soonest.

    After O. H. Ibarra, C. E. Kim, "Heuristic algorithms for scheduling independent tasks on nonidentical processors",
    Journal of the ACM 24, 1977, https://doi.org/10.1145/322003.322011, by the name that it has in M. Maheswaran et al.,
    "Dynamic mapping of a class of independent tasks onto heterogeneous computing systems", Journal of Parallel and
    Distributed Computing 59, 1999, https://doi.org/10.1006/jpdc.1999.1581.

    1. An executor is done on a node when that has done the work of a second of all its executors and of this one: their
       CPU divided by the node's.
    2. Of a topology the executor whose soonest end is the first of all goes next. As nodes differ in speed alone, that
       is the smallest one.
    3. Topologies come one after the other; ``--set order=`` says in which order.

    Ties go to the lower index of executor and node.

    When to use
    -----------
    Many small executors and few large ones, and nodes that differ: small ones get the fast nodes.

    Ignores
    -------
    Traffic, streams, racks; memory, other than to keep limits.

    Honours
    -------
    CPU, memory, executors per worker
    """

    params_type = MinMinParams

    def __init__(self, params: MinMinParams | None = None) -> None:
        self.params = params or MinMinParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place what has no slot."""
        return place_waiting(problem, "min_min", self.params, by_score(busy_with, problem.executor_cpu_hz))
