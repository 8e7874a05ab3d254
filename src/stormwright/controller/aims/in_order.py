"""Several goals, the more important first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from stormwright.controller.aims.gains import nodes_used
from stormwright.controller.aims.outlook import NODES, Outlooks
from stormwright.model import UNPLACED, Assignment, Problem, Scheduler
from stormwright.model.arrays import IntArray

#: By how many percent of what runs a later goal may set back an earlier one; predictions are no better than that.
GIVEN_UP_PERCENT = 1.0


class InOrder:
    """Places by goal after goal, each from where the one before it came to, and none at the cost of an earlier one.

    Where few nodes are an earlier goal, a later one has only those that are then in use. What it finds counts if no
    earlier goal loses more than `GIVEN_UP_PERCENT` by it.

    Parameters
    ----------
    goals
        Of `stormwright.controller.aims.outlook.OBJECTIVES`, the most important first; at least one.
    scheduler
        Goal → who decides about it.
    """

    moves_running = True

    def __init__(self, goals: Sequence[str], scheduler: Callable[[str], Scheduler]) -> None:
        self._goals = [(goal, scheduler(goal)) for goal in goals]

    def schedule(self, problem: Problem) -> Assignment:
        """Place everything; it raises what the schedulers raise."""
        first, scheduler = self._goals[0]
        found, before = scheduler.schedule(problem), [first]
        for goal, scheduler in self._goals[1:]:
            other = scheduler.schedule(_from(problem, found, only_used=NODES in before))
            if all(_kept(problem, earlier, found.slot_of_executor, other.slot_of_executor) for earlier in before):
                found = other
            before.append(goal)
        return found


def _from(problem: Problem, found: Assignment, *, only_used: bool) -> Problem:
    """The problem as it would be where `found` runs, under the load of now."""
    moved = problem.with_moved(found.by_topology(problem))
    if not only_used:
        return moved
    slots = found.slot_of_executor
    used = {problem.supervisors[node].host for node in problem.slot_node[slots[slots != UNPLACED]].tolist()}
    idle = {node.host for node in problem.supervisors} - used
    return replace(moved, blacklisted_hosts=problem.blacklisted_hosts | idle)


def _kept(problem: Problem, goal: str, slots: IntArray, other: IntArray) -> bool:
    """Whether `other` is as good for a goal as `slots` is."""
    if goal == NODES and nodes_used(problem, other) > nodes_used(problem, slots):
        return False
    outlooks = Outlooks(problem, goal)
    gains = [outlooks.of(each).gain_percent for each in (slots, other)]
    return gains[1] >= gains[0] - GIVEN_UP_PERCENT
