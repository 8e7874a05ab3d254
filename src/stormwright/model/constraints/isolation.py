"""Constraint: isolated topologies have hosts of their own (Storm's ``isolation.scheduler.machines``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stormwright.model.constraints.constraint import PlacedExecutors, Violation
from stormwright.model.fallback import ISOLATING, PLACEMENT_SCHEDULER, STORM_SCHEDULER, fallback_class
from stormwright.model.humanize import counted
from stormwright.model.topology_config import read_machines

if TYPE_CHECKING:
    from stormwright.model.problem import Problem


#: The scheduler of Storm's that reads `MACHINES`; to its others it means nothing.
_ISOLATION_SCHEDULER = "org.apache.storm.scheduler.IsolationScheduler"


def isolated(problem: Problem) -> dict[int, int]:
    """Return topology index → number of hosts of its own, of isolated topologies.

    Empty if the cluster's scheduler, or the one that ours falls back to, does not read that key.
    """
    scheduler, beneath = problem.conf.get(STORM_SCHEDULER), fallback_class(problem.conf)
    reads = scheduler == PLACEMENT_SCHEDULER and beneath in ("", ISOLATING)
    if not reads and scheduler != _ISOLATION_SCHEDULER:
        return {}
    machines, _ = read_machines(problem.conf)
    wanted = {index: machines.get(topology.name) for index, topology in enumerate(problem.topologies)}
    return {index: count for index, count in wanted.items() if count is not None}


@dataclass(frozen=True, kw_only=True)
class TooManyHosts(Violation):
    """An isolated topology on more hosts (`amount`) than it has for itself (`allowed`)."""

    limit: ClassVar[str] = "isolation"
    counted_items: ClassVar[str] = "hosts"

    def __str__(self) -> str:
        return f"{self.topology}: on {self.amount} hosts, isolated on {self.allowed}"


@dataclass(frozen=True, kw_only=True)
class SharedHost(Violation):
    """A host of an isolated topology with `amount` other topologies.

    Parameters
    ----------
    host
        The host, which may have several supervisors.
    """

    limit: ClassVar[str] = "isolation"
    counted_items: ClassVar[str] = "topologies"

    host: str

    def __str__(self) -> str:
        return f"{self.topology}: isolated, but shares {self.host} with {counted(int(self.amount), 'topology')}"


class Isolation:
    """An isolated topology shares its hosts with no other, and uses no more hosts than configured."""

    def allowed(self, problem: Problem) -> dict[int, int]:
        """Return topology index → maximum number of hosts, of isolated topologies."""
        return isolated(problem)

    def violations(self, placed: PlacedExecutors) -> Iterator[TooManyHosts | SharedHost]:
        """Yield isolated topologies that share a host, or use too many."""
        problem, machines = placed.problem, self.allowed(placed.problem)
        if not machines:
            return
        node = problem.slot_node[placed.workers.slot]
        there = np.unique(np.stack([node, placed.workers.topology]), axis=1).T.tolist()
        first = dict.fromkeys(problem.supervisors[n].host for n in problem.slot_node[placed.slots[placed.placed]])
        on: dict[str, set[int]] = {host: set() for host in first}  # in the order of their first executors
        for n, topology in there:
            on[problem.supervisors[n].host].add(topology)
        for index, count in machines.items():
            name, hosts = problem.topologies[index].id, [host for host, there in on.items() if index in there]
            if len(hosts) > count:
                yield TooManyHosts(topology=name, amount=len(hosts), allowed=count)
            for host in hosts:
                if len(on[host]) > 1:
                    yield SharedHost(topology=name, amount=len(on[host]) - 1, allowed=0, host=host)
