"""Effect of a move compared with its prediction: pure arithmetic on windows before and after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from scipy.special import stdtrit

from stormwright.history.evaluation.window import Sample
from stormwright.model.arrays import FloatArray
from stormwright.plans.plan import Promise
from stormwright.predict.fixed_point import waiting


@dataclass(frozen=True, slots=True)
class Threshold:
    """Promised values after a move relative to those before it; at least 1.

    Parameters
    ----------
    throughput, latency
        Trees completed a second, and how long one takes.
    """

    throughput: float = 1.0
    latency: float = 1.0


# Promises -----------------------------------------------------------------------------------------
# Promise of a move, adjusted to the actual load.

#: Part of the rate that a placement is predicted to sustain from which it limits the rate, where pending trees have no
#: limit.
_ALL_SUSTAINED = 0.9

#: Probability from which spouts count as waiting for pending trees.
MORE_PROBABLY = 0.5


def promised_for(promise: Promise, before: Sequence[Sample]) -> Threshold:
    """Return the threshold by a promise for the load of these windows.

    Spouts that wait for trees, or for executors, emit more where more is sustained. Others are limited from outside:
    what they emit stays as it is, as long as it is sustained.
    """
    if promise.sustained is None or promise.wanted_tps is None or not before:
        return Threshold()
    rate_tps = float(np.mean([sample.acked_tps for sample in before]))
    if _full(promise, before, rate_tps):
        return Threshold(promise.sustained, promise.full_latency or promise.latency or 1.0)
    enough = promise.wanted_tps >= rate_tps or not rate_tps
    return Threshold(1.0 if enough else promise.wanted_tps / rate_tps, promise.latency or 1.0)


def _full(promise: Promise, before: Sequence[Sample], rate_tps: float) -> bool:
    counted_pending = [sample.pending for sample in before if sample.pending is not None]
    if promise.pending_limit is not None and counted_pending:
        part = np.array(np.mean(counted_pending) / promise.pending_limit)
        return bool(waiting(part) > MORE_PROBABLY)
    return promise.sustained_tps is not None and rate_tps >= _ALL_SUSTAINED * promise.sustained_tps


# Verdict ------------------------------------------------------------------------------------------

#: Minimum number of windows on either side.
MIN_WINDOWS = 4

#: Minimum effective number of independent values on either side.
MIN_WORTH = 2.0

CONFIDENCE = 0.95

AS_PREDICTED, LESS, MORE, UNCLEAR = "as predicted", "less", "more", "cannot tell"

#: Two ways of computing the same differ in the last digits.
_RELATIVE_TOLERANCE = 1e-9

#: Minimum predicted change for which a partial fulfilment is meaningful.
_NO_EFFECT = 0.01


@dataclass(frozen=True)
class Evaluation:
    """A quantity after a move relative to its value before.

    Parameters
    ----------
    quantity
        Quantity that is compared.
    predicted, measured
        The multiples; `measured` is None where there was nothing before.
    low, high
        Confidence interval of the measured one; None where it has no end.
    windows_before, windows_after
        Numbers of windows before and after the move, the sample sizes.
    verdict
        ``as predicted``: the interval holds the prediction. ``less``, ``more``: it does not, and the change is smaller
        or greater than predicted; where no change is predicted, the value is. `UNCLEAR`: too few windows, or the
        interval holds both the prediction and no change at all.
    """

    quantity: str
    predicted: float
    measured: float | None
    low: float | None
    high: float | None
    windows_before: int
    windows_after: int
    verdict: str


def judge(quantity: str, predicted: float, before: Sequence[float], after: Sequence[float]) -> Evaluation:
    """Compare the mean of `after`, as a multiple of the mean of `before`, with the multiple that was predicted.

    The interval is Fieller's for a ratio of means (E. C. Fieller, "Some problems in interval estimation", JRSS B 16(2),
    1954, https://doi.org/10.1111/j.2517-6161.1954.tb00159.x), with the degrees of freedom of Welch, since the two
    variances need not be equal (B. L. Welch, "The generalization of 'Student's' problem when several different
    population variances are involved", Biometrika 34(1–2), 1947, https://doi.org/10.1093/biomet/34.1-2.28). It holds
    exactly the multiples r for which mean(after) − r · mean(before) is no further from 0 than chance explains, so
    nothing has to be divided by a mean that may be 0, and no windows need to be paired. It supposes windows that are
    independent of each other: they do not overlap.

    Parameters
    ----------
    quantity
        Quantity, as in the judgement.
    predicted
        The multiple; 1 for no change.
    before, after
        The quantity in each window before and after the move, all in one unit. With fewer than `MIN_WINDOWS` on either
        side there is no interval.
    """
    x, y = np.asarray(before, float), np.asarray(after, float)
    too_few = min(len(x), len(y)) < MIN_WINDOWS
    measured = float(y.mean() / x.mean()) if len(x) and len(y) and x.mean() else None
    low, high = (None, None) if too_few or measured is None else ratio_interval(x, y, predicted)
    return Evaluation(
        quantity, predicted, measured, low, high, len(x), len(y), _verdict(predicted, measured, low, high)
    )


def ratio_interval(
    before: FloatArray, after: FloatArray, ratio: float, confidence: float = CONFIDENCE, inflation: float = 1.0
) -> tuple[float | None, float | None]:
    """Return limits of the ratio of means of `after` and `before`, as in `judge`.

    None for both where `before` may be 0, or where either is worth less than two independent values.

    Parameters
    ----------
    before, after
        At least two values each.
    ratio
        Ratio that is tested: the degrees of freedom depend on it.
    confidence
        Probability that the interval covers the ratio, between 0 and 1.
    inflation
        By how much the variance of a mean is greater than that of independent values.
    """
    worth = np.array([len(before), len(after)]) / inflation
    if worth.min() < MIN_WORTH:
        return None, None
    mean_x, mean_y = float(before.mean()), float(after.mean())
    variance_x, variance_y = float(before.var(ddof=1)) / worth[0], float(after.var(ddof=1)) / worth[1]
    parts = np.array([ratio**2 * variance_x, variance_y])
    freedom = parts.sum() ** 2 / (parts**2 / (worth - 1)).sum() if parts.sum() else worth.sum() - 2
    t = float(stdtrit(freedom, (1 + confidence) / 2))
    a, b, c = mean_x**2 - t**2 * variance_x, mean_x * mean_y, mean_y**2 - t**2 * variance_y
    if a <= 0:
        return None, None
    spread = np.sqrt(max(b**2 - a * c, 0.0))
    return float((b - spread) / a), float((b + spread) / a)


def _verdict(predicted: float, measured: float | None, low: float | None, high: float | None) -> str:
    if measured is None or low is None or high is None:
        return UNCLEAR
    slack = _RELATIVE_TOLERANCE * max(abs(low), abs(high), 1.0)

    def holds(value: float) -> bool:
        return low - slack <= value <= high + slack

    if holds(predicted):
        return UNCLEAR if holds(1.0) and abs(predicted - 1) > _NO_EFFECT else AS_PREDICTED
    falls = predicted < 1
    return LESS if (measured > predicted) == falls else MORE


def calibration(evaluations: Iterable[Evaluation]) -> float | None:
    """Return the measured change as a share of the predicted one, median over judgements; None without any.

    1 says that the model is right, 0.5 that half of what it promises arrives. Unclear judgements count as
    well: leaving them out would leave out the small effects.
    """
    shares = [
        (1 - evaluation.measured) / (1 - evaluation.predicted)
        for evaluation in evaluations
        if evaluation.measured is not None and evaluation.low is not None and abs(1 - evaluation.predicted) > _NO_EFFECT
    ]
    return float(median(shares)) if shares else None
