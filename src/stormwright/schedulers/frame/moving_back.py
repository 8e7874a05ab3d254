"""Without moves that bring nothing: what may as well stay where it runs, topologies together and then by halves."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import BoolArray, IntArray
from stormwright.model.constraints.violations import broken_limits

#: At most so many placements are judged; of large problems those of so many executors together, but some in any case.
_MOST_TRIED, _MOST_JUDGED, _SOME = 400, 2_000_000, 8


def move_back(
    problem: Problem, slots: IntArray, badness: Callable[[IntArray], float], worst: float, end_s: float = np.inf
) -> IntArray:
    """What of `slots` may stay where it runs, stays.

    Groups of topologies go back together where that is good enough, else each of their halves by itself: the largest
    first.

    Parameters
    ----------
    problem
        What runs.
    slots
        Slot of every executor, -1 for none, shape (E,).
    badness
        Of a placement.
    worst
        What it may be.
    end_s
        By `time.perf_counter`, when no more is tried.
    """
    moved = np.flatnonzero(_moved(problem, slots)).tolist()
    most_broken = len(broken_limits(problem, slots))
    # All of them together are what runs, which is not good enough.
    groups = deque(_halves(moved) if len(moved) > 1 else [moved] * bool(moved))
    left = min(_MOST_TRIED, max(_MOST_JUDGED // max(problem.num_executors, 1), _SOME))
    while groups and left and time.perf_counter() < end_s:
        away = _moved(problem, slots)
        group = [topology for topology in groups.popleft() if away[topology]]
        chosen, alike = _with_those_in_the_way(problem, slots, group, away)
        if not group or np.array_equal(chosen, away):
            groups.extend(_halves(group) if not alike else ())
            continue
        back = np.where(chosen[problem.executor_topology], problem.current_slot, slots)
        broken = len(broken_limits(problem, back))
        left -= 1
        if broken <= most_broken and badness(back) <= worst:
            slots, most_broken = back, broken
        elif len(group) > 1:
            groups.extend(_halves(group))
    return slots


def _moved(problem: Problem, slots: IntArray) -> BoolArray:
    """Whether a topology is elsewhere than it runs, shape (T,)."""
    elsewhere: BoolArray = (
        np.bincount(problem.executor_topology, slots != problem.current_slot, len(problem.topologies)) > 0
    )
    return elsewhere


def _halves(group: list[int]) -> list[list[int]]:
    half = len(group) // 2
    return [group[:half], group[half:]]


def _with_those_in_the_way(
    problem: Problem, slots: IntArray, group: list[int], away: BoolArray
) -> tuple[BoolArray, bool]:
    """Which topologies go back with a group: those that are away and have a slot where others go back to.

    Returns
    -------
    chosen, alike
        Whether a topology is of the group or one of those, shape (T,); and whether the same go back with every part of
        the group, as each of it is in the way of the next.
    """
    from scipy.sparse import csr_array  # takes longer to import than the rest
    from scipy.sparse.csgraph import connected_components

    topology, count = problem.executor_topology, len(away)
    owner = np.full(len(problem.slots) + 1, UNPLACED)
    owner[slots] = topology
    owner[UNPLACED] = UNPLACED
    there = owner[problem.current_slot]
    blocked = np.flatnonzero((there != UNPLACED) & away[there])
    ways = csr_array((np.ones(len(blocked)), (topology[blocked], there[blocked])), shape=(count, count))
    first, onward = ways.indptr.tolist(), ways.indices.tolist()
    chosen = np.zeros(count, dtype=bool)
    chosen[group] = True
    reached = list(group)
    for one in reached:  # grows meanwhile
        for other in onward[first[one] : first[one + 1]]:
            if not chosen[other]:
                chosen[other] = True
                reached.append(other)
    _, circle = connected_components(ways, connection="strong")
    return chosen, len(np.unique(circle[group])) < 2
