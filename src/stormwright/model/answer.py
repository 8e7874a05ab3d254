"""A scheduler's answer: a placement of all executors, and why some have no slot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stormwright.errors import Fault, InputError
from stormwright.model.arrays import ByContent, IntArray
from stormwright.model.assignment import UNPLACED, TopologyAssignment, Unplaced
from stormwright.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Assignment(ByContent):
    """A scheduler's answer. Answers with equal content are equal.

    Parameters
    ----------
    slot_of_executor
        Index into the problem's slots for every executor of the problem, -1 if unplaced, shape (E,).
    unplaced
        The reasons for every -1.
    status
        Topology id → its status text in Storm's UI.
    scheduler, parameters, seconds
        The scheduler, its parameters, and the time it took.
    num_workers
        Topology id → number of workers to set (``rebalance -n``), if the scheduler chose another one than requested.
    """

    slot_of_executor: IntArray
    unplaced: tuple[Unplaced, ...] = ()
    status: Mapping[str, str] = field(default_factory=dict)
    scheduler: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    num_workers: Mapping[str, int] = field(default_factory=dict)

    def by_topology(self, problem: Problem) -> dict[str, TopologyAssignment]:
        """Return the same answer by name, topology by topology; slots in the order of their first executor."""
        return {
            topology.id: name_slots(problem, self.slot_of_executor[problem.executors_of(index)])
            for index, topology in enumerate(problem.topologies)
        }

    def grouped_reasons(self) -> list[tuple[str, int, tuple[str, ...]]]:
        """Return topology, number of its unplaced executors, and reasons, grouped by equal reasons."""
        together = Counter((executor.topology, executor.reasons) for executor in self.unplaced)
        return [(topology, count, reasons) for (topology, reasons), count in together.items()]

    def reasons_of_topologies(self) -> dict[str, tuple[str, ...]]:
        """Return topology id → distinct reasons of its unplaced executors."""
        found: dict[str, dict[str, None]] = {}
        for executor in self.unplaced:
            found.setdefault(executor.topology, {}).update(dict.fromkeys(executor.reasons))
        return {topology: tuple(reasons) for topology, reasons in found.items() if reasons}


def name_slots(problem: Problem, slot_of_executor: IntArray) -> TopologyAssignment:
    """Return the slots of one topology's executors (indices into the problem's slots) by name."""
    listed = slot_of_executor.tolist()
    slots = [slot for slot in dict.fromkeys(listed) if slot != UNPLACED]
    position = {UNPLACED: UNPLACED, **{slot: number for number, slot in enumerate(slots)}}
    return TopologyAssignment(tuple(problem.slots[slot] for slot in slots), tuple(map(position.__getitem__, listed)))


def slots_in(problem: Problem, assignment: Assignment) -> IntArray:
    """Return the slot of every executor in an assignment.

    Raises
    ------
    InputError
        It is no assignment, or one of a problem with other executors or slots.
    """
    if wrong := _placement_error(problem, assignment):
        raise InputError("assignment", [Fault(wrong, "$")])
    return assignment.slot_of_executor


def _placement_error(problem: Problem, assignment: object) -> str:
    if not isinstance(assignment, Assignment):
        return f"should be an Assignment, as place(problem) gives it, got {type(assignment).__name__}"
    slots = np.asarray(assignment.slot_of_executor)
    if slots.shape != (problem.num_executors,):
        return (
            f"is of another problem: it places {slots.size:,} executors, and this problem has {problem.num_executors:,}"
        )
    if not np.issubdtype(slots.dtype, np.integer):
        return f"its slots should be integers, not {slots.dtype}"
    if np.any((slots < UNPLACED) | (slots >= len(problem.slots))):
        return f"is of another problem: it has slots that this problem, with {len(problem.slots):,} of them, has not"
    return ""
