"""The loops of `Greedy`, on arrays, compiled. Of equal choices the one that stays wins, then the lower index."""

from __future__ import annotations

import math
from typing import NamedTuple

from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.schedulers.support.compiled import compiled

NOWHERE = -1

#: Which bins: all of them. Zones are numbered from 0.
_ALL_ZONES = -1


class Books(NamedTuple):
    """A placement under way: I items, B bins, Z zones; G groups, none of them unless groups are limited.

    Parameters
    ----------
    item_cpu_hz, item_memory_mb
        Demand, shape (I,).
    first, neighbour, rate
        What item i exchanges with which others is at ``first[i]`` to ``first[i + 1]``.
    fixed
        Whether an item stays where it is, shape (I,).
    most_items, most_cpu_hz, most_memory_mb
        What a bin may hold, shape (B,).
    size, size_first, size_cpu_hz
        Class of every bin by its CPU, shape (B,); where each class begins in `by_load`; the most CPU in it.
    zone, zone_first, zone_bins
        Zone of every bin, and the bins of zone z at ``zone_first[z]`` to ``zone_first[z + 1]``.
    zone_weight
        What a tuple between zones costs more than one between bins of a zone, which costs 1.
    noise
        A gain that is not above this is rounding.
    group, group_first, group_items, group_bins
        Group of every item; the items of every group; the most bins it may use.
    bin_of
        Bin of every item, shape (I,).
    items, cpu_hz, memory_mb
        What is in every bin, shape (B,).
    by_load, rank
        Bins class by class, in each those that take no more items last, then by load, then number; and where each bin
        is in that order, shape (B,).
    bins_used
        Bins that every group uses, shape (G,).
    tried, kept_i, kept_j
        Scratch of `_rearrange`.
    """

    item_cpu_hz: FloatArray
    item_memory_mb: FloatArray
    first: IndexArray
    neighbour: IndexArray
    rate: FloatArray
    fixed: BoolArray
    most_items: FloatArray
    most_cpu_hz: FloatArray
    most_memory_mb: FloatArray
    size: IndexArray
    size_first: IndexArray
    size_cpu_hz: FloatArray
    zone: IndexArray
    zone_first: IndexArray
    zone_bins: IndexArray
    zone_weight: float
    noise: float
    group: IndexArray
    group_first: IndexArray
    group_items: IndexArray
    group_bins: IndexArray
    bin_of: IndexArray
    items: IndexArray
    cpu_hz: FloatArray
    memory_mb: FloatArray
    by_load: IndexArray
    rank: IndexArray
    bins_used: IndexArray
    tried: IndexArray
    kept_i: FloatArray
    kept_j: FloatArray


@compiled
def put(books: Books, item: int, to: int) -> None:
    """Move `item` to the bin `to`, or out of all bins for `NOWHERE`."""
    before = books.bin_of[item]
    if before == to:
        return
    if before != NOWHERE:
        _account(books, item, before, -1)
    if to != NOWHERE:
        _account(books, item, to, +1)
    books.bin_of[item] = to


@compiled
def place(books: Books, item: int) -> bool:
    """Put `item` into the least loaded bin that takes it; whether there is one."""
    to = _least_loaded(books, item, NOWHERE, _ALL_ZONES)
    if to == NOWHERE:
        return False
    put(books, item, to)
    return True


@compiled
def place_in_order(books: Books, items: IndexArray) -> int:
    """Place `items` one after the other, and move those that find no bin to the front; how many these are."""
    left = 0
    for item in items:
        if not place(books, item):
            items[left] = item
            left += 1
    return left


@compiled
def place_pairs(books: Books, source: IndexArray, target: IndexArray, near: bool) -> bool:
    """Place pairs of items, heaviest first; whether anything changed. `Greedy.place_pairs` has the rule."""
    changed = False
    for position in range(len(source)):
        i, j = source[position], target[position]
        if books.bin_of[i] == NOWHERE and books.bin_of[j] == NOWHERE:
            to = _least_loaded(books, i, j, _ALL_ZONES)
            if to != NOWHERE:
                put(books, i, to)
                put(books, j, to)
                changed = True
            else:
                changed |= place(books, i)
                changed |= place(books, j)
        else:
            changed |= _rearrange(books, i, j, near)
    return changed


@compiled
def kept(books: Books, item: int, bin_: int) -> float:
    """What of the cost of `item`'s traffic is saved by having it in `bin_`."""
    total = 0.0
    for position in range(books.first[item], books.first[item + 1]):
        total += books.rate[position] * _closeness(books, books.bin_of[books.neighbour[position]], bin_)
    return total


@compiled
def kept_in_all(books: Books) -> float:
    """`kept` of all items where they are, those of no bin left out."""
    total = 0.0
    for item in range(len(books.bin_of)):
        if books.bin_of[item] != NOWHERE:
            total += kept(books, item, books.bin_of[item])
    return total


@compiled
def _closeness(books: Books, a: int, b: int) -> float:
    """What of the cost of a tuple is saved between two bins."""
    if a == NOWHERE or b == NOWHERE:
        return 0.0
    if a == b:
        return 1.0 + books.zone_weight
    return books.zone_weight if books.zone[a] == books.zone[b] else 0.0


@compiled
def _rearrange(books: Books, i: int, j: int, near: bool) -> bool:
    at_i, at_j = books.bin_of[i], books.bin_of[j]
    tried = _find_tried(books, j if at_i != NOWHERE else i, at_i, at_j, near)
    rate = 0.0
    for position in range(books.first[i], books.first[i + 1]):
        if books.neighbour[position] == j:
            rate = books.rate[position]
    for k in range(tried):
        # The traffic of the two with each other is added for each combination.
        books.kept_i[k] = kept(books, i, books.tried[k]) - rate * _closeness(books, at_j, books.tried[k])
        books.kept_j[k] = kept(books, j, books.tried[k]) - rate * _closeness(books, at_i, books.tried[k])
    best_i, best_j, most = NOWHERE, NOWHERE, -math.inf
    if at_i != NOWHERE and at_j != NOWHERE:
        best_i, best_j = at_i, at_j  # the first two of those tried
        most = books.kept_i[0] + books.kept_j[0 if at_i == at_j else 1] + rate * _closeness(books, at_i, at_j)
    for k in range(tried):
        to_i = books.tried[k]
        if books.fixed[i] and to_i != at_i:
            continue
        for m in range(tried):
            to_j = books.tried[m]
            if books.fixed[j] and to_j != at_j:
                continue
            together = books.kept_i[k] + books.kept_j[m] + rate * _closeness(books, to_i, to_j)
            if together > most + books.noise and _pair_fits(books, i, j, to_i, to_j):
                best_i, best_j, most = to_i, to_j, together
    if best_i == NOWHERE or (best_i == at_i and best_j == at_j):
        return False
    put(books, i, best_i)
    put(books, j, best_j)
    return True


@compiled
def _find_tried(books: Books, mover: int, at_i: int, at_j: int, near: bool) -> int:
    """Find the bins to try for two items, those that they are in and the least loaded for `mover`; how many."""
    tried = 0
    for bin_ in (at_i, at_j, _least_loaded(books, mover, NOWHERE, _ALL_ZONES)):
        tried = _add_tried(books, tried, bin_)
    if near:
        for bin_ in (at_i, at_j):
            if bin_ != NOWHERE:
                tried = _add_tried(books, tried, _least_loaded(books, mover, NOWHERE, books.zone[bin_]))
    return tried


@compiled
def _add_tried(books: Books, tried: int, bin_: int) -> int:
    if bin_ == NOWHERE:
        return tried
    for k in range(tried):
        if books.tried[k] == bin_:
            return tried
    books.tried[tried] = bin_
    return tried + 1


@compiled
def _least_loaded(books: Books, i: int, j: int, zone: int) -> int:
    """The least loaded bin of a zone that takes `i`, and `j` with it unless that is `NOWHERE`."""
    count, cpu_hz, memory_mb = 1, books.item_cpu_hz[i], books.item_memory_mb[i]
    if j != NOWHERE:
        count, cpu_hz, memory_mb = 2, cpu_hz + books.item_cpu_hz[j], memory_mb + books.item_memory_mb[j]
    best = NOWHERE
    if zone == _ALL_ZONES:
        for size in range(len(books.size_cpu_hz)):
            for rank in range(books.size_first[size], books.size_first[size + 1]):
                bin_ = books.by_load[rank]
                if (
                    _is_full(books, bin_)
                    or books.cpu_hz[bin_] + cpu_hz > books.size_cpu_hz[size]
                    or (best != NOWHERE and not _comes_before(books, bin_, best))
                ):
                    break  # and so are all that follow
                if _takes(books, bin_, count, cpu_hz, memory_mb) and _both_may_use(books, i, j, bin_):
                    best = bin_
                    break
        return best
    for position in range(books.zone_first[zone], books.zone_first[zone + 1]):
        bin_ = books.zone_bins[position]
        if best != NOWHERE and not _comes_before(books, bin_, best):
            continue
        if _takes(books, bin_, count, cpu_hz, memory_mb) and _both_may_use(books, i, j, bin_):
            best = bin_
    return best


@compiled
def _pair_fits(books: Books, i: int, j: int, x: int, y: int) -> bool:
    """Whether `i` can go to `x` while `j` goes to `y`."""
    at_i, at_j = books.bin_of[i], books.bin_of[j]
    if x != y:
        return _can_enter(books, i, x, at_i, j, at_j) and _can_enter(books, j, y, at_j, i, at_i)
    if at_i == x:
        return _can_enter(books, j, x, at_j, NOWHERE, NOWHERE)
    if at_j == x:
        return _can_enter(books, i, x, at_i, NOWHERE, NOWHERE)
    cpu_hz = books.item_cpu_hz[i] + books.item_cpu_hz[j]
    memory_mb = books.item_memory_mb[i] + books.item_memory_mb[j]
    return _takes(books, x, 2, cpu_hz, memory_mb) and _both_may_use(books, i, j, x)


@compiled
def _can_enter(books: Books, item: int, to: int, at: int, other: int, other_at: int) -> bool:
    """Whether `item` can go from `at` to `to` if `other`, which is at `other_at`, is then elsewhere."""
    if at == to:
        return True
    count, cpu_hz, memory_mb = 1, books.item_cpu_hz[item], books.item_memory_mb[item]
    if other_at == to:
        count, cpu_hz = 0, cpu_hz - books.item_cpu_hz[other]
        memory_mb -= books.item_memory_mb[other]
    return _takes(books, to, count, cpu_hz, memory_mb) and _may_use(books, item, to)


@compiled
def _takes(books: Books, bin_: int, count: int, cpu_hz: float, memory_mb: float) -> bool:
    return bool(
        books.items[bin_] + count <= books.most_items[bin_]
        and books.cpu_hz[bin_] + cpu_hz <= books.most_cpu_hz[bin_]
        and books.memory_mb[bin_] + memory_mb <= books.most_memory_mb[bin_]
    )


@compiled
def _both_may_use(books: Books, i: int, j: int, bin_: int) -> bool:
    return _may_use(books, i, bin_) and (j == NOWHERE or _may_use(books, j, bin_))


@compiled
def _may_use(books: Books, item: int, bin_: int) -> bool:
    if len(books.group_bins) == 0:
        return True
    group = books.group[item]
    return books.bins_used[group] < books.group_bins[group] or _group_uses(books, group, bin_, NOWHERE)


@compiled
def _group_uses(books: Books, group: int, bin_: int, but: int) -> bool:
    """Whether an item of the group other than `but` is in a bin."""
    for position in range(books.group_first[group], books.group_first[group + 1]):
        item = books.group_items[position]
        if item != but and books.bin_of[item] == bin_:
            return True
    return False


@compiled
def _account(books: Books, item: int, bin_: int, sign: int) -> None:
    books.items[bin_] += sign
    if books.items[bin_] == 0:
        # An empty bin holds exactly nothing, whatever rounding left.
        books.cpu_hz[bin_] = books.memory_mb[bin_] = 0.0
    else:
        books.cpu_hz[bin_] += sign * books.item_cpu_hz[item]
        books.memory_mb[bin_] += sign * books.item_memory_mb[item]
    _sort_in(books, bin_)
    if len(books.group_bins) > 0 and not _group_uses(books, books.group[item], bin_, item):
        books.bins_used[books.group[item]] += sign


@compiled
def _sort_in(books: Books, bin_: int) -> None:
    """Bring a bin whose load has changed to its place in `by_load`."""
    at, size = books.rank[bin_], books.size[bin_]
    while at + 1 < books.size_first[size + 1] and _comes_before(books, books.by_load[at + 1], bin_):
        _set_rank(books, books.by_load[at + 1], at)
        at += 1
    while at > books.size_first[size] and _comes_before(books, bin_, books.by_load[at - 1]):
        _set_rank(books, books.by_load[at - 1], at)
        at -= 1
    _set_rank(books, bin_, at)


@compiled
def _set_rank(books: Books, bin_: int, at: int) -> None:
    books.by_load[at] = bin_
    books.rank[bin_] = at


@compiled
def _comes_before(books: Books, a: int, b: int) -> bool:
    """The order of `by_load` within a class."""
    full_a, full_b = _is_full(books, a), _is_full(books, b)
    if full_a != full_b:
        return full_b
    return bool(books.cpu_hz[a] < books.cpu_hz[b] or (books.cpu_hz[a] == books.cpu_hz[b] and a < b))


@compiled
def _is_full(books: Books, bin_: int) -> bool:
    return bool(books.items[bin_] >= books.most_items[bin_])
