"""Gains: common errors cancel, a model errs by what a placement changes, and the best of many is partly chance."""

from __future__ import annotations

from math import exp, inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.predict.answer import Assumptions, predict
from stormwright.predict.costs import Costs
from stormwright.predict.gain import (
    ONE_SIDED,
    RateGain,
    at_least,
    common_sd,
    cost_change,
    model_sd,
    rate_gain,
    shrunk,
    together,
)
from stormwright.testing.word_counts import WordCount

APART = np.array([0, 2, 0, 2, 4, 0, 2, 4, 0, 2, 4, 0], np.int32)
TOGETHER = np.zeros(12, np.int32)


def test_unchanged_placement_has_exact_gain_of_one():
    one = predict(WordCount().problem(), APART).topologies[0]
    assert rate_gain(one, one) == RateGain(1.0, 1.0, 0.0)


def test_errors_common_to_both_placements_cancel_in_the_gain():
    """All work may be 30 % more than measured: both rates fall by about as much, and the gain stays."""
    problem = WordCount(cores=0.4, link_bps=None).problem()
    costs = Costs(message_error=0.0, delay_error=0.0, work_error=0.3)
    other = APART.copy()
    other[APART == 4] = 5  # another worker of the same node
    now, new = (predict(problem, slots, Assumptions(costs)).topologies[0] for slots in (APART, other))
    assert now.reachable_tps.high > 1.2 * now.reachable_tps.low
    assert rate_gain(now, new).sd <= model_sd(0.0) * 1.01


def test_costs_of_messages_are_not_common_to_a_placement_without_messages():
    problem = WordCount(cores=0.4, link_bps=None).problem()
    gains = []
    for error in (0.0, 0.5):
        costs = Assumptions(Costs(message_error=error, delay_error=0.0, work_error=0.0))
        now, new = (predict(problem, slots, costs).topologies[0] for slots in (APART, TOGETHER))
        gains.append(rate_gain(now, new))
    assert gains[1].sd > gains[0].sd > model_sd(0.0)


@given(st.floats(-2, 2), st.floats(0, 2))
def test_vectorized_gain_bounds_equal_single_gain_bounds(predicted: float, change: float):
    one = shrunk(predicted, float(model_sd(change)), change)
    bound = at_least(np.array([predicted]), np.array([change]))
    assert one.at_least == pytest.approx(exp(bound[0]))
    assert one.low <= one.at_least <= one.value <= one.high
    assert one.value <= one.predicted * (1 + 1e-12)
    assert at_least(np.array([predicted]), np.array([change]), 0.0)[0] == pytest.approx(log(one.value))


def test_choosing_the_best_of_many_is_not_rewarded():
    """Smith and Winkler: the mean of what comes of the candidate that looks best is that of the corrected gain.

    Candidates whose trees cost what they did: true gains vary by 0.1, predictions err by 0.06.
    """
    random = np.random.default_rng(7)
    true = random.normal(0.0, 0.1, (4_000, 20))
    predicted = true + random.normal(0.0, 0.06, true.shape)
    best = predicted.argmax(axis=1)
    chosen = np.arange(len(true))
    promised = np.array([log(shrunk(value, 0.06, 0.0).value) for value in predicted[chosen, best]])
    came = true[chosen, best]
    assert predicted[chosen, best].mean() - came.mean() > 0.04, "uncorrected it is too optimistic"
    assert promised.mean() == pytest.approx(came.mean(), abs=0.005)
    # What all candidates share cannot be chosen by.
    came = came + random.normal(0.0, 1.0, len(came)) * common_sd(predicted[chosen, best])
    surely = at_least(predicted[chosen, best], np.zeros(len(true)), ONE_SIDED)
    assert np.mean(came < surely) == pytest.approx(0.05, abs=0.015)


def test_gain_is_less_certain_the_less_of_the_cpu_is_explained():
    sds = [shrunk(0.3, 0.06, 0.1, scale=scale).sd for scale in (1.0, 1.2, 2.0)]
    assert sds == sorted(sds)
    assert shrunk(0.3, 0.06, 0.1, scale=0.5).sd == pytest.approx(sds[-1]), "in either direction"


def test_gains_of_topologies_that_share_nodes_are_shrunk_less_and_less_certain():
    alone, shared = (shrunk(0.3, 0.06, 0.0, shared=each) for each in (False, True))
    assert shared.value > alone.value
    assert shared.high / shared.value > alone.high / alone.value


def test_cost_change_is_symmetric():
    assert cost_change(100.0, 50.0) == pytest.approx(log(2))
    assert cost_change(50.0, 100.0) == pytest.approx(log(2))
    assert cost_change(0.0, 100.0) == 0, "nothing is known of it"
    assert np.all(np.diff(model_sd(np.array([0.0, 0.1, 0.5, 1.0]))) > 0)


def test_gain_of_unlimited_or_zero_rates_is_defined():
    assert shrunk(inf, 0.1, 0.0).value == inf
    assert shrunk(-inf, 0.1, 0.0).value == 0.0
    assert together([shrunk(-inf, 0.1, 0.0), RateGain(2.0, 2.0, 0.0)], [1.0, 1.0]).value == 0.0
    assert together([], []) == RateGain(1.0, 1.0, 0.0)


def test_more_than_enough_counts_for_no_more_and_not_for_less():
    gain = RateGain(8.0, 9.0, 0.5)
    capped = gain.capped(rate_tps=100.0, most_tps=200.0)
    assert capped.value == 2.0
    assert capped.at_least == pytest.approx(2.0), "even the least of it is more than enough"
    fallen = RateGain(0.5, 0.5, 0.1).capped(rate_tps=1_000.0, most_tps=200.0)
    assert fallen.value == 1.0, "there was more than enough, and there still is"
