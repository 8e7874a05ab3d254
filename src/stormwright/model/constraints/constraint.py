"""Base of constraints and violations, and the placement that they check."""

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
    """One violation of a constraint. Its text is derived from the other fields.

    Parameters
    ----------
    topology
        Id of the topology; None if there is no single one.
    node, supervisor
        Display name of the node and id of its supervisor; None if there is no single one.
    slot
        The worker slot, if it concerns one.
    amount, allowed
        The actual amount, and the maximum.
    unit
        Unit of both; empty for counts.
    """

    #: Name of the limit.
    limit: ClassVar[str]
    #: Counted items, if the amount has no unit.
    counted_items: ClassVar[str] = ""

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
        """Display name of the worker slot."""
        return None if self.slot is None else f"{self.node}:{self.slot.port}"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs, the text last."""
        text = {field.name: getattr(self, field.name) for field in fields(self)}
        text |= {"slot": self.place, "unit": self.unit or self.counted_items or None}
        return {"limit": self.limit, **text, "text": str(self)}


class PlacedWorkers(NamedTuple):
    """Workers of a placement by topology, then slot, each array of shape (W,).

    A slot that topologies share counts as a worker of each.
    """

    topology: IndexArray
    slot: IndexArray
    executors: IndexArray


class PlacedExecutors:
    """A placement of a problem's executors, as constraints check it.

    Parameters
    ----------
    problem
        Problem of the placement.
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
        """Node of every placed executor."""
        node: IndexArray = self.problem.slot_node[self.slots[self.placed]]
        return node

    @cached_property
    def workers(self) -> PlacedWorkers:
        """All workers, ordered by topology and slot."""
        count = self._slot_count
        found, executors = np.unique(self._worker_keys, return_counts=True)
        return PlacedWorkers(found // count, found % count, executors)

    @cached_property
    def worker(self) -> IndexArray:
        """Position in `workers` of the worker of every placed executor."""
        workers = self.workers
        return np.searchsorted(workers.topology * self._slot_count + workers.slot, self._worker_keys)

    @property
    def _slot_count(self) -> int:
        return max(len(self.problem.slots), 1)

    @cached_property
    def _worker_keys(self) -> IndexArray:
        topology = self.problem.executor_topology[self.placed].astype(np.int64)
        keys: IndexArray = topology * self._slot_count + self.slots[self.placed]
        return keys

    def sum_by_node(self, demand: FloatArray) -> FloatArray:
        """Return the sum of a demand per executor, shape (E,), over nodes, shape (N,)."""
        weights, length = demand[self.placed], len(self.problem.supervisors)
        return np.bincount(self.node, weights=weights, minlength=length).astype(float)


class Limit(Protocol):
    """A hard constraint."""

    def violations(self, placed: PlacedExecutors) -> Iterator[Violation]:
        """Yield the violations of a placement, in the problem's order."""
        ...


def node_sum(problem: Problem, slot_of_executor: IntArray, demand: FloatArray) -> FloatArray:
    """Return the sum of a demand per executor over the nodes of a placement, shape (N,).

    Parameters
    ----------
    problem
        Problem of the placement.
    slot_of_executor
        The placement, -1 for none, shape (E,).
    demand
        Demand of each executor, shape (E,).
    """
    return PlacedExecutors(problem, slot_of_executor).sum_by_node(demand)
