"""Wrappers of a scheduler: serial access from threads, and limits on the search time."""

from __future__ import annotations

import threading
from collections.abc import Callable

from stormwright.model import Assignment, Problem, Scheduler


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
