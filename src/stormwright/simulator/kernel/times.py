"""Random durations: constant, exponential, in between or beyond.

Two parameters: the mean, and the squared coefficient of variation (variance by mean²).
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from stormwright.jit.compiled import inner
from stormwright.jit.random_numbers import draw_at


@inner
def draw_time(random: NDArray[np.uint64], place: int, mean: float, varies: float) -> float:
    """Return a random time with mean `mean` and squared coefficient of variation `varies`, from `random` at `place`.

    For `varies` from 0 to 1 it is a constant part and an exponential one, which is a constant for 0 and exponential
    for 1. Beyond it is one of two exponential times with balanced means: W. Whitt, Approximating a Point Process by a
    Renewal Process, Operations Research 30(1), 1982, https://doi.org/10.1287/opre.30.1.125.
    """
    if varies == 0.0 or mean == 0.0:
        return mean
    exponential = -log(1.0 - draw_at(random, place))
    if varies == 1.0:
        return mean * exponential
    if varies < 1.0:
        part = sqrt(varies)
        return mean * (1.0 - part + part * exponential)
    often = 0.5 * (1.0 + sqrt((varies - 1.0) / (varies + 1.0)))
    return mean * exponential / (2.0 * often if draw_at(random, place) < often else 2.0 * (1.0 - often))
