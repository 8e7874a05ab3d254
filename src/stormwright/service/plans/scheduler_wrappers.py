"""Wrappers of a scheduler: serial access from threads, limits on the search time, memory of the best placements."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from stormwright.controller.objectives.outlook import TRAFFIC, Outlooks
from stormwright.model import UNPLACED, Assignment, Problem, Scheduler, TopologyAssignment


class SerialScheduler:
    """Calls a scheduler from one thread at a time; few schedulers are safe to call from two.

    Parameters
    ----------
    scheduler
        The scheduler to call.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self._turn = scheduler, threading.Lock()

    def schedule(self, problem: Problem) -> Assignment:
        """Return the placement of the scheduler."""
        with self._turn:
            return self._scheduler.schedule(problem)


#: Seconds to search, in all and per executor: a plan of 1,000 executors then takes one second, one of 100,000 takes 15,
#: predictions and bounds included (docs/results/service-plans.md).
_ANY_SIZE_S, _EXECUTOR_S = 0.5, 7.5e-5


class TimeBoundedScheduler:
    """Gives a scheduler time to search by the size of the problem.

    Parameters
    ----------
    make
        Returns a scheduler that searches for a number of seconds.
    """

    def __init__(self, make: Callable[[float], Scheduler]) -> None:
        self._make = make

    def schedule(self, problem: Problem) -> Assignment:
        """Return the placement of the scheduler."""
        return self._make(_ANY_SIZE_S + _EXECUTOR_S * problem.num_executors).schedule(problem)


@dataclass(frozen=True)
class _Found:
    """A placement that a scheduler returned: by topology id, and the numbers of workers that it set."""

    placement: Mapping[str, TopologyAssignment]
    num_workers: Mapping[str, int]

    def on(self, problem: Problem) -> Assignment | None:
        """Return the placement in a problem's numbering; None if it no longer fits there."""
        if self.placement.keys() != problem.topology_index.keys():
            return None
        sizes = (len(self.placement[each.id].slot_of_executor) == each.num_executors for each in problem.topologies)
        if not all(sizes):
            return None
        slots = problem.with_current(self.placement).current_slot
        comes = slots[slots != problem.current_slot]
        if np.any(slots == UNPLACED) or not np.all(problem.node_usable[problem.slot_node[comes]]):
            return None
        return Assignment(slots, num_workers=self.num_workers)


#: Number of placements that are remembered for each objective: each is predicted again at every search.
_REMEMBERED = 3

#: Difference of gains in percent that is none.
_DIFFERENT_PERCENT = 1.0


class PlacementMemory:
    """Returns the best of a scheduler's answer and of earlier ones, each predicted under the present load.

    A search is random, and the load of one window differs from that of the next: without a memory a gain that was
    shown a minute ago may not be found again. The last answer is given again unless another one gains more, by at least
    a percent of which the objective is sure, or simply a percent for objectives without an error.

    Parameters
    ----------
    objective
        Objective by which answers are compared; those for little traffic are never replaced.
    """

    def __init__(self, objective: str) -> None:
        self._objective, self._found = objective, deque[_Found](maxlen=_REMEMBERED)
        self._lock = threading.Lock()

    def wrap(self, scheduler: Scheduler) -> Scheduler:
        """Return a scheduler with this memory."""
        return scheduler if self._objective == TRAFFIC else _SchedulerWithMemory(scheduler, self)

    def best(self, problem: Problem, newest: Assignment) -> Assignment:
        """Return the best of a complete answer and of earlier ones that still fit; ties go to the last one."""
        if np.any(newest.slot_of_executor == UNPLACED) or np.any(problem.current_slot == UNPLACED):
            return newest
        outlooks = Outlooks(problem, self._objective)

        def worth(answer: Assignment) -> float:
            outlook = outlooks.of(answer.slot_of_executor)
            return outlook.gain_percent if outlook.at_least_percent is None else outlook.at_least_percent

        with self._lock:
            known = [each.on(problem) for each in self._found]
        earlier = [
            replace(newest, slot_of_executor=each.slot_of_executor, num_workers=each.num_workers)
            for each in known
            if each is not None and not outlooks.placements.newly_broken(each.slot_of_executor)
        ]
        # The last one first: another one has to be better by more than a difference between two windows.
        best, *others = [*reversed(earlier), newest]
        most = worth(best)
        for each in others:
            if (gain := worth(each)) > most + _DIFFERENT_PERCENT:
                best, most = each, gain
        if most > 0:
            found = _Found(best.by_topology(problem), dict(best.num_workers))
            with self._lock:
                self._found = deque([each for each in self._found if each != found] + [found], _REMEMBERED)
        return best


class _SchedulerWithMemory:
    """A scheduler with a memory."""

    def __init__(self, scheduler: Scheduler, memory: PlacementMemory) -> None:
        self._scheduler, self._memory = scheduler, memory

    def schedule(self, problem: Problem) -> Assignment:
        return self._memory.best(problem, self._scheduler.schedule(problem))


def with_memory(
    scheduler: Scheduler, scheduler_for: Callable[[str], Scheduler] | None, objective: str
) -> tuple[Scheduler, Callable[[str], Scheduler]]:
    """Return the scheduler of a service, and the one for each objective, callable from several threads.

    Those that search for an objective share what they found for it; published schedulers have no memory.

    Parameters
    ----------
    scheduler
        Scheduler of the service.
    scheduler_for
        Returns the scheduler for an objective; None for `scheduler`.
    objective
        Objective of the service.
    """
    memories: dict[str, PlacementMemory] = {}

    def shared(goal: str, made: Scheduler) -> Scheduler:
        searches = hasattr(getattr(made, "params", None), "objective") or isinstance(made, TimeBoundedScheduler)
        memory = memories.setdefault(goal, PlacementMemory(goal))
        return SerialScheduler(memory.wrap(made) if searches else made)

    own = shared(objective, scheduler)
    return own, (lambda goal: shared(goal, scheduler_for(goal))) if scheduler_for else (lambda _: own)
