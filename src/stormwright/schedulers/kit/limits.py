"""How many workers a topology runs on, and how many executors one may hold."""

from __future__ import annotations

import math

from stormwright.model import Topology
from stormwright.model.limits.workers import MAX_EXECUTORS_PER_WORKER


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
