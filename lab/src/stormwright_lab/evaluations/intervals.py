"""Means with 95 % confidence intervals, and comparisons of two of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, variance

from scipy.special import stdtrit

#: Confidence level.
LEVEL = 0.95

#: Starts of each variant that a verdict requires: two starts of the same differ by 7 % in the median and by 32 % at the
#: 95th percentile (docs/results/prediction-cells.md).
MIN_STARTS = 3


@dataclass(frozen=True)
class FigureInterval:
    """A figure with its interval; both ends are the figure itself if there is none."""

    value: float
    low: float
    high: float

    @property
    def text(self) -> str:
        """Display text."""
        digits = 0 if abs(self.value) >= 100 else 1 if abs(self.value) >= 10 else 2
        ends = f" ({self.low:,.{digits}f} to {self.high:,.{digits}f})" if self.low < self.high else ""
        return f"{self.value:,.{digits}f}{ends}"


def samples_of(starts: Sequence[Sequence[float]]) -> list[float]:
    """Return the samples of an interval: the mean of each start.

    Stretches of one start are more alike than starts are, so an interval over them is too narrow.
    """
    return [fmean(start) for start in starts if start]


def mean_of(samples: Sequence[float]) -> FigureInterval:
    """Return the mean of at least one sample."""
    value = fmean(samples)
    if len(samples) < 2:
        return FigureInterval(value, value, value)
    half = float(stdtrit(len(samples) - 1, (1 + LEVEL) / 2)) * sqrt(variance(samples) / len(samples))
    return FigureInterval(value, value - half, value + half)


def difference_of(first: Sequence[float], second: Sequence[float]) -> FigureInterval | None:
    """Return the difference of means by Welch; None if a single sample gives no interval."""
    return _welch(fmean(first) - fmean(second), first, second, (1.0, 1.0))


def ratio_of(first: Sequence[float], second: Sequence[float]) -> FigureInterval | None:
    """Return the ratio of means; None if a single sample gives no interval, or for a mean of 0.

    Its variance is that of its linear approximation around both means (the delta method), with Welch's degrees of
    freedom.
    """
    mean = fmean(second)
    if mean <= 0:
        return None
    ratio = fmean(first) / mean
    return _welch(ratio, first, second, (1 / mean, ratio / mean))


def _welch(
    value: float, first: Sequence[float], second: Sequence[float], weights: tuple[float, float]
) -> FigureInterval | None:
    """Return the interval of a value that depends on two means by these weights."""
    if len(first) < 2 or len(second) < 2:
        return None
    both = list(zip((first, second), weights, strict=True))
    parts = [weight**2 * variance(samples) / len(samples) for samples, weight in both]
    spread = sum(parts)
    if not spread:
        return FigureInterval(value, value, value)
    degrees = spread**2 / sum(p**2 / (len(s) - 1) for p, (s, _) in zip(parts, both, strict=True))
    half = float(stdtrit(degrees, (1 + LEVEL) / 2)) * sqrt(spread)
    return FigureInterval(value, value - half, value + half)
