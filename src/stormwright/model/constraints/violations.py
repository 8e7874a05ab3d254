"""All hard constraints of a placement, and their violations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from stormwright.model.arrays import IntArray
from stormwright.model.assignment import UNPLACED
from stormwright.model.component_limits import ComponentLimits, count_components
from stormwright.model.constraints.blacklist import BlacklistedHosts
from stormwright.model.constraints.constraint import Limit, PlacedExecutors, Violation
from stormwright.model.constraints.isolation import Isolation
from stormwright.model.constraints.resources import Cpu, GenericResources, Memory, Requests
from stormwright.model.constraints.slots import (
    AllExecutorsPlaced,
    ExecutorsPerWorker,
    ExistingPorts,
    MissingSlot,
    NumberOfWorkers,
    OneTopologyPerSlot,
    WorkerCount,
)
from stormwright.model.constraints.users import UserLimits
from stormwright.model.humanize import counted

if TYPE_CHECKING:
    from stormwright.model.problem import Problem


# Separated components -----------------------------------------------------------------------------
# Components that a topology keeps apart.


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


# Violations ---------------------------------------------------------------------------------------

#: Every limit, in the order in which they are reported.
LIMITS: Final[tuple[Limit, ...]] = (
    AllExecutorsPlaced(),
    ExistingPorts(),
    Cpu(),
    Memory(),
    GenericResources(),
    Requests(),
    OneTopologyPerSlot(),
    NumberOfWorkers(),
    ExecutorsPerWorker(),
    ComponentSeparation(),
    Isolation(),
    BlacklistedHosts(),
    UserLimits(),
)


def violations(problem: Problem, slot_of_executor: IntArray) -> list[Violation]:
    """Return all violations of an assignment; empty if it is valid.

    Parameters
    ----------
    problem
        Problem of the placement.
    slot_of_executor
        Index into the problem's slots, -1 for none, shape (E,).

    Returns
    -------
    list[Violation]
        By constraint in the order of `LIMITS`, then in the problem's order.
    """
    placed = PlacedExecutors(problem, slot_of_executor)
    return [violation for limit in LIMITS for violation in limit.violations(placed)]


def broken_limits(problem: Problem, slot_of_executor: IntArray) -> list[Violation]:
    """Return violations by placed executors, without missing slots and worker counts.

    Parameters
    ----------
    problem
        Problem of the placement.
    slot_of_executor
        Index into the problem's slots, -1 for none, shape (E,).
    """
    return [
        violation
        for violation in violations(problem, slot_of_executor)
        if not isinstance(violation, MissingSlot | WorkerCount)
    ]


def other_worker_counts(problem: Problem, slot_of_executor: IntArray) -> list[WorkerCount]:
    """Return topologies placed completely in another number of workers than min(W, E), as Storm does by design."""
    placed = PlacedExecutors(problem, slot_of_executor)
    left_out = {violation.topology for violation in AllExecutorsPlaced().violations(placed)}
    return [count for count in NumberOfWorkers().violations(placed) if count.topology not in left_out]


def concerned(problem: Problem, broken: Sequence[Violation]) -> tuple[set[int], set[int]]:
    """Return nodes and topologies (indices) that violations refer to."""
    nodes = {problem.node_index[each.supervisor] for each in broken if each.supervisor is not None}
    return nodes, {problem.topology_index[each.topology] for each in broken if each.topology is not None}
