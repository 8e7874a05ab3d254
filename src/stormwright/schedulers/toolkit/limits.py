"""How many workers a topology runs on, and how many executors one may hold."""

from __future__ import annotations

import math
from dataclasses import replace

from stormwright.model import Problem, Topology
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER

#: Of all CPU, what is taken to be used where that is to limit nothing.
_USED = 0.5


def num_workers(topology: Topology) -> int:
    """min(E, W), the number of workers that a topology runs on."""
    return min(topology.num_workers, topology.num_executors)


def max_executors_per_worker(topology: Topology) -> int:
    """The topology's own hard limit on executors in a worker; all of them where it sets none."""
    return int(topology.conf.get(MAX_EXECUTORS_PER_WORKER, topology.num_executors))


def most_executors(executors: int, workers: int, alpha: float) -> int:
    """M(alpha) of Aniello, Baldoni, Querzoni, §3, https://doi.org/10.1145/2488222.2488267: executors a worker may hold.

    Parameters
    ----------
    alpha
        0: as few as hold all executors; 1: as many as leave one for each other worker.
    """
    fewest = math.ceil(executors / workers)
    return fewest + math.ceil(alpha * (executors - workers + 1 - fewest))


def with_room_for_cpu(problem: Problem) -> Problem:
    """`problem` with so much less CPU measured that it limits nothing.

    Where a topology's rate is what its placement bears, measured CPU says what its nodes had, and not what it needs.
    """
    load = problem.load
    if load is None or not load.topologies:
        return problem
    asked, there = float(problem.executor_cpu_hz.sum()), float(problem.node_cpu_hz[problem.node_usable].sum())
    largest = float(problem.executor_cpu_hz.max(initial=0.0))
    room = float(problem.node_cpu_hz[problem.node_usable].max(initial=0.0))
    part = _USED * min(there / max(asked, 1.0), room / max(largest, 1.0))
    if part >= 1:
        return problem
    less = {name: replace(of, cpu_hz=of.cpu_hz * part) for name, of in load.topologies.items()}
    return problem.with_load(replace(load, topologies=less))
