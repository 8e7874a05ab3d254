"""Costs of flows in a placement, by counts: the traffic that leaves each worker, and the possible targets.

A *sink* is a component that flows of one grouping go to. Where its flows end follows from two tables over the workers
of its topology: rates sent by the executors in each, and the number of executors of the component in each. So its cost
takes time linear in the workers of the topology, however many executors send. The rule is that of
`stormwright.model.flows`: traffic beyond the capacity of a scope's executors leaves it, so the cost is that of
leaving workers, nodes and racks, added up.

With s and m the rate sent by a scope's executors and the number of its members, L the limit of a member, and (x)⁺ = x
where that is above 0, else 0::

      inter_worker                · Σ over workers (s - m L)⁺
    + (inter_node - inter_worker) · Σ over nodes   (s - m L)⁺
    + (inter_rack - inter_node)   · Σ over racks   (s - m L)⁺

A grouping that knows only the worker and all (`local`) sends the traffic of a worker without members to all members
evenly. To try a step the tables are changed, read, and changed back: rates are multiples of one power of two, so that
this leaves no rounding error.
"""

from __future__ import annotations

from stormwright.jit.compiled import inner
from stormwright.optimize.kernel.records import NOWHERE, Layout


@inner
def has_flows(layout: Layout, topology: int) -> bool:
    """Return whether any traffic of a topology follows the placement; if not, nothing else here needs to be called."""
    return bool(layout.topologies[topology].first_sink < layout.topologies[topology].last_sink)


@inner
def add_flows(layout: Layout, executor: int, worker: int, sign: int) -> None:
    """Add an executor to the tables of a worker, or remove it. The recorded costs of sinks are unchanged.

    Parameters
    ----------
    layout
        Its `sent` and `members` are written, in the columns of `worker`.
    executor
        The executor with its flows and memberships.
    worker
        Worker of the same topology, not necessarily that of the executor.
    sign
        1 to add it, -1 to remove it.
    """
    at = worker - layout.topologies[layout.executors[executor].topology].first_worker
    for flow in range(layout.flowing[executor].first_flow, layout.flowing[executor].last_flow):
        layout.sent[layout.sinks[layout.flows[flow].sink].row + at] += sign * layout.flows[flow].tps
    for sink in range(layout.flowing[executor].first_sink, layout.flowing[executor].last_sink):
        layout.members[layout.sinks[sink].row + at] += sign


@inner
def tabulate_flows(layout: Layout, topology: int) -> None:
    """Compute the tables of a topology's sinks, and their costs, from the workers of its executors."""
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
    """Recompute the costs of the sinks of a topology."""
    for sink in range(layout.topologies[topology].first_sink, layout.topologies[topology].last_sink):
        layout.sinks[sink].cost = cost_of_sink(layout, topology, sink)


@inner
def note_costs_around(layout: Layout, executor: int) -> None:
    """Recompute the costs of the sinks that an executor sends to or belongs to: no others change with it."""
    topology = layout.executors[executor].topology
    for flow in range(layout.flowing[executor].first_flow, layout.flowing[executor].last_flow):
        sink = layout.flows[flow].sink
        layout.sinks[sink].cost = cost_of_sink(layout, topology, sink)
    for sink in range(layout.flowing[executor].first_sink, layout.flowing[executor].last_sink):
        layout.sinks[sink].cost = cost_of_sink(layout, topology, sink)


@inner
def cost_of_flows(layout: Layout, topology: int) -> float:
    """Return the recorded cost of all flows of a topology."""
    total = 0.0
    for sink in range(layout.topologies[topology].first_sink, layout.topologies[topology].last_sink):
        total += layout.sinks[sink].cost
    return total


@inner
def rise_of_flows(layout: Layout, executor: int, to: int) -> float:
    """Return the increase of the cost of flows if `executor` goes to the worker `to`.

    Only sinks that it sends to or belongs to are evaluated, each once: a flow to its own component is both.
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
    """Return the increase of the cost of flows if two executors of a topology change places.

    All sinks of the topology are evaluated, as those of the two may be any. The second round of the loop undoes
    the first.
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
    """Return the increase of the cost of flows of a worker's topology if it goes to the node `to`.

    The tables are by worker, so they are unchanged; only the recorded node and rack of a worker are changed, and
    changed back.

    Parameters
    ----------
    layout
        Unchanged in the end.
    worker
        Worker with a node.
    to
        A node; whether it has a port or capacity is not checked.
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
    """Set the recorded node of a worker, without any other effect."""
    layout.workers[worker].node, layout.workers[worker].rack = node, layout.nodes[node].rack


@inner
def _rise(layout: Layout, topology: int) -> float:
    """Return the cost of the flows of a topology minus the recorded cost."""
    rise = 0.0
    for sink in range(layout.topologies[topology].first_sink, layout.topologies[topology].last_sink):
        rise += cost_of_sink(layout, topology, sink) - layout.sinks[sink].cost
    return rise


@inner
def cost_of_sink(layout: Layout, topology: int, sink: int) -> float:
    """Return the cost of the flows to a component; executors in no worker neither send nor receive.

    Sums over nodes and racks are made in `node_scopes` and `rack_scopes`, which are 0 before and after: clearing only
    the written entries keeps the time linear in the workers of the topology, on however large a cluster. A sink without
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
    """Return the rate beyond the capacity of `members` executors with this `limit` each: all, if there are none.

    `members` is checked first, as the limit may be infinite.
    """
    if members == 0:
        return tps
    return tps - members * limit if tps > members * limit else 0.0
