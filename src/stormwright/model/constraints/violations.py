"""All hard constraints of a placement, and their violations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from stormwright.model.arrays import IntArray
from stormwright.model.constraints.blacklist import BlacklistedHosts
from stormwright.model.constraints.constraint import Limit, PlacedExecutors, Violation
from stormwright.model.constraints.isolation import Isolation
from stormwright.model.constraints.requests import Requests
from stormwright.model.constraints.resources import Cpu, GenericResources, Memory
from stormwright.model.constraints.separation import ComponentSeparation
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

if TYPE_CHECKING:
    from stormwright.model.problem import Problem


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
