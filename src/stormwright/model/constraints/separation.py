"""Constraint: components of a topology that may share neither nodes nor workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stormwright.model.arrays import IntArray
from stormwright.model.assignment import UNPLACED
from stormwright.model.component_limits import ComponentLimits, count_components
from stormwright.model.constraints.constraint import PlacedExecutors, Violation
from stormwright.model.humanize import counted


@dataclass(frozen=True, kw_only=True)
class CrowdedNode(Violation):
    """A node with too many executors of a component.

    Parameters
    ----------
    component
        Id of the component; `amount` and `allowed` are numbers of its executors.
    """

    limit: ClassVar[str] = "components on a node"
    counted_items: ClassVar[str] = "executors"

    component: str

    def __str__(self) -> str:
        return f"{self.topology}: {self.amount} executors of {self.component} on {self.node}, limit {self.allowed}"


@dataclass(frozen=True, kw_only=True)
class IncompatibleExecutors(Violation):
    """A worker with executors of components that may not share one; `amount` of the first.

    Parameters
    ----------
    component, other
        The two components; identical if a worker may have one executor of it.
    others
        Number of executors of the other one.
    """

    limit: ClassVar[str] = "incompatible components"
    counted_items: ClassVar[str] = "executors"

    component: str
    other: str
    others: int

    def __str__(self) -> str:
        too = "" if self.component == self.other else f" and {self.others} of {self.other}"
        these = f"{counted(int(self.amount), 'executor')} of {self.component}{too}"
        return f"{self.topology}: {these} in {self.place}, incompatible"


class ComponentSeparation:
    """Executors of components are separated as `ComponentLimits` of their topology demand."""

    def violations(self, placed: PlacedExecutors) -> Iterator[CrowdedNode | IncompatibleExecutors]:
        """Yield overcrowded nodes, then workers with incompatible components, topology by topology."""
        for index, limits in placed.problem.component_limits.items():
            yield from self._crowded(placed, index, limits)
            yield from self._incompatible(placed, index, limits)

    def _crowded(self, placed: PlacedExecutors, index: int, limits: ComponentLimits) -> Iterator[CrowdedNode]:
        problem, topology = placed.problem, placed.problem.topologies[index]
        slots, component = _of(placed, index)
        nodes, on_node = np.unique(problem.slot_node[slots], return_inverse=True)
        there = count_components(on_node, component, len(nodes), len(topology.components))
        for node, c in np.argwhere(limits.crowded(there)).tolist():
            yield CrowdedNode(
                topology=topology.id,
                node=problem.cluster.node_names[nodes[node]],
                supervisor=problem.supervisors[nodes[node]].id,
                amount=int(there[node, c]),
                allowed=int(limits.most_on_node[c]),
                component=topology.components[c].id,
            )

    def _incompatible(
        self, placed: PlacedExecutors, index: int, limits: ComponentLimits
    ) -> Iterator[IncompatibleExecutors]:
        problem, topology = placed.problem, placed.problem.topologies[index]
        slots, component = _of(placed, index)
        used, in_worker = np.unique(slots, return_inverse=True)
        there = count_components(in_worker, component, len(used), len(topology.components))
        for worker in np.flatnonzero(limits.clashes(there).any(axis=1)).tolist():
            held, slot = there[worker].tolist(), problem.slots[used[worker]]
            for a, b in np.argwhere(np.triu(limits.incompatible)).tolist():
                if held[a] and held[b] > (a == b):
                    yield IncompatibleExecutors(
                        topology=topology.id,
                        node=problem.cluster.node_names[problem.slot_node[used[worker]]],
                        supervisor=slot.supervisor,
                        slot=slot,
                        amount=held[a],
                        allowed=int(a == b),
                        component=topology.components[a].id,
                        other=topology.components[b].id,
                        others=held[b],
                    )


def _of(placed: PlacedExecutors, index: int) -> tuple[IntArray, IntArray]:
    """Return slot and component of the placed executors of a topology."""
    slots = placed.slots[placed.problem.executors_of(index)]
    there = slots != UNPLACED
    return slots[there], placed.problem.topologies[index].executor_component[there]
