"""Timing of changes, and the rates to plan for, from past and expected rates."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from stormwright.advise.season import too_low_by

#: Number of known changes from window to window before a rise is extrapolated, and its maximum.
_MIN_WINDOWS, _MAX_AHEAD = 2, 1.5

#: Windows by which the level of this season is set against that of the last, and between what it may be.
_LEVEL, _LEVELS = 3, (0.5, 2.0)

#: Forecasts that have to be known before their error is; until then it is taken for this, and it is never more.
_KNOWN, _ERROR, _MAX_ERROR = 12, 0.1, 0.3


@dataclass(frozen=True)
class Patience:
    """Parameters of the timing of changes.

    Parameters
    ----------
    windows
        Number of windows in a row in which less would have been enough before anything is removed; removals are planned
        for the highest rate of these. Also the number of windows without additions after a useless one.
    ceiling
        Executors and nodes are added once a resource is fuller than this point between its limit with headroom, 0, and
        being full, 1: with 20 % headroom and 0.5 that is 90 %.
    saving
        Minimum fraction of the price and of the executors that justifies a restart for a removal.
    ahead
        Number of windows for which a rise is extrapolated.
    season
        Length of a season in windows: 24 for a day of hourly windows; 0 for none.
    coming
        With a known season: number of coming windows whose highest rate an addition covers, and for all of which a
        removal has to leave enough.
    soon
        With a known season: number of windows in which less would have been enough before a removal.
    """

    windows: int = 12
    ceiling: float = 0.5
    saving: float = 0.25
    ahead: int = 5
    season: int = 24
    coming: int = 12
    soon: int = 4


class WindowPace:
    """Rates of past windows, and the rates for which to add or remove.

    Parameters
    ----------
    patience
        Parameters of the timing.
    past
        Trees/s of windows before the first.

    Attributes
    ----------
    below
        Rates of the last windows in a row in which less would have been enough.
    """

    def __init__(self, patience: Patience, past: Iterable[float] = ()) -> None:
        self._patience = patience
        most = max(2 * patience.season + _LEVEL, patience.windows, patience.ahead + 1)
        self._rates: deque[float] = deque(past, maxlen=most)
        self.below = 0

    def note(self, wanted_tps: float) -> None:
        """Record a window with its offered trees/s."""
        self._rates.append(wanted_tps)

    def enough(self, less_is: bool) -> None:
        """Record that the last window was sufficient; and whether less would have been."""
        self.below = self.below + 1 if less_is else 0

    def changed(self) -> None:
        """Record a change, or an impossible one: windows are counted from here."""
        self.below = 0

    def to_add_for(self) -> float:
        """Return trees/s to plan additions for: the expected rate, or the present one with its trend."""
        now = self._rates[-1]
        coming = self._coming()
        if coming is not None:
            return max(coming, now)
        return min(now + self._rises(), _MAX_AHEAD * now)

    def to_leave_for(self) -> float | None:
        """Return trees/s to plan removals for; None if it is too early."""
        coming = self._coming()
        windows = self._patience.windows if coming is None else self._patience.soon
        if self.below < windows:
            return None
        return max([*list(self._rates)[-windows:], coming or 0.0])

    def _rises(self) -> float:
        """Return the expected increase of the rate: the median of the last windows, robust against jumps."""
        by_window = np.diff(self._rates)[-self._patience.ahead :]
        if len(by_window) < _MIN_WINDOWS:
            return 0.0
        return self._patience.ahead * max(float(np.median(by_window)), 0.0)

    def _coming(self) -> float | None:
        """Return the most trees/s of coming windows, with the forecast error; None without a known season."""
        season, rates = self._patience.season, np.array(self._rates)
        if not season or len(rates) <= season:
            return None
        now, before = rates[season:], rates[:-season]
        level = float(np.clip(np.median(now[-_LEVEL:] / np.maximum(before[-_LEVEL:], 1e-12)), *_LEVELS))
        error = too_low_by(now, level * before) if len(now) >= _KNOWN else _ERROR
        return level * float(rates[-season:][: self._patience.coming].max()) * (1 + min(error, _MAX_ERROR))
