"""Weighted round robin: nodes take turns in getting workers, in proportion to their CPU."""

from __future__ import annotations

from dataclasses import dataclass

from stormwright.model import Assignment, Problem
from stormwright.schedulers.placement.placing import NodeRoom
from stormwright.schedulers.placement.scores import weights_of
from stormwright.schedulers.templates.turns import SmoothTurns, deal
from stormwright.schedulers.templates.waiting import Rule, place_waiting
from stormwright.schedulers.toolkit.params import Params


@dataclass(frozen=True, kw_only=True)
class WeightedRoundRobinParams(Params):
    """Parameters of the scheduler."""


class WeightedRoundRobinScheduler:
    """Deals workers to the nodes in turn, more to those with more CPU.

    Generic; rule 3 of the survey "Task scheduling algorithms in distributed systems" (分布式系统中的任务调度算法), in
    the smooth form that nginx has.

    1. The executors of a topology go round robin over its workers.
    2. A node's weight is its CPU capacity; the turns are those of `SmoothTurns` among the nodes with room for the
       worker. The next topology goes on where the one before it stopped.

    Ties go to the lower index of node.

    When to use
    -----------
    Nodes differ in CPU, the cluster is otherwise empty, and the traffic is unknown or light.

    Ignores
    -------
    Traffic, streams, racks, what nodes do already; load, other than to keep limits.

    Honours
    -------
    CPU, memory, executors per worker
    """

    params_type = WeightedRoundRobinParams

    def __init__(self, params: WeightedRoundRobinParams | None = None) -> None:
        self.params = params or WeightedRoundRobinParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place what has no slot."""
        return place_waiting(problem, "weighted_round_robin", self.params, _rule)


def _rule(room: NodeRoom) -> Rule:
    turns, weights = SmoothTurns(room.num_nodes), weights_of(room.problem.node_cpu_hz)
    return deal(lambda can_host: turns.take(can_host, weights))
