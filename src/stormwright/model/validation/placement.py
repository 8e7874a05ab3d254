"""Whether an answer that somebody hands in is one to the problem at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stormwright.errors import Fault, InputError
from stormwright.model.assignment import UNPLACED, Assignment

if TYPE_CHECKING:
    from stormwright.model.arrays import IntArray
    from stormwright.model.problem import Problem


def slots_in(problem: Problem, assignment: Assignment) -> IntArray:
    """Slot of every executor, as an assignment has it.

    Raises
    ------
    InputError
        It is no assignment, or one of a problem with other executors or slots.
    """
    if wrong := _wrong(problem, assignment):
        raise InputError("assignment", [Fault(wrong, "$")])
    return assignment.slot_of_executor


def _wrong(problem: Problem, assignment: object) -> str:
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
