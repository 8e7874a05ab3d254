"""Alternating direction method of multipliers for the relaxation of `semidefinite`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh

from stormwright.jit.compiled import compiled
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.optimize.bounds.relaxation.certificate import ROUNDING, Certificate

#: Most executors of a topology with triangle inequalities: finding violated ones takes cubic time.
MAX_EXECUTORS = 150

#: Triangles added at a time per executor, most of these with one in the middle; and the least violation.
_EACH, _IN_THE_MIDDLE, _BROKEN = 5, 50, 0.01


# If an executor is in one group with each of two others, these are in one group as well.
#
# With X_ij 1 where executors i and j are in one group and 0 where they are not (`semidefinite`), any three have::
#
#     X_ij + X_jk - X_ik ≤ 1
#
# A relaxation violates many of these. The most violated ones are added to it, each with a multiplier τ ≥ 0, as in M.
# Grötschel, Y. Wakabayashi, "A cutting plane algorithm for a clustering problem", Mathematical Programming 45, 1989,
# https://doi.org/10.1007/BF01589097: whatever the multipliers, Σ τ (X_ij + X_jk - X_ik) is no more than Σ τ.
class Triangles:
    """Active triangle inequalities of a relaxation, and their multipliers.

    Parameters
    ----------
    count
        Number of executors of the topology.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        # i, j in the middle, and k of each, shape (3, m); and τ, shape (m,).
        self._corners: IndexArray = np.zeros((3, 0), dtype=np.int64)
        self._multiplier: FloatArray = np.zeros(0)

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return self._multiplier.size > 0

    @property
    def total(self) -> float:
        """Σ τ."""
        return float(self._multiplier.sum())

    @property
    def worth(self) -> FloatArray:
        """The symmetric matrix whose product with X is Σ τ (X_ij + X_jk - X_ik), shape (n, n)."""
        i, j, k = self._corners
        half = np.zeros((self._count, self._count))
        np.add.at(half, (i, j), self._multiplier / 2)
        np.add.at(half, (j, k), self._multiplier / 2)
        np.subtract.at(half, (i, k), self._multiplier / 2)
        return half + half.T

    def press(self, together: FloatArray, step: float) -> None:
        """Raise the multipliers in proportion to the violation by `together`, an X; lower those without one."""
        i, j, k = self._corners
        breach = together[i, j] + together[j, k] - together[i, k] - 1.0
        self._multiplier = np.maximum(0.0, self._multiplier + step * breach)

    def renew(self, together: FloatArray) -> bool:
        """Drop those without a multiplier, and add those that `together` violates most; False if it violates none."""
        if self._count > MAX_EXECUTORS:
            return False
        matters = self._multiplier > 0
        self._corners, self._multiplier = self._corners[:, matters], self._multiplier[matters]
        broken = self._broken(together)
        added = broken[:, ~np.isin(self._keys(broken), self._keys(self._corners))]
        self._corners = np.concatenate([self._corners, added], axis=1)
        self._multiplier = np.concatenate([self._multiplier, np.zeros(added.shape[1])])
        return bool(broken.size)

    def _broken(self, together: FloatArray) -> IndexArray:
        """Return the corners of the most violated ones, shape (3, m)."""
        corners, breaches = [], []
        once = np.triu(np.ones((self._count, self._count), dtype=bool), 1)  # i and k may be exchanged
        for j, to_j in enumerate(together):
            breach = np.where(once, to_j[:, None] + to_j - together - 1.0, 0.0)
            breach[j], breach[:, j] = 0.0, 0.0
            some = min(_IN_THE_MIDDLE, breach.size)
            most = np.argpartition(breach, -some, axis=None)[-some:]
            i, k = np.unravel_index(most, breach.shape)
            corners.append(np.stack([i, np.full(len(most), j), k]))
            breaches.append(breach[i, k])
        breach, every = np.concatenate(breaches), np.concatenate(corners, axis=1)
        order = np.argsort(-breach, kind="stable")[: _EACH * self._count]
        return every[:, order[breach[order] > _BROKEN]]

    def _keys(self, corners: IndexArray) -> IndexArray:
        """Return a unique number for each."""
        i, j, k = corners
        keys: IndexArray = (i * self._count + j) * self._count + k
        return keys


#: Bisection steps for the price of a group's capacity.
_HALVINGS = 30

#: Factor of the penalty, and the ratio of residuals at which it changes.
_FASTER, _UNEVEN = 1.4, 4.0

#: Increase of a triangle's multiplier per violation in a step, relative to the penalty.
_PRESSED = 0.2

#: Multipliers above this, relative to the mean traffic of an executor, prove that there are no such groups at all.
_DIVERGED = 1e6

#: Relative shift of a matrix that should be semidefinite, before Cholesky's method verifies it.
_SHIFT = 1e-11


class Multipliers:
    """State of the method.

    Parameters
    ----------
    tps
        Traffic of every two executors in both directions, shape (n, n), zero on the diagonal.
    size
        Size of each executor in a group, shape (n,).
    limits
        Size limit of the group of each, shape (n,), no less than its own size.
    groups
        Maximum number of groups.

    Attributes
    ----------
    limits
        May be changed between steps.
    all_tps
        Traffic of all executors.
    scale
        Factor of tuples/s by which the mean traffic of an executor is 1.
    """

    def __init__(self, tps: FloatArray, size: FloatArray, limits: FloatArray, groups: int) -> None:
        self.limits = limits
        self.all_tps = float(tps.sum()) / 2
        self.scale = float(tps.sum(axis=1).mean()) or 1.0
        self._size, self._spread = size, 1.0 / groups
        self._traffic = self._worth = tps / 2 / self.scale
        self._triangles = Triangles(len(tps))
        self._penalty = 1.0 / np.sqrt(len(tps))
        self._matrix = self._rows = self._rows_before = np.eye(len(tps))
        self._negative = np.zeros_like(self._worth)
        self._multiplier = self._worth / self._penalty

    @property
    def _together(self) -> FloatArray:
        """X within the limits of all rows, symmetric."""
        return (self._rows + self._rows.T) / 2

    def add_triangles(self) -> bool:
        """Add the most violated triangles; return False if none is violated."""
        return self._triangles.renew(self._together)

    def step(self) -> None:
        """Make one step: a semidefinite matrix, rows within their limits, and the multipliers of the difference."""
        target = self._rows - self._multiplier + self._worth / self._penalty - self._spread
        target = (target + target.T) / 2
        values, vectors = eigh(target)
        below = values < 0
        self._negative = (vectors[:, below] * values[below]) @ vectors[:, below].T
        self._matrix = target - self._negative + self._spread
        self._rows_before = self._rows
        self._rows = np.ascontiguousarray(self._matrix + self._multiplier)
        _project(self._rows, self._size, self.limits)
        self._multiplier = self._multiplier + self._matrix - self._rows
        if self._triangles.any:
            self._triangles.press((self._matrix + self._together) / 2, _PRESSED * self._penalty)
            self._worth = self._traffic - self._triangles.worth

    def certificate(self) -> Certificate | None:
        """Return the certificate of the multipliers; None if they prove that there are no such groups at all."""
        # Λ = A - M - skew, M the negative part: its symmetric part makes A - Λ negative semidefinite exactly.
        multipliers = self._penalty * (self._multiplier + self._rows - self._rows_before)
        if not np.abs(multipliers).max() <= _DIVERGED:  # so too if it is not a number
            return None
        skew, negative = (multipliers - multipliers.T) / 2, self._penalty * self._negative
        found = _certified(self._worth - negative + skew, negative, self._size, self._spread, self.scale)
        return replace(found, fixed=found.fixed + self.scale * self._triangles.total)

    def balance(self) -> None:
        """Change the penalty if the gap between rows and matrix is far larger, or smaller, than their last change."""
        gap = np.linalg.norm(self._matrix - self._rows) / np.linalg.norm(self._rows)
        change = np.linalg.norm(self._rows - self._rows_before) / max(float(np.linalg.norm(self._multiplier)), 1e-300)
        if gap > _UNEVEN * change:
            self._penalty, self._multiplier = self._penalty * _FASTER, self._multiplier / _FASTER
        elif change > _UNEVEN * gap:
            self._penalty, self._multiplier = self._penalty / _FASTER, self._multiplier * _FASTER


def _certified(
    row_worth: FloatArray, negative: FloatArray, size: FloatArray, spread: float, scale: float
) -> Certificate:
    """Return the certificate of multipliers `row_worth`, where `negative` is the rest of the traffic.

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
    rounding = ROUNDING * (np.abs(symmetric).sum() + np.abs(row_worth).sum())
    return Certificate(scale * row_worth, size, scale * (float(symmetric.sum()) * spread + above + rounding))


@compiled
def _project(rows: FloatArray, size: FloatArray, limits: FloatArray) -> None:
    """Project every row onto values from 0 to 1, 1 on the diagonal, with a total size within its limit."""
    count = len(size)
    for i in range(count):
        room = limits[i] - size[i]
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
