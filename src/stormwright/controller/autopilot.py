"""Capacity with which a topology holds its objective: when it needs another one, and how much.

A topology that follows its source has a demand, the rate that arrives. Its capacity rises at once when the demand comes
close to it, or when a backlog would not be worked off in time; it falls only after an hour in which much less would do.
Between the two limits nothing happens, so that a change is not undone soon unless the demand has changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Final, NamedTuple, Self

from stormwright.history.evaluation.verdict import MORE_PROBABLY
from stormwright.model.arrays import is_amount
from stormwright.model.topology_config import MAX_CORES, SLO_LAG, SLO_P99

#: Growth of a demand of which only a part is handled, until it is measured.
_UNKNOWN_GROWTH: Final = 1.3

#: Least multiple of the capacity where it is to rise.
_LEAST_RISE: Final = 1.1

#: Seconds of windows by which a demand counts, and the least number of windows in them; seconds after which the newest
#: one is too old for a decision, and without a window after which an hour of demand begins anew.
_SMOOTHED_S: Final = 30.0
_MIN_WINDOWS: Final = 3
_STALE_S: Final = 30.0
_GAP_S: Final = 300.0

#: Part of a demand for which a smaller size was not enough from which it is tried again.
_CLEARLY_LESS: Final = 0.7


@dataclass(frozen=True)
class Slo:
    """Objective of a topology; None for no limit.

    Parameters
    ----------
    p99_ms
        Maximum 99th percentile of the complete latency.
    lag_s
        Maximum time by which it is behind its source, in seconds.
    max_cores
        Most cores of the nodes that it may use.
    """

    p99_ms: float | None = None
    lag_s: float | None = None
    max_cores: float | None = None

    @classmethod
    def of(cls, conf: Mapping[str, Any]) -> Self | None:
        """Return the objective in a configuration; None without one."""
        values = (conf.get(key) for key in (SLO_P99, SLO_LAG, MAX_CORES))
        p99_ms, lag_s, max_cores = (float(each) if is_amount(each) and each > 0 else None for each in values)
        return None if p99_ms is None and lag_s is None else cls(p99_ms, lag_s, max_cores)


@dataclass(frozen=True)
class AutopilotSettings:
    """Limits of changes.

    Parameters
    ----------
    target, high, low
        Demand as a part of the capacity: after a change, and from which the capacity rises; and the part of it below
        which a smaller one that would do is taken.
    settle_s, cool_down_s
        Seconds after a change until the next one that gives more, and until one that gives less.
    look_back_s
        Seconds whose highest demand a smaller capacity has to handle.
    catch_up_s
        Seconds within which a backlog has to be worked off.
    max_changes
        Changes within a day.
    """

    target: float = 0.65
    high: float = 0.9
    low: float = 0.7
    settle_s: float = 60.0
    cool_down_s: float = 1800.0
    look_back_s: float = 3600.0
    catch_up_s: float = 600.0
    max_changes: int = 24


class Observed(NamedTuple):
    """A topology in a window.

    Parameters
    ----------
    at_s
        End of the window, in seconds.
    rate_tps
        Trees/s that it completes.
    waiting
        Probability that its spouts wait for pending trees.
    p99_ms
        99th percentile of the complete latency; None if unknown.
    arriving_tps
        Trees/s that its source gets; None if unknown.
    backlog
        Trees that wait at the source; None if unknown.
    """

    at_s: float
    rate_tps: float
    waiting: float = 0.0
    p99_ms: float | None = None
    arriving_tps: float | None = None
    backlog: float | None = None


class WantedCapacity(NamedTuple):
    """Capacity that is wanted instead of the present one, in trees/s, and the reason."""

    tps: float
    why: str
    is_more: bool


class Autopilot:
    """Observations of one topology, and the capacity that they call for.

    Parameters
    ----------
    slo
        Objective of the topology.
    settings
        Limits of its changes; None for the defaults.
    """

    def __init__(self, slo: Slo, settings: AutopilotSettings | None = None) -> None:
        self.slo = slo
        self._settings = settings or AutopilotSettings()
        self._last: deque[Observed] = deque()
        #: Time and demand, highest first of those that count: a smaller later one cannot become the highest.
        self._highest: deque[tuple[float, float]] = deque()
        self._changes_s: deque[float] = deque()
        self._began_s: float | None = None
        #: Highest rate of half a minute since the last change.
        self._handled_tps = 0.0
        #: Highest demand for which a smaller size was not enough.
        self._too_much_tps = float("inf")

    def observe(self, observed: Observed) -> None:
        """Count a window."""
        if self._began_s is None or (self._highest and observed.at_s > self._highest[-1][0] + _GAP_S):
            self._began_s = observed.at_s
            self._highest.clear()
            self._last.clear()
        self._last.append(observed)
        while self._last[0].at_s < observed.at_s - _SMOOTHED_S:
            self._last.popleft()
        if len(self._last) >= _MIN_WINDOWS:
            self._handled_tps = max(self._handled_tps, sum(each.rate_tps for each in self._last) / len(self._last))
        demand = self._demand_tps()
        while self._highest and self._highest[-1][1] <= demand:
            self._highest.pop()
        self._highest.append((observed.at_s, demand))
        while self._highest[0][0] < observed.at_s - self._settings.look_back_s:
            self._highest.popleft()

    def changed(self, at_s: float) -> None:
        """Count a change of its capacity."""
        self._changes_s.append(at_s)
        self._last.clear()
        self._handled_tps = 0.0

    def taken_back(self, at_s: float) -> None:
        """Count a smaller capacity that was not enough for the highest demand lately; it is not tried again for it."""
        self._too_much_tps = max((demand for _, demand in self._highest), default=float("inf"))
        self.changed(at_s)

    def is_ready(self, now_s: float) -> bool:
        """Return whether it may change at all: by its last change, the changes of a day, and its observations."""
        while self._changes_s and self._changes_s[0] < now_s - 86_400:
            self._changes_s.popleft()
        return (
            len(self._last) >= _MIN_WINDOWS
            and now_s <= self._last[-1].at_s + _STALE_S
            and len(self._changes_s) < self._settings.max_changes
            and self._since_s(now_s) >= self._settings.settle_s
        )

    def _since_s(self, now_s: float) -> float:
        """Return the seconds since the last change, or since the first observation."""
        began_s = now_s if self._began_s is None else self._began_s
        return now_s - max(self._changes_s, default=began_s)

    def wanted(self, now_s: float, capacity_tps: float) -> WantedCapacity | None:
        """Return the capacity that it needs; None if the present one will do.

        Parameters
        ----------
        now_s
            Current time in seconds, by the clock of the observations.
        capacity_tps
            Highest rate of the present size as predicted. A measurement overrules it: rates that were handled, and
            spouts that wait although less is.
        """
        if not self.is_ready(now_s):
            return None
        settings, since_s = self._settings, self._since_s(now_s)
        capacity_tps = max(capacity_tps, self._handled_tps)
        if all(each.waiting > MORE_PROBABLY for each in self._last):
            capacity_tps = min(capacity_tps, sum(each.rate_tps for each in self._last) / len(self._last))
        demand, backlog = self._demand_tps(), self._backlog()
        # What is to be worked off in time besides.
        needed = demand + backlog / settings.catch_up_s
        if needed > settings.high * capacity_tps or self._is_late(demand, capacity_tps):
            parts = [f"{demand:,.0f} trees/s arrive"]
            parts += [f"{backlog:,.0f} wait"] if backlog else []
            wanted = max(needed / settings.target, _LEAST_RISE * capacity_tps)
            return WantedCapacity(wanted, f"{', '.join(parts)}; {capacity_tps:,.0f} can be handled", True)
        highest = self._highest[0][1]
        enough = max(highest, needed) / settings.target
        looked_s = now_s - (now_s if self._began_s is None else self._began_s)
        if min(since_s / settings.cool_down_s, looked_s / settings.look_back_s) < 1:
            return None
        if highest > _CLEARLY_LESS * self._too_much_tps:
            return None
        if enough < settings.low * capacity_tps:
            why = f"at most {highest:,.0f} trees/s arrived within {settings.look_back_s / 60:.0f} minutes"
            return WantedCapacity(enough, f"{why}; {capacity_tps:,.0f} can be handled", False)
        return None

    def _demand_tps(self) -> float:
        """Return the median of the last windows: a burst after an outage is a backlog, and no demand."""
        return median(
            each.arriving_tps
            if each.arriving_tps is not None
            else each.rate_tps * (_UNKNOWN_GROWTH if each.waiting > MORE_PROBABLY else 1.0)
            for each in self._last
        )

    def _backlog(self) -> float:
        """Return the trees that wait at the source, beyond those that may."""
        newest = self._last[-1]
        may_wait = (self.slo.lag_s or 0.0) / 2 * max(self._demand_tps(), newest.rate_tps)
        return max((newest.backlog or 0.0) - may_wait, 0.0)

    def _is_late(self, demand: float, capacity_tps: float) -> bool:
        """Return whether the latency is above its limit in all of the last windows, and that for want of capacity."""
        limit = self.slo.p99_ms
        late = limit is not None and all(each.p99_ms is not None and each.p99_ms > limit for each in self._last)
        return late and demand > self._settings.target * capacity_tps
