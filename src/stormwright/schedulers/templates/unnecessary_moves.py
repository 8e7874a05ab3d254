"""Reversal of moves that a better placement does not need."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import BoolArray, IntArray
from stormwright.model.constraints.violations import broken_limits

#: Maximum placements to evaluate; for large problems limited by their executors together, with a minimum.
_MAX_TRIED, _MAX_EVALUATED, _SOME = 400, 2_000_000, 8


def move_back(
    problem: Problem, slots: IntArray, badness: Callable[[IntArray], float], worst: float, end_s: float = np.inf
) -> IntArray:
    """Return `slots` with all executors moved back that may stay where they run.

    Groups of topologies move back together if that is good enough, else each of their halves separately: the largest
    first.

    Parameters
    ----------
    problem
        Problem with the running placement.
    slots
        Slot of every executor, -1 for none, shape (E,).
    badness
        Badness of a placement.
    worst
        Highest badness that the result may have.
    end_s
        Time of `time.perf_counter` at which the search ends; by default never.
    """
    moved = np.flatnonzero(_moved(problem, slots)).tolist()
    most_broken = len(broken_limits(problem, slots))
    # All of them together are the running placement, which is not good enough.
    groups = deque(_halves(moved) if len(moved) > 1 else [moved] * bool(moved))
    left = min(_MAX_TRIED, max(_MAX_EVALUATED // max(problem.num_executors, 1), _SOME))
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
    """Return whether each topology is elsewhere than it runs, shape (T,)."""
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
    """Return the topologies that move back with a group: those away that block its slots.

    Returns
    -------
    chosen, alike
        Whether a topology is in the group or blocks it, shape (T,); and whether every part of the group results in the
        same ones, as each blocks the next.
    """
    from scipy.sparse import csr_array  # slow to import
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
    for one in reached:  # grows during iteration
        for other in onward[first[one] : first[one + 1]]:
            if not chosen[other]:
                chosen[other] = True
                reached.append(other)
    _, circle = connected_components(ways, connection="strong")
    return chosen, len(np.unique(circle[group])) < 2


def with_running(problem: Problem, slots: IntArray, stay: BoolArray) -> IntArray:
    """Return `slots` with topologies where they run; workers of others in their slots move to free ones.

    Parameters
    ----------
    problem
        Problem with the running placement.
    slots
        Slot of every executor, -1 for none, shape (E,).
    stay
        Whether a topology is to be where it runs, shape (T,).
    """
    stays = stay[problem.executor_topology]
    mixed = np.where(stays, problem.current_slot, slots)
    blocking = np.intersect1d(mixed[stays], mixed[~stays])
    blocking = blocking[blocking != UNPLACED]
    used = np.zeros(len(problem.slots), bool)
    used[mixed[mixed != UNPLACED]] = True
    busy = np.bincount(problem.slot_node[used], minlength=len(problem.supervisors)) > 0
    free = np.flatnonzero(~used & problem.node_usable[problem.slot_node])
    free = free[np.argsort(~busy[problem.slot_node[free]], kind="stable")]
    target = np.arange(len(problem.slots) + 1)
    target[blocking[: len(free)]] = free[: len(blocking)]
    target[blocking[len(free) :]] = target[-1] = UNPLACED
    moved: IntArray = np.where(stays, mixed, target[mixed])
    return moved
