"""What proves how much traffic groups of limited size keep, whatever they are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stormwright.model.arrays import FloatArray

#: Rounding of a sum of so many numbers as a topology has pairs, in parts of the sum of their amounts.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Certificate:
    """Proves that groups keep no more than so much of the traffic, whatever their limit.

    Parameters
    ----------
    row_worth
        What executor i pays for having j in its group, shape (n, n); on the diagonal for being there.
    size
        What each takes of the room of a group, shape (n,).
    fixed
        What is to be added to the rows.
    """

    row_worth: FloatArray
    size: FloatArray
    fixed: float

    def most_kept(self, limit: float) -> float:
        """Upper bound on what groups of size `limit` keep of the traffic, in tuples/s; rising with the limit."""
        return float(self.rows_kept(limit).sum()) + self.fixed

    def rows_kept(self, limit: float) -> FloatArray:
        """What each executor adds to that at most, -inf where it is larger than a group; shape (n,).

        Of every row the most that others can be worth which fit beside the row's own executor, in parts. A limit that
        was asked for before is not worked out again: the best of several is chosen by one, and then used with it.
        """
        known = self._kept.get(limit)
        if known is None:
            known = self._kept[limit] = self._rows_kept(limit)
            known.flags.writeable = False
        return known

    def _rows_kept(self, limit: float) -> FloatArray:
        worth, size = self._densest_first
        room = (limit * (1 + ROUNDING) - self.size)[:, None]  # sums of sizes differ from the limit by rounding
        fits = (size <= room) & (worth > 0)
        asks = np.where(fits, size, 0.0)
        before = np.cumsum(asks, axis=1) - asks
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(asks > 0, np.clip((room - before) / asks, 0.0, 1.0), 1.0)
        kept: FloatArray = (part * np.where(fits, worth, 0.0)).sum(axis=1) + np.diagonal(self.row_worth)
        return np.where(room[:, 0] < 0, -np.inf, kept)

    def in_pieces(self, grid: FloatArray) -> tuple[float, FloatArray]:
        """`fixed`, and what every executor adds in groups of each of some sizes at most, shape (n, Q)."""
        return self.fixed, np.stack([self.rows_kept(limit) for limit in grid.tolist()], axis=1)

    @cached_property
    def _kept(self) -> dict[float, FloatArray]:
        """What was worked out, by limit."""
        return {}

    @cached_property
    def _densest_first(self) -> tuple[FloatArray, FloatArray]:
        """What the others of a row are worth, 0 at least, and their sizes: those worth most for their size first."""
        worth = np.maximum(self.row_worth, 0.0)
        np.fill_diagonal(worth, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            density = np.where(self.size > 0, worth / self.size, np.inf)
        order = np.argsort(-density, axis=1, kind="stable")
        return np.take_along_axis(worth, order, axis=1), self.size[order]
