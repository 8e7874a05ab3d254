"""Compiled steps of all searches: changes of a placement that keep its derived data consistent.

Derived data: rings of executors, sizes and loads of workers, remaining capacity and workers of nodes, tables
of traffic and of flows, the cost of the use of nodes (`totals.use_cost`), and counts of further limits
(`stormwright.optimize.kernel.rules`). The cost of traffic (`totals.cost`) is not
updated: the caller of a step has computed the increase before (`costs`), and adds it. `takes` checks the capacity of a
node; the steps themselves check no limit.

::

    join, leave                  an executor      tables are unchanged: then `tabulate`
    start_worker, stop_worker    a worker         tables are updated; costs of flows are unchanged
    shift_executor, shift_worker                  everything is updated
"""

from __future__ import annotations

from stormwright.jit.compiled import inner
from stormwright.optimize.kernel.costs import note_distances, rise_of_load
from stormwright.optimize.kernel.flows import add_flows, has_flows, note_costs, note_costs_around, tabulate_flows
from stormwright.optimize.kernel.records import NOWHERE, Layout
from stormwright.optimize.kernel.rules import bring, put_in, rise_of_step, take_from


@inner
def takes(layout: Layout, node: int, cpu_hz: float, memory_mb: float) -> bool:
    """Return whether a node has capacity for an additional load, or the load does not increase its shortage.

    An overloaded node may so be relieved by any step, also by one that leaves it overloaded.

    Parameters
    ----------
    layout
        Layout with the free capacity of each node; not changed.
    node
        Target node; its ports are not checked.
    cpu_hz, memory_mb
        Additional load, below 0 for a decrease.
    """
    return bool(
        (cpu_hz <= layout.nodes[node].cpu_hz_left or cpu_hz <= 0)
        and (memory_mb <= layout.nodes[node].memory_mb_left or memory_mb <= 0)
    )


@inner
def join(layout: Layout, executor: int, worker: int) -> None:
    """Put an unplaced executor into a worker that is on a node; tables are unchanged.

    It becomes the last of the worker's ring, so executors are visited in the order in which they joined.
    """
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
    topology = layout.executors[executor].topology
    if layout.topologies[topology].limited:
        node = layout.workers[worker].node
        layout.totals[0].broken += put_in(layout.rules, topology, executor, worker, node)


@inner
def leave(layout: Layout, executor: int) -> None:
    """Take an executor out of its worker; tables are unchanged.

    The one after it becomes the head of the ring. The last one that leaves remains as head of a worker of size 0.
    """
    worker = layout.executors[executor].worker
    before, after = layout.executors[executor].previous, layout.executors[executor].next
    layout.executors[before].next, layout.executors[after].previous = after, before
    layout.workers[worker].any = after
    layout.workers[worker].size -= layout.executors[executor].places
    layout.workers[worker].at_home -= layout.executors[executor].home == worker
    layout.executors[executor].worker = NOWHERE
    _load(layout, worker, -layout.executors[executor].cpu_hz, -layout.executors[executor].memory_mb)
    topology = layout.executors[executor].topology
    if layout.topologies[topology].limited:
        node = layout.workers[worker].node
        layout.totals[0].broken += take_from(layout.rules, topology, executor, worker, node)


@inner
def _load(layout: Layout, worker: int, cpu_hz: float, memory_mb: float) -> None:
    """Add load to a worker and its node, and update the cost of that use of CPU."""
    node = layout.workers[worker].node
    layout.totals[0].use_cost += rise_of_load(layout, node, cpu_hz)
    layout.workers[worker].cpu_hz += cpu_hz
    layout.workers[worker].memory_mb += memory_mb
    layout.nodes[node].cpu_hz_left -= cpu_hz
    layout.nodes[node].memory_mb_left -= memory_mb


@inner
def start_worker(layout: Layout, worker: int, node: int) -> None:
    """Put a worker without a node, with all its executors, onto one with a free port.

    It becomes the last of the node's workers. A node that had none now has its price.
    """
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
    carry_rules(layout, worker, node, 1)
    note_distances(layout, worker)


@inner
def stop_worker(layout: Layout, worker: int) -> None:
    """Take a worker, with all its executors, off its node.

    The last worker of the node takes its position, so that this takes constant time. The load of the worker stays in
    its record.
    """
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
    carry_rules(layout, worker, node, -1)


@inner
def rise_of_rules(layout: Layout, executor: int, to: int, partner: int) -> float:
    """Return the increase of the violation if an executor went to a worker, and a partner came from there.

    Parameters
    ----------
    layout
        Layout whose `rules` are changed for the trial, then restored.
    executor, to
        Executor of a limited topology, and another worker of it.
    partner
        Executor that moves in the opposite direction; -1 for none.
    """
    own = layout.executors[executor].worker
    places = own, layout.workers[own].node, to, layout.workers[to].node
    return rise_of_step(layout.rules, layout.executors[executor].topology, executor, places, partner)


@inner
def carry_rules(layout: Layout, worker: int, node: int, sign: int) -> None:
    """Update the counts of further limits as a worker comes to a node or leaves it.

    Parameters
    ----------
    layout
        Its `rules` and their violation are written.
    worker, node
        The worker, of any topology, also one without limits, and the node.
    sign
        1 to come, -1 to leave.
    """
    topology = layout.workers[worker].topology
    if layout.topologies[topology].limited:
        layout.totals[0].broken += bring(layout.rules, topology, worker, node, sign)


@inner
def rise_of_carrying(layout: Layout, worker: int, to: int, other: int) -> float:
    """Return the increase of the violation if a worker went to a node, and another came from there.

    Parameters
    ----------
    layout
        Layout whose `rules` are changed for the trial, then restored.
    worker, to
        The worker and the node.
    other
        Worker that moves in the opposite direction; -1 for none.
    """
    topology = layout.workers[worker].topology
    limited = layout.topologies[topology].limited
    if other != NOWHERE:
        limited = limited or layout.topologies[layout.workers[other].topology].limited
    if not limited:
        return 0.0
    node, rise = layout.workers[worker].node, 0.0
    for turn in range(8):  # there, and back: one place in the code for each change
        moved = worker if turn % 2 == 0 else other
        if moved == NOWHERE or not layout.topologies[layout.workers[moved].topology].limited:
            continue
        # Off their nodes, onto the other's; off that, and home.
        home = (turn // 2) % 3 == 0
        place = node if (moved == worker) == home else to
        broken = bring(layout.rules, layout.workers[moved].topology, moved, place, -1 if turn // 2 % 2 == 0 else 1)
        rise += broken if turn < 4 else 0.0
    return float(rise)


@inner
def shift_executor(layout: Layout, executor: int, to: int) -> None:
    """Move an executor to another worker of its topology, and update the tables.

    Its traffic with others moves from the column of its old worker to that of the new one, in the rows of those
    others and in the rows of all workers: O(workers of the topology + links). Subtraction leaves no rest, as rates are
    multiples of one power of two.
    """
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


@inner
def shift_worker(layout: Layout, worker: int, to: int) -> None:
    """Move a worker to a node with a free port, and update the costs of the flows of its topology."""
    stop_worker(layout, worker)
    start_worker(layout, worker, to)
    note_costs(layout, layout.workers[worker].topology)


@inner
def tabulate(layout: Layout, topology: int) -> None:
    """Compute the tables of a topology, from the workers of its executors.

    O(executors × workers + links). Traffic within a worker is not in its row: it costs nothing.
    """
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
