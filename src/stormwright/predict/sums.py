"""Sums and ratios of arrays, typed."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stormwright.model.arrays import FloatArray, IndexArray

#: Sums of the same numbers in another order differ by less, in parts of themselves.
_ROUNDING = 1e-12

#: So many numbers are always looked through.
_MANY = 1_000_000


def sums(index: IndexArray, amounts: NDArray[Any], length: int) -> FloatArray:
    """The sum of `amounts`, shape (…, n), at every index, shape (n,): shape (…, length)."""
    if amounts.ndim > 1:
        rows = prod(amounts.shape[:-1])
        index = (index + length * np.arange(rows)[:, np.newaxis]).ravel()
        return sums(index, amounts.ravel(), length * rows).reshape(*amounts.shape[:-1], length)
    return np.bincount(index, weights=amounts, minlength=length).astype(np.float64, copy=False)


def numbered(keys: IndexArray, most: int) -> tuple[IndexArray, IndexArray]:
    """The different keys in order, and which of them each is; as `np.unique`, in one pass where `most` is not many.

    Parameters
    ----------
    keys
        Numbers from 0 to below `most`, shape (n,).
    most
        How many numbers there may be.
    """
    if most > _MANY + 4 * len(keys):
        found, number = np.unique(keys, return_inverse=True)
        return found, number
    there = np.zeros(most, dtype=bool)
    there[keys] = True
    found = np.flatnonzero(there)
    return found, (np.cumsum(there) - 1)[keys]


def spans(first: IndexArray, chosen: IndexArray) -> IndexArray:
    """The numbers from `first` of each that is chosen to below that of the next, one after the other."""
    size = first[chosen + 1] - first[chosen]
    end = np.cumsum(size)
    numbers: IndexArray = np.arange(end[-1] if len(end) else 0) + np.repeat(first[chosen] - end + size, size)
    return numbers


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
