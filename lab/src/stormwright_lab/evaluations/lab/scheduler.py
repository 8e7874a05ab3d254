"""Scheduler that applies a given placement, by default that of Storm's own scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stormwright.defaults import BASELINE
from stormwright.model import UNPLACED, Assignment, Problem, Scheduler
from stormwright.schedulers import make_scheduler
from stormwright_lab.evaluations.lab.settings import SLOTS
from stormwright_lab.evaluations.placing import slots_of


class LabScheduler:
    """Scheduler of the lab: topologies go to the placement of a cell, or to that of Storm's scheduler."""

    def __init__(self) -> None:
        self._even = make_scheduler(BASELINE)
        self.wanted: Mapping[str, Sequence[tuple[int, int]]] = {}
        self.ports = SLOTS
        self.other: Scheduler | None = None

    def schedule(self, problem: Problem) -> Assignment:
        """Leave running executors in place, and put the others where the cell requires them."""
        if self.other is not None:
            return self.other.schedule(problem)
        slots = problem.current_slot.copy()
        for number, topology in enumerate(problem.topologies):
            own = problem.executors_of(number)
            if not np.all(slots[own] == UNPLACED):
                continue
            if topology.name in self.wanted:
                slots[own] = slots_of(problem, number, self.wanted[topology.name])
            else:
                taken = {int(slot) for slot in slots if slot != UNPLACED}
                slots[own] = self._evenly(problem, number, taken)
        return Assignment(slots.astype(np.int32))

    def _evenly(self, problem: Problem, number: int, taken: set[int]) -> np.ndarray[Any, np.dtype[np.int32]]:
        free = {each: slot for slot, each in enumerate(problem.slots) if slot not in taken}
        nodes = tuple(
            replace(node, ports=tuple(p for p in node.ports[: self.ports] if (node.id, p) in free))
            for node in problem.supervisors
        )
        alone = replace(problem, supervisors=nodes, topologies=(problem.topologies[number],), current={}, load=None)
        answer = self._even.schedule(alone).slot_of_executor
        return np.array([UNPLACED if slot == UNPLACED else free[alone.slots[slot]] for slot in answer], np.int32)
