"""Health of the service itself: its clock, times when it stood still, and the measurement of loads."""

from __future__ import annotations

from collections import deque
from statistics import median

from stormwright.base.clock import Clock

#: Seconds by which the clock has to change against the monotonic clock, and for which that is named.
JUMP_S, JUMP_NAMED_S = 2.0, 600.0

#: Seconds between two ticks, number of seconds without one after which the service stood still, and for which that is
#: named.
TICK_S, STILL_S, STILL_NAMED_S = 1.0, 5.0, 60.0

#: Seconds without a new load from which it is late, and how many times the usual interval at least; seconds before
#: that interval is known.
LATE_LOAD_S, LATE_INTERVALS, FIRST_LOAD_S = 7.0, 2.5, 20.0

#: Seconds, and intervals of the probes, without any record from which records no longer arrive.
_BREAK_S, _BREAK_INTERVALS = 5.0, 3.0

#: Number of intervals of which the median is the usual one, and how many are needed.
_INTERVALS, _FEWEST_INTERVALS = 10, 3


class ClockWatch:
    """Compares the clock of this machine with its monotonic clock.

    Parameters
    ----------
    clock
        Clock of the service.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_s = clock.time() - clock.monotonic()
        self._jump_s, self._at_s = 0.0, float("-inf")

    def tick(self) -> None:
        """Compare both clocks."""
        now_s = self._clock.monotonic()
        offset_s = self._clock.time() - now_s
        jump_s, self._offset_s = offset_s - self._offset_s, offset_s
        if abs(jump_s) > JUMP_S:
            self._jump_s, self._at_s = jump_s, now_s

    def text(self) -> str:
        """Return a sentence about the last change of the clock; empty if there was none lately."""
        self.tick()
        age_s = self._clock.monotonic() - self._at_s
        if age_s > JUMP_NAMED_S:
            return ""
        way = "back" if self._jump_s < 0 else "ahead"
        return f"The clock of this machine was set {abs(self._jump_s):,.0f} s {way}, {age_s:.0f} s ago"


class StandstillWatch:
    """Notices that the service stood still: its process or machine was stopped.

    Parameters
    ----------
    clock
        Clock of the service.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ticked_s = clock.monotonic()
        self._still_s = 0.0
        #: When the service started, or last stood still: nothing was received before.
        self.since_s = self._ticked_s

    def tick(self) -> None:
        """Note that the service runs; called every `TICK_S` seconds."""
        now_s = self._clock.monotonic()
        still_s, self._ticked_s = now_s - self._ticked_s, now_s
        if still_s > STILL_S:
            self._still_s, self.since_s = still_s, now_s

    def text(self) -> str:
        """Return a sentence about the last time it stood still; empty if there was none lately."""
        age_s = self._clock.monotonic() - self.since_s
        if not self._still_s or age_s > STILL_NAMED_S:
            return ""
        return f"This service stood still for {self._still_s:.0f} s, until {age_s:.0f} s ago"


class LoadWatch:
    """Notices that loads are no longer measured although records arrive.

    Parameters
    ----------
    clock
        Clock of the service.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._measured_s: float | None = None
        self._waiting_since_s: float | None = None
        self._intervals_s: deque[float] = deque(maxlen=_INTERVALS)

    def tick(self, load_age_s: float | None, heard_s: float, interval_s: float) -> None:
        """Note loads and records; called each second.

        Parameters
        ----------
        load_age_s
            Age of the newest load; None if there is none.
        heard_s, interval_s
            When the newest record arrived, and the seconds that it covers.
        """
        if load_age_s is None:
            return
        now_s = self._clock.monotonic()
        measured_s = now_s - load_age_s
        if self._measured_s is None or measured_s - self._measured_s > 0.5:
            if self._measured_s is not None and self._waiting_since_s is not None:
                self._intervals_s.append(measured_s - self._measured_s)
            self._measured_s, self._waiting_since_s = measured_s, None
        if now_s - heard_s > max(_BREAK_S, _BREAK_INTERVALS * interval_s):
            self._waiting_since_s = None
        elif heard_s > measured_s and self._waiting_since_s is None:
            self._waiting_since_s = heard_s

    def text(self) -> str:
        """Return a sentence about late loads; empty if they are measured, or no records arrive."""
        if self._measured_s is None or self._waiting_since_s is None:
            return ""
        known = len(self._intervals_s) >= _FEWEST_INTERVALS
        limit_s = max(LATE_LOAD_S, LATE_INTERVALS * median(self._intervals_s)) if known else FIRST_LOAD_S
        now_s = self._clock.monotonic()
        if now_s - self._waiting_since_s <= limit_s:
            return ""
        age_s = now_s - self._measured_s
        return f"Loads have not been measured for {age_s:.0f} s although records arrive: Spark is stopped or overloaded"
