"""Topologies that have hosts for themselves: Storm's ``isolation.scheduler.machines``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from stormwright.model.arrays import IntArray
from stormwright.model.assignment import UNPLACED
from stormwright.model.problem import Problem

#: Key of the cluster's configuration: topology name → hosts that it has for itself.
MACHINES = "isolation.scheduler.machines"

#: Schedulers of a cluster under which `MACHINES` counts; to Storm's others it means nothing.
STORM_SCHEDULER = "storm.scheduler"
ISOLATING = ("org.apache.storm.scheduler.IsolationScheduler", "stormwright.PlacementScheduler")


def isolated(problem: Problem) -> dict[int, int]:
    """Topology index → hosts that it is to have for itself, of isolated topologies.

    There are none where the cluster's scheduler is not told, or is one to which the key means nothing.
    """
    machines = problem.conf.get(MACHINES)
    if problem.conf.get(STORM_SCHEDULER) not in ISOLATING or not isinstance(machines, Mapping):
        return {}
    asked = {index: machines.get(topology.name) for index, topology in enumerate(problem.topologies)}
    return {index: count for index, count in asked.items() if type(count) is int and count >= 1}


def isolation_violations(problem: Problem, slot_of_executor: IntArray) -> Iterator[str]:
    """Isolated topologies that share a host, or are on more hosts than they have for themselves."""
    machines = isolated(problem)
    if not machines:
        return
    placed = np.flatnonzero(slot_of_executor != UNPLACED)
    on: dict[str, set[int]] = {}
    for executor, node in zip(placed.tolist(), problem.slot_node[slot_of_executor[placed]].tolist(), strict=True):
        on.setdefault(problem.supervisors[node].host, set()).add(int(problem.executor_topology[executor]))
    for index, count in machines.items():
        name, hosts = problem.topologies[index].id, [host for host, there in on.items() if index in there]
        if len(hosts) > count:
            yield f"{name}: on {len(hosts)} hosts, isolated on {count}"
        for host in hosts:
            if len(on[host]) > 1:
                yield f"{name}: isolated, but shares {host} with {len(on[host]) - 1} topologies"
