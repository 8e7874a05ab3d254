"""Items in bins as arrays of records, limits of bins and groups, and the order of bins by load.

`by_load` is sorted at all times: when the load of a bin changes, it moves up or down past its neighbours (`_sort_in`).
That takes a step for each bin that it passes, and the least loaded bin is always at the front of its class. Full bins
come last whatever their load, so that they are never scanned.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stormwright.jit.compiled import inner
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.optimize.kernel.records import NOWHERE, Records

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

GROUP = np.dtype([(name, np.int64) for name in ("most_bins", "most_in_bin", "bins")])


class Packing(NamedTuple):
    """A placement under construction, as arrays of records.

    Parameters
    ----------
    items
        Of `ITEM`: demand; range of its `links`; its group; its bin; whether it is fixed.
    links
        Of `LINK`: traffic of an item with another one.
    bins
        Of `BIN`: capacity and load; its zone; its class by CPU, and its position in `by_load`.
    by_load
        The bins class by class, in each the full ones last, then by load, then number.
    sizes
        Of `SIZE`, one for each class: its range in `by_load`, and the most CPU in it.
    zones, zone_bins
        Of `ZONE`: range of its bins in `zone_bins`.
    groups, held
        Of `GROUP`: the most bins it may use, the most of its items in one bin, and how many bins it uses; and how many
        of its items are in each bin, int32, shape (groups, bins). Without any such limit there are no groups.
    tried, savings
        Scratch of `_rearrange`: bins, and the saving of both items in each, shape (2, bins tried).
    zone_weight
        Extra cost of a tuple between zones over one between bins of a zone, which costs 1.
    """

    items: Records
    links: Records
    bins: Records
    by_load: IndexArray
    sizes: Records
    zones: Records
    zone_bins: IndexArray
    groups: Records
    held: IndexArray
    tried: IndexArray
    savings: FloatArray
    zone_weight: float


@inner
def takes(packing: Packing, bin_: int, count: int, cpu_hz: float, memory_mb: float) -> bool:
    """Return whether a bin has capacity for a load; its CPU is equation 1 of the paper where bins are nodes.

    Parameters
    ----------
    packing
        Packing with the capacity and load of each bin; not changed.
    bin_
        Bin of the items.
    count
        Items that it would get, 0 if one is exchanged for another.
    cpu_hz, memory_mb
        Load that it would get, minus that of items that would leave it.
    """
    return bool(
        packing.bins[bin_].items + count <= packing.bins[bin_].most_items
        and packing.bins[bin_].cpu_hz + cpu_hz <= packing.bins[bin_].most_cpu_hz
        and packing.bins[bin_].memory_mb + memory_mb <= packing.bins[bin_].most_memory_mb
    )


@inner
def groups_may(packing: Packing, i: int, j: int, x: int, y: int) -> bool:
    """Return whether the groups of two items may use their bins after a move. Always, if groups have no limits.

    Parameters
    ----------
    packing
        Read only; items are where they are now.
    i, j
        The items; `j` may be `NOWHERE` for none.
    x, y
        The bins that `i` and `j` would go to.
    """
    if len(packing.groups) == 0:
        return True
    if j == NOWHERE or packing.items[i].group == packing.items[j].group:
        return _group_may(packing, i, j, x, y)
    return _group_may(packing, i, NOWHERE, x, NOWHERE) and _group_may(packing, j, NOWHERE, y, NOWHERE)


@inner
def _group_may(packing: Packing, i: int, j: int, x: int, y: int) -> bool:
    """Return the same for items of one group: a bin that they leave without items of the group no longer counts."""
    group, at_i = packing.items[i].group, packing.items[i].bin
    at_j = NOWHERE if j == NOWHERE else packing.items[j].bin
    now = packing.groups[group].bins
    then = now
    if at_i != NOWHERE and _others_in(packing, group, at_i, i, j) == 0:
        then -= 1
    if at_j not in (NOWHERE, at_i) and _others_in(packing, group, at_j, i, j) == 0:
        then -= 1
    others = _others_in(packing, group, x, i, j)
    if others == 0:
        then += 1
    both = j != NOWHERE and y == x
    if not _bin_may(packing, group, x, others + 1 + both, others + (at_i == x) + (at_j == x)):
        return False
    if y not in (NOWHERE, x):
        others = _others_in(packing, group, y, i, j)
        if others == 0:
            then += 1
        if not _bin_may(packing, group, y, others + 1, others + (at_i == y) + (at_j == y)):
            return False
    # Fixed items may be in more bins than allowed; a move that does not add to them is no worse.
    return bool(then <= max(packing.groups[group].most_bins, now))


@inner
def _bin_may(packing: Packing, group: int, bin_: int, then: int, now: int) -> bool:
    """Return whether a bin may have `then` items of a group; more than allowed only if it has as many `now`."""
    return bool(bin_ == NOWHERE or then <= max(packing.groups[group].most_in_bin, now))


@inner
def _others_in(packing: Packing, group: int, bin_: int, i: int, j: int) -> int:
    """Return the number of items of the group other than `i` and `j` in a bin; `j` may be `NOWHERE` for none."""
    others = packing.held[group, bin_] - (packing.items[i].bin == bin_)
    return int(others - (j != NOWHERE and packing.items[j].bin == bin_))


@inner
def account(packing: Packing, item: int, bin_: int, sign: int) -> None:
    """Record that an item enters or leaves a bin: in its load, its rank by load, and the bins of its group.

    The item's own `bin` is unchanged.

    Parameters
    ----------
    packing
        `bins`, `by_load`, `groups` and `held` are written.
    item, bin_
        The item and the bin.
    sign
        1 to enter, -1 to leave.
    """
    packing.bins[bin_].items += sign
    if packing.bins[bin_].items == 0:
        # The load of an empty bin is exactly zero, without rounding errors.
        packing.bins[bin_].cpu_hz = packing.bins[bin_].memory_mb = 0.0
    else:
        packing.bins[bin_].cpu_hz += sign * packing.items[item].cpu_hz
        packing.bins[bin_].memory_mb += sign * packing.items[item].memory_mb
    _sort_in(packing, bin_)
    if len(packing.groups) > 0:
        group = packing.items[item].group
        packing.held[group, bin_] += sign
        if packing.held[group, bin_] == (sign > 0):  # it is the first there, or was the last
            packing.groups[group].bins += sign


@inner
def _sort_in(packing: Packing, bin_: int) -> None:
    """Move a bin whose load has changed to its position in `by_load`."""
    at, size = packing.bins[bin_].rank, packing.bins[bin_].size
    while at + 1 < packing.sizes[size].last and comes_before(packing, packing.by_load[at + 1], bin_):
        _set_rank(packing, packing.by_load[at + 1], at)
        at += 1
    while at > packing.sizes[size].first and comes_before(packing, bin_, packing.by_load[at - 1]):
        _set_rank(packing, packing.by_load[at - 1], at)
        at -= 1
    _set_rank(packing, bin_, at)


@inner
def _set_rank(packing: Packing, bin_: int, at: int) -> None:
    packing.by_load[at] = bin_
    packing.bins[bin_].rank = at


@inner
def comes_before(packing: Packing, a: int, b: int) -> bool:
    """Return the order of `by_load` within a class: full bins last, then by CPU in Hz, then by number."""
    full_a, full_b = is_full(packing, a), is_full(packing, b)
    if full_a != full_b:
        return full_b
    return bool(
        packing.bins[a].cpu_hz < packing.bins[b].cpu_hz or (packing.bins[a].cpu_hz == packing.bins[b].cpu_hz and a < b)
    )


@inner
def is_full(packing: Packing, bin_: int) -> bool:
    """Return whether a bin has as many items as it may have."""
    return bool(packing.bins[bin_].items >= packing.bins[bin_].most_items)
