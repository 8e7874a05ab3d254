"""Topologies that have hosts for themselves: Storm's ``isolation.scheduler.machines``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from stormwright.model.arrays import IntArray
from stormwright.model.assignment import UNPLACED
from stormwright.model.misfit import Misfit
from stormwright.model.problem import Problem
from stormwright.model.texts import counted

#: Key of the cluster's configuration: topology name → hosts that it has for itself.
MACHINES = "isolation.scheduler.machines"

#: Schedulers of a cluster under which `MACHINES` counts; to Storm's others it means nothing.
STORM_SCHEDULER = "storm.scheduler"
ISOLATING = ("org.apache.storm.scheduler.IsolationScheduler", "stormwright.PlacementScheduler")


def read_machines(conf: Mapping[str, Any]) -> tuple[dict[str, int], tuple[Misfit, ...]]:
    """Topology name → hosts, as the cluster's configuration says, and what is wrong with it, whoever reads it."""
    machines = conf.get(MACHINES)
    if machines is None:
        return {}, ()
    if not isinstance(machines, Mapping):
        return {}, (Misfit("should be an object", machines, (MACHINES,)),)
    sound = {name: count for name, count in machines.items() if type(count) is int and count >= 1}
    wrong = [(name, count) for name, count in machines.items() if name not in sound]
    return sound, tuple(Misfit("should be an integer of at least 1", count, (MACHINES, name)) for name, count in wrong)


def isolated(problem: Problem) -> dict[int, int]:
    """Topology index → hosts that it is to have for itself, of isolated topologies.

    There are none where the cluster's scheduler is not told, or is one to which the key means nothing.
    """
    if problem.conf.get(STORM_SCHEDULER) not in ISOLATING:
        return {}
    machines, _ = read_machines(problem.conf)
    asked = {index: machines.get(topology.name) for index, topology in enumerate(problem.topologies)}
    return {index: count for index, count in asked.items() if count is not None}


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
                yield f"{name}: isolated, but shares {host} with {counted(len(on[host]) - 1, 'topology')}"
