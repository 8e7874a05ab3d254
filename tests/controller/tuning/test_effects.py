"""Effects that are learned from trials, beside scikit-learn's Gaussian process with the same prior."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from stormwright.controller.tuning.effects import PRIORS, Effects, Outcome, features_of
from stormwright.controller.tuning.knobs import ASLEEP, ConfigChange
from stormwright.model.batches import MAX_SPOUT_PENDING
from tests.controller.builders import topology

T = topology("t", spouts=2, bolts=4)


def test_features_are_logarithms_of_multiples() -> None:
    change = ConfigChange({"b-bolt": 2}, {MAX_SPOUT_PENDING: 400, **ASLEEP})
    found = features_of(T, change, {MAX_SPOUT_PENDING: 200})
    assert found == {"bolts": pytest.approx(log(0.5)), "pending": pytest.approx(log(2)), "asleep": 1.0}
    assert features_of(T, ConfigChange(), {}) == {}


def test_posterior_is_that_of_a_gaussian_process() -> None:
    sklearn = pytest.importorskip("sklearn.gaussian_process")
    rng = np.random.default_rng(3)
    names = list(PRIORS)
    outcomes = [
        Outcome("ab"[number % 2], dict(zip(names, rng.normal(size=len(names)), strict=True)), 1.0, value, 0.1)
        for number, value in enumerate(np.exp(rng.normal(size=9)).tolist())
    ]
    wanted = dict(zip(names, rng.normal(size=len(names)), strict=True))
    found = Effects(outcomes, "a").of(wanted)

    mean, common, between = np.array([PRIORS[name] for name in names]).T
    rows = np.array([[each.features[name] for name in names] for each in [*outcomes, Outcome("a", wanted, 1, 1, 0)]])
    own = np.array([each.topology == "a" for each in outcomes] + [True])
    scaled = np.hstack([rows * common, rows * between * own[:, None]])
    noise = 0.1**2 + 0.05**2 + np.where(own[:-1], 0.0, (rows[:-1] ** 2 @ between**2))
    kernel = sklearn.kernels.DotProduct(sigma_0=1e-9, sigma_0_bounds="fixed")
    process = sklearn.GaussianProcessRegressor(kernel, alpha=noise, optimizer=None)
    process.fit(scaled[:-1], np.log([each.measured for each in outcomes]) - rows[:-1] @ mean)
    value, sd = process.predict(scaled[-1:], return_std=True)
    assert found.mean == pytest.approx(float(value[0]) + rows[-1] @ mean)
    assert found.sd == pytest.approx(float(np.hypot(sd[0], 0.05)))


def test_own_trials_count_more_than_those_of_others() -> None:
    features = {"asleep": 1.0}
    own, others = (Effects([Outcome(name, features, 1.0, 1.6, 0.02)] * 2, "a").of(features) for name in ("a", "b"))
    assert own.mean > others.mean > Effects([], "a").of(features).mean
    assert own.sd < others.sd < Effects([], "a").of(features).sd
