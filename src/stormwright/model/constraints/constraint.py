"""What every limit is, what breaking one is, and the placement that limits look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray, IndexArray, IntArray
from stormwright.model.assignment import UNPLACED
from stormwright.model.cluster import WorkerSlot

if TYPE_CHECKING:
    from stormwright.model.problem import Problem

#: Sums of many loads differ from a capacity in the last digits only by rounding.
RELATIVE_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One thing that breaks a limit. Its text is made of the rest, and never looked into.

    Parameters
    ----------
    topology
        Id of the topology that breaks it; None where no single one does.
    node, supervisor
        Name of the node on which it is broken, and the id of its supervisor; None where it is on no single one.
    slot
        The worker slot, where it is broken in one.
    amount, allowed
        How much there is, and how much may be.
    unit
        Of both; empty for counts.
    """

    #: Name of the limit.
    limit: ClassVar[str]
    #: What is counted where there is no unit.
    of: ClassVar[str] = ""

    topology: str | None = None
    node: str | None = None
    supervisor: str | None = None
    slot: WorkerSlot | None = None
    amount: float
    allowed: float
    unit: str = ""

    def __str__(self) -> str:
        raise NotImplementedError

    @property
    def place(self) -> str | None:
        """Name of the worker slot."""
        return None if self.slot is None else f"{self.node}:{self.slot.port}"

    def as_dict(self) -> dict[str, Any]:
        """The same for programs, the text last."""
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        told |= {"slot": self.place, "unit": self.unit or self.of or None}
        return {"limit": self.limit, **told, "text": str(self)}


class PlacedWorkers(NamedTuple):
    """Workers of a placement by topology, then slot; a slot that topologies share is a worker of each.

    Each of shape (W,).
    """

    topology: IndexArray
    slot: IndexArray
    executors: IndexArray


class PlacedExecutors:
    """A placement of a problem's executors, as limits look at it.

    Parameters
    ----------
    problem
        Whose executors they are.
    slot_of_executor
        Index into the problem's slots, -1 for none, shape (E,).
    """

    def __init__(self, problem: Problem, slot_of_executor: IntArray) -> None:
        self.problem = problem
        self.given = slot_of_executor
        known = (slot_of_executor >= UNPLACED) & (slot_of_executor < len(problem.slots))
        #: Without slots that do not exist.
        self.slots: IntArray = slot_of_executor if known.all() else np.where(known, slot_of_executor, UNPLACED)
        self.placed: BoolArray = self.slots != UNPLACED

    @cached_property
    def node(self) -> IndexArray:
        """Node of every executor that is placed."""
        node: IndexArray = self.problem.slot_node[self.slots[self.placed]]
        return node

    @cached_property
    def workers(self) -> PlacedWorkers:
        """Every worker, in order of topologies and slots."""
        count = max(len(self.problem.slots), 1)
        keys = self.problem.executor_topology[self.placed].astype(np.int64) * count + self.slots[self.placed]
        found, executors = np.unique(keys, return_counts=True)
        return PlacedWorkers(found // count, found % count, executors)

    def sum_by_node(self, demand: FloatArray) -> FloatArray:
        """Sum of a demand per executor, shape (E,), over nodes, shape (N,)."""
        weights, length = demand[self.placed], len(self.problem.supervisors)
        return np.bincount(self.node, weights=weights, minlength=length).astype(float)


class Limit(Protocol):
    """A hard limit."""

    def violations(self, placed: PlacedExecutors) -> Iterator[Violation]:
        """What of a placement breaks it, in the problem's order."""
        ...


def node_sum(problem: Problem, slot_of_executor: IntArray, demand: FloatArray) -> FloatArray:
    """Sum of a demand per executor over the nodes that a placement puts them on, shape (N,).

    Parameters
    ----------
    problem
        Whose executors they are.
    slot_of_executor
        The placement, -1 for none, shape (E,).
    demand
        Of each executor, shape (E,).
    """
    return PlacedExecutors(problem, slot_of_executor).sum_by_node(demand)
