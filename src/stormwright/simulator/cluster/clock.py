"""Virtual time: it advances only while a thread waits, and runs all events that are due."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

Event = Callable[[], None]

#: Real seconds of delay that it makes up for by running faster.
_BEHIND_S = 1.0


class VirtualClock:
    """Clock that advances while its one waiting thread waits; other threads may read it.

    Events at the same instant run in the order in which they were scheduled.

    Parameters
    ----------
    epoch_s
        Time at the start, in seconds since 1970.
    speed
        Maximum virtual seconds per real second; None for no limit.
    """

    def __init__(self, epoch_s: float, speed: float | None = None) -> None:
        self._epoch_s, self._now_s = epoch_s, 0.0
        self.keep_pace(speed)
        self._events: list[tuple[float, int, Event]] = []
        self._numbers = count()

    def time(self) -> float:
        """Return seconds since 1970."""
        return self._epoch_s + self._now_s

    def monotonic(self) -> float:
        """Return seconds since the start."""
        return self._now_s

    def sleep(self, seconds: float) -> None:
        """Advance by some seconds."""
        self._pass(self._now_s + max(seconds, 0.0))
        self._wait(time.sleep)

    def wait(self, changed: threading.Condition, timeout_s: float) -> None:
        """Advance until an event has run, or the timeout; the caller holds the condition."""
        self._pass(self._now_s + max(timeout_s, 0.0), at_most=1)
        self._wait(changed.wait)

    def stopped(self, stop: threading.Event, timeout_s: float) -> bool:
        """Advance unless the event is set; return whether it is."""
        if not stop.is_set():
            self._pass(self._now_s + max(timeout_s, 0.0))
            self._wait(stop.wait)
        return stop.is_set()

    def keep_pace(self, speed: float | None) -> None:
        """Limit virtual seconds per real second from now on; None for no limit."""
        self._speed, self._paced_s = speed, time.monotonic() - (self._now_s / speed if speed else 0.0)

    def after(self, seconds: float, event: Event) -> None:
        """Schedule an event."""
        heappush(self._events, (self._now_s + max(seconds, 0.0), next(self._numbers), event))

    def every(self, seconds: float, event: Event, first_s: float | None = None) -> None:
        """Schedule a periodic event."""

        def again() -> None:
            self.after(seconds, again)
            event()

        self.after(seconds if first_s is None else first_s, again)

    def _pass(self, until_s: float, at_most: int | None = None) -> None:
        """Run all events due until a time, at most those of `at_most` instants."""
        instants = 0
        while self._events and self._events[0][0] <= until_s:
            due_s = self._events[0][0]
            if due_s > self._now_s:
                instants += 1
                if at_most is not None and instants > at_most:
                    return
                self._now_s = due_s
            heappop(self._events)[2]()
        self._now_s = until_s

    def _wait(self, wait: Callable[[float], object]) -> None:
        """Wait if virtual time is ahead; larger delays are never made up for."""
        if self._speed is not None:
            ahead_s = self._paced_s + self._now_s / self._speed - time.monotonic()
            self._paced_s += max(-ahead_s - _BEHIND_S, 0.0)
            if ahead_s > 0:
                wait(ahead_s)
