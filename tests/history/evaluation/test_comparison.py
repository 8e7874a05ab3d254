"""Placements compared over starts: against simulated starts whose true ratio and deviation are known."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.history.evaluation.comparison import (
    MAX_STARTS,
    PRIOR_FREEDOM,
    START_DEVIATION,
    StartComparison,
    compare_starts,
)

#: Simulated comparisons: of a rate of 5 % the standard error is 0.4 percentage points.
SAMPLES = 3_000


def sampled(rng, starts, ratio=1.0, deviation=START_DEVIATION):
    """Rates of that number of starts of A and of B."""
    before, after = 1000 * np.exp(deviation * rng.standard_normal((2, starts)))
    return before.tolist(), (ratio * after).tolist()


def covered(found: StartComparison, ratio: float) -> bool:
    return found.low <= ratio <= found.high


@pytest.mark.parametrize("starts", [1, 2, 5, 20])
def test_interval_covers_true_ratio_where_starts_differ_as_expected(starts):
    rng = np.random.default_rng(starts)
    share = np.mean([covered(compare_starts(*sampled(rng, starts, 0.8)), 0.8) for _ in range(SAMPLES)])
    assert share >= 0.93, "at least nominal, but for chance"
    assert share <= 0.995


@pytest.mark.parametrize("starts", [1, 3])
def test_interval_covers_nominally_where_deviation_itself_is_uncertain(starts):
    """Deviations sampled from what is assumed of them, so that the interval is exact."""
    rng = np.random.default_rng(7)
    deviations = START_DEVIATION * np.sqrt(PRIOR_FREEDOM / rng.chisquare(PRIOR_FREEDOM, SAMPLES))
    share = np.mean([covered(compare_starts(*sampled(rng, starts, 1.3, each)), 1.3) for each in deviations])
    assert share == pytest.approx(0.95, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_equal_placements_are_rarely_called_better_or_worse(rounds):
    """Also where it is looked after each round, and the first verdict counts."""
    rng = np.random.default_rng(rounds)
    found = {"better": 0, "worse": 0, "undecided": 0}
    for _ in range(SAMPLES):
        before, after = sampled(rng, rounds)
        verdicts = [compare_starts(before[:n], after[:n]).verdict for n in range(1, rounds + 1)]
        found[next((verdict for verdict in verdicts if verdict != "undecided"), "undecided")] += 1
    assert found["worse"] / SAMPLES <= 0.06
    assert found["better"] / SAMPLES <= 0.06


def test_large_loss_is_found_within_two_rounds():
    rng = np.random.default_rng(3)
    assert np.mean([compare_starts(*sampled(rng, 2, 0.74)).verdict == "worse" for _ in range(SAMPLES)]) > 0.85


def test_one_start_each_has_wide_interval():
    found = compare_starts([1000.0], [1100.0])
    assert found.verdict == "undecided"
    assert found.ratio == pytest.approx(1.1)
    assert found.low == pytest.approx(1.1 / found.high * 1.1)
    assert 1.4 < found.high < 1.5
    assert found.starts == (1, 1)


def test_high_variance_between_starts_widens_the_interval():
    steady = compare_starts([1000.0, 1010.0], [900.0, 905.0])
    unsteady = compare_starts([700.0, 1440.0], [600.0, 1350.0])
    assert unsteady.high / unsteady.low > steady.high / steady.low


def test_number_of_further_starts_is_sufficient_and_minimal():
    found = compare_starts([1000.0, 1000.0], [900.0, 900.0])
    assert found.verdict == "undecided"
    assert found.more_starts
    enough = 2 + found.more_starts
    deviation = START_DEVIATION * np.sqrt(PRIOR_FREEDOM / (PRIOR_FREEDOM + 2))
    assert found.more_starts < MAX_STARTS
    for starts, verdict in ((enough, "worse"), (enough - 1, "undecided")):
        # As many starts, which differ as much as these are estimated to.
        freedom = PRIOR_FREEDOM + 2 * starts - 2
        expected = np.sqrt(max(deviation**2 * freedom - START_DEVIATION**2 * PRIOR_FREEDOM, 0) / 2)
        shape = np.exp(np.array([expected / np.sqrt(2), -expected / np.sqrt(2)] + [0.0] * (starts - 2)))
        assert compare_starts((1000 * shape).tolist(), (900 * shape).tolist()).verdict == verdict


def test_equal_rates_need_more_starts_than_anybody_makes():
    assert compare_starts([1000.0], [1000.0]).more_starts is None
    decided = compare_starts([1000.0], [2000.0])
    assert (decided.verdict, decided.more_starts) == ("better", 0)


def test_comparison_holds_relative_to_the_reference_ratio():
    held = compare_starts([1000.0] * 30, [985.0] * 30, reference=0.97)
    assert held.holds
    assert not compare_starts([1000.0] * 30, [960.0] * 30, reference=0.97).holds


def test_placement_in_which_nothing_completes_is_worse():
    found = compare_starts([1000.0], [0.0])
    assert found.verdict == "worse"
    assert found.ratio < 1e-5


def test_no_start_is_refused():
    with pytest.raises(ValueError, match="cannot compare 0 starts with 1"):
        compare_starts([], [1.0])
