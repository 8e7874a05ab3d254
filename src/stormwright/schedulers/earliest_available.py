"""Earliest available: each executor goes to the node that has least to do."""

from __future__ import annotations

from dataclasses import dataclass

from stormwright.model import Assignment, Problem
from stormwright.model.arrays import FloatArray
from stormwright.schedulers.placement.placing import Placing
from stormwright.schedulers.placement.scores import part_used
from stormwright.schedulers.templates.waiting import by_score, place_waiting
from stormwright.schedulers.toolkit.params import Params


@dataclass(frozen=True, kw_only=True)
class EarliestAvailableParams(Params):
    """Parameters of the scheduler."""


class EarliestAvailableScheduler:
    """Puts each executor on the node that would be first to have done what it has, whatever the executor takes there.

    After T. D. Braun et al., "A comparison of eleven static heuristics for mapping a class of
    independent tasks onto heterogeneous distributed computing systems", Journal of Parallel and Distributed Computing
    61, 2001, https://doi.org/10.1006/jpdc.2000.1714, where it is called
    opportunistic load balancing.

    What a node has to do is the CPU of its executors, running or placed so far, as a part of its capacity: the work of
    a second takes it so many seconds. Ties go to the lower index of node.

    When to use
    -----------
    Nodes are to be equally busy, and no executor is large beside a node.

    Ignores
    -------
    Traffic, streams, racks, how large the executor is; memory, other than to keep limits.

    Honours
    -------
    CPU, memory, executors per worker
    """

    params_type = EarliestAvailableParams

    def __init__(self, params: EarliestAvailableParams | None = None) -> None:
        self.params = params or EarliestAvailableParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place what has no slot."""
        return place_waiting(problem, "earliest_available", self.params, by_score(_busy))


def _busy(placing: Placing, _: int) -> FloatArray:
    """Seconds that every node takes for the work of one."""
    return part_used(placing.room.capacity_hz, placing.room.cpu_hz)
