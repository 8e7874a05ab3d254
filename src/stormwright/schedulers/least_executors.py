"""Least executors: each executor goes to the node that has fewest."""

from __future__ import annotations

from dataclasses import dataclass

from stormwright.model import Assignment, Problem
from stormwright.model.arrays import FloatArray
from stormwright.schedulers.placement.placing import Placing
from stormwright.schedulers.templates.waiting import by_score, place_waiting
from stormwright.schedulers.toolkit.params import Params


@dataclass(frozen=True, kw_only=True)
class LeastExecutorsParams(Params):
    """Parameters of the scheduler."""


class LeastExecutorsScheduler:
    """Puts each executor on the node with fewest executors.

    Generic; rule 4 ("least task first") of the survey "Task scheduling algorithms in distributed systems"
    (分布式系统中的任务调度算法).

    1. The executors of a node are those of all topologies, running or placed so far.
    2. Once a topology has a node for each of its workers, no further node joins.

    Ties go to the lower index of node.

    When to use
    -----------
    Nothing was measured, and neither nodes nor executors differ much.

    Ignores
    -------
    Traffic, streams, racks, how fast a node is; load, other than to keep limits.

    Honours
    -------
    CPU, memory, executors per worker
    """

    params_type = LeastExecutorsParams

    def __init__(self, params: LeastExecutorsParams | None = None) -> None:
        self.params = params or LeastExecutorsParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place what has no slot."""
        return place_waiting(problem, "least_executors", self.params, by_score(_executors))


def _executors(placing: Placing, _: int) -> FloatArray:
    """Executors on every node."""
    return placing.room.executors.astype(float)
