"""Sums that are the same in whatever order they are added up: ties between nodes hang on the last digit."""

from __future__ import annotations

import math

import numpy as np

from stormwright.model.arrays import FloatArray

#: Bits of a float's fraction, the first one included, less one for what rounding adds to the sum.
_BITS = 52


def addends(amounts: FloatArray) -> FloatArray:
    """`amounts`, none below 0, rounded so that sums of any of them have no rounding error of their own.

    All are made multiples of one step, so small that none changes by more than 3·10⁻¹⁶ of the largest times their
    number, and so large that a float holds every multiple up to the sum of all. The idea is the pre-rounding of
    J. Demmel and H. D. Nguyen, "Fast Reproducible Floating-Point Summation", ARITH 2013,
    https://doi.org/10.1109/ARITH.2013.9.

    Parameters
    ----------
    amounts
        Of any shape; ones that are infinite or no number are left as they are, all of them.
    """
    # Not the sum: that depends on the order.
    most = float(np.max(amounts, initial=0.0)) * amounts.size
    if not 0.0 < most < math.inf:
        return amounts
    step = math.ldexp(1.0, math.frexp(most)[1] - _BITS)
    rounded: FloatArray = np.rint(amounts / step) * step if step > 0 else amounts
    return rounded
