"""Round robin: nodes take turns in getting workers."""

from __future__ import annotations

from dataclasses import dataclass

from stormwright.model import Assignment, Problem
from stormwright.schedulers.placement.placing import NodeRoom
from stormwright.schedulers.templates.turns import Turns, deal
from stormwright.schedulers.templates.waiting import Rule, place_waiting
from stormwright.schedulers.toolkit.params import Params


@dataclass(frozen=True, kw_only=True)
class RoundRobinParams(Params):
    """Parameters of the scheduler."""


class RoundRobinScheduler:
    """Deals workers to the nodes in turn.

    Generic; rule 1 of the survey "Task scheduling algorithms in distributed systems" (分布式系统中的任务调度算法).

    1. The executors of a topology go round robin over its workers.
    2. Each worker goes to the next node in order; a node too full for it is passed over. The next topology goes on
       where the one before it stopped.

    The turns begin with the first node. There are no ties.

    When to use
    -----------
    Nodes are alike, workers are alike, and a placement that anybody can foresee is worth more than a good one.

    Ignores
    -------
    Traffic, streams, racks, what nodes do already; load, other than to keep limits.

    Honours
    -------
    CPU, memory, executors per worker
    """

    params_type = RoundRobinParams

    def __init__(self, params: RoundRobinParams | None = None) -> None:
        self.params = params or RoundRobinParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place what has no slot."""
        return place_waiting(problem, "round_robin", self.params, _rule)


def _rule(room: NodeRoom) -> Rule:
    return deal(Turns(room.num_nodes).take)
