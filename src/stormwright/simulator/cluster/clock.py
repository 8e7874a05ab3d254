"""Virtual time: it passes only while somebody waits, and everything that is due by then happens meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

Event = Callable[[], None]


class VirtualClock:
    """A clock in which the one thread that waits makes time pass; others may read it.

    Events at the same instant happen in the order in which they were planned.

    Parameters
    ----------
    epoch_s
        The time of day at its beginning, in seconds since 1970.
    speed
        Virtual seconds per second of this machine, at most; None for as many as it can.
    """

    def __init__(self, epoch_s: float, speed: float | None = None) -> None:
        self._epoch_s, self._speed, self._now_s = epoch_s, speed, 0.0
        self._began_s = time.monotonic()
        self._events: list[tuple[float, int, Event]] = []
        self._numbers = count()

    def time(self) -> float:
        """Seconds since 1970."""
        return self._epoch_s + self._now_s

    def monotonic(self) -> float:
        """Seconds since its beginning."""
        return self._now_s

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self._pass(self._now_s + max(seconds, 0.0))
        self._keep_pace(time.sleep)

    def wait(self, changed: threading.Condition, timeout_s: float) -> None:  # noqa: ARG002  # who changes it waits here
        """Let time pass until something has happened, or to the end."""
        self._pass(self._now_s + max(timeout_s, 0.0), at_most=1)
        self._keep_pace(time.sleep)

    def stopped(self, stop: threading.Event, timeout_s: float) -> bool:
        """Let time pass, unless the event is set; whether it is."""
        if not stop.is_set():
            self._pass(self._now_s + max(timeout_s, 0.0))
            self._keep_pace(stop.wait)
        return stop.is_set()

    def after(self, seconds: float, event: Event) -> None:
        """Plan something."""
        heappush(self._events, (self._now_s + max(seconds, 0.0), next(self._numbers), event))

    def every(self, seconds: float, event: Event, first_s: float | None = None) -> None:
        """Plan something that happens again and again."""

        def again() -> None:
            self.after(seconds, again)
            event()

        self.after(seconds if first_s is None else first_s, again)

    def _pass(self, until_s: float, at_most: int | None = None) -> None:
        """Let what is due until then happen; no more than what is due at so many instants."""
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

    def _keep_pace(self, wait: Callable[[float], object]) -> None:
        if self._speed is not None:
            ahead_s = self._began_s + self._now_s / self._speed - time.monotonic()
            if ahead_s > 0:
                wait(ahead_s)
