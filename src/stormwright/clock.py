"""What time it is, and waiting: by this machine's clocks, or by those of a virtual cluster."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Times in seconds. Whoever waits by it waits by the time of what it belongs to."""

    def time(self) -> float:
        """Since 1970."""

    def monotonic(self) -> float:
        """Since some moment; it is never set back."""

    def sleep(self, seconds: float) -> None:
        """Return once so much time has passed."""

    def wait(self, changed: threading.Condition, timeout_s: float) -> None:
        """Return once something has changed, or so much time has passed; the caller holds the condition."""

    def stopped(self, stop: threading.Event, timeout_s: float) -> bool:
        """Return once an event is set, or so much time has passed; whether it is set."""


class WallClock:
    """This machine's clocks."""

    def time(self) -> float:
        """Since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """As `time.monotonic` has it."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Return after so much time."""
        time.sleep(seconds)

    def wait(self, changed: threading.Condition, timeout_s: float) -> None:
        """Return when it is notified, or after so much time."""
        changed.wait(timeout_s)

    def stopped(self, stop: threading.Event, timeout_s: float) -> bool:
        """Return when it is set, or after so much time."""
        return stop.wait(timeout_s)


#: Of everything that belongs to a real cluster.
WALL: Clock = WallClock()
