"""All hard limits of a placement, and what of it breaks them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stormwright.model.arrays import IntArray
from stormwright.model.constraints.blacklist import BlacklistedHosts
from stormwright.model.constraints.components import ComponentsApart
from stormwright.model.constraints.constraint import Limit, PlacedExecutors, Violation
from stormwright.model.constraints.isolation import Isolation
from stormwright.model.constraints.resources import Cpu, Generic, Memory, Requests
from stormwright.model.constraints.slots import (
    EveryExecutor,
    ExecutorsPerWorker,
    ExistingPorts,
    NumberOfWorkers,
    OneTopologyPerSlot,
    WithoutSlot,
    WorkerCount,
)
from stormwright.model.constraints.users import UserLimits

if TYPE_CHECKING:
    from stormwright.model.problem import Problem

#: Every limit, in the order in which they are told.
LIMITS: Final[tuple[Limit, ...]] = (
    EveryExecutor(),
    ExistingPorts(),
    Cpu(),
    Memory(),
    Generic(),
    Requests(),
    OneTopologyPerSlot(),
    NumberOfWorkers(),
    ExecutorsPerWorker(),
    ComponentsApart(),
    Isolation(),
    BlacklistedHosts(),
    UserLimits(),
)


def violations(problem: Problem, slot_of_executor: IntArray) -> list[Violation]:
    """Everything that makes an assignment invalid; an empty list for a valid one.

    Parameters
    ----------
    problem
        Whose executors are placed.
    slot_of_executor
        Index into the problem's slots, -1 for none, shape (E,).

    Returns
    -------
    list[Violation]
        By limit as in `LIMITS`, then in the problem's order.
    """
    placed = PlacedExecutors(problem, slot_of_executor)
    return [violation for limit in LIMITS for violation in limit.violations(placed)]


def broken_limits(problem: Problem, slot_of_executor: IntArray) -> list[Violation]:
    """Limits that the placed executors break: violations but those that tell of missing slots and worker counts.

    Parameters
    ----------
    problem
        Whose executors are placed.
    slot_of_executor
        Index into the problem's slots, -1 for none, shape (E,).
    """
    return [
        violation
        for violation in violations(problem, slot_of_executor)
        if not isinstance(violation, WithoutSlot | WorkerCount)
    ]


def other_worker_counts(problem: Problem, slot_of_executor: IntArray) -> list[WorkerCount]:
    """Topologies placed as a whole in another number of workers than min(W, E): schedulers of Storm do so by design."""
    placed = PlacedExecutors(problem, slot_of_executor)
    left_out = {violation.topology for violation in EveryExecutor().violations(placed)}
    return [count for count in NumberOfWorkers().violations(placed) if count.topology not in left_out]
