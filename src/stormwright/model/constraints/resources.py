"""What nodes have: CPU, memory and generic resources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stormwright.model.arrays import FloatArray
from stormwright.model.constraints.limit import RELATIVE_TOLERANCE, PlacedExecutors, Violation
from stormwright.model.humanize import amount_of


@dataclass(frozen=True, kw_only=True)
class Overused(Violation):
    """A node on which executors use more of a resource than it has.

    Parameters
    ----------
    resource
        Its name.
    """

    limit: ClassVar[str] = "resources"

    resource: str

    def __str__(self) -> str:
        return f"{self.node}: {self.resource} {amount_of(self.amount, self.allowed, self.unit)}"


class NodeResources:
    """Executors on a node use no more of some of the problem's resources than it has, rounding apart."""

    def __init__(self, rows: slice) -> None:
        self._rows = rows

    def allowed(self, placed: PlacedExecutors) -> FloatArray:
        """What executors on every node may use of each resource, shape (rows, N)."""
        room: FloatArray = placed.problem.node_capacity[self._rows] * (1 + RELATIVE_TOLERANCE)
        return room

    def violations(self, placed: PlacedExecutors) -> Iterator[Overused]:
        """Nodes that are overused, resource by resource."""
        problem = placed.problem
        rows = problem.resources[self._rows], problem.executor_demand[self._rows], problem.node_capacity[self._rows]
        for resource, demand, capacity, room in zip(*rows, self.allowed(placed), strict=True):
            used = placed.sum_by_node(demand)
            for node in np.flatnonzero(used > room).tolist():
                yield Overused(
                    node=problem.cluster.node_names[node],
                    supervisor=problem.supervisors[node].id,
                    amount=float(used[node]),
                    allowed=float(capacity[node]),
                    unit=resource.unit,
                    resource=resource.name,
                )


class Cpu(NodeResources):
    """CPU within a node's ``cpu_hz``.

    What executors use is measured, or else what their components ask for.
    """

    def __init__(self) -> None:
        super().__init__(slice(0, 1))


class Memory(NodeResources):
    """Memory within a node's ``memory.mb``.

    A node that does not tell has no such limit.
    """

    def __init__(self) -> None:
        super().__init__(slice(1, 2))


class Generic(NodeResources):
    """Generic resources, such as GPUs, within what a node tells of them.

    A node that does not tell has none.
    """

    def __init__(self) -> None:
        super().__init__(slice(2, None))
