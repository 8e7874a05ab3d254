"""A scheduler that is given so much time and no more, and whatever happens in it stays there."""

from __future__ import annotations

import threading
from collections.abc import Callable

from stormwright import stdout
from stormwright.errors import InputError, SchedulerError
from stormwright.model import Assignment, Problem, Scheduler


class TimeLimited:
    """Calls a scheduler in a thread of its own, one call at a time.

    A thread cannot be ended from outside. A call that is not through in time is left alone and its answer dropped;
    until it ends every further call is refused at once.

    Parameters
    ----------
    scheduler, name
        The scheduler, and what messages call it.
    """

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self._scheduler = scheduler
        self._name = name
        self._under_way: _Call | None = None

    def schedule(self, problem: Problem, limit_s: float | None = None) -> Assignment:
        """Place the executors of `problem` within `limit_s` seconds; None: however long it takes.

        Raises
        ------
        SchedulerError
            There is no answer: it took too long, still does, or failed.
        InputError
            The scheduler cannot use the problem.
        """
        if self._under_way and self._under_way.is_alive():
            raise SchedulerError(f"{self._name} still decides about an earlier state of the cluster")
        call = self._under_way = _Call(lambda: self._scheduler.schedule(problem))
        if not call.ended_within(limit_s):
            raise SchedulerError(f"{self._name} had no answer within {limit_s:.1f} s")
        self._under_way = None
        if isinstance(call.error, InputError):
            raise call.error
        if call.error is not None:
            raise SchedulerError(f"{self._name} failed: {type(call.error).__name__}: {call.error}") from call.error
        if not isinstance(call.answer, Assignment):
            raise SchedulerError(f"{self._name} answered nonsense: a {type(call.answer).__name__}, not an Assignment")
        return call.answer

    def warm_up(self, call: Callable[[Scheduler], None], limit_s: float) -> bool:
        """Have `call` use the scheduler; False if it is not through after `limit_s` seconds, and goes on."""
        self._under_way = _Call(lambda: call(self._scheduler))
        return self._under_way.ended_within(limit_s)


class _Call(threading.Thread):
    """A call under way; afterwards its answer or its error."""

    def __init__(self, function: Callable[[], object]) -> None:
        # A daemon: a scheduler that never returns does not keep the service from ending.
        super().__init__(name="stormwright-initial", daemon=True)
        self._function = function
        self.answer: object = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.answer = self._function()
        except BaseException as error:  # SystemExit of a plugin is no wish of ours to end
            self.error = error

    def ended_within(self, limit_s: float | None) -> bool:
        self.join(limit_s)
        if self.is_alive():
            stdout.leave_alone(self)
        return not self.is_alive()
