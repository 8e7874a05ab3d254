"""Dynamic weighted round robin: nodes take turns in getting workers, in proportion to the CPU they have free."""

from __future__ import annotations

from dataclasses import dataclass

from stormwright.model import Assignment, Problem
from stormwright.schedulers.placement.placing import NodeRoom
from stormwright.schedulers.placement.scores import weights_of
from stormwright.schedulers.templates.turns import SmoothTurns, deal
from stormwright.schedulers.templates.waiting import Rule, place_waiting
from stormwright.schedulers.toolkit.params import Params


@dataclass(frozen=True, kw_only=True)
class DynamicWeightedParams(Params):
    """Parameters of the scheduler."""


class DynamicWeightedScheduler:
    """Deals workers to the nodes in turn, more to those with more CPU free at that moment.

    Generic; rule 3 of the second list in the survey "Task scheduling algorithms in distributed systems"
    (分布式系统中的任务调度算法), in the smooth form that nginx has.

    1. The executors of a topology go round robin over its workers.
    2. A node's weight is its CPU capacity less what runs on it and what was put on it so far, seen anew for every
       worker; the turns are those of `SmoothTurns` among the nodes with room for the worker.

    Ties go to the lower index of node.

    When to use
    -----------
    Nodes differ, or other topologies take part of their CPU already, and the traffic is unknown or light.

    Ignores
    -------
    Traffic, streams, racks, and that the workers of a topology may be unequally heavy: each takes one turn. Memory,
    other than to keep limits.

    Honours
    -------
    CPU, memory, executors per worker
    """

    params_type = DynamicWeightedParams

    def __init__(self, params: DynamicWeightedParams | None = None) -> None:
        self.params = params or DynamicWeightedParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place what has no slot."""
        return place_waiting(problem, "dynamic_weighted_round_robin", self.params, _rule)


def _rule(room: NodeRoom) -> Rule:
    turns = SmoothTurns(room.num_nodes)
    return deal(lambda can_host: turns.take(can_host, weights_of(room.cpu_hz)))
