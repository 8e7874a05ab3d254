"""How many tuples executors have sent each other, of which no record told yet."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.model.arrays import IndexArray

Whole = NDArray[np.int64]


class Pairs(NamedTuple):
    """Executors that send, executors they send to, and how many tuples, shape (P,)."""

    source: Whole
    target: Whole
    tuples: Whole


class Sent:
    """Adds up what pairs of executors send; where the same pairs send again and again, that costs little.

    Parameters
    ----------
    executors
        How many there are.
    """

    def __init__(self, executors: int) -> None:
        self._executors = max(executors, 1)
        self._keys, self._tuples = np.empty(0, np.int64), np.empty(0, np.int64)
        self._last: tuple[Whole, Whole] | None = None
        self._at: IndexArray = np.empty(0, np.int64)

    def add(self, source: Whole, target: Whole, tuples: Whole) -> None:
        """Some more was sent, shape (P,) each."""
        if self._last is None or self._last[0] is not source or self._last[1] is not target:
            self._meet(source * self._executors + target)
            self._last = source, target
        np.add.at(self._tuples, self._at, tuples)

    def take(self, executors: IndexArray) -> Pairs:
        """What some executors have sent since this was asked last; by source as they are given, then by target."""
        own = executors.astype(np.int64) * self._executors
        first, last = np.searchsorted(self._keys, own), np.searchsorted(self._keys, own + self._executors)
        times = last - first
        at = np.arange(times.sum()) + np.repeat(first - np.cumsum(times) + times, times)
        at = at[self._tuples[at] > 0]
        tuples = self._tuples[at]
        self._tuples[at] = 0
        source, target = np.divmod(self._keys[at], self._executors)
        return Pairs(source, target, tuples)

    def _meet(self, keys: Whole) -> None:
        """Keep a count for these, and for all that have one that was not told."""
        left = self._tuples > 0
        known, counts = self._keys[left], self._tuples[left]
        found = np.sort(np.concatenate([known, keys]))  # of so many numbers faster than by a set
        self._keys = found[np.diff(found, prepend=-1) > 0]
        self._tuples = np.zeros(len(self._keys), np.int64)
        self._tuples[np.searchsorted(self._keys, known)] = counts
        self._at = np.searchsorted(self._keys, keys)
