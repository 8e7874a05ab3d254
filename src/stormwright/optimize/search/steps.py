"""Steps of executors: to another worker of the topology, or in exchange with one there.

A proposal, in order: a worker is sampled; if it has a place and its node has capacity, the executor goes there; if it
has none, or that step is not accepted, the executor changes places with one sampled there. Every proposal satisfies all
limits, so that a valid placement stays valid. Neither may empty a worker: Storm would not start it.
"""

from __future__ import annotations

import math

from stormwright.jit.compiled import inner
from stormwright.jit.random_numbers import draw, draw_below
from stormwright.optimize.kernel.costs import (
    is_away,
    note_distances,
    rise_of_executor,
    rise_of_load,
    rise_of_swap,
    rise_of_worker,
    rise_of_worker_swap,
)
from stormwright.optimize.kernel.flows import note_costs
from stormwright.optimize.kernel.records import NOWHERE, Layout
from stormwright.optimize.kernel.steps import (
    carry_rules,
    rise_of_carrying,
    rise_of_rules,
    shift_executor,
    shift_worker,
    takes,
)
from stormwright.optimize.search.accept import accepts, is_overloaded, may, note_step, price_of, restarted_by


# A worker moves with all its executors, so its internal traffic keeps its cost, and only its traffic with other workers
# of its topology counts. Nodes are mostly drawn where those are: a step to anywhere hardly ever gains. Two workers that
# change nodes need no free port, which is the only way on a cluster whose ports are all taken.
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
    """Draw a node where another worker of the topology is, one in the rack of such a worker, or any."""
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
    """Exchange two workers if limits allow it and the step is accepted; topologies may differ."""
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
    """Exchange two workers between their nodes; neither node needs a free port."""
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
    """Return the additional executors away from home if a worker goes to the node `to`."""
    home = layout.workers[worker].home_node
    if home == NOWHERE:
        return 0
    return int(layout.workers[worker].at_home) * (int(layout.workers[worker].node == home) - int(to == home))


#: Increase, in temperatures, that is never accepted: one in 10 million would be.
_HOPELESS = 16

#: Most positions of its ring by which the next executor drawn from a worker advances.
_STRIDE = 4

#: Fraction of the steps towards traffic partners, among very many workers; else to any.
NEIGHBOURS = 0.8


@inner
def draw_member(layout: Layout, worker: int) -> int:
    """Draw one of the next few executors in the ring of a worker; it becomes the head, so that all get their turn."""
    executor = layout.workers[worker].any
    for _ in range(1 + draw_below(layout, _STRIDE)):
        executor = layout.executors[executor].next
    layout.workers[worker].any = executor
    return int(executor)


@inner
def _draw_worker(layout: Layout, executor: int) -> int:
    """Draw another worker for an executor: one with an executor that it has traffic with, or any; or -1."""
    topology, own = layout.executors[executor].topology, layout.executors[executor].worker
    first, last = layout.topologies[topology].first_worker, layout.topologies[topology].last_worker
    links = layout.executors[executor].last - layout.executors[executor].first
    if links > 0 and draw(layout) < NEIGHBOURS * (1 - 1 / (last - first)):
        link = layout.executors[executor].first + draw_below(layout, links)
        to = layout.executors[layout.links[link].executor].worker
    else:
        to = first + draw_below(layout, last - first)
    if to == NOWHERE or own == to:
        return NOWHERE
    return to if layout.workers[to].movable and layout.nodes[layout.workers[to].node].ports > 0 else NOWHERE


@inner
def step_executor(layout: Layout, executor: int, temperature: float) -> None:
    """Move an executor to another worker, or exchange it with one there; or do nothing.

    Its worker must be movable and on a node. If the node of the worker is no longer usable it may leave, but not
    change places: nothing new goes there.
    """
    own, to = layout.executors[executor].worker, _draw_worker(layout, executor)
    if to == NOWHERE:
        return
    cpu_hz, memory_mb = layout.executors[executor].cpu_hz, layout.executors[executor].memory_mb
    node, to_node = layout.workers[own].node, layout.workers[to].node
    limited = layout.topologies[layout.executors[executor].topology].limited
    places, broken = layout.executors[executor].places, 1.0
    if (
        layout.workers[to].size + places <= layout.workers[to].most
        and layout.workers[own].size > places
        and (node == to_node or takes(layout, to_node, cpu_hz, memory_mb))
    ):
        broken = rise_of_rules(layout, executor, to, NOWHERE) if limited else 0.0
    if broken <= 0:
        rise = rise_of_executor(layout, executor, to)
        home, moved = layout.executors[executor].home, _moved_by(layout, executor, to)
        restarted = restarted_by(layout, own, -1, -int(home == own), node)
        restarted += restarted_by(layout, to, 1, int(home == to), to_node)
        relieves = broken < 0 or (node != to_node and is_overloaded(layout, node, cpu_hz, memory_mb))
        price = price_of(layout, moved, restarted, node, to_node, cpu_hz)
        if may(layout, moved, restarted) and (relieves or accepts(layout, rise + price, temperature)):
            shift_executor(layout, executor, to)
            note_step(layout, rise, moved, restarted)
            return
    _swap_executors(layout, executor, to, temperature)


@inner
def _swap_executors(layout: Layout, executor: int, to: int, temperature: float) -> None:
    """Exchange an executor with a random one of the worker `to`, if limits allow it and it is accepted.

    Limits are checked before the cost, which takes longest to compute.
    """
    own = layout.executors[executor].worker
    if layout.nodes[layout.workers[own].node].ports == 0:
        return
    other = draw_member(layout, to)
    places = layout.executors[executor].places - layout.executors[other].places
    if places != 0 and (
        layout.workers[to].size + places > layout.workers[to].most
        or layout.workers[own].size - places > layout.workers[own].most
    ):
        return
    cpu_hz = layout.executors[executor].cpu_hz - layout.executors[other].cpu_hz
    memory_mb = layout.executors[executor].memory_mb - layout.executors[other].memory_mb
    node, to_node = layout.workers[own].node, layout.workers[to].node
    if node != to_node and not (takes(layout, to_node, cpu_hz, memory_mb) and takes(layout, node, -cpu_hz, -memory_mb)):
        return
    limited = layout.topologies[layout.executors[executor].topology].limited
    broken = rise_of_rules(layout, executor, to, other) if limited else 0.0
    if broken > 0:
        return
    moved = _moved_by(layout, executor, to) + _moved_by(layout, other, own)
    home, home_other = layout.executors[executor].home, layout.executors[other].home
    restarted = restarted_by(layout, own, 0, int(home_other == own) - int(home == own), node)
    restarted += restarted_by(layout, to, 0, int(home == to) - int(home_other == to), to_node)
    price = price_of(layout, moved, restarted, node, to_node, cpu_hz)
    relieves = broken < 0 or (
        node != to_node
        and (is_overloaded(layout, node, cpu_hz, memory_mb) or is_overloaded(layout, to_node, -cpu_hz, -memory_mb))
    )
    hopeless = math.inf if relieves else _HOPELESS * temperature - price
    rise = rise_of_swap(layout, executor, other, hopeless)
    if rise > hopeless:
        return
    if may(layout, moved, restarted) and (relieves or accepts(layout, rise + price, temperature)):
        shift_executor(layout, executor, to)
        shift_executor(layout, other, own)
        note_step(layout, rise, moved, restarted)
        layout.workers[to].any = layout.executors[executor].next


@inner
def _moved_by(layout: Layout, executor: int, to: int) -> int:
    """Return the additional executors away from home if one goes to the worker `to`."""
    home = layout.executors[executor].home
    if home == NOWHERE:
        return 0
    comes_home = to == home and layout.workers[home].node == layout.workers[home].home_node
    return int(not comes_home) - int(is_away(layout, executor))
