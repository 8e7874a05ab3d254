"""The compiled steps that all searching is made of: what a move costs, and the move itself.

Fixed traffic never leaves its topology, so each topology has dense tables of its own: what every executor exchanges
with every worker, and what every two workers exchange. With them a move costs O(workers of the topology) to try,
whatever the size of the cluster. Rates are whole multiples of a power of two (`links.Links` sees to that), so that all
sums of them are exact and none drifts. Flows have tables of theirs (`stormwright.optimize.kernel.flows`).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stormwright.optimize.kernel.compiled import compiled
from stormwright.optimize.kernel.flows import (
    add_flows,
    cost_of_flows,
    has_flows,
    note_costs,
    note_costs_around,
    rise_of_flows,
    rise_of_flows_by_swap,
    rise_of_flows_by_worker,
    tabulate_flows,
)
from stormwright.optimize.kernel.records import NOWHERE, Layout

# Random numbers -----------------------------------------------------------------------------------

_STEP, _MIX_1, _MIX_2 = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_SHIFT_1, _SHIFT_2, _SHIFT_3, _TOP_53 = (np.uint64(n) for n in (30, 27, 31, 11))
_UNIT = 1.0 / (1 << 53)


class Drawing(Protocol):
    """Something with the state of random numbers, one number."""

    @property
    def random(self) -> NDArray[np.uint64]:
        """Changed by every drawing."""


@compiled
def draw(layout: Drawing) -> float:
    """A random number in [0, 1): SplitMix64 of Steele, Lea, Flood, https://doi.org/10.1145/2660193.2660195."""
    layout.random[0] += _STEP
    mixed = layout.random[0]
    mixed = (mixed ^ (mixed >> _SHIFT_1)) * _MIX_1
    mixed = (mixed ^ (mixed >> _SHIFT_2)) * _MIX_2
    mixed ^= mixed >> _SHIFT_3
    return float(mixed >> _TOP_53) * _UNIT


@compiled
def draw_below(layout: Drawing, count: int) -> int:
    """A random whole number from 0 to `count` - 1."""
    return int(draw(layout) * count)


# Costs --------------------------------------------------------------------------------------------


@compiled
def _distance(layout: Layout, a: int, b: int) -> float:
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
    rise = _rise_of_links(layout, executor, to)
    if has_flows(layout, layout.executors[executor].topology):
        rise += rise_of_flows(layout, executor, to)
    return rise


@compiled
def rise_of_swap(layout: Layout, a: int, b: int, hopeless: float) -> float:
    """By how much the cost of traffic rises if two executors of a topology change places.

    Beyond `hopeless` it may rise more than said.
    """
    own, to = layout.executors[a].worker, layout.executors[b].worker
    rise = _rise_of_links(layout, a, to) + _rise_of_links(layout, b, own)
    if has_flows(layout, layout.executors[a].topology):
        rise += rise_of_flows_by_swap(layout, a, b)
    if rise > hopeless:
        return rise  # before the look-up of what the two exchange, which only adds
    return rise + 2 * _exchanged(layout, a, b) * _distance(layout, own, to)


@compiled
def _rise_of_links(layout: Layout, executor: int, to: int) -> float:
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
    rise = _rise_of_worker_links(layout, worker, to)
    if has_flows(layout, layout.workers[worker].topology):
        rise += rise_of_flows_by_worker(layout, worker, to, NOWHERE)
    return rise


@compiled
def rise_of_worker_swap(layout: Layout, a: int, b: int) -> float:
    """By how much the cost of traffic rises if two workers change nodes."""
    node, to, topology = layout.workers[a].node, layout.workers[b].node, layout.workers[a].topology
    if topology != layout.workers[b].topology:
        return rise_of_worker(layout, a, to) + rise_of_worker(layout, b, node)
    rise = _rise_of_worker_links(layout, a, to) + _rise_of_worker_links(layout, b, node)
    rise += 2 * _exchanged_by_workers(layout, a, b) * (_distance(layout, a, b) - layout.inter_worker)
    if has_flows(layout, topology):
        rise += rise_of_flows_by_worker(layout, a, to, b)
    return rise


@compiled
def _rise_of_worker_links(layout: Layout, worker: int, to: int) -> float:
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
        if executor == layout.workers[worker].any:
            break
    return rise


@compiled
def _exchanged(layout: Layout, a: int, b: int) -> float:
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
def _exchanged_by_workers(layout: Layout, a: int, b: int) -> float:
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
        if executor == layout.workers[a].any:
            break
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
    return total / 2 + cost_of_flows(layout, topology)


@compiled
def rise_of_load(layout: Layout, node: int, cpu_hz: float) -> float:
    """By how much the price of uneven use of CPU rises if a node has so much more to do."""
    capacity = layout.nodes[node].cpu_hz
    if layout.imbalance_price == 0 or capacity == 0:
        return 0.0
    used = capacity - layout.nodes[node].cpu_hz_left
    return float(layout.imbalance_price * cpu_hz * (2 * used + cpu_hz) / capacity)


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
    layout.workers[worker].size += layout.executors[executor].places
    layout.workers[worker].at_home += layout.executors[executor].home == worker
    _load(layout, worker, layout.executors[executor].cpu_hz, layout.executors[executor].memory_mb)


@compiled
def leave(layout: Layout, executor: int) -> None:
    """Take an executor out of its worker; tables are left as they are."""
    worker = layout.executors[executor].worker
    before, after = layout.executors[executor].previous, layout.executors[executor].next
    layout.executors[before].next, layout.executors[after].previous = after, before
    layout.workers[worker].any = after
    layout.workers[worker].size -= layout.executors[executor].places
    layout.workers[worker].at_home -= layout.executors[executor].home == worker
    layout.executors[executor].worker = NOWHERE
    _load(layout, worker, -layout.executors[executor].cpu_hz, -layout.executors[executor].memory_mb)


@compiled
def _load(layout: Layout, worker: int, cpu_hz: float, memory_mb: float) -> None:
    node = layout.workers[worker].node
    layout.totals[0].use_cost += rise_of_load(layout, node, cpu_hz)
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
    layout.totals[0].use_cost += rise_of_load(layout, node, layout.workers[worker].cpu_hz)
    if at == 0:
        layout.totals[0].use_cost += layout.node_price
    layout.nodes[node].used = at + 1
    layout.workers[worker].node, layout.workers[worker].rack = node, layout.nodes[node].rack
    layout.nodes[node].cpu_hz_left -= layout.workers[worker].cpu_hz
    layout.nodes[node].memory_mb_left -= layout.workers[worker].memory_mb


@compiled
def stop_worker(layout: Layout, worker: int) -> None:
    """Take a worker, with all that is in it, off its node."""
    node, at = layout.workers[worker].node, layout.workers[worker].at
    layout.nodes[node].used -= 1
    layout.totals[0].use_cost += rise_of_load(layout, node, -layout.workers[worker].cpu_hz)
    if layout.nodes[node].used == 0:
        layout.totals[0].use_cost -= layout.node_price
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
    if has_flows(layout, topology):
        add_flows(layout, executor, own, -1)
        add_flows(layout, executor, to, 1)
        note_costs_around(layout, executor)
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
    note_costs(layout, layout.workers[worker].topology)


@compiled
def tabulate(layout: Layout, topology: int) -> None:
    """Fill in the tables of a topology."""
    tabulate_flows(layout, topology)
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
