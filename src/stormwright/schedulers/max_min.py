"""Max-Min: large executors first, each to where it is done soonest."""

from __future__ import annotations

from dataclasses import dataclass

from stormwright.model import Assignment, Problem
from stormwright.schedulers.placement.scores import busy_with
from stormwright.schedulers.templates.waiting import by_score, place_waiting
from stormwright.schedulers.toolkit.params import Params


@dataclass(frozen=True, kw_only=True)
class MaxMinParams(Params):
    """Parameters of the scheduler."""


class MaxMinScheduler:
    """Puts the executor that can be done latest next, each on the node where it is done soonest.

    After O. H. Ibarra, C. E. Kim, "Heuristic algorithms for scheduling independent tasks on nonidentical processors",
    Journal of the ACM 24, 1977, https://doi.org/10.1145/322003.322011, by the name that it has in M. Maheswaran et al.,
    "Dynamic mapping of a class of independent tasks onto heterogeneous computing systems", Journal of Parallel and
    Distributed Computing 59, 1999, https://doi.org/10.1006/jpdc.1999.1581.

    1. An executor is done on a node when that has done the work of a second of all its executors and of this one: their
       CPU divided by the node's.
    2. Of a topology the executor whose soonest end is the last of all goes next. As nodes differ in speed alone, that
       is the largest one.
    3. Topologies come one after the other; ``--set order=`` says in which order.

    Ties go to the lower index of executor and node.

    When to use
    -----------
    Few large executors beside many small ones: the large ones are spread first, the small ones fill the gaps.

    Ignores
    -------
    Traffic, streams, racks; memory, other than to keep limits.

    Honours
    -------
    CPU, memory, executors per worker
    """

    params_type = MaxMinParams

    def __init__(self, params: MaxMinParams | None = None) -> None:
        self.params = params or MaxMinParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place what has no slot."""
        return place_waiting(problem, "max_min", self.params, by_score(busy_with, -problem.executor_cpu_hz))
