"""Virtual time: it passes only while somebody waits, and everything that is due by then happens meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

Event = Callable[[], None]

#: Seconds of this machine for which it goes faster than it should, to make up for what it was too slow before.
_BEHIND_S = 1.0


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
        self._epoch_s, self._now_s = epoch_s, 0.0
        self.keep_pace(speed)
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
        self._wait(time.sleep)

    def wait(self, changed: threading.Condition, timeout_s: float) -> None:
        """Let time pass until something has happened, or to the end; the caller holds the condition."""
        self._pass(self._now_s + max(timeout_s, 0.0), at_most=1)
        self._wait(changed.wait)

    def stopped(self, stop: threading.Event, timeout_s: float) -> bool:
        """Let time pass, unless the event is set; whether it is."""
        if not stop.is_set():
            self._pass(self._now_s + max(timeout_s, 0.0))
            self._wait(stop.wait)
        return stop.is_set()

    def keep_pace(self, speed: float | None) -> None:
        """From now on at most so many virtual seconds pass in a second of this machine; None for as many as can."""
        self._speed, self._paced_s = speed, time.monotonic() - (self._now_s / speed if speed else 0.0)

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

    def _wait(self, wait: Callable[[float], object]) -> None:
        """Wait where it is ahead; what it has fallen behind by more than a little is never made up for."""
        if self._speed is not None:
            ahead_s = self._paced_s + self._now_s / self._speed - time.monotonic()
            self._paced_s += max(-ahead_s - _BEHIND_S, 0.0)
            if ahead_s > 0:
                wait(ahead_s)
