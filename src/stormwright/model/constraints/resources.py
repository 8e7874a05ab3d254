"""Constraints: CPU, memory and generic resources of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stormwright.model.arrays import FloatArray
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE, PlacedExecutors, Violation
from stormwright.model.humanize import amount_of


@dataclass(frozen=True, kw_only=True)
class ResourceOveruse(Violation):
    """A node whose executors use more of a resource than it has.

    Parameters
    ----------
    resource
        Name of the resource.
    """

    limit: ClassVar[str] = "resources"

    resource: str

    def __str__(self) -> str:
        return f"{self.node}: {self.resource} {amount_of(self.amount, self.allowed, self.unit)}"


class NodeResources:
    """Executors on a node use no more of some resources than it has, up to rounding."""

    def __init__(self, rows: slice) -> None:
        self._rows = rows

    def allowed(self, placed: PlacedExecutors) -> FloatArray:
        """Return the capacity of every node for each resource, shape (rows, N)."""
        room: FloatArray = placed.problem.node_capacity[self._rows] * (1 + RELATIVE_TOLERANCE)
        return room

    def violations(self, placed: PlacedExecutors) -> Iterator[ResourceOveruse]:
        """Yield overused nodes, resource by resource."""
        problem = placed.problem
        rows = problem.resources[self._rows], problem.executor_demand[self._rows], problem.node_capacity[self._rows]
        for resource, demand, capacity, room in zip(*rows, self.allowed(placed), strict=True):
            used = placed.sum_by_node(demand)
            for node in np.flatnonzero(used > room).tolist():
                yield ResourceOveruse(
                    node=problem.cluster.node_names[node],
                    supervisor=problem.supervisors[node].id,
                    amount=float(used[node]),
                    allowed=float(capacity[node]),
                    unit=resource.unit,
                    resource=resource.name,
                )


class Cpu(NodeResources):
    """CPU within a node's ``cpu_hz``: as measured, or else as requested."""

    def __init__(self) -> None:
        super().__init__(slice(0, 1))


class Memory(NodeResources):
    """Memory within a node's ``memory.mb``, if it declares one."""

    def __init__(self) -> None:
        super().__init__(slice(1, 2))


class GenericResources(NodeResources):
    """Generic resources, such as GPUs, within a node's declared amounts; none if it declares none."""

    def __init__(self) -> None:
        super().__init__(slice(2, None))
