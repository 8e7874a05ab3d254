"""Least squares with a prior: against solvers that we did not write."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from stormwright.predict.calibration.least_squares import Moments, Prior, posterior

TRUTH = np.array([1.0, 2.0, 0.5])


def rows(count: int = 60, truth: np.ndarray = TRUTH, noise: float = 1.0, seed: int = 7):
    random = np.random.default_rng(seed)
    x = random.uniform(0, 100, (count, len(truth)))
    return x, x @ truth + noise * random.standard_normal(count)


def moments(x, y, prior, noise=1.0, cluster=None):
    cluster = np.arange(len(y)) if cluster is None else cluster
    return Moments.of(x, y, np.full(len(y), noise), cluster, prior)


WIDE = Prior(np.zeros(3), np.full(3, 1e6))


def test_posterior_without_prior_equals_least_squares():
    x, y = rows()
    found = posterior(moments(x, y, WIDE), WIDE)
    assert found.value == pytest.approx(np.linalg.lstsq(x, y, rcond=None)[0], rel=1e-4)
    # Residuals tell how much noise there is; four rows of what was assumed count along.
    squares = np.sum((y - x @ np.linalg.lstsq(x, y, rcond=None)[0]) ** 2)
    assert found.noise == pytest.approx((squares + 4) / (60 - 3 + 4), rel=1e-3)
    assert found.covariance == pytest.approx(found.noise * np.linalg.inv(x.T @ x), rel=1e-2)


def test_posterior_equals_least_squares_with_prior_rows():
    x, y = rows(5)
    prior = Prior(np.array([1.1, 1.9, 0.5]), np.array([0.3, 0.3, 0.3]), common=0.1)
    found = posterior(moments(x, y, prior), prior)
    root = np.linalg.cholesky(np.linalg.inv(prior.covariance)).T
    stacked = np.vstack([x / found.noise**0.5, root])
    target = np.concatenate([y / found.noise**0.5, root @ prior.mean])
    assert found.value == pytest.approx(lsq_linear(stacked, target, (0, np.inf)).x, rel=1e-3)


def test_nothing_is_below_zero():
    x, y = rows(60, np.array([1.0, -0.5, 2.0]))
    found = posterior(moments(x, y, WIDE), WIDE)
    assert found.value == pytest.approx(lsq_linear(x, y, (0, np.inf)).x, rel=1e-3, abs=1e-5)
    assert found.value.min() == 0


def test_unobserved_coefficient_retains_its_prior():
    x, y = rows()
    x[:, 2] = 0.0
    prior = Prior(np.array([1.0, 1.0, 7.0]), np.array([1.0, 1.0, 2.0]))
    found = posterior(moments(x, y, prior), prior)
    assert found.value[2] == pytest.approx(7.0)
    assert found.covariance[2, 2] == pytest.approx(4.0)


@pytest.mark.long
def test_data_overrides_a_wrong_prior():
    prior, inside = Prior(np.array([0.1, 20.0, 5.0]), np.array([0.01, 0.1, 0.1])), []
    for seed in range(200):
        x, y = rows(seed=seed)
        found = posterior(moments(x, y, prior), prior)
        inside.append(np.abs(found.value - TRUTH) <= found.half_width())
    # Intervals of 95 %: of 600 some 30 do not hold the truth.
    assert 0.91 <= np.mean(inside) <= 0.99


def test_minutes_add_up():
    x, y = rows()
    halves = [moments(x[part], y[part], WIDE) for part in (slice(30), slice(30, None))]
    whole = moments(x, y, WIDE)
    assert (halves[0] + halves[1]).xtx == pytest.approx(whole.xtx)
    assert (halves[0] + halves[1]).rows == whole.rows == 60
    assert posterior(halves[0] + halves[1], WIDE).value == pytest.approx(posterior(whole, WIDE).value)


def test_coefficients_can_be_left_out_of_account():
    x, y = rows()
    prior = Prior(np.zeros(1), np.array([1e6]))
    rest = posterior(moments(x, y, WIDE).without(2, np.full(2, 1e-12)), prior)
    assert rest.value[0] == pytest.approx(np.linalg.lstsq(x, y, rcond=None)[0][2], rel=1e-3)


def test_correlated_rows_count_as_fewer_rows():
    x, y = rows(60)
    cluster = np.arange(60) // 10
    off = y + 20 * np.random.default_rng(8).standard_normal(6)[cluster]
    apart, together = moments(x, off, WIDE), moments(x, off, WIDE, cluster=cluster)
    assert apart.rows == 60
    assert 6 <= together.rows < 15


def test_posterior_without_rows_equals_the_prior():
    prior = Prior(np.array([1.0, 2.0]), np.array([0.1, 0.2]))
    empty = Moments.of(np.empty((0, 2)), np.empty(0), np.empty(0), np.empty(0), prior)
    assert posterior(empty, prior).value == pytest.approx(prior.mean)
