"""Sums and ratios of arrays, typed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stormwright.model.arrays import FloatArray, IndexArray


def sums(index: IndexArray, amounts: NDArray[Any], length: int) -> FloatArray:
    """The sum of `amounts` at every index, shape (length,)."""
    return np.bincount(index, weights=amounts, minlength=length).astype(np.float64, copy=False)


def ratio(amounts: NDArray[Any], by: NDArray[Any]) -> FloatArray:
    """`amounts` by `by`, 0 where there is nothing to divide by."""
    result: FloatArray = np.divide(
        amounts, by, out=np.zeros(np.broadcast_shapes(amounts.shape, by.shape)), where=by > 0
    )
    return result
