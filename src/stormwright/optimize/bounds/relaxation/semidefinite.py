"""Bound on the traffic within groups of limited size: a semidefinite relaxation and its certificate.

Executors i and j are in one group or not: X_ij is 1 or 0. Then X is positive semidefinite, even minus J/p for at most p
groups, and every row satisfies the limit of a group. The most traffic within groups under these conditions is
approached by the alternating direction method of multipliers, as in A. Wiegele, S. Zhao, "SDP-based bounds for graph
partition via extended ADMM", Computational Optimization and Applications 82, 2022,
https://doi.org/10.1007/s10589-022-00355-1. Any multipliers bound that traffic from above, so the method may be stopped
at any time: `Certificate` is the proof.

With T the traffic of executors, J all ones, and T/2 = Λ + N for any Λ that leaves N negative semidefinite::

    ½⟨T, X⟩ = ⟨Λ, X⟩ + ⟨N, J⟩/p + ⟨N, X - J/p⟩
            ≤ Σ_i (the most that row i of Λ is worth in one group) + ⟨N, J⟩/p,        X - J/p positive semidefinite

Λ is `row_worth`, its rows are knapsacks, and the rest is `fixed`. One step costs an eigendecomposition, O(n³). The
traffic that the multipliers of `triangles` represent is subtracted from T before, and their sum added to `fixed`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

import numpy as np
from scipy.linalg import LinAlgError

from stormwright.model.arrays import FloatArray
from stormwright.optimize.bounds.relaxation.certificate import Certificate
from stormwright.optimize.bounds.relaxation.multipliers import Multipliers

#: Steps between two certificates.
_STEPS = 15

#: Improvement relative to the traffic below which certificates count as converged.
_SLOW, _PATIENCE = 2e-4, 4

#: Number of certificates after adding triangles for which no improvement is expected.
_GRACE = 4


def certificates(
    tps: FloatArray, size: FloatArray, limit: float, groups: int, until: float = math.inf, *, triangles: bool = False
) -> Iterator[Certificate]:
    """Yield better and better certificates for groups of size `limit`; the first at once.

    Parameters
    ----------
    tps
        Traffic of every two executors in both directions, shape (n, n), zero on the diagonal.
    size
        Size of each executor in a group, shape (n,), none more than `limit`.
    limit
        Size limit of a group, in the unit of `size`.
    groups
        Maximum number of groups.
    until, triangles
        Deadline by `time.perf_counter`, and whether triangle inequalities are used as well.
    """
    yield Certificate(tps / 2, size, 0.0)
    multipliers = Multipliers(tps, size, np.full(len(tps), limit), groups)
    yield from approach(multipliers, lambda certificate: certificate.most_saved(limit), until, triangles=triangles)


def best_certificate(
    tps: FloatArray, size: FloatArray, limit: float, groups: int, until: float, *, triangles: bool = False
) -> Certificate:
    """Return the best of `certificates`.

    Parameters
    ----------
    tps, size, limit, groups, until, triangles
        Traffic, sizes, limits of groups, deadline, and use of triangle inequalities, as for `certificates`.
    """
    found = certificates(tps, size, limit, groups, until, triangles=triangles)
    return min(found, key=lambda certificate: certificate.most_saved(limit))


def approach(
    multipliers: Multipliers, saved: Callable[[Certificate], float], until: float, *, triangles: bool
) -> Iterator[Certificate]:
    """Yield better and better certificates, starting from the current multipliers.

    They end if the next ones hardly improve, at `until` (of `time.perf_counter`), or if numbers become too large for
    arithmetic. No step begins that would not end in time if it takes as long as the last.

    Parameters
    ----------
    multipliers
        State of the method; updated.
    saved
        Returns the local traffic of a certificate: less is better.
    triangles
        Whether to use triangle inequalities as well (`Triangles`): takes longer, and is valid for all executors only,
        not for a part of them by their part of `row_worth`.
    """
    if not math.isfinite(multipliers.scale):
        return
    enough = _SLOW * multipliers.all_tps
    least, least_before, slow = np.inf, np.inf, 0
    begun_s = time.perf_counter()
    while begun_s < until:
        for _ in range(_STEPS):
            try:
                multipliers.step()
            except (LinAlgError, ValueError):  # it does not converge, or something is not a number
                return
            before_s, begun_s = begun_s, time.perf_counter()
            if 2 * begun_s - before_s > until:
                begun_s = until
                break
        certificate = multipliers.certificate()
        if certificate is None:
            return
        yield certificate
        multipliers.balance()
        now = saved(certificate)
        slow = slow + 1 if now > least - enough else min(slow, 0)
        least = min(least, now)
        if slow > _PATIENCE:
            if not triangles or least > least_before - enough or not multipliers.add_triangles():
                return
            least_before, slow = least, -_GRACE
