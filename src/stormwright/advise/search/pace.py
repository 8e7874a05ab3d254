"""Timing of changes, and the rates to plan for, from past and expected rates."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from stormwright.advise.season import too_low_by

#: Changes from window to window that have to be known before a rate is taken to rise on, and by how much at most.
_LEAST_WINDOWS, _MOST_AHEAD = 2, 1.5

#: Windows by which the level of this season is set against that of the last, and between what it may be.
_LEVEL, _LEVELS = 3, (0.5, 2.0)

#: Forecasts that have to be known before their error is; until then it is taken for this, and it is never more.
_KNOWN, _ERROR, _MOST_ERROR = 12, 0.1, 0.3


@dataclass(frozen=True)
class Patience:
    """Parameters of the timing of changes.

    Parameters
    ----------
    windows
        Only after so many in which less would have been enough is anything taken away, and then for the most trees of
        these; and so many windows nothing is added after something that did not help.
    ceiling
        Executors and nodes are added once something is fuller than this part of what is not headroom goes half way to
        being full: with 20 % headroom and 0.5 that is above 90 %.
    saving
        Less of the price, and of the executors, than this part is not worth a restart.
    ahead
        Number of windows for which a rise is extrapolated.
    season
        After so many windows the same is taken to come again: 24 where a window is an hour. 0: nothing does.
    coming
        Once a season is known, what is added is enough for the most of so many windows to come, and something is taken
        away where less is enough for all of them.
    soon
        Windows in which less would have been enough, where it is known that less will be.
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
        When something is changed.
    past
        Trees/s of windows before the first.

    Attributes
    ----------
    below
        The last windows in which less would have been enough.
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
        return min(now + self._rises(), _MOST_AHEAD * now)

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
        if len(by_window) < _LEAST_WINDOWS:
            return 0.0
        return self._patience.ahead * max(float(np.median(by_window)), 0.0)

    def _coming(self) -> float | None:
        """Return the most trees/s of coming windows, with the forecast error; None without a known season."""
        season, rates = self._patience.season, np.array(self._rates)
        if not season or len(rates) <= season:
            return None
        now, before = rates[season:], np.maximum(rates[:-season], 1e-12)
        level = float(np.clip(np.median(now[-_LEVEL:] / before[-_LEVEL:]), *_LEVELS))
        error = too_low_by(now, level * before) if len(now) >= _KNOWN else _ERROR
        return level * float(rates[-season:][: self._patience.coming].max()) * (1 + min(error, _MOST_ERROR))
