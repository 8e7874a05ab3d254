"""Regions of a layout: nodes, and the topologies that are on no others. Each is searched separately.

A large cluster does not fit the caches of a core, its regions do; and a topology that is placed again need not be tried
on each of thousands of nodes. With 100,000 executors that makes two to three times as many steps in a second. Regions
have no common mutable data, so several threads may search at once. Topologies that lie across regions stay
where they are until regions are cut differently.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from stormwright.jit.compiled import compiled, inner
from stormwright.model.arrays import IndexArray
from stormwright.optimize.kernel.records import NOWHERE, SPAN, Layout, Records


@contextmanager
def cut_into_regions(layout: Layout, count: int, rng: np.random.Generator) -> Iterator[list[Layout]]:
    """Yield layouts of `count` regions with about as many executors each, which share the arrays of `layout`.

    Their totals begin at 0, and are added to its own at the end, even after an error. Regions in which nothing may
    be moved are left out. In the meantime topologies across regions are marked as fixed in `layout`; that too
    is undone at the end.

    Parameters
    ----------
    layout
        With a placement. Regions write to its arrays, each to the records of its own nodes, workers and executors.
    count
        Number of regions, at least 1.
    rng
        Draws where regions begin, and a seed for each.

    Yields
    ------
    One layout a region. Scratch that two could write to at once is its own.
    """
    region_of_node = np.full(len(layout.nodes), NOWHERE)
    starts, queue = rng.permutation(len(layout.nodes)), np.zeros(len(layout.nodes), np.int64)
    _grow(layout, count, starts, region_of_node, queue)
    region_of_topology = np.full(len(layout.topologies), NOWHERE)
    _find_inside(layout, region_of_node, region_of_topology)
    movable, whole = layout.workers["movable"].copy(), layout.topologies["whole"].copy()
    inside = region_of_topology != NOWHERE
    layout.workers["movable"] &= inside[layout.workers["topology"]]
    layout.topologies["whole"] &= inside
    own = region_of_topology[layout.executors["topology"][layout.free_executors]]
    executors = _split(layout.free_executors, own, count)
    workers = _split(layout.free_workers, region_of_topology[layout.workers["topology"][layout.free_workers]], count)
    topologies = _split(layout.free_topologies, region_of_topology[layout.free_topologies], count)
    nodes = _split(layout.rack_nodes, region_of_node[layout.rack_nodes], count)
    regions = [
        layout._replace(
            free_executors=executors[number],
            free_workers=workers[number],
            free_topologies=topologies[number],
            racks=_racks(layout, nodes[number]),
            rack_nodes=nodes[number],
            totals=np.zeros_like(layout.totals),
            random=rng.integers(2**64, size=1, dtype=np.uint64),
            rules=layout.rules._replace(requested=np.zeros_like(layout.rules.requested)),
            rack_scopes=np.zeros_like(layout.rack_scopes),
            rack_room=np.zeros_like(layout.rack_room),
            waiting=np.zeros(len(executors[number]), np.int64),
            ruined=np.zeros_like(layout.ruined),
            reach=np.zeros_like(layout.reach),
        )
        for number in range(count)
        if len(executors[number])
    ]
    try:
        yield regions
    finally:
        layout.workers["movable"], layout.topologies["whole"] = movable, whole
        for name in layout.totals.dtype.names or ():
            layout.totals[name] += sum(region.totals[name] for region in regions)


def _split(what: IndexArray, region: IndexArray, count: int) -> list[IndexArray]:
    """Return the items of each region, in the given order."""
    order = np.argsort(region, kind="stable")
    return np.split(what[order], np.searchsorted(region[order], np.arange(count + 1)))[1:-1]


def _racks(layout: Layout, nodes: IndexArray) -> Records:
    """Return the range of the nodes of each rack among `nodes`, which are sorted by rack."""
    racks = np.zeros(len(layout.racks), SPAN)
    racks["last"] = np.cumsum(np.bincount(layout.nodes["rack"][nodes], minlength=len(racks)))
    racks["first"][1:] = racks["last"][:-1]
    return racks


@compiled
def _grow(layout: Layout, count: int, starts: IndexArray, region: IndexArray, queue: IndexArray) -> None:
    """Assign every node to a region, which grows around a start by nodes of the same rack or with the same topologies.

    Racks that are larger than a region are cut. Nodes without workers and without a rack go to all regions in turn.
    Breadth first, as only a topology all of whose nodes are in one region can be moved in it. A region is full when
    it and the previous ones have their part of all executors, so that an excess of one is balanced by the next.

    Parameters
    ----------
    layout
        Layout with the nodes, their racks and workers; not changed.
    count
        Number of regions into which the nodes are divided.
    starts
        All nodes in any order: where regions begin.
    region
        Written, shape (N,), int64; -1 throughout before.
    queue
        Scratch, shape (N,), int64.
    """
    total = 0
    for node in range(len(layout.nodes)):
        total += _executors_on(layout, node)
    taken, number = 0, 0
    for start in starts:
        if region[start] != NOWHERE or layout.nodes[start].used == 0:
            continue
        queue[0], region[start] = start, number
        taken += _executors_on(layout, start)
        head, tail = 0, 1
        while head < tail:
            if number + 1 < count and taken * count >= total * (number + 1):
                number += 1
                break  # the next one begins elsewhere, not along the edge of this one
            node = queue[head]
            head += 1
            rack = layout.nodes[node].rack
            first, last = layout.racks[rack].first, layout.racks[rack].last
            if (last - first) * count <= len(layout.nodes):
                for position in range(first, last):
                    other = layout.rack_nodes[position]
                    if region[other] == NOWHERE:
                        queue[tail], region[other] = other, number
                        tail += 1
                        taken += _executors_on(layout, other)
            for at in range(layout.nodes[node].used):
                topology = layout.workers[layout.workers_on[layout.nodes[node].first + at]].topology
                for worker in range(layout.topologies[topology].first_worker, layout.topologies[topology].last_worker):
                    other = layout.workers[worker].node
                    if other != NOWHERE and region[other] == NOWHERE:
                        queue[tail], region[other] = other, number
                        tail += 1
                        taken += _executors_on(layout, other)
    for position in range(len(starts)):
        if region[starts[position]] == NOWHERE:
            region[starts[position]] = position % count


@inner
def _executors_on(layout: Layout, node: int) -> int:
    """Return the places in workers that are taken on a node."""
    total = 0
    for at in range(layout.nodes[node].used):
        total += layout.workers[layout.workers_on[layout.nodes[node].first + at]].size
    return total


@compiled
def _find_inside(layout: Layout, region: IndexArray, of_topology: IndexArray) -> None:
    """Set the region of every topology all of whose workers are in one; -1 for others."""
    for topology in range(len(layout.topologies)):
        first, last = layout.topologies[topology].first_worker, layout.topologies[topology].last_worker
        if first < last and layout.workers[first].node != NOWHERE:
            of_topology[topology] = region[layout.workers[first].node]
        for worker in range(first, last):
            node = layout.workers[worker].node
            if node == NOWHERE or region[node] != of_topology[topology]:
                of_topology[topology] = NOWHERE
