"""What flows cost in a placement under way, by counts: how much leaves each worker, and how many could take it there.

A *sink* is a component that flows of one grouping go to. Where its flows end follows from two tables over the workers
of its topology: what executors in each send, and how many executors of the component each has. So its cost takes time
linear in the workers of the topology, however many executors send. The rule is that of
`stormwright.model.traffic_matrix`: what the executors of a scope cannot take leaves it, so the cost is that of leaving
workers, nodes and racks, added up.

With s and m what a scope's executors send and how many members it has, L what a member takes before the rest goes on,
and (x)⁺ = x where that is above 0, else 0::

      inter_worker                · Σ over workers (s - m L)⁺
    + (inter_node - inter_worker) · Σ over nodes   (s - m L)⁺
    + (inter_rack - inter_node)   · Σ over racks   (s - m L)⁺

A grouping that knows only the worker and all (`local`) sends what a worker without members has to all members evenly.
To try a step the tables are changed, read, and changed back: rates are multiples of one power of two, so that this
leaves no trace of rounding.
"""

from __future__ import annotations

from stormwright.jit.compiled import inner
from stormwright.optimize.kernel.records import NOWHERE, Layout


@inner
def has_flows(layout: Layout, topology: int) -> bool:
    """Whether any traffic of a topology follows the placement; if not, nothing else here needs to be called."""
    return bool(layout.topologies[topology].first_sink < layout.topologies[topology].last_sink)


@inner
def add_flows(layout: Layout, executor: int, worker: int, sign: int) -> None:
    """Note in the tables that an executor is in a worker, or no more. What sinks cost is left as it is noted.

    Parameters
    ----------
    layout
        Its `sent` and `members` are written, in the columns of `worker`.
    executor
        Whose flows, and whose part in sinks.
    worker
        Of the same topology; it need not be the one that the executor is in.
    sign
        1 to put it there, -1 to take it away.
    """
    at = worker - layout.topologies[layout.executors[executor].topology].first_worker
    for flow in range(layout.flowing[executor].first_flow, layout.flowing[executor].last_flow):
        layout.sent[layout.sinks[layout.flows[flow].sink].row + at] += sign * layout.flows[flow].tps
    for sink in range(layout.flowing[executor].first_sink, layout.flowing[executor].last_sink):
        layout.members[layout.sinks[sink].row + at] += sign


@inner
def tabulate_flows(layout: Layout, topology: int) -> None:
    """Fill in the tables of a topology's sinks, and what they cost, from the workers that its executors are in."""
    first, last = layout.topologies[topology].first_sink, layout.topologies[topology].last_sink
    if first == last:
        return
    workers = layout.topologies[topology].last_worker - layout.topologies[topology].first_worker
    for row in range(layout.sinks[first].row, layout.sinks[last - 1].row + workers):
        layout.sent[row] = 0.0
        layout.members[row] = 0
    for executor in range(layout.topologies[topology].first, layout.topologies[topology].last):
        if layout.executors[executor].worker != NOWHERE:
            add_flows(layout, executor, layout.executors[executor].worker, 1)
    note_costs(layout, topology)


@inner
def note_costs(layout: Layout, topology: int) -> None:
    """Work out anew what the sinks of a topology cost."""
    for sink in range(layout.topologies[topology].first_sink, layout.topologies[topology].last_sink):
        layout.sinks[sink].cost = cost_of_sink(layout, topology, sink)


@inner
def note_costs_around(layout: Layout, executor: int) -> None:
    """Work out anew what those sinks cost that an executor sends to or belongs to: no others change with it."""
    topology = layout.executors[executor].topology
    for flow in range(layout.flowing[executor].first_flow, layout.flowing[executor].last_flow):
        sink = layout.flows[flow].sink
        layout.sinks[sink].cost = cost_of_sink(layout, topology, sink)
    for sink in range(layout.flowing[executor].first_sink, layout.flowing[executor].last_sink):
        layout.sinks[sink].cost = cost_of_sink(layout, topology, sink)


@inner
def cost_of_flows(layout: Layout, topology: int) -> float:
    """Cost of all flows of a topology, as noted."""
    total = 0.0
    for sink in range(layout.topologies[topology].first_sink, layout.topologies[topology].last_sink):
        total += layout.sinks[sink].cost
    return total


@inner
def rise_of_flows(layout: Layout, executor: int, to: int) -> float:
    """By how much the cost of flows rises if `executor` goes to the worker `to`, all others staying.

    Only sinks that it sends to or belongs to are looked at, each once: a flow to its own component is both.
    """
    own, topology = layout.executors[executor].worker, layout.executors[executor].topology
    first, last = layout.flowing[executor].first_flow, layout.flowing[executor].last_flow
    add_flows(layout, executor, own, -1)
    add_flows(layout, executor, to, 1)
    rise = 0.0
    for flow in range(first, last):
        sink = layout.flows[flow].sink
        rise += cost_of_sink(layout, topology, sink) - layout.sinks[sink].cost
    for sink in range(layout.flowing[executor].first_sink, layout.flowing[executor].last_sink):
        counted = False  # by a flow to its own component
        for flow in range(first, last):
            counted = counted or layout.flows[flow].sink == sink
        if not counted:
            rise += cost_of_sink(layout, topology, sink) - layout.sinks[sink].cost
    add_flows(layout, executor, to, -1)
    add_flows(layout, executor, own, 1)
    return rise


@inner
def rise_of_flows_by_swap(layout: Layout, a: int, b: int) -> float:
    """By how much the cost of flows rises if two executors of a topology change places.

    All sinks of the topology are looked at, as those of the two may be any. The second round of the loop takes back
    what the first has done.
    """
    worker_a, worker_b = layout.executors[a].worker, layout.executors[b].worker
    for sign in (1, -1):
        add_flows(layout, a, worker_a, -sign)
        add_flows(layout, b, worker_b, -sign)
        add_flows(layout, a, worker_b, sign)
        add_flows(layout, b, worker_a, sign)
        if sign == 1:
            rise = _rise(layout, layout.executors[a].topology)
    return rise


@inner
def rise_of_flows_by_worker(layout: Layout, worker: int, to: int, other: int) -> float:
    """By how much the cost of flows of a worker's topology rises if it goes to the node `to`.

    The tables are by worker, so they stay; only which node and rack a worker is called to be on is changed, and changed
    back.

    Parameters
    ----------
    layout
        As before in the end.
    worker
        On a node.
    to
        A node; whether it has a port or room is not looked at.
    other
        A worker of the same topology that comes to its node instead, or -1.
    """
    node = layout.workers[worker].node
    _call_at(layout, worker, to)
    if other != NOWHERE:
        _call_at(layout, other, node)
    rise = _rise(layout, layout.workers[worker].topology)
    _call_at(layout, worker, node)
    if other != NOWHERE:
        _call_at(layout, other, to)
    return rise


@inner
def _call_at(layout: Layout, worker: int, node: int) -> None:
    """Say that a worker is on a node, without anything else that this would mean."""
    layout.workers[worker].node, layout.workers[worker].rack = node, layout.nodes[node].rack


@inner
def _rise(layout: Layout, topology: int) -> float:
    """What the flows of a topology cost beyond what is noted."""
    rise = 0.0
    for sink in range(layout.topologies[topology].first_sink, layout.topologies[topology].last_sink):
        rise += cost_of_sink(layout, topology, sink) - layout.sinks[sink].cost
    return rise


@inner
def cost_of_sink(layout: Layout, topology: int, sink: int) -> float:
    """Cost of the flows to a component; executors in no worker neither send nor take any.

    Sums over nodes and racks are made in `node_scopes` and `rack_scopes`, which are 0 before and after: to clear only
    what was written keeps the time linear in the workers of the topology, on however large a cluster. A sink without
    any member in a worker costs nothing.
    """
    first, last = layout.topologies[topology].first_worker, layout.topologies[topology].last_worker
    row, limit = layout.sinks[sink].row, layout.sinks[sink].limit
    total = 0
    for worker in range(first, last):
        node = layout.workers[worker].node
        if node != NOWHERE:
            tps, members = layout.sent[row + worker - first], layout.members[row + worker - first]
            rack = layout.workers[worker].rack
            layout.node_scopes[node].tps += tps
            layout.node_scopes[node].members += members
            layout.rack_scopes[rack].tps += tps
            layout.rack_scopes[rack].members += members
            total += members
    cost = 0.0
    if layout.sinks[sink].local:
        for worker in range(first, last):
            node = layout.workers[worker].node
            tps, members = layout.sent[row + worker - first], layout.members[row + worker - first]
            if node != NOWHERE and members == 0 and tps > 0 and total > 0:
                on_node = layout.node_scopes[node].members
                in_rack = layout.rack_scopes[layout.workers[worker].rack].members
                weighted = layout.inter_worker * on_node + layout.inter_node * (in_rack - on_node)
                cost += tps * (weighted + layout.inter_rack * (total - in_rack)) / total
    elif total > 0:
        for worker in range(first, last):
            node = layout.workers[worker].node
            if node != NOWHERE:
                rack = layout.workers[worker].rack
                tps, members = layout.sent[row + worker - first], layout.members[row + worker - first]
                cost += layout.inter_worker * _beyond(tps, members, limit)
                cost += (layout.inter_node - layout.inter_worker) * _beyond(
                    layout.node_scopes[node].tps, layout.node_scopes[node].members, limit
                )
                layout.node_scopes[node].tps = 0.0  # each scope counts once
                cost += (layout.inter_rack - layout.inter_node) * _beyond(
                    layout.rack_scopes[rack].tps, layout.rack_scopes[rack].members, limit
                )
                layout.rack_scopes[rack].tps = 0.0
    for worker in range(first, last):
        node = layout.workers[worker].node
        if node != NOWHERE:
            rack = layout.workers[worker].rack
            layout.node_scopes[node].tps = layout.rack_scopes[rack].tps = 0.0
            layout.node_scopes[node].members = layout.rack_scopes[rack].members = 0
    return cost


@inner
def _beyond(tps: float, members: int, limit: float) -> float:
    """What `members` executors that take `limit` each leave over of so many tuples/s: all, if there are none.

    Asked first, as the limit may be infinite.
    """
    if members == 0:
        return tps
    return tps - members * limit if tps > members * limit else 0.0
