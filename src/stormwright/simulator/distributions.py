"""Distributions of times: of services, and between arrivals.

Every class has a mean and draws samples with NumPy's generators. So has any distribution of ``scipy.stats`` with its
parameters (``scipy.stats.weibull_min(0.5, scale=2)``), which a network accepts as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log, sqrt
from operator import mul
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stormwright.errors import Fault
from stormwright.model.faults import is_number

FloatArray = NDArray[np.float64]


@runtime_checkable
class Distribution(Protocol):
    """Distribution of times in seconds."""

    @property
    def mean_s(self) -> float:
        """Mean."""
        ...

    def draw(self, random: np.random.Generator, count: int) -> FloatArray:
        """Return samples, shape (count,)."""
        ...

    def faults(self, path: str) -> Iterator[Fault]:
        """Yield the faults of the parameters; `path` is the place of the distribution."""
        ...


@dataclass(frozen=True)
class TwoMoments:
    """Time with a given mean and squared coefficient of variation, as `stormwright simulate` uses it.

    Up to 1 it is a constant and an exponential part; above, one of two exponential times with balanced means (Whitt
    1982, https://doi.org/10.1287/opre.30.1.125).

    Parameters
    ----------
    mean_s
        Mean time in seconds, finite and at least 0.
    scv
        Squared coefficient of variation (variance by mean²): 0 for a constant, 1 for an exponential time.
    """

    mean_s: float
    scv: float = 1.0

    def draw(self, random: np.random.Generator, count: int) -> FloatArray:
        """Return samples, shape (count,)."""
        exponential = random.exponential(size=count)
        if self.scv <= 1:
            part = sqrt(self.scv)
            return self.mean_s * (1 - part + part * exponential)
        often = 0.5 * (1 + sqrt((self.scv - 1) / (self.scv + 1)))
        return self.mean_s * exponential / np.where(random.random(count) < often, 2 * often, 2 * (1 - often))

    def faults(self, path: str) -> Iterator[Fault]:
        """Yield the faults of the parameters."""
        yield from _wrong_number(self.mean_s, f"{path}.mean_s")
        yield from _wrong_number(self.scv, f"{path}.scv")


class Exponential(TwoMoments):
    """Exponential time with the mean `mean_s`."""

    def __init__(self, mean_s: float) -> None:
        super().__init__(mean_s, 1.0)


class Deterministic(TwoMoments):
    """Constant time of `mean_s` seconds."""

    def __init__(self, mean_s: float) -> None:
        super().__init__(mean_s, 0.0)


@dataclass(frozen=True)
class Gamma:
    """Gamma distribution; Erlang's with k phases has `scv` = 1 / k.

    Parameters
    ----------
    mean_s
        Mean time in seconds, finite and at least 0.
    scv
        Squared coefficient of variation, above 0.
    """

    mean_s: float
    scv: float

    @classmethod
    def erlang(cls, mean_s: float, phases: int) -> Gamma:
        """Return Erlang's distribution: the sum of `phases` exponential times, with `mean_s` in all."""
        return cls(mean_s, 1 / phases if phases else np.nan)

    def draw(self, random: np.random.Generator, count: int) -> FloatArray:
        """Return samples, shape (count,)."""
        return random.gamma(1 / self.scv, self.mean_s * self.scv, count)

    def faults(self, path: str) -> Iterator[Fault]:
        """Yield the faults of the parameters."""
        yield from _wrong_number(self.mean_s, f"{path}.mean_s")
        yield from _wrong_number(self.scv, f"{path}.scv", above_zero=True)


@dataclass(frozen=True)
class LogNormal:
    """Lognormal distribution.

    Parameters
    ----------
    mean_s
        Mean time in seconds, finite and at least 0.
    scv
        Squared coefficient of variation.
    """

    mean_s: float
    scv: float

    def draw(self, random: np.random.Generator, count: int) -> FloatArray:
        """Return samples, shape (count,)."""
        variance = log(1 + self.scv)
        return self.mean_s * random.lognormal(-variance / 2, sqrt(variance), count)

    def faults(self, path: str) -> Iterator[Fault]:
        """Yield the faults of the parameters."""
        yield from _wrong_number(self.mean_s, f"{path}.mean_s")
        yield from _wrong_number(self.scv, f"{path}.scv")


@dataclass(frozen=True)
class HyperExponential:
    """One of several exponential times.

    Parameters
    ----------
    means_s
        Mean of each in seconds.
    probabilities
        Probability of each; their sum is 1.
    """

    means_s: Sequence[float]
    probabilities: Sequence[float]

    @property
    def mean_s(self) -> float:
        """Mean."""
        return float(sum(map(mul, self.means_s, self.probabilities)))

    def draw(self, random: np.random.Generator, count: int) -> FloatArray:
        """Return samples, shape (count,)."""
        chosen = random.choice(len(self.means_s), count, p=np.asarray(self.probabilities))
        return np.asarray(self.means_s, np.float64)[chosen] * random.exponential(size=count)

    def faults(self, path: str) -> Iterator[Fault]:
        """Yield the faults of the parameters."""
        for number, mean_s in enumerate(self.means_s):
            yield from _wrong_number(mean_s, f"{path}.means_s[{number}]")
        for number, probability in enumerate(self.probabilities):
            yield from _wrong_number(probability, f"{path}.probabilities[{number}]")
        if len(self.means_s) != len(self.probabilities) or not len(self.means_s):
            counts = f"{len(self.means_s)} means and {len(self.probabilities)} probabilities"
            yield Fault(f"should have as many means as probabilities, and one at least, got {counts}", path)
        elif not abs(sum(self.probabilities) - 1) <= 1e-9:
            message = f"should be probabilities whose sum is 1, got {sum(self.probabilities):g}"
            yield Fault(message, f"{path}.probabilities")


class Empirical:
    """Measured times; each is a sample with equal probability.

    Parameters
    ----------
    samples_s
        Measured times in seconds, at least one, each finite and at least 0.
    """

    def __init__(self, samples_s: Sequence[float] | FloatArray) -> None:
        self.samples_s: FloatArray = np.array(samples_s, np.float64)

    def __repr__(self) -> str:
        return f"Empirical(<{self.samples_s.size:,} samples>)"

    @property
    def mean_s(self) -> float:
        """Mean."""
        return float(self.samples_s.mean()) if self.samples_s.size else 0.0

    def draw(self, random: np.random.Generator, count: int) -> FloatArray:
        """Return samples, shape (count,)."""
        return random.choice(self.samples_s, count)

    def faults(self, path: str) -> Iterator[Fault]:
        """Yield the faults of the samples; of many wrong ones the first."""
        yield from wrong_times(self.samples_s, f"{path}.samples_s")


class FromScipy:
    """A distribution of ``scipy.stats`` with its parameters, as a `Distribution`.

    Parameters
    ----------
    frozen
        Has the methods ``mean()`` and ``rvs(size=…, random_state=…)``.
    """

    def __init__(self, frozen: ScipyDistribution) -> None:
        self._frozen = frozen

    @property
    def mean_s(self) -> float:
        """Mean."""
        return float(self._frozen.mean())

    def draw(self, random: np.random.Generator, count: int) -> FloatArray:
        """Return samples, shape (count,)."""
        return np.asarray(self._frozen.rvs(size=count, random_state=random), np.float64)

    def faults(self, path: str) -> Iterator[Fault]:
        """Yield a fault if the mean is no time, or the distribution has negative times."""
        yield from _wrong_number(self.mean_s, f"{path}.mean()")
        if self.draw(np.random.default_rng(0), 1_000).min() < 0:
            yield Fault("should be a distribution of times from 0 on, got negative ones", path)


@runtime_checkable
class ScipyDistribution(Protocol):
    """A distribution of ``scipy.stats`` with its parameters."""

    def mean(self) -> float:
        """Return the mean."""
        ...

    def rvs(self, *, size: int, random_state: np.random.Generator) -> FloatArray:
        """Return samples, shape (size,)."""
        ...


def wrong_times(times_s: FloatArray, path: str) -> Iterator[Fault]:
    """Yield a fault if an array is empty, not one-dimensional, or has a value that is no time from 0 on."""
    if times_s.ndim != 1 or not times_s.size:
        yield Fault(f"should be times in one dimension, and one at least, got shape {times_s.shape}", path)
        return
    wrong = np.flatnonzero(~(np.isfinite(times_s) & (times_s >= 0)))
    if len(wrong):
        more = f", and {len(wrong) - 1:,} more like it" if len(wrong) > 1 else ""
        message = f"should be a finite number from 0 on, got {times_s[wrong[0]]:g}{more}"
        yield Fault(message, f"{path}[{wrong[0]}]")


def _wrong_number(value: object, path: str, *, above_zero: bool = False) -> Iterator[Fault]:
    if not is_number(value):
        yield Fault(f"should be a number, got {type(value).__name__}", path)
    elif not 0 <= value < np.inf or (above_zero and value == 0):
        yield Fault(f"should be a finite number {'above 0' if above_zero else 'from 0 on'}, got {value:g}", path)
