"""How many workers a topology runs on, and how many executors one may hold."""

from __future__ import annotations

from stormwright.model import Topology
from stormwright.model.constraints import MAX_EXECUTORS_PER_WORKER


def num_workers(topology: Topology) -> int:
    """min(E, W), the number of workers that a topology runs on."""
    return min(topology.num_workers, topology.num_executors)


def max_executors_per_worker(topology: Topology) -> int:
    """The topology's own hard limit on executors in a worker; all of them where it sets none."""
    return int(topology.conf.get(MAX_EXECUTORS_PER_WORKER, topology.num_executors))
