"""Random: each executor goes to any node that can take it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.schedulers.placement.placing import NodeRoom, Placing
from stormwright.schedulers.templates.waiting import Rule, place_waiting
from stormwright.schedulers.toolkit.params import MOST_SEED, Params, param


@dataclass(frozen=True, kw_only=True)
class RandomParams(Params):
    """Parameters of the scheduler."""

    seed: int = param(0, "of the random numbers", low=0, high=MOST_SEED)


class RandomScheduler:
    """Puts each executor on a node drawn at random among those that can take it.

    Generic; rule 2 of the survey "Task scheduling algorithms in distributed systems" (分布式系统中的任务调度算法).

    1. A node takes an executor if CPU, memory and executors per worker allow it and it has, or may open, a worker of
       the topology. Once the topology has a node for each of its workers, no further node joins.
    2. All such nodes are equally likely. The same problem and seed give the same answer.

    There are no ties.

    When to use
    -----------
    As a second baseline: what is no better than chance is not worth a move.

    Ignores
    -------
    Traffic, streams, racks; load, other than to keep limits.

    Honours
    -------
    CPU, memory, executors per worker
    """

    params_type = RandomParams

    def __init__(self, params: RandomParams | None = None) -> None:
        self.params = params or RandomParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place what has no slot."""
        return place_waiting(problem, "random", self.params, self._rule)

    def _rule(self, _: NodeRoom) -> Rule:
        rng = np.random.default_rng(self.params.seed)

        def place(placing: Placing) -> None:
            for executor in placing.executors:
                nodes = np.flatnonzero(placing.can_take(executor))
                placing.put(executor, int(rng.choice(nodes)) if len(nodes) else UNPLACED)

        return place
