"""Whoever is in one group with two others has these in one group as well.

With X_ij 1 where executors i and j are in one group and 0 where they are not (`semidefinite`), any three have::

    X_ij + X_jk - X_ik ≤ 1

A relaxation breaks many of these. Those that it breaks most are added to it, each with a multiplier τ ≥ 0, as in M.
Grötschel, Y. Wakabayashi, "A cutting plane algorithm for a clustering problem", Mathematical Programming 45, 1989,
https://doi.org/10.1007/BF01589097: whatever the multipliers, Σ τ (X_ij + X_jk - X_ik) is no more than Σ τ.
"""

from __future__ import annotations

import numpy as np

from stormwright.model.arrays import FloatArray, IndexArray

#: Executors of a topology of which triangles are looked at: finding those that are broken takes time by their cube.
MOST_EXECUTORS = 150

#: Triangles that are added at a time for each executor, of these with one in the middle at most; and by how much they
#: are broken at least.
_EACH, _IN_THE_MIDDLE, _BROKEN = 5, 50, 0.01


class Triangles:
    """Those of the inequalities that a relaxation has so far, and their multipliers.

    Parameters
    ----------
    count
        Executors of the topology.
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
        """The symmetric matrix of which the product with X is Σ τ (X_ij + X_jk - X_ik), shape (n, n)."""
        i, j, k = self._corners
        half = np.zeros((self._count, self._count))
        np.add.at(half, (i, j), self._multiplier / 2)
        np.add.at(half, (j, k), self._multiplier / 2)
        np.subtract.at(half, (i, k), self._multiplier / 2)
        return half + half.T

    def press(self, together: FloatArray, step: float) -> None:
        """Raise the multipliers of those that `together`, an X, breaks by so much of the breach; lower the others."""
        i, j, k = self._corners
        breach = together[i, j] + together[j, k] - together[i, k] - 1.0
        self._multiplier = np.maximum(0.0, self._multiplier + step * breach)

    def renew(self, together: FloatArray) -> bool:
        """Let go of those that cost nothing, and add those that `together` breaks most; False if it breaks none."""
        if self._count > MOST_EXECUTORS:
            return False
        matters = self._multiplier > 0
        self._corners, self._multiplier = self._corners[:, matters], self._multiplier[matters]
        broken = self._broken(together)
        added = broken[:, ~np.isin(self._keys(broken), self._keys(self._corners))]
        self._corners = np.concatenate([self._corners, added], axis=1)
        self._multiplier = np.concatenate([self._multiplier, np.zeros(added.shape[1])])
        return bool(broken.size)

    def _broken(self, together: FloatArray) -> IndexArray:
        """Corners of those that are broken most, shape (3, m)."""
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
        """A number for each, of which no two are alike."""
        i, j, k = corners
        keys: IndexArray = (i * self._count + j) * self._count + k
        return keys
