"""Coarsening: a layout in which executors with most traffic are joined, so that a search moves them together.

Heavy-edge matching: in random order every executor is joined with the unmatched one of its worker with which it has
most traffic (G. Karypis, V. Kumar, "A Fast and High Quality Multilevel Scheme for Partitioning Irregular
Graphs", SIAM Journal on Scientific Computing 20, 1998, https://doi.org/10.1137/S1064827595287997). Only within workers:
so the current placement is one of the joined executors too, and costs the same. A joined executor takes the CPU, the
memory and the places in a worker of its parts. Time is linear in links, except for sorting those of each executor.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from stormwright.jit.compiled import compiled
from stormwright.model.arrays import BoolArray, IndexArray
from stormwright.optimize.kernel import records as arrays
from stormwright.optimize.kernel.records import NOWHERE, Layout
from stormwright.optimize.layout.ruling import only_of
from stormwright.optimize.layout.start import rearrange

#: Least executors of a topology for coarsening: with 600 it gained nothing, with 1,000 up to 5 %.
_FEWEST = 1000


def find_large(layout: Layout) -> BoolArray:
    """Return the topologies whose executors are to be joined, shape (T,): very large ones in which all may move.

    They have no flows, and no rules limit them.
    """
    topologies = layout.topologies
    placed = layout.workers["movable"] & (layout.workers["node"] != NOWHERE)
    moving = np.bincount(layout.workers["topology"][placed], minlength=len(topologies))
    moves = moving == np.maximum(topologies["last_worker"] - topologies["first_worker"], 1)
    runs = np.bincount(layout.executors["topology"][layout.executors["home"] != NOWHERE], minlength=len(topologies)) > 0
    flows = topologies["first_sink"] < topologies["last_sink"]
    sizes = topologies["last"] - topologies["first"]
    large: BoolArray = moves & (sizes >= _FEWEST) & ~(runs | flows | topologies["whole"] | topologies["limited"])
    return large


def coarsen(layout: Layout, large: BoolArray, most: int, rng: np.random.Generator) -> tuple[Layout, IndexArray]:
    """Return a layout of pairs of executors, and for each executor of `layout` the number of its pair.

    It shares all arrays but those of executors, links and topologies with `layout`, which is therefore inconsistent
    until it is rearranged (`rearrange`).

    Parameters
    ----------
    layout
        The finer one, with a placement.
    large
        Topologies whose executors are joined, shape (T,). They get no tables.
    most
        Places in a worker that a pair may take.
    rng
        Draws the order in which executors look for a partner.

    Returns
    -------
    The coarser layout, with the same placement, and an array of shape (E,). A pair is numbered by the lower of
    its two executors, so that topologies remain ranges. Links within a pair vanish: they no longer cost anything.
    """
    count = len(layout.executors)
    worker, node = layout.executors["worker"].copy(), layout.workers["node"].copy()
    partner = np.full(count, NOWHERE)
    match(layout, large, most, rng.permutation(count), partner)
    first = np.minimum(partner, np.arange(count))
    group = (np.cumsum(first == np.arange(count)) - 1)[first]
    firsts = np.flatnonzero(first == np.arange(count))
    executors = layout.executors[firsts]
    for name in ("cpu_hz", "memory_mb", "places"):
        executors[name] = np.bincount(group, layout.executors[name])
    both = _joined_links(layout, group, len(firsts))
    executors["first"], executors["last"] = both.indptr[:-1], both.indptr[1:]
    links = np.empty(both.nnz, arrays.LINK)
    links["executor"], links["tps"] = both.indices, both.data.real
    pull = both.data.imag.copy()
    executors["tps"] = np.diff(np.append(0.0, np.cumsum(pull))[both.indptr])
    topologies = layout.topologies.copy()
    for name in ("first", "last"):
        topologies[name] = np.append(group, len(firsts))[topologies[name]]
    topologies["tabled"] &= ~large
    coarse = layout._replace(
        executors=executors,
        links=links,
        pull=pull,
        flowing=layout.flowing[firsts],
        topologies=topologies,
        free_executors=np.unique(group[layout.free_executors]),
        rules=only_of(layout.rules, firsts),
    )
    rearrange(coarse, worker[firsts], node)
    return coarse, group


def _joined_links(layout: Layout, group: IndexArray, count: int) -> csr_array:
    """Return the traffic of joined executors as a real part, and their pull as an imaginary one."""
    sizes = layout.executors["last"] - layout.executors["first"]
    source, target = np.repeat(group, sizes), group[layout.links["executor"]]
    apart = source != target
    rates = (layout.links["tps"] + 1j * layout.pull)[apart]
    both = csr_array((rates, (source[apart], target[apart])), shape=(count, count))
    both.sort_indices()
    return both


@compiled
def match(layout: Layout, large: BoolArray, most: int, order: IndexArray, partner: IndexArray) -> None:
    """Set the partner of every executor, in this order; itself if it stays alone. Ties go to the lower number.

    Parameters
    ----------
    layout
        Layout with the links and places of executors; not changed.
    large
        Topologies in which partners are searched, shape (T,); all others stay alone.
    most
        Places in a worker that a pair may take.
    order
        All executors, each once, shape (E,), int64: earlier ones choose first.
    partner
        Written, shape (E,), int64; -1 throughout before. ``partner[partner[e]] == e`` afterwards.
    """
    for executor in order:
        if partner[executor] != NOWHERE:
            continue
        partner[executor] = executor
        if not large[layout.executors[executor].topology]:
            continue
        room = most - layout.executors[executor].places
        best, most_tps = executor, 0.0
        for link in range(layout.executors[executor].first, layout.executors[executor].last):
            other, tps = layout.links[link].executor, layout.links[link].tps
            if (
                tps > most_tps
                and partner[other] == NOWHERE
                and layout.executors[other].worker == layout.executors[executor].worker
                and layout.executors[other].places <= room
            ):
                best, most_tps = other, tps
        partner[executor], partner[best] = best, executor
