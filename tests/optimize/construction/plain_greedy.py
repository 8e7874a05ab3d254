"""The rule of `Greedy` once more, plainly: every bin is looked at, every sum is recomputed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stormwright.optimize.construction.greedy import Bins
from stormwright.optimize.kernel.records import NOWHERE


@dataclass
class PlainGreedy:
    """A placement under way; for whole numbers, whose sums are exact.

    Parameters
    ----------
    exchange
        What each two items exchange.
    bins
        What each bin takes; its zones have no gaps.
    most_bins, most_in_bin
        Group → the most bins that it may use, and the most of its items in one bin.
    """

    cpu_hz: Sequence[float]
    memory_mb: Sequence[float]
    exchange: Sequence[Sequence[float]]
    group: Sequence[int]
    bins: Bins
    zone_weight: float
    most_bins: Mapping[int, int]
    most_in_bin: Mapping[int, int]
    bin_of: list[int] = field(init=False)
    fixed: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.bin_of = [NOWHERE] * len(self.cpu_hz)

    def place_pairs(self, pairs: Sequence[tuple[int, int]], near: bool) -> bool:
        before = list(self.bin_of)
        for i, j in pairs:
            if self.bin_of[i] == self.bin_of[j] == NOWHERE:
                both = self.least_loaded([i, j])
                if both == NOWHERE:
                    self.place(i)
                    self.place(j)
                else:
                    self.bin_of[i] = self.bin_of[j] = both
            else:
                self.rearrange(i, j, near)
        return self.bin_of != before

    def place_rest(self) -> list[int]:
        waiting = [item for item, bin_ in enumerate(self.bin_of) if bin_ == NOWHERE]
        return [item for item in sorted(waiting, key=lambda item: -self.cpu_hz[item]) if not self.place(item)]

    def fill_empty(self) -> None:
        for empty in range(len(self.bins.items)):
            crowded = [item for item, bin_ in enumerate(self.bin_of) if self.bin_of.count(bin_) > 1 and bin_ >= 0]
            if empty not in self.bin_of and crowded:
                self.bin_of[max(crowded, key=lambda item: (self.saved(self.moved({item: empty})), -item))] = empty

    def cost(self) -> float:
        everything = sum(map(sum, self.exchange)) / 2 * (1 + self.zone_weight)
        return everything - self.saved(self.bin_of)

    def place(self, item: int) -> bool:
        self.bin_of[item] = self.least_loaded([item])
        return self.bin_of[item] != NOWHERE

    def rearrange(self, i: int, j: int, near: bool) -> None:
        own = [bin_ for bin_ in (self.bin_of[i], self.bin_of[j]) if bin_ != NOWHERE]
        mover = j if self.bin_of[i] != NOWHERE else i
        tried = [*own, self.least_loaded([mover])]
        if near:
            tried += [self.least_loaded([mover], self.bins.zone[bin_]) for bin_ in own]
        tried = [bin_ for bin_ in dict.fromkeys(tried) if bin_ != NOWHERE]
        choices = [(self.bin_of[i], self.bin_of[j])] if len(own) == 2 else []
        choices += [(x, y) for x in tried for y in tried if self.may_go({i: x, j: y})]
        if choices:  # of equally good ones the first
            self.bin_of[i], self.bin_of[j] = max(choices, key=lambda xy: self.saved(self.moved({i: xy[0], j: xy[1]})))

    def least_loaded(self, items: Sequence[int], zone: int | None = None) -> int:
        takes = [
            bin_
            for bin_ in range(len(self.bins.items))
            if (zone is None or self.bins.zone[bin_] == zone)
            and self.fits(bin_, [*self.members(bin_, self.bin_of), *items])  # one that is there already counts twice
            and self.groups_may(self.moved(dict.fromkeys(items, bin_)))
        ]
        return min(
            takes, key=lambda bin_: (sum(self.cpu_hz[k] for k in self.members(bin_, self.bin_of)), bin_), default=-1
        )

    def moved(self, to: Mapping[int, int]) -> list[int]:
        """Bin of every item when some have moved."""
        return [to.get(item, bin_) for item, bin_ in enumerate(self.bin_of)]

    def may_go(self, to: Mapping[int, int]) -> bool:
        then = self.moved(to)
        entered = {bin_ for item, bin_ in to.items() if self.bin_of[item] != bin_}
        stays = all(then[item] == self.bin_of[item] for item in self.fixed)
        return stays and all(self.fits(bin_, self.members(bin_, then)) for bin_ in entered) and self.groups_may(then)

    def fits(self, bin_: int, items: Sequence[int]) -> bool:
        return (
            len(items) <= self.bins.items[bin_]
            and sum(self.cpu_hz[k] for k in items) <= self.bins.cpu_hz[bin_]
            and sum(self.memory_mb[k] for k in items) <= self.bins.memory_mb[bin_]
        )

    def groups_may(self, then: Sequence[int]) -> bool:
        """No group uses more bins, or has more items in one, than it may, unless it does so already."""
        return all(
            self.num_bins(group, then) <= max(most, self.num_bins(group, self.bin_of))
            for group, most in self.most_bins.items()
        ) and all(
            self.num_in(group, bin_, then) <= max(most, self.num_in(group, bin_, self.bin_of))
            for group, most in self.most_in_bin.items()
            for bin_ in range(len(self.bins.items))
        )

    def num_in(self, group: int, bin_: int, placed: Sequence[int]) -> int:
        return sum(at == bin_ and self.group[item] == group for item, at in enumerate(placed))

    def num_bins(self, group: int, placed: Sequence[int]) -> int:
        return len({bin_ for item, bin_ in enumerate(placed) if self.group[item] == group} - {NOWHERE})

    def members(self, bin_: int, placed: Sequence[int]) -> list[int]:
        return [item for item, at in enumerate(placed) if at == bin_]

    def saved(self, placed: Sequence[int]) -> float:
        """Cost that is saved by what is together."""
        return sum(
            self.exchange[i][j] * self.closeness(placed[i], placed[j]) for i in range(len(placed)) for j in range(i)
        )

    def closeness(self, a: int, b: int) -> float:
        if NOWHERE in (a, b):
            return 0.0
        return float(a == b) + self.zone_weight * float(self.bins.zone[a] == self.bins.zone[b])
