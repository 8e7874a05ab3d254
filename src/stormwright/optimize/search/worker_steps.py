"""Steps of workers: to another node, or in exchange with one there.

A worker goes with all that is in it, so what it holds inside keeps its cost, and only what it exchanges with other
workers of its topology counts. Nodes are drawn where those are, mostly: a step to anywhere hardly ever gains. Two
workers that change nodes need no free port, which is the only way on a cluster whose ports are all taken.
"""

from __future__ import annotations

from stormwright.jit.compiled import inner
from stormwright.jit.draw import draw, draw_below
from stormwright.optimize.kernel.costs import note_distances, rise_of_load, rise_of_worker, rise_of_worker_swap
from stormwright.optimize.kernel.flows import note_costs
from stormwright.optimize.kernel.records import NOWHERE, Layout
from stormwright.optimize.kernel.steps import carry_rules, rise_of_carrying, shift_worker, takes
from stormwright.optimize.search.accept import accepts, is_overloaded, may, note_step, price_of, restarted_by
from stormwright.optimize.search.executor_steps import NEIGHBOURS, draw_member


@inner
def step_worker(layout: Layout, worker: int, temperature: float) -> None:
    """Move a worker to another node, or exchange it with one there."""
    to = _draw_node(layout, worker)
    node = layout.workers[worker].node
    if to == node or layout.nodes[to].ports == 0:
        return
    cpu_hz, memory_mb = layout.workers[worker].cpu_hz, layout.workers[worker].memory_mb
    broken = 1.0
    if layout.nodes[to].used < layout.nodes[to].ports and takes(layout, to, cpu_hz, memory_mb):
        broken = rise_of_carrying(layout, worker, to, NOWHERE)
    if broken <= 0:
        rise = rise_of_worker(layout, worker, to)
        moved, restarted = _moved_with(layout, worker, to), restarted_by(layout, worker, 0, 0, to)
        relieves = broken < 0 or is_overloaded(layout, node, cpu_hz, memory_mb)
        more_nodes = int(layout.nodes[to].used == 0) - int(layout.nodes[node].used == 1)
        price = price_of(layout, moved, restarted, node, to, cpu_hz) + layout.node_price * more_nodes
        if may(layout, moved, restarted) and (relieves or accepts(layout, rise + price, temperature)):
            shift_worker(layout, worker, to)
            note_step(layout, rise, moved, restarted)
            return
    if layout.nodes[to].used > 0 and layout.nodes[node].ports > 0:
        at = draw_below(layout, layout.nodes[to].used)
        _swap_workers(layout, worker, layout.workers_on[layout.nodes[to].first + at], temperature)


@inner
def _draw_node(layout: Layout, worker: int) -> int:
    """A node where another worker of the topology is, one in the rack of such a worker, or any."""
    topology = layout.workers[worker].topology
    first, last = layout.topologies[topology].first_worker, layout.topologies[topology].last_worker
    kind = draw(layout)
    if kind < 0.9 and last - first > 1:
        other, executor = first + draw_below(layout, last - first), draw_member(layout, worker)
        links = layout.executors[executor].last - layout.executors[executor].first
        if links > 0 and draw(layout) < NEIGHBOURS * (1 - 1 / (last - first)):
            link = layout.executors[executor].first + draw_below(layout, links)
            other = layout.executors[layout.links[link].executor].worker
            if other == NOWHERE:
                return int(layout.workers[worker].node)
        if kind < 0.6:
            return int(layout.workers[other].node)
        rack = layout.workers[other].rack
        count = layout.racks[rack].last - layout.racks[rack].first
        return int(layout.rack_nodes[layout.racks[rack].first + draw_below(layout, count)])
    return int(layout.rack_nodes[draw_below(layout, len(layout.rack_nodes))])


@inner
def _swap_workers(layout: Layout, worker: int, other: int, temperature: float) -> None:
    """Let two workers change nodes if limits allow it and the step is taken; topologies may differ."""
    node, to = layout.workers[worker].node, layout.workers[other].node
    cpu_hz = layout.workers[worker].cpu_hz - layout.workers[other].cpu_hz
    memory_mb = layout.workers[worker].memory_mb - layout.workers[other].memory_mb
    if not (
        layout.workers[other].movable
        and takes(layout, to, cpu_hz, memory_mb)
        and takes(layout, node, -cpu_hz, -memory_mb)
    ):
        return
    broken = rise_of_carrying(layout, worker, to, other)
    if broken > 0:
        return
    rise = rise_of_worker_swap(layout, worker, other)
    moved = _moved_with(layout, worker, to) + _moved_with(layout, other, node)
    restarted = restarted_by(layout, worker, 0, 0, to) + restarted_by(layout, other, 0, 0, node)
    price = price_of(layout, moved, restarted, node, to, cpu_hz)
    relieves = is_overloaded(layout, node, cpu_hz, memory_mb) or is_overloaded(layout, to, -cpu_hz, -memory_mb)
    relieves = relieves or broken < 0
    if may(layout, moved, restarted) and (relieves or accepts(layout, rise + price, temperature)):
        _exchange(layout, worker, other)
        note_step(layout, rise, moved, restarted)


@inner
def _exchange(layout: Layout, worker: int, other: int) -> None:
    """Let two workers change nodes; neither node need have a free port."""
    node, to, at = layout.workers[worker].node, layout.workers[other].node, layout.workers[worker].at
    shift_load = layout.workers[worker].cpu_hz - layout.workers[other].cpu_hz
    shift_memory = layout.workers[worker].memory_mb - layout.workers[other].memory_mb
    layout.totals[0].use_cost += rise_of_load(layout, node, -shift_load) + rise_of_load(layout, to, shift_load)
    layout.nodes[node].cpu_hz_left += shift_load
    layout.nodes[node].memory_mb_left += shift_memory
    layout.nodes[to].cpu_hz_left -= shift_load
    layout.nodes[to].memory_mb_left -= shift_memory
    layout.workers[worker].at, layout.workers[other].at = layout.workers[other].at, at
    layout.workers[worker].node, layout.workers[other].node = to, node
    layout.workers[worker].rack, layout.workers[other].rack = layout.nodes[to].rack, layout.nodes[node].rack
    layout.workers_on[layout.nodes[to].first + layout.workers[worker].at] = worker
    layout.workers_on[layout.nodes[node].first + at] = other
    carry_rules(layout, worker, node, -1)
    carry_rules(layout, other, to, -1)
    carry_rules(layout, worker, to, 1)
    carry_rules(layout, other, node, 1)
    for moved in (worker, other):
        note_distances(layout, moved)
        note_costs(layout, layout.workers[moved].topology)


@inner
def _moved_with(layout: Layout, worker: int, to: int) -> int:
    """How many more executors are away from home if a worker goes to the node `to`."""
    home = layout.workers[worker].home_node
    if home == NOWHERE:
        return 0
    return int(layout.workers[worker].at_home) * (int(layout.workers[worker].node == home) - int(to == home))
