"""Nearest to the average load: each executor goes to the node that it brings nearest to the mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model import Assignment, Problem
from stormwright.model.arrays import FloatArray
from stormwright.schedulers.placement.placing import Placing
from stormwright.schedulers.placement.scores import in_cluster, part_used
from stormwright.schedulers.templates.waiting import by_score, place_waiting
from stormwright.schedulers.toolkit.params import Params


@dataclass(frozen=True, kw_only=True)
class NearestAverageLoadParams(Params):
    """Parameters of the scheduler."""


class NearestAverageLoadScheduler:
    """Puts each executor on the node whose load with it is nearest to the mean load of the nodes.

    Generic; rule 2 of the second list ("nearest load first") in the survey "Task scheduling algorithms in distributed
    systems" (分布式系统中的任务调度算法), which leaves open what 1 and 2 say.

    1. A node's load is the part of its CPU that is used; the mean is over nodes with a free slot or an executor.
    2. The mean is that before the executor is placed, seen anew for every executor.

    Ties go to the lower index of node.

    When to use
    -----------
    CPU was measured, and nodes that differ are to be equally busy.

    Ignores
    -------
    Traffic, streams, racks; memory, other than to keep limits.

    Honours
    -------
    CPU, memory, executors per worker
    """

    params_type = NearestAverageLoadParams
    quick_up_to = 20_000

    def __init__(self, params: NearestAverageLoadParams | None = None) -> None:
        self.params = params or NearestAverageLoadParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place what has no slot."""
        return place_waiting(problem, "nearest_average_load", self.params, by_score(_distance))


def _distance(placing: Placing, executor: int) -> FloatArray:
    """Distance of every node's load, with the executor, from the mean."""
    room = placing.room
    counted = in_cluster(room)
    mean = float(part_used(room.capacity_hz, room.cpu_hz)[counted].mean()) if counted.any() else 0.0
    demand_hz = float(room.problem.executor_cpu_hz[executor])
    distance: FloatArray = np.abs(part_used(room.capacity_hz, room.cpu_hz, demand_hz) - mean)
    return distance
