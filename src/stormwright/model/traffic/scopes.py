"""Where executors are: what is near to what."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stormwright.model.arrays import IntArray
from stormwright.model.assignment import UNPLACED
from stormwright.model.problem import Problem


class Scopes(NamedTuple):
    """Slot, node and rack of every executor, -1 for none; shape (E,) each."""

    slot: IntArray
    node: IntArray
    rack: IntArray


def scopes_of(problem: Problem, slot_of_executor: IntArray) -> Scopes:
    """Where every executor is under an assignment.

    Parameters
    ----------
    problem
        Whose executors are placed.
    slot_of_executor
        Index into the problem's slots, -1 for none, shape (E,).
    """
    node = np.append(problem.slot_node, UNPLACED)[slot_of_executor]
    return Scopes(slot_of_executor, node, np.append(problem.node_rack, UNPLACED)[node])
