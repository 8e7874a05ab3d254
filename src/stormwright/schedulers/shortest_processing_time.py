"""Shortest processing time: each executor goes to the node that processes it fastest."""

from __future__ import annotations

from dataclasses import dataclass

from stormwright.model import Assignment, Problem
from stormwright.model.arrays import FloatArray
from stormwright.schedulers.placement.placing import Placing
from stormwright.schedulers.placement.scores import core_hz_of
from stormwright.schedulers.templates.waiting import by_score, place_waiting
from stormwright.schedulers.toolkit.params import Params


@dataclass(frozen=True, kw_only=True)
class ShortestProcessingTimeParams(Params):
    """Parameters of the scheduler."""


class ShortestProcessingTimeScheduler:
    """Puts each executor on the node that takes least time for its work, however busy the node is.

    After T. D. Braun et al., "A comparison of eleven static heuristics for mapping a class of
    independent tasks onto heterogeneous distributed computing systems", Journal of Parallel and Distributed Computing
    61, 2001, https://doi.org/10.1006/jpdc.2000.1714, where it is called minimum
    execution time; and rule 1 of the second list ("shortest job first") in the survey "Task scheduling algorithms in
    distributed systems" (分布式系统中的任务调度算法).

    1. Time for an executor's work is its CPU divided by the speed of a core of the node: an executor is one thread.
    2. That speed is the node's CPU divided by its cores (``cpu.pcore.percent``); that of the problem's cores where the
       node does not tell how many it has.

    Nodes with fast cores are filled first. Ties go to the lower index of node.

    When to use
    -----------
    Cores differ in speed, the cluster has room to spare, and a single slow executor holds up its topology.

    Ignores
    -------
    Traffic, streams, racks, what nodes do already; load, other than to keep limits.

    Honours
    -------
    CPU, memory, executors per worker
    """

    params_type = ShortestProcessingTimeParams

    def __init__(self, params: ShortestProcessingTimeParams | None = None) -> None:
        self.params = params or ShortestProcessingTimeParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place what has no slot."""
        core_hz = core_hz_of(problem)

        def time_s(_: Placing, executor: int) -> FloatArray:
            time_s: FloatArray = problem.executor_cpu_hz[executor] / core_hz
            return time_s

        return place_waiting(problem, "shortest_processing_time", self.params, by_score(time_s))
