"""A scheduler that searches for as long as it is told, asked by somebody who waits for the answer."""

from __future__ import annotations

from collections.abc import Callable

from stormwright.model import Assignment, Problem, Scheduler

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
