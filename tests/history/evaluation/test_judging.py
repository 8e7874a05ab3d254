"""Verdicts about moves: windows of known means and noise, so that it is known how often a verdict may be wrong."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.history.evaluation.verdict import AS_PREDICTED, LESS, MORE, UNCLEAR, Evaluation, calibration, judge

RUNS = 2000


def verdicts(
    rng: np.random.Generator, predicted: float, true: float, sizes: tuple[int, int], **noise: float
) -> list[str]:
    """Verdicts on many moves whose windows vary by chance: before by 5 %, after by `spread` of what is expected."""
    found = []
    for _ in range(RUNS):
        before = rng.normal(100.0, 5.0, sizes[0])
        after = rng.normal(100.0 * true, noise.get("spread", 0.05) * 100.0, sizes[1])
        found.append(judge("traffic", predicted, before.tolist(), after.tolist()).verdict)
    return found


@pytest.mark.parametrize(
    ("true", "sizes", "spread"),
    [(0.4, (24, 12), 0.05), (0.4, (24, 12), 0.15), (0.4, (5, 12), 0.01), (0.8, (8, 8), 0.02), (1.0, (24, 12), 0.05)],
)
def test_false_rejection_rate_matches_the_confidence_level(true: float, sizes: tuple[int, int], spread: float) -> None:
    results = verdicts(np.random.default_rng(1), true, true, sizes, spread=spread)
    wrong = np.mean([verdict in (LESS, MORE) for verdict in results])
    # 5 % within three standard deviations of so many runs; Welch's degrees of freedom are an approximation.
    assert wrong == pytest.approx(0.05, abs=3 * np.sqrt(0.05 * 0.95 / RUNS) + 0.005)
    assert results.count(LESS) > 10 < results.count(MORE)


def test_confidence_interval_has_nominal_coverage() -> None:
    rng, held = np.random.default_rng(2), 0
    for _ in range(RUNS):
        found = judge("traffic", 0.5, rng.normal(100, 10, 15).tolist(), rng.normal(50, 10, 10).tolist())
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.5 <= found.high
    assert held / RUNS == pytest.approx(0.95, abs=0.02)


@pytest.mark.slow
def test_wrong_prediction_is_detected_in_nearly_all_cases() -> None:
    rng = np.random.default_rng(3)
    assert verdicts(rng, predicted=0.4, true=0.6, sizes=(24, 12)).count(LESS) > 0.99 * RUNS
    assert verdicts(rng, predicted=0.6, true=0.4, sizes=(24, 12)).count(MORE) > 0.99 * RUNS
    # To cure an overload traffic between nodes may have to grow: there it is the growth that is less or more.
    assert verdicts(rng, predicted=1.5, true=1.2, sizes=(24, 12)).count(LESS) > 0.99 * RUNS
    assert verdicts(rng, predicted=1.2, true=1.5, sizes=(24, 12)).count(MORE) > 0.99 * RUNS


def test_verdict_is_unclear_for_insufficient_evidence() -> None:
    rng = np.random.default_rng(4)
    found = judge("traffic", 0.9, rng.normal(100, 60, 6).tolist(), rng.normal(95, 60, 6).tolist())
    assert found.verdict == UNCLEAR
    assert judge("traffic", 0.5, [1.0] * 3, [0.5] * 9).verdict == UNCLEAR
    assert judge("traffic", 0.5, [0.0] * 9, [0.0] * 9).verdict == UNCLEAR
    assert judge("traffic", 0.5, [], []).measured is None


def test_no_traffic_at_all_and_no_noise_at_all() -> None:
    gone = judge("traffic", 0.0, [9.0, 10.0, 11.0, 10.0], [0.0] * 5)
    assert (gone.verdict, gone.measured, gone.low, gone.high) == (AS_PREDICTED, 0.0, 0.0, 0.0)
    exact = judge("traffic", 0.3, [10.0] * 5, [3.0] * 5)
    assert (exact.verdict, exact.low, exact.high) == (AS_PREDICTED, pytest.approx(0.3), pytest.approx(0.3))


def test_verdict_for_ratio_one_equals_welch_test_of_scipy() -> None:
    """With a predicted ratio of 1 it is Welch's test."""
    from scipy.stats import ttest_ind  # other processes are not to wait for it

    rng = np.random.default_rng(5)
    for shift in np.linspace(-12, 12, 60):
        before, after = rng.normal(100, 3, 9), rng.normal(100 + shift, 11, 14)
        differs = ttest_ind(before, after, equal_var=False).pvalue < 0.05
        verdict = judge("throughput", 1.0, before.tolist(), after.tolist()).verdict
        assert verdict == (AS_PREDICTED if not differs else MORE if after.mean() > before.mean() else LESS)


def test_calibration_is_the_measured_share_of_the_predicted_effect() -> None:
    def of(predicted: float, measured: float | None) -> Evaluation:
        return Evaluation("traffic", predicted, measured, measured, measured, 9, 9, AS_PREDICTED)

    assert calibration([]) is None
    assert calibration([of(0.4, 0.7)]) == pytest.approx(0.5)
    assert calibration([of(0.4, 0.4), of(0.5, 0.6), of(0.2, 0.84), of(1.0, 0.3), of(0.5, None)]) == pytest.approx(0.8)
