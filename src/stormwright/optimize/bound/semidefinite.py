"""A bound on the traffic that can stay within groups of limited size: a semidefinite relaxation and its certificate.

Executors i and j are in one group or not: X_ij is 1 or 0. Then X is positive semidefinite, even less J/p for at most p
groups, and every row keeps the limit of a group. The most traffic within groups under these conditions is approached
by the alternating direction method of multipliers, as in A. Wiegele, S. Zhao, "SDP-based bounds for graph partition via
extended ADMM", Computational Optimization and Applications 82, 2022, https://doi.org/10.1007/s10589-022-00355-1. Any
multipliers bound that traffic from above, so the method may be ended at any time: `Certificate` is what proves it.

With T what executors exchange, J all ones, and T/2 = Λ + N for any Λ that leaves N negative semidefinite::

    ½⟨T, X⟩ = ⟨Λ, X⟩ + ⟨N, J⟩/p + ⟨N, X - J/p⟩
            ≤ Σ_i (the most that row i of Λ is worth in one group) + ⟨N, J⟩/p,        X - J/p positive semidefinite

Λ is `row_worth`, its rows are knapsacks, and the rest is `fixed`. One step costs an eigendecomposition, O(n³).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh

from stormwright.compiling.compiled import compiled
from stormwright.model.arrays import FloatArray

#: Steps between two certificates, and halvings by which the price of a group's room is found.
_STEPS, _HALVINGS = 15, 30

#: The penalty changes by this factor where one residual is so many times the other.
_FASTER, _UNEVEN = 1.4, 4.0

#: Multipliers above this, in parts of what an executor exchanges on average, say that there are no such groups at all.
_DIVERGED = 1e6

#: Added to a matrix that is to be semidefinite, in parts of its norm, before Cholesky's method shows that it is.
_SHIFT = 1e-11

#: Rounding of a sum of so many numbers as a topology has pairs, in parts of the sum of their amounts.
_ROUNDING = 1e-12


#: A certificate is as good as it gets when the next ones are better by less than this part of the traffic.
_SLOW, _PATIENCE = 2e-4, 4


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

        Of every row the most that others can be worth which fit beside the row's own executor, in parts.
        """
        worth, size = self._densest_first
        room = (limit * (1 + _ROUNDING) - self.size)[:, None]  # sums of sizes differ from the limit by rounding
        fits = (size <= room) & (worth > 0)
        asks = np.where(fits, size, 0.0)
        before = np.cumsum(asks, axis=1) - asks
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(asks > 0, np.clip((room - before) / asks, 0.0, 1.0), 1.0)
        kept: FloatArray = (part * np.where(fits, worth, 0.0)).sum(axis=1) + np.diagonal(self.row_worth)
        return np.where(room[:, 0] < 0, -np.inf, kept)

    @cached_property
    def _densest_first(self) -> tuple[FloatArray, FloatArray]:
        """What the others of a row are worth, 0 at least, and their sizes: those worth most for their size first."""
        worth = np.maximum(self.row_worth, 0.0)
        np.fill_diagonal(worth, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            density = np.where(self.size > 0, worth / self.size, np.inf)
        order = np.argsort(-density, axis=1, kind="stable")
        return np.take_along_axis(worth, order, axis=1), self.size[order]


def certificates(
    tps: FloatArray, size: FloatArray, limit: float, groups: int, until: float = math.inf
) -> Iterator[Certificate]:
    """Certificates that become better and better for groups of size `limit`; the first is found at once.

    There is no end of them before `until` (of `time.perf_counter`), unless executors cannot be in such groups, or
    numbers are too large to be counted with. No step begins that is not over by then if it takes as long as the last.

    Parameters
    ----------
    tps
        What every two executors exchange in both directions, shape (n, n), zero on the diagonal.
    size
        What each takes of the room of a group, shape (n,), none more than `limit`.
    groups
        How many groups there are at most.
    """
    count = len(tps)
    yield Certificate(tps / 2, size, 0.0)
    scale = float(tps.sum(axis=1).mean()) or 1.0
    if not math.isfinite(scale):
        return
    worth = tps / 2 / scale
    spread = 1.0 / groups
    penalty = 1.0 / np.sqrt(count)
    rows = np.eye(count)
    multiplier = worth / penalty
    begun_s = time.perf_counter()
    while begun_s < until:
        for _ in range(_STEPS):
            target = rows - multiplier + worth / penalty - spread
            try:
                values, vectors = eigh((target + target.T) / 2)
            except (LinAlgError, ValueError):  # it does not converge, or something is not a number
                return
            below = values < 0
            negative = (vectors[:, below] * values[below]) @ vectors[:, below].T
            matrix = (target + target.T) / 2 - negative + spread
            before = rows
            rows = np.ascontiguousarray(matrix + multiplier)
            _project(rows, size, limit)
            multiplier += matrix - rows
            before_s, begun_s = begun_s, time.perf_counter()
            if 2 * begun_s - before_s > until:
                begun_s = until
                break
        gap = np.linalg.norm(matrix - rows) / np.linalg.norm(rows)
        change = np.linalg.norm(rows - before) / max(float(np.linalg.norm(multiplier)), 1e-300)
        # Λ = A - M - skew, M the negative part: its symmetric part makes A - Λ negative semidefinite exactly.
        multipliers = penalty * (multiplier + rows - before)
        if not np.abs(multipliers).max() <= _DIVERGED:  # so too if it is not a number
            return
        skew = (multipliers - multipliers.T) / 2
        yield _certified(worth - penalty * negative + skew, penalty * negative, size, spread, scale)
        if gap > _UNEVEN * change:
            penalty, multiplier = penalty * _FASTER, multiplier / _FASTER
        elif change > _UNEVEN * gap:
            penalty, multiplier = penalty / _FASTER, multiplier * _FASTER


def best_certificate(tps: FloatArray, size: FloatArray, limit: float, groups: int, until: float) -> Certificate:
    """The best certificate for groups of size `limit` that is found until then.

    It ends sooner where the next ones are hardly better any more.

    Parameters
    ----------
    tps
        What every two executors exchange in both directions, shape (n, n), zero on the diagonal.
    size
        What each takes of the room of a group, shape (n,), none more than `limit`.
    limit
        Of a group, in the unit of `size`.
    groups
        How many there are at most.
    until
        Of `time.perf_counter`.
    """
    best, least, slow = Certificate(tps / 2, size, 0.0), np.inf, 0
    enough = _SLOW * float(tps.sum()) / 2
    for certificate in certificates(tps, size, limit, groups, until):
        kept = certificate.most_kept(limit)
        slow = slow + 1 if kept > least - enough else 0
        if kept < least:
            best, least = certificate, kept
        if time.perf_counter() > until or slow > _PATIENCE:
            return best
    return best


def _certified(
    row_worth: FloatArray, negative: FloatArray, size: FloatArray, spread: float, scale: float
) -> Certificate:
    """The certificate of multipliers `row_worth`, where `negative` is what is left of the traffic.

    That no eigenvalue of `negative` is above the shift is shown by Cholesky's method in floating point: S. M. Rump,
    "Verification of positive definiteness", BIT 46, 2006, https://doi.org/10.1007/s10543-006-0056-1.
    """
    count = len(size)
    symmetric = (negative + negative.T) / 2
    norm = float(np.linalg.norm(symmetric)) or 1.0
    shift = _SHIFT
    while True:
        try:
            cholesky(shift * norm * np.eye(count) - symmetric, check_finite=False)
            break
        except LinAlgError:
            shift *= 10
    # Rump's theorem asks for a little more than that the factorisation goes through; twice the shift is plenty of it.
    above = 2 * shift * norm * count
    rounding = _ROUNDING * (np.abs(symmetric).sum() + np.abs(row_worth).sum())
    return Certificate(scale * row_worth, size, scale * (float(symmetric.sum()) * spread + above + rounding))


@compiled
def _project(rows: FloatArray, size: FloatArray, limit: float) -> None:
    """Bring every row to the nearest one of values from 0 to 1, 1 on the diagonal, that takes no more than `limit`."""
    count = len(size)
    for i in range(count):
        room = limit - size[i]
        rows[i, i] = 1.0
        used, low, high = 0.0, 0.0, 0.0
        for j in range(count):
            if j == i:
                continue
            if size[j] > room:
                rows[i, j] = 0.0
            used += size[j] * min(1.0, max(0.0, rows[i, j]))
            if size[j] > 0:
                high = max(high, rows[i, j] / size[j])
        if used > room:
            for _ in range(_HALVINGS):
                price = (low + high) / 2
                used = 0.0
                for j in range(count):
                    if j != i:
                        used += size[j] * min(1.0, max(0.0, rows[i, j] - price * size[j]))
                if used > room:
                    low = price
                else:
                    high = price
            price = high
        else:
            price = 0.0
        for j in range(count):
            if j != i:
                rows[i, j] = min(1.0, max(0.0, rows[i, j] - price * size[j]))
