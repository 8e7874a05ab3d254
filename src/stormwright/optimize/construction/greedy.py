"""Items into bins, heaviest pair first: the one rule behind both phases of the online scheduler.

Aniello, Baldoni, Querzoni, "Adaptive online scheduling in Storm", DEBS 2013, https://doi.org/10.1145/2488222.2488267.
In phase 1 the items are a topology's executors and the bins its workers; in phase 2 the items are the workers of all
topologies and the bins are nodes, whose racks are zones.

::

    pairs, heaviest first     bin 0   bin 1  |  bin 2       what a tuple costs
      a ── b   900             a b           |              0 in one bin
      b ── c   400             a b c         |              1 between bins of a zone
      d ── e   100             a b c   d e   |              1 + zone_weight between zones

A pair whose items have bins already may still be moved. A look at one takes time in the links of its two items and the
few bins that are tried, hardly in the number of bins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.optimize.construction import greedy_loops as loops
from stormwright.optimize.construction import packing as records
from stormwright.optimize.construction.packing import Packing
from stormwright.optimize.kernel.records import NOWHERE, Records

#: Sums of many loads differ from a capacity in the last digits only by rounding.
_TOLERANCE = 1 + 1e-9

#: Classes of bins by CPU; in each the least loaded one is looked for apart.
_MOST_SIZES = 32

#: Bins that are tried for a pair: those of the two, the least loaded, and that of each one's zone.
_MOST_TRIED = 5


@dataclass(frozen=True)
class Pairs:
    """Pairs of things that exchange traffic, heaviest first.

    Parameters
    ----------
    source, target
        Numbers below `count`, shape (P,).
    tps
        Tuples per second, shape (P,).
    count
        How many things there are, with those that are in no pair.
    """

    source: IndexArray
    target: IndexArray
    tps: FloatArray
    count: int

    def exchange(self) -> csr_array:
        """What each two exchange, both directions together: symmetric, shape (count, count)."""
        ends = (np.concatenate([self.source, self.target]), np.concatenate([self.target, self.source]))
        return csr_array((np.concatenate([self.tps, self.tps]), ends), shape=(self.count, self.count))


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
    items
        What is to be placed; nothing is at first.
    bins
        What they hold at most. Room for rounding is added to CPU and memory.
    zone_weight
        Traffic between bins of one zone costs 1, between zones 1 + `zone_weight`.
    spread, in_bin
        For each group the most bins that it may use, and the most of its items in one bin; missing is no limit.
    """

    def __init__(
        self,
        items: Items,
        bins: Bins,
        zone_weight: float = 0.0,
        spread: Mapping[int, int] | None = None,
        in_bin: Mapping[int, int] | None = None,
    ) -> None:
        num_items, num_bins = len(items.cpu_hz), len(bins.items)
        first, links = items.exchange.indptr, np.empty(items.exchange.nnz, records.LINK)
        links["item"], links["rate"] = items.exchange.indices, items.exchange.data
        rows = np.zeros(num_items, records.ITEM)
        rows["cpu_hz"], rows["memory_mb"], rows["group"] = items.cpu_hz, items.memory_mb, items.group
        rows["first"], rows["last"], rows["bin"] = first[:-1], first[1:], NOWHERE
        bin_rows = np.zeros(num_bins, records.BIN)
        bin_rows["zone"] = bins.zone
        zones, zone_bins = _spans(bins.zone, records.ZONE)
        groups = np.zeros(int(items.group.max(initial=-1)) + 1 if spread or in_bin else 0, records.GROUP)
        groups["most_bins"] = [(spread or {}).get(group, num_bins) for group in range(len(groups))]
        groups["most_in_bin"] = [(in_bin or {}).get(group, num_items) for group in range(len(groups))]
        self._packing = Packing(
            items=rows,
            links=links,
            bins=bin_rows,
            by_load=np.arange(num_bins),
            sizes=np.empty(0, records.SIZE),
            zones=zones,
            zone_bins=zone_bins,
            groups=groups,
            held=np.zeros((len(groups), num_bins), np.int32),
            tried=np.zeros(_MOST_TRIED, np.int64),
            kept=np.zeros((2, _MOST_TRIED)),
            zone_weight=float(zone_weight) if len(zones) > 1 else 0.0,
        )
        self._limit(bins)

    @property
    def bin_of(self) -> IndexArray:
        """Bin of every item, shape (I,)."""
        return self._packing.items["bin"]

    @property
    def count(self) -> IndexArray:
        """Items in every bin, shape (B,)."""
        return self._packing.bins["items"]

    @property
    def cpu_hz(self) -> FloatArray:
        """Load of every bin, shape (B,)."""
        return self._packing.bins["cpu_hz"]

    def takes(self, item: int) -> BoolArray:
        """Which bins have room for `item` besides what is in them, whatever its group may use, shape (B,)."""
        of, bins = self._packing.items[item], self._packing.bins
        takes: BoolArray = (
            (bins["items"] + 1 <= bins["most_items"])
            & (bins["cpu_hz"] + of["cpu_hz"] <= bins["most_cpu_hz"])
            & (bins["memory_mb"] + of["memory_mb"] <= bins["most_memory_mb"])
        )
        return takes

    def put(self, item: int, to: int) -> None:
        """Move `item` to the bin `to`, or out of all bins for `NOWHERE`, whether it fits or not."""
        loops.put(self._packing, item, to)

    def fix(self, item: int, to: int) -> None:
        """Put `item` where it stays, whatever fits."""
        self.put(item, to)
        self._packing.items["fixed"][item] = True

    def relax(self, bins: Bins) -> None:
        """From now on bins take what `bins` says, and groups use as many, and as much of each, as they like."""
        self._packing = self._packing._replace(groups=self._packing.groups[:0])
        self._limit(bins)

    def place_pairs(self, pairs: Pairs, *, near: bool = False) -> bool:
        """Place the items of `pairs`, which come heaviest first; whether anything changed.

        1. Neither item has a bin: the least loaded bin that takes both, else the least loaded for one, then the other.
        2. Otherwise every combination of the bins that they are in and the least loaded bin is tried, for both, and
           the one with the least traffic between bins is kept. Placed items move too.

        `near` adds, in 2, the least loaded bins of the zones that the two are in.
        """
        return loops.place_pairs(self._packing, pairs.source.astype(np.int64), pairs.target.astype(np.int64), near)

    def place_rest(self) -> IndexArray:
        """Place what has no bin, by CPU in falling order; what is left over."""
        waiting = np.flatnonzero(self.bin_of == NOWHERE)
        waiting = waiting[np.argsort(-self._packing.items["cpu_hz"][waiting], kind="stable")]
        return waiting[: loops.place_in_order(self._packing, waiting)]

    def fill_empty(self) -> None:
        """Give every empty bin the item whose move costs least, so that all bins are used."""
        loops.fill_empty(self._packing)

    def cost(self) -> float:
        """Cost of all traffic between bins, in tuples/s that go from bin to bin of one zone.

        It is what all would cost from zone to zone, less what is saved (`kept`). Meant for when all items have bins:
        what those exchange with others counts by half.
        """
        packing = self._packing
        placed = np.repeat(self.bin_of != NOWHERE, packing.items["last"] - packing.items["first"])
        most = (1.0 + packing.zone_weight) * float(packing.links["rate"][placed].sum())
        return (most - loops.kept_in_all(packing)) / 2

    def _limit(self, bins: Bins) -> None:
        """Let bins take what `bins` says, and sort them anew by CPU and load."""
        rows = self._packing.bins
        rows["most_items"] = bins.items
        rows["most_cpu_hz"] = bins.cpu_hz * _TOLERANCE
        rows["most_memory_mb"] = bins.memory_mb * _TOLERANCE
        cpu_hz, size = np.unique(rows["most_cpu_hz"], return_inverse=True)
        # Where almost every bin has a CPU of its own, similar ones share a class.
        rows["size"] = size // max(1, math.ceil(len(cpu_hz) / _MOST_SIZES))
        sizes, _ = _spans(rows["size"], records.SIZE)
        np.maximum.at(sizes["cpu_hz"], rows["size"], rows["most_cpu_hz"])
        by_load = np.lexsort((rows["cpu_hz"], rows["items"] >= rows["most_items"], rows["size"]))
        rows["rank"][by_load] = np.arange(len(rows))
        self._packing = self._packing._replace(by_load=by_load, sizes=sizes)


def _spans(number: IndexArray, dtype: np.dtype[np.void]) -> tuple[Records, IndexArray]:
    """What has each number, in order: records of `dtype` that say where in the second array."""
    ends = np.cumsum(np.bincount(number))
    spans = np.zeros(len(ends), dtype)
    spans["first"][1:], spans["last"] = ends[:-1], ends
    return spans, np.argsort(number, kind="stable")
