"""Items into bins, heaviest pair first: the one rule behind both phases of the online scheduler.

Aniello, Baldoni, Querzoni, "Adaptive online scheduling in Storm", DEBS 2013, https://doi.org/10.1145/2488222.2488267.
In phase 1 the items are a topology's executors and the bins its workers; in phase 2 the items are the workers of all
topologies and the bins are nodes, whose racks are zones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.schedulers.support import greedy_loops as loops
from stormwright.schedulers.support.greedy_loops import Books
from stormwright.schedulers.support.rates import Pairs

NOWHERE = loops.NOWHERE

#: A gain below this part of all traffic is rounding.
_NOISE = 1e-12

#: Sums of many loads differ from a capacity in the last digits only by rounding.
_TOLERANCE = 1 + 1e-9

#: Classes of bins by CPU; in each the least loaded one is looked for apart.
_MOST_SIZES = 32

#: Bins that are tried for a pair: those of the two, the least loaded, and that of each one's zone.
_MOST_TRIED = 5


@dataclass(frozen=True)
class Items:
    """What is to be placed.

    Parameters
    ----------
    cpu_hz, memory_mb
        Demand of each item, shape (I,).
    exchange
        What each two of them exchange, shape (I, I), as `Pairs.exchange` gives it.
    group
        For each item the number of the topology that it is part of, shape (I,).
    """

    cpu_hz: FloatArray
    memory_mb: FloatArray
    exchange: csr_array
    group: IndexArray


@dataclass(frozen=True)
class Bins:
    """What each bin takes, all of shape (B,).

    Parameters
    ----------
    items, cpu_hz, memory_mb
        The most that it may hold.
    zone
        Where it is, from 0.
    """

    items: FloatArray
    cpu_hz: FloatArray
    memory_mb: FloatArray
    zone: IndexArray


class Greedy:
    """A placement under way. Of equal choices the one that stays wins, then the lower index.

    Parameters
    ----------
    zone_weight
        Traffic between bins of one zone costs 1, between zones 1 + `zone_weight`.
    spread
        For each group the most bins that it may use; missing is no limit.
    """

    def __init__(
        self, items: Items, bins: Bins, zone_weight: float = 0.0, spread: Mapping[int, int] | None = None
    ) -> None:
        num_items, num_bins = len(items.cpu_hz), len(bins.items)
        group_first, group_items = _members(items.group)
        zone_first, zone_bins = _members(bins.zone)
        most_bins = [(spread or {}).get(group, num_bins) for group in range(len(group_first) - 1)] if spread else []
        self._books = _limited(
            Books(
                item_cpu_hz=np.asarray(items.cpu_hz, np.float64),
                item_memory_mb=np.asarray(items.memory_mb, np.float64),
                first=items.exchange.indptr.astype(np.int64),
                neighbour=items.exchange.indices.astype(np.int64),
                rate=items.exchange.data.astype(np.float64),
                fixed=np.zeros(num_items, np.bool_),
                most_items=np.empty(0),
                most_cpu_hz=np.empty(0),
                most_memory_mb=np.empty(0),
                size=np.empty(0, np.int64),
                size_first=np.empty(0, np.int64),
                size_cpu_hz=np.empty(0),
                zone=np.asarray(bins.zone, np.int64),
                zone_first=zone_first,
                zone_bins=zone_bins,
                zone_weight=float(zone_weight) if len(zone_first) > 2 else 0.0,
                noise=_NOISE * float(items.exchange.data.sum()),
                group=np.asarray(items.group, np.int64),
                group_first=group_first,
                group_items=group_items,
                group_bins=np.array(most_bins, np.int64),
                bin_of=np.full(num_items, NOWHERE, np.int64),
                items=np.zeros(num_bins, np.int64),
                cpu_hz=np.zeros(num_bins),
                memory_mb=np.zeros(num_bins),
                by_load=np.empty(0, np.int64),
                rank=np.empty(0, np.int64),
                bins_used=np.zeros(len(group_first) - 1, np.int64),
                tried=np.zeros(_MOST_TRIED, np.int64),
                kept_i=np.zeros(_MOST_TRIED),
                kept_j=np.zeros(_MOST_TRIED),
            ),
            bins,
        )

    @property
    def bin_of(self) -> IndexArray:
        """Bin of every item, shape (I,)."""
        return self._books.bin_of

    @property
    def count(self) -> IndexArray:
        """Items in every bin, shape (B,)."""
        return self._books.items

    @property
    def cpu_hz(self) -> FloatArray:
        """Load of every bin, shape (B,)."""
        return self._books.cpu_hz

    def put(self, item: int, to: int) -> None:
        """Move `item` to the bin `to`, or out of all bins for `NOWHERE`."""
        loops.put(self._books, item, to)

    def fix(self, item: int, to: int) -> None:
        """Put `item` where it stays, whatever fits."""
        self.put(item, to)
        self._books.fixed[item] = True

    def relax(self, bins: Bins) -> None:
        """From now on bins take what `bins` says, and groups use as many as they like."""
        self._books = _limited(self._books._replace(group_bins=np.empty(0, np.int64)), bins)

    def place_pairs(self, pairs: Pairs, *, near: bool = False) -> bool:
        """Place the items of `pairs`, which come heaviest first; whether anything changed.

        1. Neither item has a bin: the least loaded bin that takes both, else the least loaded for one, then the other.
        2. Otherwise every combination of the bins that they are in and the least loaded bin is tried, for both, and
           the one with the least traffic between bins is kept. Placed items move too.

        `near` adds, in 2, the least loaded bins of the zones that the two are in.
        """
        return loops.place_pairs(self._books, pairs.source.astype(np.int64), pairs.target.astype(np.int64), near)

    def place_rest(self) -> IndexArray:
        """Place what has no bin, by CPU in falling order; what is left over."""
        waiting = np.flatnonzero(self.bin_of == NOWHERE)
        waiting = waiting[np.argsort(-self._books.item_cpu_hz[waiting], kind="stable")]
        return waiting[: loops.place_in_order(self._books, waiting)]

    def cost(self) -> float:
        """Cost of all traffic between bins, in tuples/s that go from bin to bin of one zone."""
        books = self._books
        placed = np.repeat(self.bin_of != NOWHERE, np.diff(books.first))
        most = (1.0 + books.zone_weight) * float(books.rate[placed].sum())
        return (most - loops.kept_in_all(books)) / 2

    def traffic_in_bin(self, item: int) -> float:
        """Traffic of `item` with what is in its bin."""
        books = self._books
        row = slice(books.first[item], books.first[item + 1])
        return float(books.rate[row][books.bin_of[books.neighbour[row]] == books.bin_of[item]].sum())


def _limited(books: Books, bins: Bins) -> Books:
    """The same placement with the limits of `bins`."""
    most_items = np.asarray(bins.items, np.float64)
    most_cpu_hz = np.asarray(bins.cpu_hz, np.float64) * _TOLERANCE
    sizes, size = np.unique(most_cpu_hz, return_inverse=True)
    # Where almost every bin has a CPU of its own, similar ones share a class.
    step = max(1, math.ceil(len(sizes) / _MOST_SIZES))
    size //= step
    by_load = np.lexsort((books.cpu_hz, books.items >= most_items, size))
    rank = np.empty_like(by_load)
    rank[by_load] = np.arange(len(rank))
    return books._replace(
        most_items=most_items,
        most_cpu_hz=most_cpu_hz,
        most_memory_mb=np.asarray(bins.memory_mb, np.float64) * _TOLERANCE,
        size=size,
        size_first=np.concatenate([[0], np.cumsum(np.bincount(size))]).astype(np.int64),
        size_cpu_hz=np.maximum.reduceat(sizes, np.arange(0, len(sizes), step)) if len(sizes) else sizes,
        by_load=by_load,
        rank=rank,
    )


def _members(number: IndexArray) -> tuple[IndexArray, IndexArray]:
    """What has each number n, at ``first[n]`` to ``first[n + 1]`` of the second array: both arrays."""
    numbers = np.asarray(number, np.int64)
    first = np.concatenate([[0], np.cumsum(np.bincount(numbers))])
    return first.astype(np.int64), np.argsort(numbers, kind="stable")
