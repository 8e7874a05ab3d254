"""Costs of steps: change of the cost of traffic, and of the price of uneven use of CPU, by a move.

Fixed traffic never leaves its topology, so each topology has dense tables of its own: traffic of every executor with
every worker, traffic of every two workers, and the cost of a tuple between two workers. With them a move costs
O(workers of the topology) to evaluate, whatever the size of the cluster. Rates are whole multiples of a power of two
(see `links.Links`), so that all sums of them are exact and none drifts. Flows have separate tables
(`stormwright.optimize.kernel.flows`).

With t(e, w) the traffic of executor e with worker w, and d(v, w) the cost of a tuple between two workers, 0 for one and
the same, a move of e from its worker `own` to `to` raises the cost by ::

    Σ_w t(e, w) · (d(w, to) - d(w, own))        all w of the topology, or all links of e without a table

Two that change places each count the other at its old position: their mutual traffic is counted as saved twice, and is
corrected. Nothing here changes a placement; all costs are in tuples/s weighted by distance, beyond those within a
worker.
"""

from __future__ import annotations

from stormwright.jit.compiled import inner
from stormwright.optimize.kernel.flows import (
    cost_of_flows,
    has_flows,
    rise_of_flows,
    rise_of_flows_by_swap,
    rise_of_flows_by_worker,
)
from stormwright.optimize.kernel.records import NOWHERE, Layout


@inner
def _distance(layout: Layout, a: int, b: int) -> float:
    """Return the cost of a tuple between two different workers."""
    return _weight(layout, b, layout.workers[a].node, layout.workers[a].rack)


@inner
def _weight(layout: Layout, other: int, node: int, rack: int) -> float:
    """Return the cost of a tuple between the worker `other` and any other one on `node`.

    The node is given, not its worker, so that it may be a hypothetical one.
    """
    if layout.workers[other].node == node:
        return layout.inter_worker
    return layout.inter_node if layout.workers[other].rack == rack else layout.inter_rack


@inner
def far_row(layout: Layout, worker: int) -> int:
    """Return the start of the distances of a worker to all of its topology in `table`, if that has tables."""
    topology = layout.workers[worker].topology
    workers = layout.topologies[topology].last_worker - layout.topologies[topology].first_worker
    return int(layout.workers[worker].row + workers * workers)


@inner
def note_distances(layout: Layout, worker: int) -> None:
    """Update the distances between a worker, which is on a node, and all others of its topology, in both rows."""
    topology = layout.workers[worker].topology
    if not layout.topologies[topology].tabled:
        return
    first, last = layout.topologies[topology].first_worker, layout.topologies[topology].last_worker
    row, node, rack = far_row(layout, worker), layout.workers[worker].node, layout.workers[worker].rack
    for other in range(first, last):
        far = _weight(layout, other, node, rack) if other != worker else 0.0
        layout.table[row + other - first] = far
        layout.table[far_row(layout, other) + worker - first] = far


@inner
def rise_of_executor(layout: Layout, executor: int, to: int) -> float:
    """Return the increase of the cost of traffic if `executor` goes to the worker `to`.

    Both its worker and `to` are of its topology and on nodes. O(workers of the topology) with a table, else O(links of
    the executor); with flows also O(sinks around it × workers).
    """
    rise = _rise_of_links(layout, executor, to)
    if has_flows(layout, layout.executors[executor].topology):
        rise += rise_of_flows(layout, executor, to)
    return rise


@inner
def rise_of_swap(layout: Layout, a: int, b: int, hopeless: float) -> float:
    """Return the increase of the cost of traffic if two executors of a topology change places.

    Parameters
    ----------
    layout
        Layout with the workers and links of executors; not changed.
    a, b
        Executors of one topology, in different workers, both on nodes.
    hopeless
        Threshold beyond which the exact increase is irrelevant: the result is then above it, but may be less than the
        true increase. The traffic of the two is found by bisection in the links of `a`, which is avoided for most steps
        of a cold search.
    """
    own, to = layout.executors[a].worker, layout.executors[b].worker
    rise = _rise_of_links(layout, a, to) + _rise_of_links(layout, b, own)
    if has_flows(layout, layout.executors[a].topology):
        rise += rise_of_flows_by_swap(layout, a, b)
    if rise > hopeless:
        return rise  # before the look-up of what the two exchange, which only adds
    return rise + 2 * exchanged(layout, a, b) * _distance(layout, own, to)


@inner
def _rise_of_links(layout: Layout, executor: int, to: int) -> float:
    """Return the part of `rise_of_executor` for fixed traffic; executors in no worker do not count."""
    own = layout.executors[executor].worker
    node, rack = layout.workers[own].node, layout.workers[own].rack
    to_node, to_rack = layout.workers[to].node, layout.workers[to].rack
    topology = layout.executors[executor].topology
    rise = 0.0
    if layout.topologies[topology].tabled:
        row, far_own, far_to = layout.executors[executor].row, far_row(layout, own), far_row(layout, to)
        for worker in range(layout.topologies[topology].last_worker - layout.topologies[topology].first_worker):
            rise += layout.table[row + worker] * (layout.table[far_to + worker] - layout.table[far_own + worker])
        return rise
    for link in range(layout.executors[executor].first, layout.executors[executor].last):
        tps, worker = layout.links[link].tps, layout.executors[layout.links[link].executor].worker
        if worker != NOWHERE and worker != to:
            rise += tps * _weight(layout, worker, to_node, to_rack)
        if worker != NOWHERE and worker != own:
            rise -= tps * _weight(layout, worker, node, rack)
    return rise


@inner
def rise_of_worker(layout: Layout, worker: int, to: int) -> float:
    """Return the increase of the cost of traffic if `worker` goes to the node `to`.

    Distances between its executors stay 0, so only traffic between workers counts: O(workers of the topology) with a
    table, else O(links of all its executors).
    """
    rise = _rise_of_worker_links(layout, worker, to)
    if has_flows(layout, layout.workers[worker].topology):
        rise += rise_of_flows_by_worker(layout, worker, to, NOWHERE)
    return rise


@inner
def rise_of_worker_swap(layout: Layout, a: int, b: int) -> float:
    """Return the increase of the cost of traffic if two workers change nodes.

    Workers of different topologies have no traffic, so their increases add up. Within one topology the distance of the
    two from each other is unchanged, while each move alone counts them as on one node: 2 × their traffic × that
    difference is added.
    """
    node, to, topology = layout.workers[a].node, layout.workers[b].node, layout.workers[a].topology
    if topology != layout.workers[b].topology:
        return rise_of_worker(layout, a, to) + rise_of_worker(layout, b, node)
    rise = _rise_of_worker_links(layout, a, to) + _rise_of_worker_links(layout, b, node)
    rise += 2 * _exchanged_by_workers(layout, a, b) * (_distance(layout, a, b) - layout.inter_worker)
    if has_flows(layout, topology):
        rise += rise_of_flows_by_worker(layout, a, to, b)
    return rise


@inner
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


@inner
def exchanged(layout: Layout, a: int, b: int) -> float:
    """Return the traffic of two executors, in tuples/s, found by bisection: links are sorted by the other executor."""
    low, high = layout.executors[a].first, layout.executors[a].last
    while low < high:
        middle = (low + high) // 2
        if layout.links[middle].executor < b:
            low = middle + 1
        else:
            high = middle
    found = low < layout.executors[a].last and layout.links[low].executor == b
    return float(layout.links[low].tps) if found else 0.0


@inner
def _exchanged_by_workers(layout: Layout, a: int, b: int) -> float:
    """Return the traffic of two workers of a topology, in tuples/s; from the table, else by the links of one."""
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


@inner
def cost_of_topology(layout: Layout, topology: int) -> float:
    """Return the cost of all traffic of a topology; executors without a worker have no distance.

    Computed from links, not from tables, so that it can check or fill these; for flows the recorded cost of
    each sink. O(links of the topology).
    """
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


@inner
def cost_as_noted(layout: Layout, topology: int) -> float:
    """Return the same from tables, if any, assuming that these are right: O(workers²) instead of O(links)."""
    if not layout.topologies[topology].tabled:
        return cost_of_topology(layout, topology)
    first, last = layout.topologies[topology].first_worker, layout.topologies[topology].last_worker
    total = 0.0
    for worker in range(first, last):
        row, far = layout.workers[worker].row, far_row(layout, worker)
        for other in range(last - first):
            total += layout.table[row + other] * layout.table[far + other]
    return total / 2 + cost_of_flows(layout, topology)


@inner
def rise_of_load(layout: Layout, node: int, cpu_hz: float) -> float:
    """Return the increase of the price of uneven use of CPU by more load on a node, which may be below 0.

    The price is that of Σ used² / capacity over nodes. This differs from `layout.objective.imbalance_of` only by a
    factor that is in the price, and by a sum which no placement of the same executors changes::

        Σ B_k (u_k - u)² = Σ used_k² / B_k - (Σ used_k)² / Σ B_k

    So a step is evaluated by the two nodes that it changes.
    """
    capacity = layout.nodes[node].cpu_hz
    if layout.imbalance_price == 0 or capacity == 0:
        return 0.0
    used = capacity - layout.nodes[node].cpu_hz_left
    return float(layout.imbalance_price * cpu_hz * (2 * used + cpu_hz) / capacity)


@inner
def is_away(layout: Layout, executor: int) -> bool:
    """Return whether an executor that could keep its slot is elsewhere."""
    home = layout.executors[executor].home
    return bool(
        home != NOWHERE
        and (layout.executors[executor].worker != home or layout.workers[home].node != layout.workers[home].home_node)
    )
