"""A scheduler that two threads ask, one after the other."""

from __future__ import annotations

import threading

from stormwright.model import Assignment, Problem, Scheduler


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
