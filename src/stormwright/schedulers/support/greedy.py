"""Items into bins, heaviest pair first: the one rule behind both phases of the online scheduler.

Aniello, Baldoni, Querzoni, "Adaptive online scheduling in Storm", DEBS 2013, https://doi.org/10.1145/2488222.2488267.
In phase 1 the items are a topology's executors and the bins its workers; in phase 2 the items are the workers of all
topologies and the bins are nodes, whose racks are zones.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

NOWHERE = -1

#: Which bins: all of them. Zones are numbered from 0.
_ALL_ZONES = -1

#: A gain below this part of all traffic is rounding.
_NOISE = 1e-12

#: Sums of many loads differ from a capacity in the last digits only by rounding.
_TOLERANCE = 1 + 1e-9


@dataclass(frozen=True)
class Items:
    """What is to be placed.

    Parameters
    ----------
    cpu_hz, memory_mb
        Demand of each item.
    neighbours
        For each item the others that it exchanges traffic with, and how much (tuples/s, both directions together).
    group
        For each item the number of the topology that it is part of.
    """

    cpu_hz: Sequence[float]
    memory_mb: Sequence[float]
    neighbours: Sequence[dict[int, float]]
    group: Sequence[int]


@dataclass(frozen=True)
class Bins:
    """What each bin takes.

    Parameters
    ----------
    items, cpu_hz, memory_mb
        The most that it may hold.
    zone
        Where it is.
    """

    items: Sequence[float]
    cpu_hz: Sequence[float]
    memory_mb: Sequence[float]
    zone: Sequence[int]


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
        self, items: Items, bins: Bins, zone_weight: float = 0.0, spread: dict[int, int] | None = None
    ) -> None:
        self._items = items
        self._set_limits(bins, spread or {})
        self.bin_of = [NOWHERE] * len(items.cpu_hz)
        self.count = [0] * len(bins.items)
        self.cpu_hz = [0.0] * len(bins.items)
        self.memory_mb = [0.0] * len(bins.items)
        self._zone_weight = zone_weight if len(set(bins.zone)) > 1 else 0.0
        #: Bins by load, of all zones and of each.
        self._by_load = {_ALL_ZONES: [(0.0, b) for b in range(len(bins.items))]}
        for b, zone in enumerate(bins.zone):
            self._by_load.setdefault(zone, []).append((0.0, b))
        #: Per item: its traffic with what is in a bin, and under `_zone_key` with what is in a zone.
        self._pull: list[dict[int, float]] = [{} for _ in items.cpu_hz]
        self._zone_key = [len(bins.items) + zone for zone in bins.zone]
        self._bins_of_group: dict[int, Counter[int]] = {group: Counter() for group in set(items.group)}
        self._fixed: set[int] = set()
        self._noise = _NOISE * sum(sum(traffic.values()) for traffic in items.neighbours)

    def put(self, item: int, to: int) -> None:
        """Move `item` to the bin `to`, or out of all bins for `NOWHERE`."""
        before = self.bin_of[item]
        if before == to:
            return
        if before != NOWHERE:
            self._account(item, before, -1)
        if to != NOWHERE:
            self._account(item, to, +1)
        self.bin_of[item] = to

    def fix(self, item: int, to: int) -> None:
        """Put `item` where it stays, whatever fits."""
        self.put(item, to)
        self._fixed.add(item)

    def relax(self, bins: Bins) -> None:
        """From now on bins take what `bins` says, and groups use as many as they like."""
        self._set_limits(bins, {})

    def _set_limits(self, bins: Bins, spread: dict[int, int]) -> None:
        self._bins, self._spread = bins, spread
        self._largest_hz = max(bins.cpu_hz, default=0.0) * _TOLERANCE

    def place_pairs(self, pairs: Iterable[tuple[int, int]], *, near: bool = False) -> bool:
        """Place the items of `pairs`, which come heaviest first; whether anything changed.

        1. Neither item has a bin: the least loaded bin that takes both, else the least loaded for one, then the other.
        2. Otherwise every combination of the bins that they are in and the least loaded bin is tried, for both, and
           the one with the least traffic between bins is kept. Placed items move too.

        `near` adds, in 2, the least loaded bins of the zones that the two are in.
        """
        changed = False
        for i, j in pairs:
            if self.bin_of[i] == NOWHERE and self.bin_of[j] == NOWHERE:
                changed |= self._place_together(i, j) or self.place(i) | self.place(j)
            else:
                changed |= self._rearrange(i, j, near)
        return changed

    def place(self, item: int) -> bool:
        """Put `item` into the least loaded bin that takes it; whether there is one."""
        to = self._least_loaded([item])
        if to is None:
            return False
        self.put(item, to)
        return True

    def place_rest(self) -> list[int]:
        """Place what has no bin, by CPU in falling order; what is left over."""
        waiting = [item for item, bin_ in enumerate(self.bin_of) if bin_ == NOWHERE]
        waiting.sort(key=lambda item: -self._items.cpu_hz[item])
        return [item for item in waiting if not self.place(item)]

    def cost(self) -> float:
        """Cost of all traffic between bins, in tuples/s that go from bin to bin of one zone."""
        placed = [item for item, bin_ in enumerate(self.bin_of) if bin_ != NOWHERE]
        most = (1.0 + self._zone_weight) * sum(sum(self._items.neighbours[item].values()) for item in placed)
        return (most - sum(self._kept(item, self.bin_of[item]) for item in placed)) / 2

    def traffic_with(self, item: int, bin_: int) -> float:
        """Traffic of `item` with what is in `bin_`."""
        return self._pull[item].get(bin_, 0.0)

    def _place_together(self, i: int, j: int) -> bool:
        to = self._least_loaded([i, j])
        if to is None:
            return False
        self.put(i, to)
        self.put(j, to)
        return True

    def _rearrange(self, i: int, j: int, near: bool) -> bool:
        at_i, at_j = self.bin_of[i], self.bin_of[j]
        open_bins = self._open_bins(j if at_i != NOWHERE else i, (at_i, at_j), near)
        to_i = [at_i] if i in self._fixed else open_bins
        to_j = [at_j] if j in self._fixed else open_bins
        rate = self._items.neighbours[i][j]
        kept_i = [self._kept(i, x) - rate * self._closeness(at_j, x) for x in to_i]
        kept_j = [self._kept(j, y) - rate * self._closeness(at_i, y) for y in to_j]
        best, most = None, -math.inf
        if at_i != NOWHERE and at_j != NOWHERE:
            best = at_i, at_j
            most = self._kept(i, at_i) + self._kept(j, at_j) - rate * self._closeness(at_i, at_j)
        for x, kept_by_i in zip(to_i, kept_i, strict=True):
            for y, kept_by_j in zip(to_j, kept_j, strict=True):
                kept = kept_by_i + kept_by_j + rate * self._closeness(x, y)
                if kept > most + self._noise and self._pair_fits(i, j, x, y):
                    best, most = (x, y), kept
        if best is None or best == (at_i, at_j):
            return False
        self.put(i, best[0])
        self.put(j, best[1])
        return True

    def _open_bins(self, mover: int, at: tuple[int, int], near: bool) -> list[int]:
        """The bins to try for two items that are `at` two bins: these, then the least loaded for `mover`."""
        found: list[int | None] = [bin_ for bin_ in at if bin_ != NOWHERE]
        zones = [_ALL_ZONES, *(self._bins.zone[bin_] for bin_ in at if near and bin_ != NOWHERE)]
        found += [self._least_loaded([mover], zone) for zone in zones]
        return list(dict.fromkeys(bin_ for bin_ in found if bin_ is not None))

    def _kept(self, item: int, bin_: int) -> float:
        """What of the cost of `item`'s traffic is saved by having it in `bin_`."""
        pull = self._pull[item]
        kept = pull.get(bin_, 0.0)
        return kept + self._zone_weight * pull.get(self._zone_key[bin_], 0.0) if self._zone_weight else kept

    def _closeness(self, a: int, b: int) -> float:
        """What of the cost of a tuple is saved between two bins."""
        if a == NOWHERE or b == NOWHERE:
            return 0.0
        return (a == b) + self._zone_weight * (self._bins.zone[a] == self._bins.zone[b])

    def _least_loaded(self, items: Sequence[int], zone: int = _ALL_ZONES) -> int | None:
        cpu_hz = sum(self._items.cpu_hz[item] for item in items)
        memory_mb = sum(self._items.memory_mb[item] for item in items)
        for load_hz, bin_ in self._by_load[zone]:
            if load_hz + cpu_hz > self._largest_hz:
                return None  # and all that follow are fuller
            if self._takes(bin_, len(items), cpu_hz, memory_mb) and all(self._may_use(item, bin_) for item in items):
                return bin_
        return None

    def _pair_fits(self, i: int, j: int, x: int, y: int) -> bool:
        """Whether `i` can go to `x` while `j` goes to `y`."""
        at_i, at_j, items = self.bin_of[i], self.bin_of[j], self._items
        if x != y:
            return self._can_enter(i, x, at_i, j, at_j) and self._can_enter(j, y, at_j, i, at_i)
        coming = [item for item, at in ((i, at_i), (j, at_j)) if at != x]
        cpu_hz = sum(items.cpu_hz[item] for item in coming)
        memory_mb = sum(items.memory_mb[item] for item in coming)
        return not coming or (
            self._takes(x, len(coming), cpu_hz, memory_mb) and all(self._may_use(item, x) for item in coming)
        )

    def _can_enter(self, item: int, to: int, at: int, other: int, other_at: int) -> bool:
        """Whether `item` can go from `at` to `to` if `other`, which is at `other_at`, is then elsewhere."""
        if at == to:
            return True
        cpu_hz, memory_mb, count = self._items.cpu_hz[item], self._items.memory_mb[item], 1
        if other_at == to:
            cpu_hz, memory_mb, count = cpu_hz - self._items.cpu_hz[other], memory_mb - self._items.memory_mb[other], 0
        return self._takes(to, count, cpu_hz, memory_mb) and self._may_use(item, to)

    def _takes(self, bin_: int, count: int, cpu_hz: float, memory_mb: float) -> bool:
        return (
            self.count[bin_] + count <= self._bins.items[bin_]
            and self.cpu_hz[bin_] + cpu_hz <= self._bins.cpu_hz[bin_] * _TOLERANCE
            and self.memory_mb[bin_] + memory_mb <= self._bins.memory_mb[bin_] * _TOLERANCE
        )

    def _may_use(self, item: int, bin_: int) -> bool:
        if not self._spread:
            return True
        group = self._items.group[item]
        used = self._bins_of_group[group]
        return bin_ in used or len(used) < self._spread.get(group, math.inf)

    def _account(self, item: int, bin_: int, sign: int) -> None:
        key = (self.cpu_hz[bin_], bin_)
        self.count[bin_] += sign
        # An empty bin holds exactly nothing, whatever rounding left.
        empty = self.count[bin_] == 0
        self.cpu_hz[bin_] = 0.0 if empty else self.cpu_hz[bin_] + sign * self._items.cpu_hz[item]
        self.memory_mb[bin_] = 0.0 if empty else self.memory_mb[bin_] + sign * self._items.memory_mb[item]
        zone = self._bins.zone[bin_]
        for by_load in (self._by_load[_ALL_ZONES], self._by_load[zone]):
            del by_load[bisect_left(by_load, key)]
            insort(by_load, (self.cpu_hz[bin_], bin_))
        used = self._bins_of_group[self._items.group[item]]
        used[bin_] += sign
        if not used[bin_]:
            del used[bin_]
        for neighbour, rate in self._items.neighbours[item].items():
            pull = self._pull[neighbour]
            pull[bin_] = pull.get(bin_, 0.0) + sign * rate
            if self._zone_weight:
                zone_key = self._zone_key[bin_]
                pull[zone_key] = pull.get(zone_key, 0.0) + sign * rate
