"""Detection of regressions after a move, by statistics of the windows before and after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.special import stdtrit

from stormwright.history.evaluation.verdict import (
    MIN_WINDOWS,
    MIN_WORTH,
    Threshold,
    ratio_interval,
)
from stormwright.history.evaluation.window import (
    Sample,
    connected,
    of_like_age,
    warm,
)
from stormwright.model.arrays import FloatArray

#: Maximum false-alarm probability of a regression.
FALSE_ALARMS = 0.01

#: Numbers of windows after the move at which it is tested, and tests at each of them: both share the false-alarm
#: probability.
LOOKS = (4, 6, 8, 12, 18, 24)
_QUESTIONS = 6

#: By how much the trees completed must have fallen, or their time grown, beyond chance; and in ms.
MIN_LOSS, MIN_DELAY, MIN_DELAY_MS = 0.1, 0.2, 1.0

#: By how much more trees failing, in parts of all that ended.
MIN_FAILING = 0.01

#: Load that is as before, up to this part, and trees under way, which buckets of latency tell less exactly.
SAME_LOAD, UNEXPLAINED = 0.05, 0.2

#: Windows from which it is estimated how far neighbours depend on each other.
_ENOUGH_FOR_DEPENDENCE = 12


def worse(
    before: Sequence[Sample], young: Sequence[Sample], after: Sequence[Sample], threshold: Threshold | None = None
) -> str | None:
    """Return why a topology is measurably worse; None if it is not or that is uncertain.

    A load that falls makes fewer trees, and none of them slower; a placement that is at its limit makes fewer trees
    because each takes longer: with L trees under way, throughput λ and time W each, L = λ W (J. D. C. Little,
    Operations Research 9(3), 1961, https://doi.org/10.1287/opre.9.3.383). So it is worse where

    1. fewer trees complete and each takes longer, so that about as many are under way; or none completes at all;
    2. each takes longer although no more are completed than before;
    3. more of them fail;

    each beyond what was promised, by at least `MIN_LOSS`, `MIN_DELAY` or `MIN_FAILING`, and beyond chance: the
    interval of the ratio of means (`verdict.judge`) lies wholly on the wrong side. Its level is `FALSE_ALARMS` by the
    number of looks and questions, which holds however these depend on each other (Bonferroni). Neighbouring windows do
    depend on each other: variances are those of the number of independent windows that ones with this correlation are
    worth, n (1 − ρ) / (1 + ρ) (G. V. Bayley, J. M. Hammersley, JRSS Supplement 8(2), 1946,
    https://doi.org/10.2307/2983560), ρ being estimated without bias (F. H. C. Marriott, J. A. Pope, Biometrika 41(3–4),
    1954, https://doi.org/10.1093/biomet/41.3-4.390).

    JVMs that warm up are compared with such only: warm windows with warm ones; and those of young workers with what the
    old ones did when they were as young, if these, once warm, were no slower. Time in which a move paused the topology
    is no part of an age.

    Parameters
    ----------
    before
        Windows right before the move, oldest first.
    young
        Those of the time after the workers before it had started.
    after
        Windows after it; each look takes the first n.
    threshold
        Promised throughput and latency, relative to before; unchanged by default.
    """
    threshold = threshold or Threshold()
    early, now = of_like_age(connected(young), _at_latest_look(connected(after)))
    settled, recent = warm(before), _at_latest_look(warm(after))
    if _harder(early, settled):
        early = []
    for one, other in ((settled, recent), (early, now)):
        if other and len(one) >= MIN_WINDOWS and (found := _compared(one, other, threshold)):
            return found
    return None


def _at_latest_look(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Return the samples that the latest of `LOOKS` tests, so that each look is one test; empty before the first."""
    return samples[: max((look for look in LOOKS if look <= len(samples)), default=0)]


def _harder(early: Sequence[Sample], later: Sequence[Sample]) -> bool:
    """Return whether old workers performed worse once warm, so that their young windows are no reference."""
    times = [[sample.latency_ms for sample in samples if sample.latency_ms is not None] for samples in (early, later)]
    if not all(times):
        return bool(later)
    return float(np.mean(times[1])) > (1 + SAME_LOAD) * float(np.mean(times[0]))


def _compared(before: Sequence[Sample], after: Sequence[Sample], threshold: Threshold) -> str | None:
    """Return the result of one comparison at one check."""
    level = 1 - 2 * FALSE_ALARMS / (len(LOOKS) * _QUESTIONS)

    def limits(of: Callable[[Sample], float | None], ratio: float) -> _Ratio | None:
        x, y = ([value for s in samples if (value := of(s)) is not None] for samples in (before, after))
        return _ratio(np.array(x), np.array(y), ratio, level)

    rate = limits(lambda sample: sample.acked_tps, threshold.throughput)
    delay = limits(lambda sample: sample.latency_ms, threshold.latency)
    if rate is None:
        return None
    if rate.high < min(threshold.throughput, 1) * (1 - MIN_LOSS):  # 1
        if delay is None and all(sample.acked == 0 and bool(sample.pending) for sample in after):
            return "no tuple tree completes any more"
        if delay is not None and delay.low > 1 and delay.value * rate.value > 1 - UNEXPLAINED:
            return f"{_percent(rate.value)} fewer tuple trees complete, and each takes {_percent(delay.value)} longer"
    late = delay is not None and delay.low > max(threshold.latency, 1) * (1 + MIN_DELAY) and delay.more >= MIN_DELAY_MS
    if delay is not None and late and rate.value <= 1 + SAME_LOAD:  # 2
        fewer = rate.value < 1 - SAME_LOAD
        but = f"and {_percent(rate.value)} fewer complete" if fewer else "although no more of them come"
        return f"tuple trees take {_percent(delay.value)} longer, {delay.more:,.0f} ms, {but}"
    failing = _more_fail(before, after, level)
    if failing:  # 3
        return f"{failing:.0%} of all tuple trees fail"
    return None


@dataclass(frozen=True, slots=True)
class _Ratio:
    """Ratio of means after and before, with its interval; `more` is their difference."""

    value: float
    low: float
    high: float
    more: float


def _ratio(before: FloatArray, after: FloatArray, ratio: float, level: float) -> _Ratio | None:
    if min(len(before), len(after)) < MIN_WINDOWS or not before.mean():
        return None
    low, high = ratio_interval(before, after, ratio, level, _inflation(before))
    if low is None or high is None:
        return None
    return _Ratio(float(after.mean() / before.mean()), low, high, float(after.mean() - before.mean()))


def _more_fail(before: Sequence[Sample], after: Sequence[Sample], level: float) -> float | None:
    """Return the fraction of failing trees if it is significantly higher than before."""
    x, y = (np.array([s.failed / (s.acked + s.failed) for s in each if s.acked + s.failed]) for each in (before, after))
    if min(len(x), len(y)) < MIN_WINDOWS:
        return None
    worth = np.array([len(x), len(y)]) / _inflation(x)
    if worth.min() < MIN_WORTH:
        return None
    error = sqrt(float(x.var(ddof=1)) / worth[0] + float(y.var(ddof=1)) / worth[1])
    t = float(stdtrit(worth.min() - 1, (1 + level) / 2))
    return float(y.mean()) if y.mean() - x.mean() - t * error > MIN_FAILING else None


def _inflation(values: FloatArray) -> float:
    """Return the variance inflation due to autocorrelation."""
    off = values - values.mean()
    total = float(off @ off)
    if len(values) < _ENOUGH_FOR_DEPENDENCE or not total:
        return 1.0
    correlation = max(float(off[1:] @ off[:-1]) / total, 0.0)
    # From few windows it is estimated too low, by (1 + 3 ρ) / n.
    alike = min(correlation + (1 + 3 * correlation) / len(values), 0.95) if correlation else 0.0
    return (1 + alike) / (1 - alike)


def _percent(ratio: float) -> str:
    return f"{abs(ratio - 1):.0%}"
