"""Without moves that bring nothing: what may as well stay where it runs, topologies together and then by halves."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import BoolArray, IntArray
from stormwright.model.limits.violations import broken_limits

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
        chosen = _with_those_in_the_way(problem, slots, group, away)
        if not group or np.array_equal(chosen, away):
            groups.extend(_halves(group) if len(group) > 1 else ())
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


def _with_those_in_the_way(problem: Problem, slots: IntArray, group: list[int], away: BoolArray) -> BoolArray:
    """Whether a topology is of the group, or one that is away and has a slot where others go back to; shape (T,)."""
    now, topology = problem.current_slot, problem.executor_topology
    owner = np.full(len(problem.slots) + 1, UNPLACED)
    owner[slots] = topology
    owner[UNPLACED] = UNPLACED
    in_slot = owner[now]
    chosen = np.zeros(len(away), dtype=bool)
    chosen[group] = True
    while True:
        there = in_slot[chosen[topology]]
        there = there[there != UNPLACED]
        more = there[away[there] & ~chosen[there]]
        if not len(more):
            return chosen
        chosen[more] = True
