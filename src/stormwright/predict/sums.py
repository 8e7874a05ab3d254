"""Sums and ratios of arrays, typed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stormwright.model.arrays import FloatArray, IndexArray

#: Sums of the same numbers in another order differ by less, in parts of themselves.
_ROUNDING = 1e-12


def sums(index: IndexArray, amounts: NDArray[Any], length: int) -> FloatArray:
    """The sum of `amounts` at every index, shape (length,)."""
    return np.bincount(index, weights=amounts, minlength=length).astype(np.float64, copy=False)


def ratio(amounts: NDArray[Any], by: NDArray[Any]) -> FloatArray:
    """`amounts` by `by`, 0 where there is nothing to divide by."""
    result: FloatArray = np.divide(
        amounts, by, out=np.zeros(np.broadcast_shapes(amounts.shape, by.shape)), where=by > 0
    )
    return result


def first_of_most(values: FloatArray, group: IndexArray, most: FloatArray) -> IndexArray:
    """Where each group has its largest value, the first of those that are as large but for rounding; -1 for nowhere.

    Parameters
    ----------
    values, group
        Numbers ≥ 0, and the group of each; same shape.
    most
        Largest value of each group, shape (groups,).
    """
    near = np.flatnonzero(values >= most[group] * (1 - _ROUNDING))[::-1]
    first = np.full(len(most), -1)
    first[group[near]] = near
    return first
