"""Certificates: proofs of the most traffic within groups of limited size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stormwright.model.arrays import FloatArray

#: Rounding error of a sum over all pairs of a topology, relative to the sum of absolute values.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Certificate:
    """Proof of an upper bound on the traffic within groups, for any size limit.

    Parameters
    ----------
    row_worth
        Price that executor i pays for having j in its group, shape (n, n); on the diagonal for itself.
    size
        Size of each executor in a group, shape (n,).
    fixed
        Constant that is added to the rows.
    """

    row_worth: FloatArray
    size: FloatArray
    fixed: float

    def most_saved(self, limit: float) -> float:
        """Return the upper bound on the traffic within groups of size `limit`, in tuples/s; increasing in the limit."""
        return float(self.rows_saved(limit).sum()) + self.fixed

    def rows_saved(self, limit: float) -> FloatArray:
        """Return the most that each executor adds to that bound, -inf if it is larger than a group; shape (n,).

        For every row it is the most that others can be worth which fit next to the row's own executor, fractionally.
        Results are cached by limit: the best of several certificates is chosen by one limit, and then used with it.
        """
        known = self._saved.get(limit)
        if known is None:
            known = self._saved[limit] = self._rows_saved(limit)
            known.flags.writeable = False
        return known

    def _rows_saved(self, limit: float) -> FloatArray:
        worth, size = self._densest_first
        room = (limit * (1 + ROUNDING) - self.size)[:, None]  # sums of sizes differ from the limit by rounding
        fits = (size <= room) & (worth > 0)
        asks = np.where(fits, size, 0.0)
        before = np.cumsum(asks, axis=1) - asks
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(asks > 0, np.clip((room - before) / asks, 0.0, 1.0), 1.0)
        saved: FloatArray = (part * np.where(fits, worth, 0.0)).sum(axis=1) + np.diagonal(self.row_worth)
        return np.where(room[:, 0] < 0, -np.inf, saved)

    def in_pieces(self, grid: FloatArray) -> tuple[float, FloatArray]:
        """Return `fixed`, and the most that every executor adds in groups of each of some sizes, shape (n, Q)."""
        return self.fixed, np.stack([self.rows_saved(limit) for limit in grid.tolist()], axis=1)

    @cached_property
    def _saved(self) -> dict[float, FloatArray]:
        """Cache of results, by limit."""
        return {}

    @cached_property
    def _densest_first(self) -> tuple[FloatArray, FloatArray]:
        """The worth of the others of a row, at least 0, and their sizes: highest worth per size first."""
        worth = np.maximum(self.row_worth, 0.0)
        np.fill_diagonal(worth, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            density = np.where(self.size > 0, worth / self.size, np.inf)
        order = np.argsort(-density, axis=1, kind="stable")
        return np.take_along_axis(worth, order, axis=1), self.size[order]
