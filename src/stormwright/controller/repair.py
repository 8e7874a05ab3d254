"""Repair of all violations with the fewest moves."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations, islice

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem, Scheduler
from stormwright.model.arrays import IntArray
from stormwright.model.constraints.constraint import Violation
from stormwright.model.constraints.violations import broken_limits, concerned

#: Maximum number of sets tried exhaustively; beyond it topologies are added greedily.
_TRIES = 60

#: Maximum size of sets tried in all combinations.
_SMALLEST_UP_TO = 3


class FewestMoves:
    """A scheduler that resolves all violations by moving as few topologies as it finds.

    Executors that are on nodes, or of topologies, of which a limit is broken lose their slots, those of as few
    topologies as suffice; and `scheduler` places them beside all that runs on. Where no set of topologies ends all of
    it, the one that leaves least is taken. Ties are broken by the order of the problem.

    Parameters
    ----------
    scheduler
        Scheduler that places executors without slots and leaves running ones alone.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def schedule(self, problem: Problem) -> Assignment:
        """Return the placement; the current one if nothing is violated or nothing can be done."""
        now = problem.current_slot
        broken = broken_limits(problem, now)
        best, least = now, len(broken)
        if broken:
            movable = _movable(problem, broken)
            for chosen in _sets(movable):
                slots = self._without(problem, chosen, broken)
                left = least if slots is None else len(broken_limits(problem, slots))
                if slots is not None and left < least:
                    best, least = slots, left
                if not least:
                    return Assignment(best)
            return Assignment(self._one_by_one(problem, movable))
        return Assignment(best)

    def _one_by_one(self, problem: Problem, movable: Sequence[int]) -> IntArray:
        """Move concerned topologies one by one if that resolves a violation."""
        slots: IntArray = problem.current_slot
        for index in movable:
            now = problem.with_current(Assignment(slots).by_topology(problem))
            broken = broken_limits(now, slots)
            if not broken:
                break
            then = self._without(now, [index], broken)
            if then is not None and len(broken_limits(now, then)) < len(broken):
                slots = then
        return slots

    def _without(self, problem: Problem, chosen: Collection[int], broken: Sequence[Violation]) -> IntArray | None:
        """Return a placement after placing some topologies (indices) from scratch; None if it is impossible."""
        slots = problem.current_slot.copy()
        nodes, _ = concerned(problem, broken)
        _, whole = concerned(problem, [each for each in broken if each.node is None])
        there = np.isin(problem.slot_node[slots], list(nodes)) | np.isin(problem.executor_topology, list(whole))
        slots[there & np.isin(problem.executor_topology, list(chosen))] = UNPLACED
        answer = self._scheduler.schedule(problem.with_current(Assignment(slots).by_topology(problem)))
        found = answer.slot_of_executor
        return None if (found == UNPLACED).any() else found


def _movable(problem: Problem, broken: Sequence[Violation]) -> list[int]:
    """Return the topologies (indices) concerned; those that take most CPU of the nodes first."""
    nodes, own = concerned(problem, broken)
    there = np.isin(problem.slot_node[problem.current_slot], list(nodes)) & (problem.current_slot != UNPLACED)
    cpu_hz = np.bincount(
        problem.executor_topology[there], problem.executor_cpu_hz[there], minlength=len(problem.topologies)
    )
    found = own | set(np.unique(problem.executor_topology[there]).tolist())
    runs = {index for index in found if (problem.current_slot[problem.executors_of(index)] != UNPLACED).all()}
    return sorted(runs, key=lambda index: (-cpu_hz[index], index))


def _sets(movable: Sequence[int]) -> list[tuple[int, ...]]:
    each = (chosen for size in range(1, _SMALLEST_UP_TO + 1) for chosen in combinations(movable, size))
    return list(islice(each, _TRIES))
