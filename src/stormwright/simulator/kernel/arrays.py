"""Record arrays that compiled functions and plain Python access alike.

With NUMBA_DISABLE_JIT all functions are plain Python: the twin, which does the same step by step. It reads the field of
a record as compiled functions do, which NumPy allows of its record arrays only, and not of a field that has the name of
one of an array's methods.
"""

from __future__ import annotations

import numpy as np
from numba import config

from stormwright.jit.compiled import Records

#: Infinite time.
NEVER = np.inf


def records(count: int, kind: np.dtype[np.void]) -> Records:
    """Return `count` zeroed records."""
    made = np.zeros(count, kind)
    return made.view(np.recarray) if config.DISABLE_JIT else made


def widened(old: Records, count: int) -> Records:
    """Return the records extended to `count`."""
    made = records(count, old.dtype)
    made[: len(old)] = old
    return made
