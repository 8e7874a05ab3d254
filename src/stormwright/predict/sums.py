"""Sums and ratios of arrays, typed."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stormwright.model.arrays import FloatArray, IndexArray

#: Relative rounding error of sums of the same numbers in another order.
_ROUNDING = 1e-12

#: Table size up to which one pass over a table is always used.
_MANY = 1_000_000


def sums(index: IndexArray, amounts: NDArray[Any], length: int) -> FloatArray:
    """Return the sum of `amounts`, shape (…, n), at every index, shape (n,): shape (…, length)."""
    if amounts.ndim > 1:
        rows = prod(amounts.shape[:-1])
        index = (index + length * np.arange(rows)[:, np.newaxis]).ravel()
        return sums(index, amounts.ravel(), length * rows).reshape(*amounts.shape[:-1], length)
    return np.bincount(index, weights=amounts, minlength=length).astype(np.float64, copy=False)


def numbered(keys: IndexArray, most: int) -> tuple[IndexArray, IndexArray]:
    """Return the distinct keys in order, and the number of each key; as `np.unique`, in one pass if `most` is small.

    Parameters
    ----------
    keys
        Numbers from 0 to below `most`, shape (n,).
    most
        Upper limit of the numbers.
    """
    if most > _MANY + 4 * len(keys):
        found, number = np.unique(keys, return_inverse=True)
        return found, number
    there = np.zeros(most, dtype=bool)
    there[keys] = True
    found = np.flatnonzero(there)
    return found, (np.cumsum(there) - 1)[keys]


def spans(first: IndexArray, chosen: IndexArray) -> IndexArray:
    """Return the concatenated ranges from `first` of each chosen item to below that of the next."""
    size = first[chosen + 1] - first[chosen]
    end = np.cumsum(size)
    numbers: IndexArray = np.arange(end[-1] if len(end) else 0) + np.repeat(first[chosen] - end + size, size)
    return numbers


def ratio(amounts: NDArray[Any], by: NDArray[Any]) -> FloatArray:
    """Return `amounts` by `by`, 0 where there is nothing to divide by."""
    result: FloatArray = np.divide(
        amounts, by, out=np.zeros(np.broadcast_shapes(amounts.shape, by.shape)), where=by > 0
    )
    return result


def first_of_most(values: FloatArray, group: IndexArray, most: FloatArray) -> IndexArray:
    """Return the index of the largest value of each group, the first of those equal up to rounding; -1 for none.

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
