"""Greedy packing of items into bins, heaviest pair first: the rule of both phases of the online scheduler.

Aniello, Baldoni, Querzoni, "Adaptive online scheduling in Storm", DEBS 2013, https://doi.org/10.1145/2488222.2488267.
In phase 1 the items are a topology's executors and the bins its workers; in phase 2 the items are the workers of all
topologies and the bins are nodes, whose racks are zones.

::

    pairs, heaviest first     bin 0   bin 1  |  bin 2       cost of a tuple
      a ── b   900             a b           |              0 in one bin
      b ── c   400             a b c         |              1 between bins of a zone
      d ── e   100             a b c   d e   |              1 + zone_weight between zones

A pair whose items have bins already may still be moved. The time for one pair depends on the links of its two items and
the few bins that are tried, hardly on the number of bins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from stormwright.jit.compiled import compiled, inner
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.optimize.construction import packing as records
from stormwright.optimize.construction.packing import Packing, account, comes_before, groups_may, is_full, takes
from stormwright.optimize.kernel.records import NOWHERE, Records

#: Selects all bins. Zones are numbered from 0.
_ALL_ZONES = -1

#: Relative gain that is only rounding.
_NOISE = 1e-12


# Of equal choices the unchanged one wins, then the lower index.
#
# They count the *savings*, not the cost: with c(x, y) = 1 + zone_weight in one bin, zone_weight in one zone, else 0, an
# item i in bin x saves Σ_j rate_ij · c(x, bin of j). Savings and cost add up to a constant, and items without a bin
# need no special case.
#
# The least loaded bin that takes an item is found without a look at all bins: they are sorted into classes of similar
# CPU, in each by load, full ones last. In a class the first that takes it is the result; the search ends as soon as
# even the largest of the class would be too full with it. So the time depends on the number of classes, not on that of
# bins, unless memory, or the most bins of a group, excludes many of them.
@compiled
def put(packing: Packing, item: int, to: int) -> None:
    """Move `item` to the bin `to`, or out of all bins for `NOWHERE`; update bins and groups (`account`)."""
    before = packing.items[item].bin
    if before == to:
        return
    if before != NOWHERE:
        account(packing, item, before, -1)
    if to != NOWHERE:
        account(packing, item, to, +1)
    packing.items[item].bin = to


@inner
def place(packing: Packing, item: int) -> bool:
    """Put `item` into the least loaded bin that takes it; return whether there is one."""
    to = _least_loaded(packing, item, NOWHERE, _ALL_ZONES)
    if to == NOWHERE:
        return False
    put(packing, item, to)
    return True


@compiled
def place_in_order(packing: Packing, items: IndexArray) -> int:
    """Place `items` one after the other, and move those without a bin to the front; return their number.

    `items` is int64, of any length, and written: its first numbers are afterwards those left over, in their order.
    """
    left = 0
    for item in items:
        if not place(packing, item):
            items[left] = item
            left += 1
    return left


@compiled
def fill_empty(packing: Packing) -> None:
    """Give every empty bin the item whose move costs least, as long as another bin has two.

    Bins are filled in increasing order; of items with equal savings where they are, the lower number moves. Limits
    and fixed items are ignored.
    """
    for empty in range(len(packing.bins)):
        if packing.bins[empty].items > 0:
            continue
        cheapest, least = NOWHERE, math.inf
        for item in range(len(packing.items)):
            bin_ = packing.items[item].bin
            if bin_ != NOWHERE and packing.bins[bin_].items > 1 and savings(packing, item, bin_) < least:
                cheapest, least = item, savings(packing, item, bin_)
        if cheapest != NOWHERE:
            put(packing, cheapest, empty)


@compiled
def place_pairs(packing: Packing, source: IndexArray, target: IndexArray, near: bool) -> bool:
    """Place pairs of items, heaviest first; return whether anything changed. `Greedy.place_pairs` has the rule.

    Parameters
    ----------
    packing
        Items get bins, also other ones than before.
    source, target
        Items of each pair, shape (P,), int64, in processing order. The traffic of a pair is read
        from the links of `packing`.
    near
        Whether to try the least loaded bins of the zones of the two.
    """
    changed = False
    for position in range(len(source)):
        i, j = source[position], target[position]
        if packing.items[i].bin == NOWHERE and packing.items[j].bin == NOWHERE:
            to = _least_loaded(packing, i, j, _ALL_ZONES)
            if to != NOWHERE:
                put(packing, i, to)
                put(packing, j, to)
                changed = True
            else:
                changed |= place(packing, i)
                changed |= place(packing, j)
        else:
            changed |= _rearrange(packing, i, j, near)
    return changed


@inner
def savings(packing: Packing, item: int, bin_: int) -> float:
    """Return the cost of `item`'s traffic that is saved by having it in `bin_`, given the bins of all others."""
    total = 0.0
    for position in range(packing.items[item].first, packing.items[item].last):
        total += packing.links[position].rate * _closeness(
            packing, packing.items[packing.links[position].item].bin, bin_
        )
    return total


@compiled
def total_savings(packing: Packing) -> float:
    """Return the sum of `savings` of all items where they are, without those of no bin."""
    total = 0.0
    for item in range(len(packing.items)):
        if packing.items[item].bin != NOWHERE:
            total += savings(packing, item, packing.items[item].bin)
    return total


@inner
def _closeness(packing: Packing, a: int, b: int) -> float:
    """Return the cost of a tuple that is saved between two bins."""
    if a == NOWHERE or b == NOWHERE:
        return 0.0
    if a == b:
        return 1.0 + packing.zone_weight
    return packing.zone_weight if packing.zone_weight > 0 and packing.bins[a].zone == packing.bins[b].zone else 0.0


@inner
def _rearrange(packing: Packing, i: int, j: int, near: bool) -> bool:
    """Apply rule 2 of `Greedy.place_pairs`: savings rise, so equation 3 of the paper falls where bins are nodes."""
    at_i, at_j = packing.items[i].bin, packing.items[j].bin
    tried = _find_tried(packing, j if at_i != NOWHERE else i, at_i, at_j, near)
    # The traffic of the two with each other is added for each combination.
    rate = _sum_savings(packing, 0, i, j, tried)
    _sum_savings(packing, 1, j, i, tried)
    best_i, best_j, most = NOWHERE, NOWHERE, -math.inf
    if at_i != NOWHERE and at_j != NOWHERE:
        best_i, best_j = at_i, at_j  # the first two of those tried
        own_j = 0 if at_i == at_j else 1
        most = packing.savings[0, 0] + packing.savings[1, own_j] + rate * _closeness(packing, at_i, at_j)
    for k in range(tried):
        to_i = packing.tried[k]
        if packing.items[i].fixed and to_i != at_i:
            continue
        for m in range(tried):
            to_j = packing.tried[m]
            if packing.items[j].fixed and to_j != at_j:
                continue
            together = packing.savings[0, k] + packing.savings[1, m] + rate * _closeness(packing, to_i, to_j)
            if together > most * (1 + _NOISE) and _pair_fits(packing, i, j, to_i, to_j):
                best_i, best_j, most = to_i, to_j, together
    if best_i == NOWHERE or (best_i == at_i and best_j == at_j):
        return False
    put(packing, i, best_i)
    put(packing, j, best_j)
    return True


@inner
def _sum_savings(packing: Packing, row: int, item: int, partner: int, tried: int) -> float:
    """Set a row of `savings`, without the traffic of `item` with `partner`; return that traffic.

    Two passes over the links of the item: one adds up by bin and by zone, the other clears these sums again, so that no
    array has to be cleared as a whole.
    """
    with_partner = 0.0
    # Summed by bin and zone: a comparison with each bin tried would be an unpredictable branch.
    for position in range(packing.items[item].first, packing.items[item].last):
        other, rate = packing.links[position].item, packing.links[position].rate
        if other == partner:
            with_partner = rate
        elif packing.items[other].bin != NOWHERE:
            packing.bins[packing.items[other].bin].exchanged += rate
            if packing.zone_weight > 0:
                packing.zones[packing.bins[packing.items[other].bin].zone].exchanged += rate
    for k in range(tried):
        packing.savings[row, k] = packing.bins[packing.tried[k]].exchanged
        if packing.zone_weight > 0:
            packing.savings[row, k] += (
                packing.zone_weight * packing.zones[packing.bins[packing.tried[k]].zone].exchanged
            )
    for position in range(packing.items[item].first, packing.items[item].last):
        bin_ = packing.items[packing.links[position].item].bin
        if bin_ != NOWHERE:
            packing.bins[bin_].exchanged = 0.0
            packing.zones[packing.bins[bin_].zone].exchanged = 0.0
    return with_partner


@inner
def _find_tried(packing: Packing, mover: int, at_i: int, at_j: int, near: bool) -> int:
    """Find the bins to try for two items: their own, and the least loaded ones for `mover`; return their number."""
    tried = 0
    for bin_ in (at_i, at_j, _least_loaded(packing, mover, NOWHERE, _ALL_ZONES)):
        tried = _add_tried(packing, tried, bin_)
    if near:
        for bin_ in (at_i, at_j):
            if bin_ != NOWHERE:
                tried = _add_tried(packing, tried, _least_loaded(packing, mover, NOWHERE, packing.bins[bin_].zone))
    return tried


@inner
def _add_tried(packing: Packing, tried: int, bin_: int) -> int:
    """Add a bin to those to try unless it is included or none; return their number."""
    if bin_ == NOWHERE:
        return tried
    for k in range(tried):
        if packing.tried[k] == bin_:
            return tried
    packing.tried[tried] = bin_
    return tried + 1


@inner
def _least_loaded(packing: Packing, i: int, j: int, zone: int) -> int:
    """Return the least loaded bin of a zone that takes `i`, and `j` with it unless that is `NOWHERE`; -1 if none does.

    Load is CPU in Hz, not a fraction of the bin's capacity. Within a zone all its bins are examined, in all zones only
    the beginning of each class.
    """
    count, cpu_hz, memory_mb = 1, packing.items[i].cpu_hz, packing.items[i].memory_mb
    if j != NOWHERE:
        count, cpu_hz, memory_mb = 2, cpu_hz + packing.items[j].cpu_hz, memory_mb + packing.items[j].memory_mb
    best = NOWHERE
    if zone == _ALL_ZONES:
        for size in range(len(packing.sizes)):
            for rank in range(packing.sizes[size].first, packing.sizes[size].last):
                bin_ = packing.by_load[rank]
                if (
                    is_full(packing, bin_)
                    or packing.bins[bin_].cpu_hz + cpu_hz > packing.sizes[size].cpu_hz
                    or (best != NOWHERE and not comes_before(packing, bin_, best))
                ):
                    break  # and so are all that follow
                if takes(packing, bin_, count, cpu_hz, memory_mb) and groups_may(packing, i, j, bin_, bin_):
                    best = bin_
                    break
        return best
    for position in range(packing.zones[zone].first, packing.zones[zone].last):
        bin_ = packing.zone_bins[position]
        if best != NOWHERE and not comes_before(packing, bin_, best):
            continue
        if takes(packing, bin_, count, cpu_hz, memory_mb) and groups_may(packing, i, j, bin_, bin_):
            best = bin_
    return best


@inner
def _pair_fits(packing: Packing, i: int, j: int, x: int, y: int) -> bool:
    """Return whether `i` can go to `x` while `j` goes to `y`."""
    at_i, at_j = packing.items[i].bin, packing.items[j].bin
    if x != y:
        fit = _can_enter(packing, i, x, at_i, j, at_j) and _can_enter(packing, j, y, at_j, i, at_i)
    elif at_i == x:
        fit = _can_enter(packing, j, x, at_j, NOWHERE, NOWHERE)
    elif at_j == x:
        fit = _can_enter(packing, i, x, at_i, NOWHERE, NOWHERE)
    else:
        cpu_hz = packing.items[i].cpu_hz + packing.items[j].cpu_hz
        memory_mb = packing.items[i].memory_mb + packing.items[j].memory_mb
        fit = takes(packing, x, 2, cpu_hz, memory_mb)
    return fit and groups_may(packing, i, j, x, y)


@inner
def _can_enter(packing: Packing, item: int, to: int, at: int, other: int, other_at: int) -> bool:
    """Return whether `to` takes `item`, now at `at`, if `other`, which is at `other_at`, is then elsewhere."""
    if at == to:
        return True
    count, cpu_hz, memory_mb = 1, packing.items[item].cpu_hz, packing.items[item].memory_mb
    if other_at == to:
        count, cpu_hz = 0, cpu_hz - packing.items[other].cpu_hz
        memory_mb -= packing.items[other].memory_mb
    return takes(packing, to, count, cpu_hz, memory_mb)


#: Relative rounding error of sums of many loads against a capacity.
_TOLERANCE = 1 + 1e-9

#: Classes of bins by CPU; in each the least loaded one is searched separately.
_MAX_SIZES = 32

#: Bins that are tried for a pair: those of the two, the least loaded, and that of each one's zone.
_MAX_TRIED = 5


@dataclass(frozen=True)
class Pairs:
    """Pairs of things with traffic, heaviest first.

    Parameters
    ----------
    source, target
        Numbers below `count`, shape (P,).
    tps
        Tuples per second, shape (P,).
    count
        Number of things, including those in no pair.
    """

    source: IndexArray
    target: IndexArray
    tps: FloatArray
    count: int

    def exchange(self) -> csr_array:
        """Return the traffic of each two, both directions together: symmetric, shape (count, count)."""
        ends = (np.concatenate([self.source, self.target]), np.concatenate([self.target, self.source]))
        return csr_array((np.concatenate([self.tps, self.tps]), ends), shape=(self.count, self.count))


@dataclass(frozen=True)
class Items:
    """Items to be placed.

    Parameters
    ----------
    cpu_hz, memory_mb
        Demand of each item, shape (I,).
    exchange
        Traffic of each two of them, shape (I, I), as from `Pairs.exchange`.
    group
        For each item the number of its topology, shape (I,).
    """

    cpu_hz: FloatArray
    memory_mb: FloatArray
    exchange: csr_array
    group: IndexArray


@dataclass(frozen=True)
class Bins:
    """Capacities of bins, all of shape (B,).

    Parameters
    ----------
    items, cpu_hz, memory_mb
        The most that it may hold.
    zone
        Its zone, from 0.
    """

    items: FloatArray
    cpu_hz: FloatArray
    memory_mb: FloatArray
    zone: IndexArray


class Greedy:
    """A placement under construction. Of equal choices the unchanged one wins, then the lower index.

    Parameters
    ----------
    items
        Items to be placed; none is at first.
    bins
        Capacities of bins. A rounding tolerance is added to CPU and memory.
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
            tried=np.zeros(_MAX_TRIED, np.int64),
            savings=np.zeros((2, _MAX_TRIED)),
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
        """Return the bins with enough capacity left for `item`, ignoring limits of its group, shape (B,)."""
        item_record, bins = self._packing.items[item], self._packing.bins
        takes: BoolArray = (
            (bins["items"] + 1 <= bins["most_items"])
            & (bins["cpu_hz"] + item_record["cpu_hz"] <= bins["most_cpu_hz"])
            & (bins["memory_mb"] + item_record["memory_mb"] <= bins["most_memory_mb"])
        )
        return takes

    def put(self, item: int, to: int) -> None:
        """Move `item` to the bin `to`, or out of all bins for `NOWHERE`, whether it fits or not."""
        put(self._packing, item, to)

    def fix(self, item: int, to: int) -> None:
        """Put `item` into a bin that it never leaves, whether it fits or not."""
        self.put(item, to)
        self._packing.items["fixed"][item] = True

    def relax(self, bins: Bins) -> None:
        """Replace the capacities of bins, and remove the limits of groups."""
        self._packing = self._packing._replace(groups=self._packing.groups[:0])
        self._limit(bins)

    def place_pairs(self, pairs: Pairs, *, near: bool = False) -> bool:
        """Place the items of `pairs`, heaviest first; return whether anything changed.

        1. Neither item has a bin: the least loaded bin that takes both, else the least loaded for one, then the other.
        2. Otherwise every combination of their current bins and the least loaded bin is tried, for both, and
           the one with the least traffic between bins is taken. Placed items move too.

        `near` adds, in 2, the least loaded bins of the zones of the two.
        """
        return place_pairs(self._packing, pairs.source.astype(np.int64), pairs.target.astype(np.int64), near)

    def place_rest(self) -> IndexArray:
        """Place items without a bin, by CPU in decreasing order; return those left over."""
        waiting = np.flatnonzero(self.bin_of == NOWHERE)
        waiting = waiting[np.argsort(-self._packing.items["cpu_hz"][waiting], kind="stable")]
        return waiting[: place_in_order(self._packing, waiting)]

    def fill_empty(self) -> None:
        """Give every empty bin the item whose move costs least, so that all bins are used."""
        fill_empty(self._packing)

    def cost(self) -> float:
        """Return the cost of all traffic between bins, in tuples/s between bins of one zone.

        It is the cost of all traffic between zones, minus the savings (`savings`). Meant for when all items have bins:
        traffic of unplaced items counts by half.
        """
        packing = self._packing
        placed = np.repeat(self.bin_of != NOWHERE, packing.items["last"] - packing.items["first"])
        most = (1.0 + packing.zone_weight) * float(packing.links["rate"][placed].sum())
        return (most - total_savings(packing)) / 2

    def _limit(self, bins: Bins) -> None:
        """Set the capacities of bins, and sort them by CPU and load."""
        rows = self._packing.bins
        rows["most_items"] = bins.items
        rows["most_cpu_hz"] = bins.cpu_hz * _TOLERANCE
        rows["most_memory_mb"] = bins.memory_mb * _TOLERANCE
        cpu_hz, size = np.unique(rows["most_cpu_hz"], return_inverse=True)
        # If almost every bin has another CPU, similar ones share a class.
        rows["size"] = size // max(1, math.ceil(len(cpu_hz) / _MAX_SIZES))
        sizes, _ = _spans(rows["size"], records.SIZE)
        np.maximum.at(sizes["cpu_hz"], rows["size"], rows["most_cpu_hz"])
        by_load = np.lexsort((rows["cpu_hz"], rows["items"] >= rows["most_items"], rows["size"]))
        rows["rank"][by_load] = np.arange(len(rows))
        self._packing = self._packing._replace(by_load=by_load, sizes=sizes)


def _spans(number: IndexArray, dtype: np.dtype[np.void]) -> tuple[Records, IndexArray]:
    """Return the items of each number, in order: records of `dtype` with ranges of the second array."""
    ends = np.cumsum(np.bincount(number))
    spans = np.zeros(len(ends), dtype)
    spans["first"][1:], spans["last"] = ends[:-1], ends
    return spans, np.argsort(number, kind="stable")
