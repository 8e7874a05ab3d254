"""A placement under way as arrays of records, and the compiled steps that all searching is made of.

Traffic never leaves its topology, so each topology has dense tables of its own: what every executor exchanges with
every worker, and what every two workers exchange. With them a move costs O(workers of the topology) to try, whatever
the size of the cluster. Rates are whole multiples of a power of two (`start.links_of` sees to that), so that all sums
of them are exact and none drifts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.optimize.compiled import compiled

NOWHERE = -1

#: Executors that move together in one step, at most.
LONGEST_CHAIN = 3

EXECUTOR = np.dtype(
    [
        *((name, np.float64) for name in ("cpu_hz", "memory_mb", "tps")),
        ("row", np.int64),
        *((name, np.int32) for name in ("first", "last", "topology", "worker", "next", "previous", "home")),
    ],
    align=True,
)
LINK = np.dtype([("executor", np.int64), ("tps", np.float64)])
WORKER = np.dtype(
    [
        *((name, np.float64) for name in ("cpu_hz", "memory_mb")),
        ("row", np.int64),
        *((name, np.int32) for name in ("node", "rack", "topology", "size", "most", "any", "at")),
        *((name, np.int32) for name in ("home_node", "at_home")),
        ("movable", np.bool_),
    ],
    align=True,
)
NODE = np.dtype(
    [
        *((name, np.float64) for name in ("cpu_hz_left", "memory_mb_left")),
        *((name, np.int32) for name in ("rack", "first", "used", "ports")),
    ],
    align=True,
)
TOPOLOGY = np.dtype(
    [
        *((name, np.int64) for name in ("first", "last", "first_worker", "last_worker", "most")),
        *((name, np.bool_) for name in ("tabled", "whole")),
    ],
    align=True,
)
SPAN = np.dtype([("first", np.int64), ("last", np.int64)])
TOTALS = np.dtype([("cost", np.float64), ("moved", np.int64), ("steps", np.int64)])

Records = NDArray[np.void]


class Layout(NamedTuple):
    """A placement under way.

    Parameters
    ----------
    executors
        Of `EXECUTOR`: demand; all that it exchanges; its row in `table`; where its `links` are; its worker; the two
        executors beside it in the ring of that worker; the worker that it runs in now and could keep, or -1.
    links
        Of `LINK`: what an executor exchanges with which other, by number of the other.
    workers
        Of `WORKER`: load; its row in `table`; node and rack; how many executors it has and may have; any one of
        them; its position among its node's workers; the node it runs on now, and how many of its executors run in
        it now. Workers of a topology have consecutive numbers.
    nodes
        Of `NODE`: what is left; its rack; where its workers are in `workers_on`, how many, and how many it may get.
    topologies
        Of `TOPOLOGY`: where its executors and workers are; executors that a worker may have; whether it is in `table`;
        whether it may be moved as a whole.
    workers_on
        Workers of every node, as many places as it has ports.
    racks, rack_nodes
        Of `SPAN`: where the nodes of each rack are in the second array.
    table
        Executors × workers, then workers × workers of each topology: what they exchange, in tuples/s.
    free_executors, free_workers, free_topologies
        What is placed and may be moved; of topologies those that may be as a whole.
    totals
        Of `TOTALS`, one record: cost, executors away from home, steps made.
    random
        State of the random numbers, one number.
    near, close, rack_room, waiting, kept_worker, kept_node, ruined, chain, chain_from
        Scratch of construction, of ruin and of chains.
    inter_worker, inter_node, inter_rack
        Cost of a tuple by how far it goes, beyond that within a worker.
    move_price, max_moves
        What an executor away from home costs, and how many may be.
    """

    executors: Records
    links: Records
    workers: Records
    nodes: Records
    topologies: Records
    workers_on: IndexArray
    racks: Records
    rack_nodes: IndexArray
    table: FloatArray
    free_executors: IndexArray
    free_workers: IndexArray
    free_topologies: IndexArray
    totals: Records
    random: NDArray[np.uint64]
    near: FloatArray
    close: FloatArray
    rack_room: FloatArray
    waiting: IndexArray
    kept_worker: IndexArray
    kept_node: IndexArray
    ruined: IndexArray
    chain: IndexArray
    chain_from: IndexArray
    inter_worker: float
    inter_node: float
    inter_rack: float
    move_price: float
    max_moves: int


# Random numbers -----------------------------------------------------------------------------------

_STEP, _MIX_1, _MIX_2 = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_SHIFT_1, _SHIFT_2, _SHIFT_3, _TOP_53 = (np.uint64(n) for n in (30, 27, 31, 11))
_UNIT = 1.0 / (1 << 53)


@compiled
def draw(layout: Layout) -> float:
    """A random number in [0, 1): SplitMix64 of Steele, Lea, Flood, https://doi.org/10.1145/2660193.2660195."""
    layout.random[0] += _STEP
    mixed = layout.random[0]
    mixed = (mixed ^ (mixed >> _SHIFT_1)) * _MIX_1
    mixed = (mixed ^ (mixed >> _SHIFT_2)) * _MIX_2
    mixed ^= mixed >> _SHIFT_3
    return float(mixed >> _TOP_53) * _UNIT


@compiled
def draw_below(layout: Layout, count: int) -> int:
    """A random whole number from 0 to `count` - 1."""
    return int(draw(layout) * count)


# Costs --------------------------------------------------------------------------------------------


@compiled
def distance(layout: Layout, a: int, b: int) -> float:
    """Cost of a tuple between two different workers."""
    return _weight(layout, b, layout.workers[a].node, layout.workers[a].rack)


@compiled
def _weight(layout: Layout, other: int, node: int, rack: int) -> float:
    """Cost of a tuple between the worker `other` and any other one on `node`."""
    if layout.workers[other].node == node:
        return layout.inter_worker
    return layout.inter_node if layout.workers[other].rack == rack else layout.inter_rack


@compiled
def rise_of_executor(layout: Layout, executor: int, to: int) -> float:
    """By how much the cost of traffic rises if `executor` goes to the worker `to`, all others staying."""
    own = layout.executors[executor].worker
    node, rack = layout.workers[own].node, layout.workers[own].rack
    to_node, to_rack = layout.workers[to].node, layout.workers[to].rack
    topology = layout.executors[executor].topology
    rise = 0.0
    if layout.topologies[topology].tabled:
        row = layout.executors[executor].row
        for worker in range(layout.topologies[topology].first_worker, layout.topologies[topology].last_worker):
            tps = layout.table[row]
            row += 1
            if tps > 0:
                if worker != to:
                    rise += tps * _weight(layout, worker, to_node, to_rack)
                if worker != own:
                    rise -= tps * _weight(layout, worker, node, rack)
        return rise
    for link in range(layout.executors[executor].first, layout.executors[executor].last):
        tps, worker = layout.links[link].tps, layout.executors[layout.links[link].executor].worker
        if worker != NOWHERE and worker != to:
            rise += tps * _weight(layout, worker, to_node, to_rack)
        if worker != NOWHERE and worker != own:
            rise -= tps * _weight(layout, worker, node, rack)
    return rise


@compiled
def rise_of_worker(layout: Layout, worker: int, to: int) -> float:
    """By how much the cost of traffic rises if `worker` goes to the node `to`, all others staying."""
    node, rack = layout.workers[worker].node, layout.workers[worker].rack
    to_rack = layout.nodes[to].rack
    topology = layout.workers[worker].topology
    rise = 0.0
    if layout.topologies[topology].tabled:
        row = layout.workers[worker].row
        for other in range(layout.topologies[topology].first_worker, layout.topologies[topology].last_worker):
            tps = layout.table[row]
            row += 1
            if tps > 0 and other != worker:
                rise += tps * (_weight(layout, other, to, to_rack) - _weight(layout, other, node, rack))
        return rise
    executor = layout.workers[worker].any
    for _ in range(layout.workers[worker].size):
        for link in range(layout.executors[executor].first, layout.executors[executor].last):
            other = layout.executors[layout.links[link].executor].worker
            if other != NOWHERE and other != worker:
                tps = layout.links[link].tps
                rise += tps * (_weight(layout, other, to, to_rack) - _weight(layout, other, node, rack))
        executor = layout.executors[executor].next
    return rise


@compiled
def exchanged(layout: Layout, a: int, b: int) -> float:
    """What two executors exchange, in tuples/s."""
    low, high = layout.executors[a].first, layout.executors[a].last
    while low < high:
        middle = (low + high) // 2
        if layout.links[middle].executor < b:
            low = middle + 1
        else:
            high = middle
    found = low < layout.executors[a].last and layout.links[low].executor == b
    return float(layout.links[low].tps) if found else 0.0


@compiled
def exchanged_by_workers(layout: Layout, a: int, b: int) -> float:
    """What two workers of a topology exchange, in tuples/s."""
    topology = layout.workers[a].topology
    if layout.topologies[topology].tabled:
        return float(layout.table[layout.workers[a].row + b - layout.topologies[topology].first_worker])
    total, executor = 0.0, layout.workers[a].any
    for _ in range(layout.workers[a].size):
        for link in range(layout.executors[executor].first, layout.executors[executor].last):
            if layout.executors[layout.links[link].executor].worker == b:
                total += layout.links[link].tps
        executor = layout.executors[executor].next
    return total


@compiled
def cost_of_topology(layout: Layout, topology: int) -> float:
    """Cost of all traffic of a topology; executors without a worker are far from nothing."""
    total = 0.0
    for executor in range(layout.topologies[topology].first, layout.topologies[topology].last):
        own = layout.executors[executor].worker
        if own == NOWHERE:
            continue
        node, rack = layout.workers[own].node, layout.workers[own].rack
        for link in range(layout.executors[executor].first, layout.executors[executor].last):
            worker = layout.executors[layout.links[link].executor].worker
            if worker != own and worker != NOWHERE:
                total += layout.links[link].tps * _weight(layout, worker, node, rack)
    return total / 2


@compiled
def is_away(layout: Layout, executor: int) -> bool:
    """Whether an executor that could keep its slot is elsewhere."""
    home = layout.executors[executor].home
    return bool(
        home != NOWHERE
        and (layout.executors[executor].worker != home or layout.workers[home].node != layout.workers[home].home_node)
    )


# Changes ------------------------------------------------------------------------------------------


@compiled
def takes(layout: Layout, node: int, cpu_hz: float, memory_mb: float) -> bool:
    """Whether a node has room for so much more, or is asked for no more of what it lacks."""
    return bool(
        (cpu_hz <= layout.nodes[node].cpu_hz_left or cpu_hz <= 0)
        and (memory_mb <= layout.nodes[node].memory_mb_left or memory_mb <= 0)
    )


@compiled
def join(layout: Layout, executor: int, worker: int) -> None:
    """Put an executor of no worker into one that is on a node; tables are left as they are."""
    head = layout.workers[worker].any
    if layout.workers[worker].size == 0:
        layout.workers[worker].any = head = executor
        layout.executors[executor].previous = executor
    last = layout.executors[head].previous
    layout.executors[executor].next, layout.executors[executor].previous = head, last
    layout.executors[last].next = executor
    layout.executors[head].previous = executor
    layout.executors[executor].worker = worker
    layout.workers[worker].size += 1
    layout.workers[worker].at_home += layout.executors[executor].home == worker
    _load(layout, worker, layout.executors[executor].cpu_hz, layout.executors[executor].memory_mb)


@compiled
def leave(layout: Layout, executor: int) -> None:
    """Take an executor out of its worker; tables are left as they are."""
    worker = layout.executors[executor].worker
    before, after = layout.executors[executor].previous, layout.executors[executor].next
    layout.executors[before].next, layout.executors[after].previous = after, before
    layout.workers[worker].any = after
    layout.workers[worker].size -= 1
    layout.workers[worker].at_home -= layout.executors[executor].home == worker
    layout.executors[executor].worker = NOWHERE
    _load(layout, worker, -layout.executors[executor].cpu_hz, -layout.executors[executor].memory_mb)


@compiled
def _load(layout: Layout, worker: int, cpu_hz: float, memory_mb: float) -> None:
    node = layout.workers[worker].node
    layout.workers[worker].cpu_hz += cpu_hz
    layout.workers[worker].memory_mb += memory_mb
    layout.nodes[node].cpu_hz_left -= cpu_hz
    layout.nodes[node].memory_mb_left -= memory_mb


@compiled
def start_worker(layout: Layout, worker: int, node: int) -> None:
    """Put a worker of no node, with all that is in it, onto one with a free port."""
    at = layout.nodes[node].used
    layout.workers_on[layout.nodes[node].first + at] = worker
    layout.workers[worker].at = at
    layout.nodes[node].used = at + 1
    layout.workers[worker].node, layout.workers[worker].rack = node, layout.nodes[node].rack
    layout.nodes[node].cpu_hz_left -= layout.workers[worker].cpu_hz
    layout.nodes[node].memory_mb_left -= layout.workers[worker].memory_mb


@compiled
def stop_worker(layout: Layout, worker: int) -> None:
    """Take a worker, with all that is in it, off its node."""
    node, at = layout.workers[worker].node, layout.workers[worker].at
    layout.nodes[node].used -= 1
    last = layout.workers_on[layout.nodes[node].first + layout.nodes[node].used]
    layout.workers_on[layout.nodes[node].first + at] = last
    layout.workers[last].at = at
    layout.workers[worker].node = layout.workers[worker].rack = NOWHERE
    layout.nodes[node].cpu_hz_left += layout.workers[worker].cpu_hz
    layout.nodes[node].memory_mb_left += layout.workers[worker].memory_mb


@compiled
def shift_executor(layout: Layout, executor: int, to: int) -> None:
    """Move an executor to another worker of its topology, and keep the tables right."""
    own, topology = layout.executors[executor].worker, layout.executors[executor].topology
    leave(layout, executor)
    join(layout, executor, to)
    if not layout.topologies[topology].tabled:
        return
    first = layout.topologies[topology].first_worker
    row, row_own, row_to = layout.executors[executor].row, layout.workers[own].row, layout.workers[to].row
    for worker in range(first, layout.topologies[topology].last_worker):
        tps = layout.table[row + worker - first]
        if tps == 0:
            continue
        if worker != own:
            layout.table[row_own + worker - first] -= tps
            layout.table[layout.workers[worker].row + own - first] -= tps
        if worker != to:
            layout.table[row_to + worker - first] += tps
            layout.table[layout.workers[worker].row + to - first] += tps
    for link in range(layout.executors[executor].first, layout.executors[executor].last):
        other = layout.executors[layout.links[link].executor].row
        layout.table[other + own - first] -= layout.links[link].tps
        layout.table[other + to - first] += layout.links[link].tps


@compiled
def shift_worker(layout: Layout, worker: int, to: int) -> None:
    """Move a worker to a node with a free port."""
    stop_worker(layout, worker)
    start_worker(layout, worker, to)


@compiled
def tabulate(layout: Layout, topology: int) -> None:
    """Fill in the tables of a topology."""
    if not layout.topologies[topology].tabled:
        return
    first, last = layout.topologies[topology].first_worker, layout.topologies[topology].last_worker
    for worker in range(first, last):
        row = layout.workers[worker].row
        for other in range(last - first):
            layout.table[row + other] = 0.0
    for executor in range(layout.topologies[topology].first, layout.topologies[topology].last):
        row, own = layout.executors[executor].row, layout.executors[executor].worker
        for other in range(last - first):
            layout.table[row + other] = 0.0
        for link in range(layout.executors[executor].first, layout.executors[executor].last):
            worker = layout.executors[layout.links[link].executor].worker
            if worker != NOWHERE:
                layout.table[row + worker - first] += layout.links[link].tps
        if own != NOWHERE:
            for worker in range(first, last):
                if worker != own:
                    layout.table[layout.workers[own].row + worker - first] += layout.table[row + worker - first]
