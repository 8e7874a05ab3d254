"""The loops of `Greedy`, on arrays, compiled. Of equal choices the one that stays wins, then the lower index."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.optimize.kernel.compiled import compiled

NOWHERE = -1

#: Which bins: all of them. Zones are numbered from 0.
_ALL_ZONES = -1

#: A gain below this part of what is saved already is rounding.
_NOISE = 1e-12

ITEM = np.dtype(
    [
        *((name, np.float64) for name in ("cpu_hz", "memory_mb")),
        *((name, np.int64) for name in ("first", "last", "group", "bin")),
        ("fixed", np.bool_),
    ],
    align=True,
)
LINK = np.dtype([("item", np.int64), ("rate", np.float64)])
BIN = np.dtype(
    [
        *(
            (name, np.float64)
            for name in ("most_items", "most_cpu_hz", "most_memory_mb", "cpu_hz", "memory_mb", "exchanged")
        ),
        *((name, np.int64) for name in ("items", "zone", "size", "rank")),
    ]
)
SIZE = np.dtype([("first", np.int64), ("last", np.int64), ("cpu_hz", np.float64)])
ZONE = np.dtype([("first", np.int64), ("last", np.int64), ("exchanged", np.float64)])
GROUP = np.dtype([("first", np.int64), ("last", np.int64), ("most_bins", np.int64), ("bins", np.int64)])

Records = NDArray[np.void]


class Books(NamedTuple):
    """A placement under way, as arrays of records.

    Parameters
    ----------
    items
        Of `ITEM`: demand; where its `links` are; its group; its bin; whether it stays there.
    links
        Of `LINK`: what an item exchanges with which other.
    bins
        Of `BIN`: what it may hold and what it holds; its zone; its class by CPU, and where it is in `by_load`.
    by_load
        The bins class by class, in each those that take no more items last, then by load, then number.
    sizes
        Of `SIZE`, one for each class: where it is in `by_load`, and the most CPU in it.
    zones, zone_bins
        Of `ZONE`: where its bins are in `zone_bins`.
    groups, group_items
        Of `GROUP`: where its items are in `group_items`; the most bins it may use, and how many it does. Without any
        such limit there are no groups.
    tried, kept
        Scratch of `_rearrange`: bins, and for both items what is saved in each, shape (2, bins tried).
    zone_weight
        What a tuple between zones costs more than one between bins of a zone, which costs 1.
    """

    items: Records
    links: Records
    bins: Records
    by_load: IndexArray
    sizes: Records
    zones: Records
    zone_bins: IndexArray
    groups: Records
    group_items: IndexArray
    tried: IndexArray
    kept: FloatArray
    zone_weight: float


@compiled
def put(books: Books, item: int, to: int) -> None:
    """Move `item` to the bin `to`, or out of all bins for `NOWHERE`."""
    before = books.items[item].bin
    if before == to:
        return
    if before != NOWHERE:
        _account(books, item, before, -1)
    if to != NOWHERE:
        _account(books, item, to, +1)
    books.items[item].bin = to


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
def fill_empty(books: Books) -> None:
    """Give every empty bin the item whose move costs least, as long as another bin has two."""
    for empty in range(len(books.bins)):
        if books.bins[empty].items > 0:
            continue
        cheapest, least = NOWHERE, math.inf
        for item in range(len(books.items)):
            bin_ = books.items[item].bin
            if bin_ != NOWHERE and books.bins[bin_].items > 1 and kept(books, item, bin_) < least:
                cheapest, least = item, kept(books, item, bin_)
        if cheapest != NOWHERE:
            put(books, cheapest, empty)


@compiled
def place_pairs(books: Books, source: IndexArray, target: IndexArray, near: bool) -> bool:
    """Place pairs of items, heaviest first; whether anything changed. `Greedy.place_pairs` has the rule."""
    changed = False
    for position in range(len(source)):
        i, j = source[position], target[position]
        if books.items[i].bin == NOWHERE and books.items[j].bin == NOWHERE:
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
    for position in range(books.items[item].first, books.items[item].last):
        total += books.links[position].rate * _closeness(books, books.items[books.links[position].item].bin, bin_)
    return total


@compiled
def kept_in_all(books: Books) -> float:
    """`kept` of all items where they are, those of no bin left out."""
    total = 0.0
    for item in range(len(books.items)):
        if books.items[item].bin != NOWHERE:
            total += kept(books, item, books.items[item].bin)
    return total


@compiled
def _closeness(books: Books, a: int, b: int) -> float:
    """What of the cost of a tuple is saved between two bins."""
    if a == NOWHERE or b == NOWHERE:
        return 0.0
    if a == b:
        return 1.0 + books.zone_weight
    return books.zone_weight if books.zone_weight > 0 and books.bins[a].zone == books.bins[b].zone else 0.0


@compiled
def _rearrange(books: Books, i: int, j: int, near: bool) -> bool:
    """Rule 2 of `Greedy.place_pairs`: what is saved rises, so equation 3 of the paper falls where bins are nodes."""
    at_i, at_j = books.items[i].bin, books.items[j].bin
    tried = _find_tried(books, j if at_i != NOWHERE else i, at_i, at_j, near)
    # The traffic of the two with each other is added for each combination.
    rate = _sum_kept(books, 0, i, j, tried)
    _sum_kept(books, 1, j, i, tried)
    best_i, best_j, most = NOWHERE, NOWHERE, -math.inf
    if at_i != NOWHERE and at_j != NOWHERE:
        best_i, best_j = at_i, at_j  # the first two of those tried
        own_j = 0 if at_i == at_j else 1
        most = books.kept[0, 0] + books.kept[1, own_j] + rate * _closeness(books, at_i, at_j)
    for k in range(tried):
        to_i = books.tried[k]
        if books.items[i].fixed and to_i != at_i:
            continue
        for m in range(tried):
            to_j = books.tried[m]
            if books.items[j].fixed and to_j != at_j:
                continue
            together = books.kept[0, k] + books.kept[1, m] + rate * _closeness(books, to_i, to_j)
            if together > most * (1 + _NOISE) and _pair_fits(books, i, j, to_i, to_j):
                best_i, best_j, most = to_i, to_j, together
    if best_i == NOWHERE or (best_i == at_i and best_j == at_j):
        return False
    put(books, i, best_i)
    put(books, j, best_j)
    return True


@compiled
def _sum_kept(books: Books, row: int, item: int, partner: int, tried: int) -> float:
    """Set a row of `kept`, without the traffic of `item` with `partner`; what that is."""
    with_partner = 0.0
    # Summed by bin and zone: a comparison with each bin tried would be one that processors cannot foresee.
    for position in range(books.items[item].first, books.items[item].last):
        other, rate = books.links[position].item, books.links[position].rate
        if other == partner:
            with_partner = rate
        elif books.items[other].bin != NOWHERE:
            books.bins[books.items[other].bin].exchanged += rate
            if books.zone_weight > 0:
                books.zones[books.bins[books.items[other].bin].zone].exchanged += rate
    for k in range(tried):
        books.kept[row, k] = books.bins[books.tried[k]].exchanged
        if books.zone_weight > 0:
            books.kept[row, k] += books.zone_weight * books.zones[books.bins[books.tried[k]].zone].exchanged
    for position in range(books.items[item].first, books.items[item].last):
        bin_ = books.items[books.links[position].item].bin
        if bin_ != NOWHERE:
            books.bins[bin_].exchanged = 0.0
            books.zones[books.bins[bin_].zone].exchanged = 0.0
    return with_partner


@compiled
def _find_tried(books: Books, mover: int, at_i: int, at_j: int, near: bool) -> int:
    """Find the bins to try for two items, those that they are in and the least loaded for `mover`; how many."""
    tried = 0
    for bin_ in (at_i, at_j, _least_loaded(books, mover, NOWHERE, _ALL_ZONES)):
        tried = _add_tried(books, tried, bin_)
    if near:
        for bin_ in (at_i, at_j):
            if bin_ != NOWHERE:
                tried = _add_tried(books, tried, _least_loaded(books, mover, NOWHERE, books.bins[bin_].zone))
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
    count, cpu_hz, memory_mb = 1, books.items[i].cpu_hz, books.items[i].memory_mb
    if j != NOWHERE:
        count, cpu_hz, memory_mb = 2, cpu_hz + books.items[j].cpu_hz, memory_mb + books.items[j].memory_mb
    best = NOWHERE
    if zone == _ALL_ZONES:
        for size in range(len(books.sizes)):
            for rank in range(books.sizes[size].first, books.sizes[size].last):
                bin_ = books.by_load[rank]
                if (
                    _is_full(books, bin_)
                    or books.bins[bin_].cpu_hz + cpu_hz > books.sizes[size].cpu_hz
                    or (best != NOWHERE and not _comes_before(books, bin_, best))
                ):
                    break  # and so are all that follow
                if _takes(books, bin_, count, cpu_hz, memory_mb) and _groups_may(books, i, j, bin_, bin_):
                    best = bin_
                    break
        return best
    for position in range(books.zones[zone].first, books.zones[zone].last):
        bin_ = books.zone_bins[position]
        if best != NOWHERE and not _comes_before(books, bin_, best):
            continue
        if _takes(books, bin_, count, cpu_hz, memory_mb) and _groups_may(books, i, j, bin_, bin_):
            best = bin_
    return best


@compiled
def _pair_fits(books: Books, i: int, j: int, x: int, y: int) -> bool:
    """Whether `i` can go to `x` while `j` goes to `y`."""
    at_i, at_j = books.items[i].bin, books.items[j].bin
    if x != y:
        fit = _can_enter(books, i, x, at_i, j, at_j) and _can_enter(books, j, y, at_j, i, at_i)
    elif at_i == x:
        fit = _can_enter(books, j, x, at_j, NOWHERE, NOWHERE)
    elif at_j == x:
        fit = _can_enter(books, i, x, at_i, NOWHERE, NOWHERE)
    else:
        cpu_hz = books.items[i].cpu_hz + books.items[j].cpu_hz
        memory_mb = books.items[i].memory_mb + books.items[j].memory_mb
        fit = _takes(books, x, 2, cpu_hz, memory_mb)
    return fit and _groups_may(books, i, j, x, y)


@compiled
def _can_enter(books: Books, item: int, to: int, at: int, other: int, other_at: int) -> bool:
    """Whether `to` has room for `item`, now at `at`, if `other`, which is at `other_at`, is then elsewhere."""
    if at == to:
        return True
    count, cpu_hz, memory_mb = 1, books.items[item].cpu_hz, books.items[item].memory_mb
    if other_at == to:
        count, cpu_hz = 0, cpu_hz - books.items[other].cpu_hz
        memory_mb -= books.items[other].memory_mb
    return _takes(books, to, count, cpu_hz, memory_mb)


@compiled
def _takes(books: Books, bin_: int, count: int, cpu_hz: float, memory_mb: float) -> bool:
    """Whether a bin has room for what it would get; its CPU is equation 1 of the paper where bins are nodes."""
    return bool(
        books.bins[bin_].items + count <= books.bins[bin_].most_items
        and books.bins[bin_].cpu_hz + cpu_hz <= books.bins[bin_].most_cpu_hz
        and books.bins[bin_].memory_mb + memory_mb <= books.bins[bin_].most_memory_mb
    )


@compiled
def _groups_may(books: Books, i: int, j: int, x: int, y: int) -> bool:
    """Whether `i` may be in `x` and, unless it is `NOWHERE`, `j` in `y`, by how many bins their groups then use."""
    if len(books.groups) == 0:
        return True
    if j == NOWHERE or books.items[i].group == books.items[j].group:
        return _group_may(books, i, j, x, y)
    return _group_may(books, i, NOWHERE, x, NOWHERE) and _group_may(books, j, NOWHERE, y, NOWHERE)


@compiled
def _group_may(books: Books, i: int, j: int, x: int, y: int) -> bool:
    """As `_groups_may`, for items of one group: a bin that they leave empty of it counts no longer."""
    group, at_i = books.items[i].group, books.items[i].bin
    at_j = NOWHERE if j == NOWHERE else books.items[j].bin
    now = books.groups[group].bins
    then = now
    if at_i != NOWHERE and not _group_uses(books, group, at_i, i, j):
        then -= 1
    if at_j not in (NOWHERE, at_i) and not _group_uses(books, group, at_j, i, j):
        then -= 1
    if not _group_uses(books, group, x, i, j):
        then += 1
    if y not in (NOWHERE, x) and not _group_uses(books, group, y, i, j):
        then += 1
    # Fixed items may be in more bins than allowed; what does not add to them is no worse.
    return bool(then <= max(books.groups[group].most_bins, now))


@compiled
def _group_uses(books: Books, group: int, bin_: int, i: int, j: int) -> bool:
    """Whether an item of the group other than `i` and `j` is in a bin."""
    for position in range(books.groups[group].first, books.groups[group].last):
        item = books.group_items[position]
        if item not in (i, j) and books.items[item].bin == bin_:
            return True
    return False


@compiled
def _account(books: Books, item: int, bin_: int, sign: int) -> None:
    books.bins[bin_].items += sign
    if books.bins[bin_].items == 0:
        # An empty bin holds exactly nothing, whatever rounding left.
        books.bins[bin_].cpu_hz = books.bins[bin_].memory_mb = 0.0
    else:
        books.bins[bin_].cpu_hz += sign * books.items[item].cpu_hz
        books.bins[bin_].memory_mb += sign * books.items[item].memory_mb
    _sort_in(books, bin_)
    if len(books.groups) > 0 and not _group_uses(books, books.items[item].group, bin_, item, NOWHERE):
        books.groups[books.items[item].group].bins += sign


@compiled
def _sort_in(books: Books, bin_: int) -> None:
    """Bring a bin whose load has changed to its place in `by_load`."""
    at, size = books.bins[bin_].rank, books.bins[bin_].size
    while at + 1 < books.sizes[size].last and _comes_before(books, books.by_load[at + 1], bin_):
        _set_rank(books, books.by_load[at + 1], at)
        at += 1
    while at > books.sizes[size].first and _comes_before(books, bin_, books.by_load[at - 1]):
        _set_rank(books, books.by_load[at - 1], at)
        at -= 1
    _set_rank(books, bin_, at)


@compiled
def _set_rank(books: Books, bin_: int, at: int) -> None:
    books.by_load[at] = bin_
    books.bins[bin_].rank = at


@compiled
def _comes_before(books: Books, a: int, b: int) -> bool:
    """The order of `by_load` within a class."""
    full_a, full_b = _is_full(books, a), _is_full(books, b)
    if full_a != full_b:
        return full_b
    return bool(books.bins[a].cpu_hz < books.bins[b].cpu_hz or (books.bins[a].cpu_hz == books.bins[b].cpu_hz and a < b))


@compiled
def _is_full(books: Books, bin_: int) -> bool:
    return bool(books.bins[bin_].items >= books.bins[bin_].most_items)
