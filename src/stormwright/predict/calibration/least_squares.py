"""Least squares with a prior, from sums: observations are stored as moments, which add up and can be forgotten.

A linear model y = X θ + noise with a normal prior of θ has the posterior precision XᵀX / σ² + P (Lindley and Smith
1972, https://doi.org/10.1111/j.2517-6161.1972.tb00885.x). XᵀX, Xᵀy and yᵀy are all that it needs of the past, so a new
minute is an addition (recursive least squares: Plackett 1950, https://doi.org/10.1093/biomet/37.1-2.149). No cost is
negative: the most likely non-negative θ is found by the algorithm of Lawson and Hanson (1974,
https://doi.org/10.1137/1.9781611971217).

Rows are weighted so that their noise is about 1. Its real size is estimated from the residuals, together with a number
of prior rows of the assumed size. Errors of rows of one worker may be correlated: then they count for correspondingly
fewer rows (the design effect of clusters, 1 + (m − 1) ρ, ρ the correlation of two rows of one worker).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stormwright.model.arrays import FloatArray

#: Prior rows of the assumed noise.
_ASSUMED_ROWS = 4.0

#: Iterations for noise, prior and solution to converge.
_ROUNDS, _ROUNDS_NEAR = 12, 3

#: Relative ridge on the precision of unobserved coefficients, so that it can be inverted.
_TINY = 1e-10


@dataclass(frozen=True, eq=False)
class Moments:
    """XᵀX, Xᵀy, yᵀy and the number of rows, weighted; p is the number of coefficients."""

    xtx: FloatArray
    xty: FloatArray
    yty: float
    rows: float

    @classmethod
    def none(cls, size: int) -> Moments:
        """Return the moments of no rows."""
        return cls(np.zeros((size, size)), np.zeros(size), 0.0, 0.0)

    @classmethod
    def of(cls, x: FloatArray, y: FloatArray, noise: FloatArray, cluster: NDArray[Any], prior: Prior) -> Moments:
        """Return the moments of rows.

        Parameters
        ----------
        x, y
            Shapes (n, p) and (n,).
        noise
            Assumed standard deviation of each row, shape (n,).
        cluster
            Group of each row, within which noise may be correlated, shape (n,).
        prior
            Prior of the coefficients, for the residuals.
        """
        x, y = x / noise[:, None], y / noise
        found = cls(x.T @ x, x.T @ y, float(y @ y), float(len(y)))
        if not len(y):
            return found
        near = posterior(found, prior, _ROUNDS_NEAR).value
        return found.scaled(1.0 / _design_effect(y - x @ near, cluster))

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.xtx + other.xtx, self.xty + other.xty, self.yty + other.yty, self.rows + other.rows)

    def scaled(self, by: float) -> Moments:
        """Return the moments of `by` times as many rows."""
        return Moments(by * self.xtx, by * self.xty, by * self.yty, by * self.rows)

    def at(self, places: Sequence[int]) -> Moments:
        """Return the moments embedded among more coefficients, with these at `places`."""
        size = max(places, default=-1) + 1
        xtx, xty = np.zeros((size, size)), np.zeros(size)
        xtx[np.ix_(places, places)], xty[list(places)] = self.xtx, self.xty
        return Moments(xtx, xty, self.yty, self.rows)

    def given(self, last: FloatArray) -> Moments:
        """Return the moments of the first coefficients, given the last ones."""
        count = len(self.xty) - len(last)
        own, rest = slice(None, count), slice(count, None)
        explained = last @ (2 * self.xty[rest] - self.xtx[rest, rest] @ last)
        return Moments(
            self.xtx[own, own],
            self.xty[own] - self.xtx[own, rest] @ last,
            max(float(self.yty - explained), 0.0),
            self.rows,
        )

    def as_list(self) -> list[Any]:
        """Return the moments for JSON."""
        return [self.xtx.tolist(), self.xty.tolist(), self.yty, self.rows]

    @classmethod
    def from_list(cls, listed: Sequence[Any], size: int) -> Moments:
        """Restore moments of `size` coefficients from the result of `as_list`; older files may lack the last ones.

        Raises
        ------
        TypeError, ValueError
            It is damaged.
        """
        xtx, xty, yty, rows = listed
        new = size - len(xty)
        found = cls(
            np.pad(np.array(xtx, dtype=np.float64).reshape(size - new, size - new), (0, new)),
            np.pad(np.array(xty, dtype=np.float64), (0, new)),
            float(yty),
            float(rows),
        )
        if not all(np.all(np.isfinite(part)) for part in (found.xtx, found.xty, found.yty, found.rows)):
            raise ValueError("a number is not finite")
        return found

    def squares(self, value: FloatArray) -> float:
        """Return the sum of squared residuals with these coefficients."""
        return max(float(self.yty - 2 * value @ self.xty + value @ self.xtx @ value), 0.0)

    def without(self, count: int, precision: FloatArray) -> Moments:
        """Return the moments with the first `count` coefficients at their best-fitting values (Schur complement).

        Parameters
        ----------
        count
            Number of coefficients to eliminate.
        precision
            Their prior precision, shape (count,).
        """
        own = self.xtx[:count, :count] + np.diag(precision)
        own += np.diag(_TINY * np.maximum(np.diag(own), 1.0))
        cross, rest = self.xtx[count:, :count], slice(count, None)
        solved = np.linalg.solve(own, np.column_stack([cross.T, self.xty[:count]]))
        return Moments(
            self.xtx[rest, rest] - cross @ solved[:, :-1],
            self.xty[rest] - cross @ solved[:, -1],
            max(float(self.yty - self.xty[:count] @ solved[:, -1]), 0.0),
            max(self.rows - float(np.count_nonzero(np.diag(self.xtx)[:count])), 0.0),
        )


@dataclass(frozen=True, eq=False)
class Prior:
    """Normal prior.

    Parameters
    ----------
    mean, deviation
        Mean and deviation of every coefficient, shape (p,).
    common
        Relative deviation of a factor that all have in common: cores may be slower, and all costs higher.
    """

    mean: FloatArray
    deviation: FloatArray
    common: float = 0.0

    @cached_property
    def covariance(self) -> FloatArray:
        """Covariance of all coefficients, shape (p, p)."""
        return np.diag(self.deviation**2) + np.outer(self.mean, self.mean) * self.common**2


@dataclass(frozen=True, eq=False)
class Estimate:
    """Coefficients, their covariance, the noise relative to the assumed noise, and its degrees of freedom."""

    value: FloatArray
    covariance: FloatArray
    noise: float
    freedom: float

    def half_width(self, direction: FloatArray | None = None) -> Any:
        """Return the half-width of the 95 % interval of each coefficient, or of their sum in a `direction`."""
        from scipy.special import stdtrit  # takes longer to import than the rest

        covariance = self.covariance
        variance = np.diag(covariance) if direction is None else direction @ covariance @ direction
        return stdtrit(self.freedom, 0.975) * np.sqrt(np.maximum(variance, 0.0))


def posterior(moments: Moments, prior: Prior, rounds: int = _ROUNDS) -> Estimate:
    """Return the posterior given rows; a prior that they contradict is widened until it is compatible.

    Parameters
    ----------
    moments
        Moments of the rows.
    prior
        Prior of the coefficients.
    rounds
        Iterations for noise and prior to converge.
    """
    from scipy.optimize import nnls  # takes longer to import than the rest

    noise, wide, value = 1.0, 1.0, np.maximum(prior.mean, 0.0)
    before = tight = precision = np.linalg.inv(prior.covariance)
    for _ in range(rounds):
        tight = before / wide
        precision = moments.xtx / noise + tight
        factor = np.linalg.cholesky(precision)
        value = nnls(factor.T, np.linalg.solve(factor, moments.xty / noise + tight @ prior.mean))[0]
        off = value - prior.mean
        wide = max(1.0, float(off @ before @ off) / len(off))
        used = float(np.trace(np.linalg.solve(precision, moments.xtx / noise)))
        freedom = max(moments.rows - used, 0.0)
        noise = (moments.squares(value) + _ASSUMED_ROWS) / (freedom + _ASSUMED_ROWS)
    covariance = np.linalg.inv(precision).astype(np.float64)
    # A widened prior still shrinks the estimate by about this much.
    sampled = covariance @ tight @ (value - prior.mean)
    return Estimate(value, covariance + np.outer(sampled, sampled), noise, freedom + _ASSUMED_ROWS)


def _design_effect(residuals: FloatArray, cluster: NDArray[Any]) -> float:
    """Return the design effect of clustered rows, by a one-way analysis of variance of the residuals."""
    _, group, size = np.unique(cluster, return_inverse=True, return_counts=True)
    rows, groups = len(residuals), len(size)
    if groups < 2 or rows == groups:
        return 1.0
    mean = np.bincount(group, residuals) / size
    between = float(size @ (mean - residuals.mean()) ** 2) / (groups - 1)
    within = float(np.sum((residuals - mean[group]) ** 2)) / (rows - groups)
    each = (rows - float(size @ size) / rows) / (groups - 1)
    if between <= within or each <= 0:
        return 1.0
    correlation = (between - within) / (between + (each - 1) * within) if within > 0 else 1.0
    return 1.0 + (float(size.mean()) - 1.0) * correlation
