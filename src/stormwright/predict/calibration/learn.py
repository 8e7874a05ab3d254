"""A stretch of the performance log taken into what is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stormwright.predict.calibration.calibration import priors
from stormwright.predict.calibration.known import Learned
from stormwright.predict.calibration.rows import rows_of
from stormwright.predict.calibration.windows import Window

#: Speed of a core where no record tells one; it is the unit then, and nothing else.
_SOME_HZ = 3e9


def learn(known: Learned, windows: Sequence[Window]) -> int:
    """Take windows into what is known, as a minute of it.

    Parameters
    ----------
    known
        Is changed.
    windows
        Of a minute or so, all of them after those of calls before.

    Returns
    -------
    workers
        Windows of workers that could be used; 0, and nothing is changed: none was warm, or heard of for long enough.
    """
    told = Counter(sums.core_hz for window in windows for sums in window.workers.values() if sums.core_hz)
    if known.reference_hz is None and told:
        # Of several that are as frequent the fastest.
        known.reference_hz = max(told, key=lambda hz: (told[hz], hz))
    rows = rows_of(windows, known.reference_hz or _SOME_HZ, priors())
    if rows.workers:
        known.add(rows)
    return rows.workers
