"""A scheduler that searches for as long as it is told, asked by somebody who waits for the answer."""

from __future__ import annotations

import threading
from collections.abc import Callable

from stormwright.model import Assignment, Problem, Scheduler

# Serial access ------------------------------------------------------------------------------------
# A scheduler that two threads ask, one after the other.


class SerialScheduler:
    """Asks a scheduler for the service and for a person's plan in turn: few may be asked from two threads at once.

    Parameters
    ----------
    scheduler
        Who decides.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self._turn = scheduler, threading.Lock()

    def schedule(self, problem: Problem) -> Assignment:
        """Its answer."""
        with self._turn:
            return self._scheduler.schedule(problem)


# Scheduler wrappers -------------------------------------------------------------------------------

#: Seconds to search: a plan of 1,000 executors is there after one second then, one of 100,000 after 15, with what is
#: predicted of it and proven (docs/results/service-plans.md).
_ANY_SIZE_S, _EXECUTOR_S = 0.5, 7.5e-5


class TimeBoundedScheduler:
    """Gives a scheduler time to search by the size of the problem.

    Parameters
    ----------
    make
        Seconds to search → the scheduler.
    """

    def __init__(self, make: Callable[[float], Scheduler]) -> None:
        self._make = make

    def schedule(self, problem: Problem) -> Assignment:
        """Its answer."""
        return self._make(_ANY_SIZE_S + _EXECUTOR_S * problem.num_executors).schedule(problem)
