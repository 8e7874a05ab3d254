"""Verdicts on a paper's claims: direction and magnitude, from measured intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from stormwright.errors import StormwrightError
from stormwright.history.evaluation.comparison import LATENCY_DEVIATION, START_DEVIATION, compare_starts
from stormwright_lab.evaluations.definitions import (
    FIGURES,
    Claim,
    LimitClaim,
    NumberClaim,
    OrderClaim,
    PublishedRow,
    ReportedFigure,
)
from stormwright_lab.evaluations.intervals import (
    MIN_STARTS,
    FigureInterval,
    difference_of,
    mean_of,
    ratio_of,
    samples_of,
)

IN_MAGNITUDE, IN_DIRECTION = "reproduced in magnitude", "reproduced in direction"
OTHERWISE, UNDECIDED = "not reproduced", "undecided"
UNMEASURED, REPORTED, NOTHING = "not measured yet", "measured", "not to be measured"

#: A row has the first of these that any of its claims has.
_WORST = (OTHERWISE, UNMEASURED, UNDECIDED, IN_DIRECTION, IN_MAGNITUDE, REPORTED, NOTHING)

#: Figure → standard deviation of its logarithm between starts of the same, where it is known; see `compare_starts`.
_DEVIATIONS = {"acked_tps": START_DEVIATION, "latency_ms": LATENCY_DEVIATION}

#: Block and variant → figure → starts, each with its stretches.
Measurements = Mapping[tuple[str, str], Mapping[str, Sequence[Sequence[float]]]]


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim with published and measured figures as texts, and the verdict."""

    what: str
    published: str
    ours: str
    verdict: str


@dataclass(frozen=True)
class RowVerdict:
    """A row and its claims."""

    row: PublishedRow
    claims: Sequence[ClaimVerdict]

    @property
    def verdict(self) -> str:
        """Verdict of all claims together."""
        found = {claim.verdict for claim in self.claims} or {NOTHING}
        return next(verdict for verdict in _WORST if verdict in found)


def judge(row: PublishedRow, measured: Measurements, *, compute: bool = True) -> RowVerdict:
    """Compare a row with the measurements.

    Parameters
    ----------
    row
        Published figure or table, with the claims to check.
    measured
        Measurements of the reproduction.
    compute
        Whether numbers that need no cluster are computed.
    """
    return RowVerdict(row, [_claim_verdict(claim, measured, compute) for claim in row.claims])


def _claim_verdict(claim: Claim, measured: Measurements, compute: bool) -> ClaimVerdict:
    match claim:
        case OrderClaim():
            return _order(claim, measured)
        case LimitClaim():
            return _bound(claim, measured)
        case NumberClaim():
            return _number(claim, compute)
        case ReportedFigure():
            return _reported(claim, measured)


def _order(claim: OrderClaim, measured: Measurements) -> ClaimVerdict:
    what = f"{claim.block}: {FIGURES[claim.figure]}, {claim.first} / {claim.second}"
    published = claim.published_text
    first, second = (_samples(measured, claim.block, v, claim.figure) for v in (claim.first, claim.second))
    if not first or not second:
        return ClaimVerdict(what, published, "–", UNMEASURED)
    ratio = ratio_between(claim.figure, first, second)
    ours = ratio.text if ratio else f"{mean_of(first).text} against {mean_of(second).text}"
    if min(len(first), len(second)) < MIN_STARTS:
        return ClaimVerdict(what, published, ours, UNDECIDED)
    if first == second:  # the same placement, which is measured once
        return ClaimVerdict(what, published, "equal in every start", OTHERWISE)
    by_ratio = ratio is not None and claim.figure in _DEVIATIONS
    difference, around = (ratio, 1.0) if by_ratio else (difference_of(first, second), 0.0)
    if difference is None or difference.low <= around <= difference.high != difference.low:
        return ClaimVerdict(what, published, ours, UNDECIDED)
    ahead = difference.value - around if claim.more else around - difference.value
    if ahead <= 0:
        return ClaimVerdict(what, published, ours, OTHERWISE)
    return ClaimVerdict(what, published, ours, IN_MAGNITUDE if _contains(ratio, claim) else IN_DIRECTION)


def ratio_between(figure: str, first: Sequence[float], second: Sequence[float]) -> FigureInterval | None:
    """Return the ratio of a figure of two variants, a sample for each start; None if there is none.

    Rates and latencies are compared as decisions of a service are, other figures by Welch's interval.
    """
    if figure not in _DEVIATIONS or min(*first, *second) <= 0:
        return ratio_of(first, second)
    compared = compare_starts(second, first, deviation=_DEVIATIONS[figure])
    return FigureInterval(compared.ratio, compared.low, compared.high)


def _contains(ratio: FigureInterval | None, claim: OrderClaim) -> bool:
    """Return whether the measured interval contains the published ratio, or overlaps the published range."""
    if ratio is None or claim.published is None:
        return False
    if isinstance(claim.published, tuple):
        low, high = claim.published
        return ratio.low <= high and low <= ratio.high
    return ratio.low <= claim.published <= ratio.high


def _bound(claim: LimitClaim, measured: Measurements) -> ClaimVerdict:
    what = f"{claim.block}: {FIGURES[claim.figure]}, {claim.variant}"
    published = f"{'≥' if claim.at_least else '≤'} {claim.limit:g}"
    samples = _samples(measured, claim.block, claim.variant, claim.figure)
    if not samples:
        return ClaimVerdict(what, published, "–", UNMEASURED)
    mean = mean_of(samples)
    if not claim.limit and not claim.at_least and max(samples) > 0:  # where nothing may be lost, one start decides
        return ClaimVerdict(what, published, mean.text, OTHERWISE)
    if len(samples) < MIN_STARTS or (claim.limit and mean.low < claim.limit < mean.high):
        return ClaimVerdict(what, published, mean.text, UNDECIDED)
    holds = mean.value >= claim.limit if claim.at_least else mean.value <= claim.limit
    return ClaimVerdict(what, published, mean.text, IN_MAGNITUDE if holds else OTHERWISE)


def _number(claim: NumberClaim, compute: bool) -> ClaimVerdict:
    published = "–" if claim.published is None else f"{claim.published:,.10g}"
    if not compute:
        return ClaimVerdict(claim.what, published, "–", UNMEASURED)
    try:
        ours = _computed(claim)
    except (StormwrightError, ImportError) as error:
        return ClaimVerdict(claim.what, published, f"cannot be computed here: {error}", UNMEASURED)
    if claim.published is None:
        return ClaimVerdict(claim.what, published, f"{ours:,.10g}", REPORTED)
    equal = abs(ours - claim.published) <= claim.within
    return ClaimVerdict(claim.what, published, f"{ours:,.10g}", IN_MAGNITUDE if equal else OTHERWISE)


@cache
def _computed(claim: NumberClaim) -> float:
    return float(claim.ours())


def _reported(claim: ReportedFigure, measured: Measurements) -> ClaimVerdict:
    found = {
        variant: samples_of(starts[claim.figure])
        for (block, variant), starts in measured.items()
        if block == claim.block and starts.get(claim.figure)
    }
    text = "; ".join(f"{variant} {mean_of(samples).text}" for variant, samples in found.items() if samples)
    return ClaimVerdict(f"{claim.block}: {FIGURES[claim.figure]}", "–", text or "–", REPORTED if text else UNMEASURED)


def _samples(measured: Measurements, block: str, variant: str, figure: str) -> list[float]:
    return samples_of(measured.get((block, variant), {}).get(figure, ()))
