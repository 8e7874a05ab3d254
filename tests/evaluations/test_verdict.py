"""Intervals against SciPy's, and verdicts against what they should be."""

from __future__ import annotations

import numpy as np
import pytest
from stormwright_lab.evaluations.definitions import LimitClaim, NumberClaim, OrderClaim, PublishedRow, ReportedFigure
from stormwright_lab.evaluations.intervals import difference_of, mean_of, ratio_of, samples_of
from stormwright_lab.evaluations.papers import PAPERS
from stormwright_lab.evaluations.verdict import (
    IN_DIRECTION,
    IN_MAGNITUDE,
    NOTHING,
    OTHERWISE,
    REPORTED,
    UNDECIDED,
    UNMEASURED,
    judge,
)

from stormwright.errors import MissingDependencyError
from stormwright.history.evaluation.comparison import compare_starts

A, B = [10.0, 12.0, 11.0, 13.0], [20.0, 24.0, 21.0]


def test_confidence_intervals_equal_those_of_scipy():
    from scipy import stats  # other processes are not to wait for it

    mean = mean_of(A)
    known = stats.ttest_1samp(A, 0).confidence_interval(0.95)
    assert (mean.low, mean.high) == pytest.approx((known.low, known.high))
    difference = difference_of(A, B)
    welch = stats.ttest_ind(A, B, equal_var=False).confidence_interval(0.95)
    assert (difference.low, difference.high) == pytest.approx((welch.low, welch.high))
    assert difference.value == pytest.approx(np.mean(A) - np.mean(B))


@pytest.mark.long
@pytest.mark.parametrize("true", [0.3, 1.0, 3.0])
def test_intervals_of_ratios_contain_the_true_ratio_in_95_percent_of_cases(true):
    rng = np.random.default_rng(5)
    samples = [(rng.normal(10 * true, 1, 4).tolist(), rng.normal(10, 1, 4).tolist()) for _ in range(4000)]
    ratios = [ratio_of(first, second) for first, second in samples]
    assert np.mean([ratio.low <= true <= ratio.high for ratio in ratios]) == pytest.approx(0.95, abs=0.015)
    assert ratios[0].value == pytest.approx(np.mean(samples[0][0]) / np.mean(samples[0][1]))


def test_each_start_is_one_sample():
    assert samples_of([[1.0, 3.0], [5.0], []]) == [2.0, 5.0]


def order(first, second, *, more=True, published=None, figure="nodes"):
    claim = OrderClaim("b", figure, "x", "y", more, published)
    measured = {("b", "x"): {figure: [[each] for each in first]}, ("b", "y"): {figure: [[each] for each in second]}}
    return judge(PublishedRow("Fig. 1", "", (claim,)), measured)


@pytest.mark.parametrize(
    ("first", "second", "more", "verdict"),
    [
        (B, A, True, IN_DIRECTION),
        (B, A, False, OTHERWISE),
        (A, B, False, IN_DIRECTION),
        (A, [11.0, 14.0, 9.0], True, UNDECIDED),
        ([5.0], [3.0], True, UNDECIDED),
        ([5.0, 5.0], [3.0, 3.0], True, UNDECIDED),
        ([2.0, 2.0, 2.0], [5.0, 5.0, 5.0], False, IN_DIRECTION),
        ([5.0, 5.0, 5.0], [5.0, 5.0, 5.0], False, OTHERWISE),
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], True, OTHERWISE),
        ([], A, True, UNMEASURED),
    ],
)
def test_orders(first, second, more, verdict):
    assert order(first, second, more=more).verdict == verdict


def test_published_number_appears_beside_measured_one():
    (claim,) = order(B, A, published=1.4).claims
    assert claim.published == "1.4"
    assert claim.ours.startswith("1.88 (")


@pytest.mark.parametrize(
    ("published", "verdict"),
    [(1.9, IN_MAGNITUDE), (1.1, IN_DIRECTION), ((1.0, 2.0), IN_MAGNITUDE), ((3.0, 4.0), IN_DIRECTION)],
)
def test_a_published_number_is_reproduced_in_magnitude_if_the_interval_contains_it(published, verdict):
    assert order(B, A, published=published).verdict == verdict


def test_rates_are_compared_as_decisions_of_a_service_are():
    """Two starts of the same differ by up to a third, which three starts that happen to agree do not disprove."""
    assert order([1.1, 1.1, 1.1], [1.0, 1.0, 1.0]).verdict == IN_DIRECTION
    assert order([1.1, 1.1, 1.1], [1.0, 1.0, 1.0], figure="acked_tps").verdict == UNDECIDED
    compared = compare_starts([1.0, 1.1, 1.05], [1.5, 1.6, 1.4])
    (claim,) = order([1.5, 1.6, 1.4], [1.0, 1.1, 1.05], figure="acked_tps").claims
    assert claim.ours == f"{compared.ratio:.2f} ({compared.low:.2f} to {compared.high:.2f})"


def test_row_verdict_is_the_worst_verdict_of_its_claims():
    good, missing = NumberClaim("a", 1, lambda: 1.0), ReportedFigure("b", "nodes")
    bad = NumberClaim("b", 1, lambda: 2.0)
    assert judge(PublishedRow("", "", (good,)), {}).verdict == IN_MAGNITUDE
    assert judge(PublishedRow("", "", (good, missing)), {}).verdict == UNMEASURED
    assert judge(PublishedRow("", "", (good, missing, bad)), {}).verdict == OTHERWISE
    assert judge(PublishedRow("", "", why_not="an illustration"), {}).verdict == NOTHING


def test_shown_claims_leave_row_verdict_reproduced():
    measured = {("b", "x"): {"nodes": [[3.0]]}}
    row = PublishedRow(
        "", "", (NumberClaim("a", 1, lambda: 1.0), ReportedFigure("b", "nodes"), NumberClaim("c", None, lambda: 9.0))
    )
    judgement = judge(row, measured)
    assert judgement.verdict == IN_MAGNITUDE
    assert [claim.verdict for claim in judgement.claims] == [IN_MAGNITUDE, REPORTED, REPORTED]
    assert judgement.claims[1].ours == "x 3.00"


def test_limits():
    measured = {
        ("b", "x"): {
            "failed": [[0.0], [0.0], [0.0]],
            "lost_tuples": [[0.0], [0.0], [9.0]],
            "kept_percent": [[80], [99], [97]],
        }
    }
    for claim, verdict in (
        (LimitClaim("b", "failed", "x", 0.0, at_least=False), IN_MAGNITUDE),
        (LimitClaim("b", "failed", "x", 1.0), OTHERWISE),
        (LimitClaim("b", "failed", "y", 1.0), UNMEASURED),
        (LimitClaim("b", "lost_tuples", "x", 0.0, at_least=False), OTHERWISE),
        (LimitClaim("b", "kept_percent", "x", 90.0), UNDECIDED),
    ):
        assert judge(PublishedRow("", "", (claim,)), measured).verdict == verdict


def test_incomputable_number_has_verdict_unmeasured():
    def ours():
        raise MissingDependencyError("there is no Java")

    judgement = judge(PublishedRow("", "", (NumberClaim("a", 1, ours),)), {})
    assert judgement.verdict == UNMEASURED
    assert "there is no Java" in judgement.claims[0].ours


@pytest.mark.parametrize("where", ["Table 3", "Table 4", "Table 5"])
def test_tables_of_top_storm_are_reproduced_without_a_cluster(where):
    (row,) = (row for row in PAPERS["top-storm"].rows if row.where == where)
    assert judge(row, {}).verdict == IN_MAGNITUDE


@pytest.mark.slow
@pytest.mark.parametrize("name", ["top-storm", "adaptive", "tag-aware"])
def test_published_numbers_computable_without_java_are_reproduced(name):
    claims = [
        c for row in PAPERS[name].rows for c in row.claims if isinstance(c, NumberClaim) and "R-Storm" not in c.what
    ]
    judgement = judge(PublishedRow("", "", tuple(claims)), {})
    assert {claim.verdict for claim in judgement.claims} <= {IN_MAGNITUDE, REPORTED}
