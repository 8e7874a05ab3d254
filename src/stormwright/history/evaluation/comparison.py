"""Comparison of two placements by the rates of several starts of their workers.

Two starts of one placement differ: JVMs compile in another order, threads meet on other cores, and the machine is not
always as fast. On a real cluster throughput of two starts of the same placement differed by 7.3 % in the median and by
32 % at the 95th percentile (docs/results/prediction-cells.md). No length of one start makes up for that, so what counts
is a start, and the placements take turns: A B A B.

Rates are compared as logarithms, of which each start is one sample with the variance σ² in both placements. What is
known of σ beforehand is worth `PRIOR_FREEDOM` starts: σ² has a scaled inverse χ² distribution around the square of
`START_DEVIATION`, which is conjugate, so the difference of the means has Student's t-distribution with the degrees of
freedom of the prior and of the starts together (A. Gelman et al., "Bayesian Data Analysis", 3rd edition, 2013, §3.2).
Hence one start of each already has an interval, about ±30 %, which narrows as starts are added and which starts that
differ more than usual make wider.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import exp, log, sqrt
from typing import Any, Literal

import numpy as np
from scipy.special import stdtrit

from stormwright.model.arrays import FloatArray

#: Standard deviation of the logarithm of a rate from one start to the next, and how many degrees of freedom that is
#: worth. By both, two starts of one placement differ by 8 % in the median and 32 % at the 95th percentile.
START_DEVIATION, PRIOR_FREEDOM = 0.08, 6.0

#: The same of mean complete latency, which differs by 25 % in the median and 59 % at the 95th percentile.
LATENCY_DEVIATION = 0.17

CONFIDENCE = 0.95

#: The most starts that are worth making: beyond, the number that a decision needs is not given.
MAX_STARTS = 50

#: The part of the highest rate that stands for none at all, which has no logarithm.
_NOTHING = 1e-6

ComparisonVerdict = Literal["better", "worse", "undecided"]


@dataclass(frozen=True)
class StartComparison:
    """Placement B compared with placement A.

    Parameters
    ----------
    ratio, low, high
        Geometric mean of B's rates divided by that of A's, and its 95 % interval over starts.
    reference
        The ratio from which on B is better, and below which it is worse; 1 where nothing else is wanted.
    starts
        Of A and of B.
    verdict
        ``better`` or ``worse`` where the whole interval is on one side of the reference, else ``undecided``.
    more_starts
        How many more starts of each are needed until the interval is on one side, if the ratio stays as it is; 0 where
        it is, None where that are more than `MAX_STARTS`.
    """

    ratio: float
    low: float
    high: float
    reference: float
    starts: tuple[int, int]
    verdict: ComparisonVerdict
    more_starts: int | None

    @property
    def holds(self) -> bool:
        """Whether B's mean reaches the reference, significant or not."""
        return self.ratio >= self.reference

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as a JSON object."""
        return asdict(self)


def compare_starts(
    before: Sequence[float], after: Sequence[float], reference: float = 1.0, deviation: float = START_DEVIATION
) -> StartComparison:
    """Compare placements A and B by the rate of each start.

    Where both are equally good, ``better`` and ``worse`` are each found by chance in 1.8 % of comparisons that are made
    after the first and after the second start of each, and in 4.8 % of those made after each of five, if starts differ
    by `deviation`.

    Parameters
    ----------
    before, after
        Of each start of A and of B, at least one, in any unit; the more the better.
    reference
        The ratio that is wanted of B.
    deviation
        Standard deviation of the logarithm of a rate that is expected between starts.

    Raises
    ------
    ValueError
        There is no start of one of them.
    """
    if not len(before) or not len(after):
        raise ValueError(f"cannot compare {len(before)} starts with {len(after)}: measure at least one of each")
    x, y = _logarithms(before, after)
    known = deviation**2 * PRIOR_FREEDOM + float(((x - x.mean()) ** 2).sum() + ((y - y.mean()) ** 2).sum())
    spread = sqrt(known / _freedom(len(x), len(y)))
    difference = float(y.mean() - x.mean())
    half = _half_width(spread, len(x), len(y))
    off = difference - log(reference)
    verdict: ComparisonVerdict = "undecided" if abs(off) <= half else "better" if off > 0 else "worse"
    return StartComparison(
        exp(difference),
        exp(difference - half),
        exp(difference + half),
        reference,
        (len(x), len(y)),
        verdict,
        _more_starts(abs(off), spread, len(x), len(y)),
    )


def _logarithms(before: Sequence[float], after: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    least = _NOTHING * max(*before, *after, 0.0) or 1.0
    x, y = (np.log(np.maximum(np.asarray(rates, float), least)) for rates in (before, after))
    return x, y


def _freedom(before: int, after: int) -> float:
    return PRIOR_FREEDOM + before + after - 2


def _half_width(spread: float, before: int, after: int) -> float:
    return float(stdtrit(_freedom(before, after), (1 + CONFIDENCE) / 2)) * spread * sqrt(1 / before + 1 / after)


def _more_starts(off: float, spread: float, before: int, after: int) -> int | None:
    widths = ((more, _half_width(spread, before + more, after + more)) for more in range(MAX_STARTS + 1))
    return next((more for more, half in widths if half < off), None)
