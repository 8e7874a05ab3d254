"""Rows of a linear program, as its solver takes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from stormwright.model.arrays import FloatArray


class Rows:
    """Rows of a program, written down block by block."""

    def __init__(self) -> None:
        self._row: list[Any] = []
        self._column: list[Any] = []
        self._value: list[Any] = []
        self._low: list[Any] = []
        self._high: list[Any] = []
        self._count = 0

    def add(self, shape: tuple[int, ...], terms: Iterable[tuple[Any, Any]], low: Any, high: Any) -> None:
        """Add rows of a shape: `low` ≤ Σ value × unknown ≤ `high`.

        Parameters
        ----------
        shape
            Of the rows.
        terms
            Unknowns and values; each has the rows' shape, or one axis more, over which it is summed, or is stretched.
        low, high
            Stretched as well.
        """
        count = int(np.prod(shape))
        rows = self._count + np.arange(count).reshape(shape)
        for column, value in terms:
            # Of unknowns that stand along one axis more than the rows each row has all along that axis.
            wide = np.broadcast_shapes(np.shape(column), shape if np.ndim(column) <= len(shape) else np.shape(column))
            at = rows if len(wide) == len(shape) else rows[..., np.newaxis]
            for kept, given in ((self._row, at), (self._column, column), (self._value, value)):
                kept.append(np.broadcast_to(given, wide).ravel())
        self._low.append(np.broadcast_to(low, shape).ravel())
        self._high.append(np.broadcast_to(high, shape).ravel())
        self._count += count

    def matrix(self, columns: int) -> tuple[Any, FloatArray, FloatArray]:
        """The rows as a sparse matrix, and their bounds."""
        from scipy.sparse import csr_array  # takes longer to import than the rest

        entries = np.concatenate(self._value), (np.concatenate(self._row), np.concatenate(self._column))
        low, high = np.concatenate(self._low), np.concatenate(self._high)
        return csr_array(entries, shape=(self._count, columns)), low.astype(np.float64), high.astype(np.float64)
