"""Objectives of placements: one quantity to improve, or several in the order of their importance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from stormwright.controller.objectives.gains import nodes_used
from stormwright.controller.objectives.outlook import NODES, TRAFFIC, Outlooks
from stormwright.controller.planning.order import Forbidden
from stormwright.model import UNPLACED, Assignment, Problem, Scheduler
from stormwright.model.arrays import IntArray
from stormwright.predict.answer import Assumptions
from stormwright.schedulers.toolkit.triggers import ONLINE, Adaptation

#: Percent of the current value by which a later goal may worsen an earlier one: the accuracy of predictions.
GIVEN_UP_PERCENT = 1.0

#: Problem, wanted slots, their worth, and measured trees/s, by topology id → why topologies do not go there
#: (`stormwright.controller.objectives.refusals.RefusedPlacements.stay`).
Refuses = Callable[[Problem, IntArray, Mapping[str, float], Mapping[str, float]], Mapping[str, str | Forbidden]]


class LexicographicObjective:
    """A scheduler for several goals in order of importance; later goals never worsen earlier ones.

    If few nodes are an earlier goal, later goals use only the nodes then in use. A result is accepted if no earlier
    goal loses more than `GIVEN_UP_PERCENT` by it.

    Parameters
    ----------
    goals
        Goals from `stormwright.controller.objectives.outlook.OBJECTIVES`, the most important first; at least one.
    scheduler
        Returns the scheduler for a goal; called once per goal.
    """

    moves_running = True

    def __init__(self, goals: Sequence[str], scheduler: Callable[[str], Scheduler]) -> None:
        self._goals = [(goal, scheduler(goal)) for goal in goals]

    def schedule(self, problem: Problem) -> Assignment:
        """Return a placement of all executors; errors of the schedulers are passed on."""
        first, scheduler = self._goals[0]
        found, before = scheduler.schedule(problem), [first]
        for goal, scheduler in self._goals[1:]:
            other = scheduler.schedule(_from(problem, found, only_used=NODES in before))
            if all(_is_as_good(problem, earlier, found.slot_of_executor, other.slot_of_executor) for earlier in before):
                found = other
            before.append(goal)
        return found


def _from(problem: Problem, found: Assignment, *, only_used: bool) -> Problem:
    """Return the problem as if `found` were running, under the current load."""
    moved = problem.with_moved(found.by_topology(problem))
    if not only_used:
        return moved
    slots = found.slot_of_executor
    used = {problem.supervisors[node].host for node in problem.slot_node[slots[slots != UNPLACED]].tolist()}
    idle = {node.host for node in problem.supervisors} - used
    return replace(moved, blacklisted_hosts=problem.blacklisted_hosts | idle)


def _is_as_good(problem: Problem, goal: str, slots: IntArray, other: IntArray) -> bool:
    """Return whether `other` is as good for a goal as `slots`."""
    if goal == NODES and nodes_used(problem, other) > nodes_used(problem, slots):
        return False
    outlooks = Outlooks(problem, goal)
    gains = [outlooks.of(each).gain_percent for each in (slots, other)]
    return gains[1] >= gains[0] - GIVEN_UP_PERCENT


@dataclass(frozen=True)
class PlacementAim:
    """The objective of placements with its assumptions and refusals.

    Parameters
    ----------
    objective
        Quantity to improve, one of `stormwright.controller.objectives.outlook.OBJECTIVES`.
    assumptions
        Assumptions of predictions; None for defaults.
    refuses
        Returns which placements are refused.
    adapts
        When the placement is checked, and with objective traffic the required gain; by default as Aniello et al.
    """

    objective: str = TRAFFIC
    assumptions: Assumptions | None = None
    refuses: Refuses = lambda *_: {}
    adapts: Adaptation = ONLINE
