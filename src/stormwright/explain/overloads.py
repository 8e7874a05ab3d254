"""Overloaded nodes of a placement, with amounts and consumers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE, node_sum
from stormwright.model.humanize import amount, amount_of, counted


@dataclass(frozen=True)
class _Share:
    """Total request of the executors of one component on a node."""

    topology: str
    component: str
    executors: int
    used: float


@dataclass(frozen=True)
class Overload:
    """A node whose executors request more than its capacity.

    Parameters
    ----------
    node, supervisor, host
        Its name, the id of its supervisor, and its host.
    resource, unit
        ``CPU`` in ``Hz``, ``memory`` in ``MB``, generic ones in none.
    used, capacity
        Use and capacity of the resource, in `unit`.
    shares
        Consumers, most first, ties in the problem's order.
    """

    node: str
    supervisor: str
    host: str
    resource: str
    unit: str
    used: float
    capacity: float
    shares: tuple[_Share, ...]

    def __str__(self) -> str:
        over = amount(self.used - self.capacity, self.unit)
        return f"{self.resource} {amount_of(self.used, self.capacity, self.unit)}, over by {over}"

    @property
    def by_whom(self) -> list[str]:
        """Its shares as text."""
        return [
            f"{amount(share.used, self.unit)} by {counted(share.executors, 'executor')} of {share.component}, "
            f"{share.topology}"
            for share in self.shares
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the same for programs."""
        return asdict(self)


def overloads(problem: Problem, slots: IntArray) -> list[Overload]:
    """Return every overloaded node under a placement, by resource, then in the problem's order."""
    found, names = [], problem.cluster.node_names
    for resource, demand, capacity in zip(
        problem.resources, problem.executor_demand, problem.node_capacity, strict=True
    ):
        used = node_sum(problem, slots, demand)
        for node in np.flatnonzero(used > capacity * (1 + RELATIVE_TOLERANCE)).tolist():
            supervisor = problem.supervisors[node]
            shares = sorted(_shares(problem, slots, demand, node), key=lambda share: -share.used)
            amounts = float(used[node]), float(capacity[node])
            what = resource.name, resource.unit
            found.append(Overload(names[node], supervisor.id, supervisor.host, *what, *amounts, tuple(shares)))
    return found


def _shares(problem: Problem, slots: IntArray, demand: FloatArray, node: int) -> Iterator[_Share]:
    there = np.append(problem.slot_node, UNPLACED)[slots] == node
    for index, topology in enumerate(problem.topologies):
        own = problem.executors_of(index)
        component = topology.executor_component[there[own]]
        executors = np.bincount(component)
        sums = np.bincount(component, weights=demand[own][there[own]])
        for c in np.flatnonzero(executors).tolist():
            yield _Share(topology.id, topology.components[c].id, int(executors[c]), float(sums[c]))
