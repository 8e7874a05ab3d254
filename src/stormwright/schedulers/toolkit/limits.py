"""Limits of workers: their number per topology, and the executors per worker."""

from __future__ import annotations

import math
from dataclasses import replace

from stormwright.model import Problem, Topology
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER

#: Fraction of all CPU that is used so that CPU never limits.
_USED = 0.5


def num_workers(topology: Topology) -> int:
    """Return min(E, W), the number of workers of a topology."""
    return min(topology.num_workers, topology.num_executors)


def max_executors_per_worker(topology: Topology) -> int:
    """Return the topology's limit of executors per worker; the number of its executors if it sets none."""
    return int(topology.conf.get(MAX_EXECUTORS_PER_WORKER, topology.num_executors))


def most_executors(executors: int, workers: int, alpha: float) -> int:
    """Return M(alpha), the executors per worker, of Aniello et al., §3, https://doi.org/10.1145/2488222.2488267.

    Parameters
    ----------
    alpha
        0: the fewest that hold all executors; 1: as many as leave one for each other worker.
    """
    fewest = math.ceil(executors / workers)
    return fewest + math.ceil(alpha * (executors - workers + 1 - fewest))


def with_room_for_cpu(problem: Problem) -> Problem:
    """Return `problem` with so little measured CPU that it never limits.

    If a topology's rate is limited by its placement, measured CPU reflects the capacity of its nodes, not its demand.
    """
    load = problem.load
    if load is None or not load.topologies:
        return problem
    demand_hz, there = float(problem.executor_cpu_hz.sum()), float(problem.node_cpu_hz[problem.node_usable].sum())
    largest = float(problem.executor_cpu_hz.max(initial=0.0))
    room = float(problem.node_cpu_hz[problem.node_usable].max(initial=0.0))
    part = _USED * min(there / max(demand_hz, 1.0), room / max(largest, 1.0))
    if part >= 1:
        return problem
    less = {name: replace(of, cpu_hz=of.cpu_hz * part) for name, of in load.topologies.items()}
    return problem.with_load(replace(load, topologies=less))
