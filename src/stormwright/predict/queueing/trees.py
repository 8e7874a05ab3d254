"""Latency of a tuple tree, from the sojourn times of tuples at components and the hops between them.

A tree grows from component to component. Tuples that a tuple triggers proceed in parallel, and the tuple's own part is
done when the last of them is: the largest of several times.

- m alike ones: mean μ + σ (H_m − 1), which is exact for the exponential distribution (where σ = μ) and for times that
  do not vary (σ = 0); H_m is the m-th harmonic number. Variance σ² Σ 1/k², exact for the exponential one too.
- different ones: the moments of the larger of two normal variables, one after the other: C. E. Clark, The Greatest of
  a Finite Set of Random Variables, Operations Research 9(2), 1961, https://doi.org/10.1287/opre.9.2.145.

A tuple that triggers none ends its part of the tree by its ack. The tuples that another one triggers proceed while its
own ack is under way: that ack arrives no later than theirs, which have a longer way to the same acker.

All times are assumed to be independent of each other, except those of acks, which count by their mean: all acks of a
tree go to the same acker.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaincinv, ndtr, polygamma, psi

from stormwright.model.arrays import FloatArray, IndexArray

_ROOT = np.sqrt(2 * np.pi)


class Times(NamedTuple):
    """Means (s) and variances (s²) of some times."""

    mean: FloatArray
    variance: FloatArray

    def __add__(self, other: Times) -> Times:  # type: ignore[override]
        return Times(self.mean + other.mean, self.variance + other.variance)

    def quantile(self, part: float) -> FloatArray:
        """Return the quantile `part` of the times, assuming a gamma distribution with these moments."""
        sound = (self.variance > 0) & np.isfinite(self.variance) & (self.mean > 0)
        shape = np.divide(self.mean**2, self.variance, out=np.ones_like(self.mean), where=sound)
        return np.where(sound, gammaincinv(shape, part) * self.mean / shape, self.mean)


class MaximumCoefficients(NamedTuple):
    """Coefficients of the largest of several times, by their number: probability of any, H_m − 1, Σ 1/k²."""

    often: FloatArray
    several: FloatArray
    harmonic: FloatArray
    squares: FloatArray

    @classmethod
    def of(cls, count: FloatArray) -> MaximumCoefficients:
        """Return the coefficients for `count` times; a count below one is the probability of one."""
        several = np.maximum(count, 1.0)
        squares = polygamma(1, 1.0) - polygamma(1, several + 1)
        return cls(np.minimum(count, 1.0), several, psi(several + 1) - psi(2.0), squares)

    def largest(self, times: Times, at: IndexArray | slice = slice(None)) -> Times:
        """Return the largest of times with the given moments each; `at` selects the counts."""
        often, several = self.often[at], self.several[at]
        mean = np.minimum(times.mean + np.sqrt(times.variance) * self.harmonic[at], times.mean * several)
        variance = times.variance * self.squares[at]
        # If there is sometimes none, the moments are those of a mixture with 0.
        return Times(often * mean, often * (variance + mean**2) - (often * mean) ** 2)


def larger(one: Times, other: Times) -> Times:
    """Return the larger of two times each; Clark's equations (2) to (4)."""
    a = np.sqrt(one.variance + other.variance)
    apart = one.mean - other.mean
    alpha = np.divide(apart, a, out=np.where(apart >= 0, 40.0, -40.0), where=a > 0)
    phi = np.exp(-np.minimum(alpha * alpha, 1400.0) / 2) / _ROOT
    first, second = ndtr(alpha), ndtr(-alpha)
    mean = one.mean * first + other.mean * second + a * phi
    square = (
        (one.mean**2 + one.variance) * first
        + (other.mean**2 + other.variance) * second
        + (one.mean + other.mean) * a * phi
    )
    mean = np.maximum(mean, np.maximum(one.mean, other.mean))
    return Times(mean, np.maximum(square - mean**2, 0.0))


class Leaves(NamedTuple):
    """Ends of trees, by component, shape (C,).

    `part` is the fraction of tuples that trigger no other one; `ack_s` the time of an ack to the acker, in s.
    """

    part: FloatArray
    ack_s: FloatArray

    def with_acks(self, onward: Times, at: IndexArray | slice = slice(None)) -> Times:
        """Add the acks of tuples that trigger none to the times of the tuples that others trigger.

        `onward` has 0 for the former, so this is the mixture of both; `at` selects the components.
        """
        part, ack_s = self.part[at], self.ack_s[at]
        more = part * ack_s
        variance = onward.variance + more * ((1.0 - part) * ack_s - 2.0 * onward.mean)
        return Times(onward.mean + more, np.maximum(variance, 0.0))


def leaf_share(source: IndexArray, count: FloatArray, components: int) -> FloatArray:
    """Return the fraction of tuples at each component that trigger no other one, shape (C,).

    With several edges, whether a tuple goes along one is assumed to be independent of the others.

    Parameters
    ----------
    source, count
        Source component of each edge, and tuples along it for each tuple there; of edges that trees grow along.
    components
        Number of components, C.
    """
    part = np.ones(components)
    np.multiply.at(part, source, np.maximum(1.0 - count, 0.0))
    return part


class Tree(NamedTuple):
    """The edges that trees grow along, in the order in which their times are known.

    Steps hold edges whose target's time is known and whose sources are all different, so that each is one operation on
    arrays: the last level of components first, and of each component one edge after the other.
    """

    steps: tuple[IndexArray, ...]

    @classmethod
    def of(cls, source: IndexArray, level: IndexArray, onward: IndexArray) -> Tree:
        """Return the steps of a tree.

        Parameters
        ----------
        source
            Source component of each edge, shape (D,).
        level
            Level of every component, shape (C,).
        onward
            The edges that trees grow along.
        """
        order = onward[np.lexsort((onward, source[onward]))]
        sources = source[order]
        new = np.flatnonzero(np.diff(sources, prepend=-1))
        rank = np.arange(len(order)) - np.repeat(new, np.diff(new, append=len(order)))
        by_step = np.lexsort((order, rank, -level[sources]))
        keys = np.stack([-level[sources], rank])[:, by_step]
        starts = np.flatnonzero(np.any(np.diff(keys, axis=1, prepend=-(2**40)) != 0, axis=0))
        return cls(tuple(np.split(order[by_step], starts[1:])) if len(order) else ())

    def times(
        self,
        source: IndexArray,
        target: IndexArray,
        alike: MaximumCoefficients,
        stay: Times,
        hop: Times,
        leaves: Leaves,
    ) -> Times:
        """Return the time of a tuple at each component with all that it triggers, until the last ack, shape (C,).

        Parameters
        ----------
        source, target
            Components of every edge, shape (D,).
        alike
            Coefficients for the tuples along an edge per tuple at its source, shape (D,).
        stay
            Sojourn time of a tuple at every component, shape (C,).
        hop
            Time of a tuple along every edge, shape (D,).
        leaves
            Fraction of tuples that trigger no other, and the time of their acks.
        """
        onward = Times(np.zeros_like(stay.mean), np.zeros_like(stay.mean))
        whole = stay + leaves.with_acks(onward)
        for step in self.steps:
            goes, comes = source[step], target[step]
            branch = Times(*(part[step] for part in hop)) + Times(*(part[comes] for part in whole))
            branch = alike.largest(branch, step)
            before = Times(*(part[goes] for part in onward))
            first = (before.mean == 0) & (before.variance == 0)
            both = larger(before, branch)
            for known, now, new in zip(onward, both, branch, strict=True):
                known[goes] = np.where(first, new, now)
            with_acks = leaves.with_acks(Times(*(part[goes] for part in onward)), goes)
            for total, own, rest in zip(whole, stay, with_acks, strict=True):
                total[goes] = own[goes] + rest
        return whole
