"""Clocks: time and waiting by this machine, or by a virtual cluster."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Time in seconds, and waiting by it, of a machine or a virtual cluster."""

    def time(self) -> float:
        """Return seconds since 1970."""

    def monotonic(self) -> float:
        """Return seconds since some moment; it is never set back."""

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""

    def wait(self, changed: threading.Condition, timeout_s: float) -> None:
        """Return once the condition is notified, or after the timeout; the caller holds the condition."""

    def stopped(self, stop: threading.Event, timeout_s: float) -> bool:
        """Wait until an event is set, or for the timeout; return whether it is set."""


class WallClock:
    """Clock of this machine."""

    def time(self) -> float:
        """Return seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """Return `time.monotonic`."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        time.sleep(seconds)

    def wait(self, changed: threading.Condition, timeout_s: float) -> None:
        """Return when it is notified, or after the timeout."""
        changed.wait(timeout_s)

    def stopped(self, stop: threading.Event, timeout_s: float) -> bool:
        """Return when it is set, or after the timeout."""
        return stop.wait(timeout_s)


#: Clock of everything that belongs to a real cluster.
WALL: Clock = WallClock()
