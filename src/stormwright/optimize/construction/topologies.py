"""Construction topology by topology: best fit if one node takes all, otherwise few nodes, workers filled one by one.

Topologies with most traffic per CPU come first: locality is worth most to them. A topology goes as a whole onto the
node that it fills best; if there is none, into the rack and onto the node that take the largest part of it, and so on
with the rest. A worker grows by the executor with most traffic to those already in it and on its node. Time is linear
in executors, links and topologies × nodes; very large topologies have a separate algorithm (`grow`).
"""

from __future__ import annotations

import math

from stormwright.jit.compiled import compiled, inner
from stormwright.jit.random_numbers import draw
from stormwright.model.arrays import IndexArray
from stormwright.optimize.kernel.records import NOWHERE, Layout, Rules
from stormwright.optimize.kernel.rules import demand_of, left_on, put_in, take_from
from stormwright.optimize.kernel.steps import join, leave, start_worker, stop_worker, tabulate


@inner
def may_join(rules: Rules, topology: int, executor: int, worker: int, node: int) -> bool:
    """Return whether further limits allow an unplaced executor to join a worker.

    Parameters
    ----------
    rules
        Limits and their current use; changed for the trial, then restored.
    topology, executor, worker, node
        The executor and the worker on the node.
    """
    rise = put_in(rules, topology, executor, worker, node)
    take_from(rules, topology, executor, worker, node)
    return bool(rise <= 0)


# A topology on one node costs least, so a node that takes the whole rest comes first, and of these the one that it
# fills best: larger ones stay free for larger topologies. Else the node that takes the largest part, in a rack whose
# nodes can take all together, if there is one; the rack of the previous worker is tried first. The part that a node
# takes is the least over ports, CPU, memory and further resources of its remaining capacity by the demand.
@inner
def next_node(
    layout: Layout, node: int, cpu_hz: float, memory_mb: float, workers: int, part: float, blink: float
) -> int:
    """Return the node of a topology's next worker, or -1: `node`, if it has capacity for the required part of the rest.

    Parameters
    ----------
    layout
        Its `rack_room` is scratch, and random numbers are sampled if `blink` is above 0; nothing else is written.
    node
        Node of the previous worker, or -1.
    cpu_hz, memory_mb, workers
        The rest to be placed.
    part
        Fraction of it that the node must have capacity for, as the worker cannot be given less, from 0 to 1.
    blink
        Probability with which a node is overlooked.
    """
    if node != NOWHERE and _opens(layout, node, cpu_hz * part, memory_mb * part):
        return node
    rack = NOWHERE if node == NOWHERE else layout.nodes[node].rack
    return int(_choose_node(layout, cpu_hz, memory_mb, workers, part, rack, blink))


@inner
def _opens(layout: Layout, node: int, cpu_hz: float, memory_mb: float) -> bool:
    """Return whether a node has a port for one more worker with this load."""
    return bool(
        layout.nodes[node].used < layout.nodes[node].ports
        and cpu_hz <= layout.nodes[node].cpu_hz_left
        and memory_mb <= layout.nodes[node].memory_mb_left
    )


@inner
def _choose_node(
    layout: Layout, cpu_hz: float, memory_mb: float, workers: int, least: float, rack: int, blink: float
) -> int:
    """Return the fullest node that takes all of a load; else that for the largest part, in a suitable rack.

    Parameters
    ----------
    least
        Fraction of all that the node must have capacity for.
    rack
        The preferred rack, if one of its nodes qualifies.
    """
    if rack != NOWHERE:
        first, last = layout.racks[rack].first, layout.racks[rack].last
        node = _choose_among(layout, layout.rack_nodes[first:last], cpu_hz, memory_mb, workers, least, blink)
        if node != NOWHERE:
            return node
    return _choose_among(layout, layout.rack_nodes, cpu_hz, memory_mb, workers, least, blink)


@inner
def _choose_among(
    layout: Layout, nodes: IndexArray, cpu_hz: float, memory_mb: float, workers: int, least: float, blink: float
) -> int:
    """Return the same among `nodes`."""
    for number in range(len(layout.racks)):
        layout.rack_room[number] = 0.0
    whole, whole_left = NOWHERE, math.inf
    for node in nodes:
        part = _part(layout, node, cpu_hz, memory_mb, workers)
        if part < least or (blink > 0 and draw(layout) < blink):
            continue
        layout.rack_room[layout.nodes[node].rack] += part
        left = layout.nodes[node].cpu_hz_left - cpu_hz
        if part >= 1 and left < whole_left:
            whole, whole_left = node, left
    if whole != NOWHERE:
        return whole
    best, best_part, best_roomy = NOWHERE, 0.0, False
    for node in nodes:
        part = _part(layout, node, cpu_hz, memory_mb, workers)
        if part < least or (blink > 0 and draw(layout) < blink):
            continue
        roomy = layout.rack_room[layout.nodes[node].rack] >= 1
        if (roomy and not best_roomy) or (roomy == best_roomy and part > best_part):
            best, best_part, best_roomy = node, part, roomy
    return best


@inner
def _part(layout: Layout, node: int, cpu_hz: float, memory_mb: float, workers: int) -> float:
    """Return the fraction of a load that a node has capacity for; 0 without a port, above 1 if more than all."""
    ports = layout.nodes[node].ports - layout.nodes[node].used
    if ports <= 0:
        return 0.0
    part = ports / workers
    if cpu_hz > 0:
        part = min(part, layout.nodes[node].cpu_hz_left / cpu_hz)
    if memory_mb > 0:
        part = min(part, layout.nodes[node].memory_mb_left / memory_mb)
    for resource in range(len(layout.rules.requested)):
        if layout.rules.requested[resource] > 0:
            part = min(part, left_on(layout.rules, node, resource) / layout.rules.requested[resource])
    return float(part)


@inner
def _workers_without_node(layout: Layout, topology: int) -> int:
    """Return the number of a topology's workers that have no node yet."""
    count = 0
    for worker in range(layout.topologies[topology].first_worker, layout.topologies[topology].last_worker):
        count += layout.workers[worker].node == NOWHERE
    return count


@inner
def _open_worker(
    layout: Layout, worker: int, node: int, left: int, workers: int, cpu_hz: float, memory_mb: float, blink: float
) -> tuple[int, int, int]:
    """Return the node of the next worker to be filled, -1 if there is none, and its fewest and most executors.

    Each worker gets at least one executor, and enough that the remaining workers, filled to the limit, take the rest.

    Parameters
    ----------
    worker
        The worker, without a node.
    node
        Node of the previous worker, or -1.
    left, cpu_hz, memory_mb
        Unplaced executors of its topology, and their load.
    workers
        Workers of its topology without a node, this one included.
    blink
        Probability with which a node is overlooked.
    """
    limit = layout.topologies[layout.workers[worker].topology].most
    if left == 0:
        return NOWHERE, 0, 0
    fewest = max(1, left - (workers - 1) * limit)
    node = next_node(layout, node, cpu_hz, memory_mb, workers, fewest / left, blink)
    return node, fewest, min(limit, left - (workers - 1))


#: Least and most executors that are evaluated for the next place in a worker.
_FEWEST_EVALUATED, _MAX_EVALUATED = 512, 2048


# Nodes are filled one after the other with the neighbours of their executors. As in `construct`, but only executors
# with traffic to the node are evaluated, and some others: so time is linear in links. The criterion is the reduction of
# the cost, that in the rack included.
#
# Waiting executors are in two parts of one array, and are swapped to go from one to the other::
#
#     waiting   │ near: have traffic with the node    │ the others │ placed already │
#               0                                  near         left
@inner
def grow_topology(layout: Layout, topology: int) -> bool:
    """Put a topology's unplaced executors into its workers without a node; return whether all are placed.

    Waiting executors that exchange tuples with those on the current node come first in `waiting`; `saved_worker` is
    the position of each in it. Workers are filled in the order of their numbers, each with as many as limits and the
    remaining workers allow: every one of these gets one executor at least. On failure, placed executors stay
    placed.
    """
    left, near = 0, 0
    cpu_hz, memory_mb = 0.0, 0.0
    for executor in range(layout.topologies[topology].first, layout.topologies[topology].last):
        if layout.executors[executor].worker == NOWHERE:
            layout.around[executor] = layout.near[executor] = layout.close[executor] = 0.0
            layout.waiting[left], layout.saved_worker[executor] = executor, left
            left += 1
            cpu_hz += layout.executors[executor].cpu_hz
            memory_mb += layout.executors[executor].memory_mb
    workers, node = _workers_without_node(layout, topology), NOWHERE
    for worker in range(layout.topologies[topology].first_worker, layout.topologies[topology].last_worker):
        if layout.workers[worker].node != NOWHERE:
            continue
        before = node
        node, fewest, most = _open_worker(layout, worker, before, left, workers, cpu_hz, memory_mb, 0.0)
        if node == NOWHERE:
            return False
        workers -= 1
        _forget(layout, left, near, before, node)
        near = near if node == before else 0
        start_worker(layout, worker, node)
        size = 0
        while size < most:
            position = _next_to_grow(layout, left, near, worker)
            if position == NOWHERE:
                break
            executor = layout.waiting[position]
            if position < near:
                near -= 1
                _exchange(layout, position, near)
                position = near
            left -= 1
            _exchange(layout, position, left)
            cpu_hz -= layout.executors[executor].cpu_hz
            memory_mb -= layout.executors[executor].memory_mb
            join(layout, executor, worker)
            near = _attract_neighbours(layout, executor, near)
            size += 1
        if size < fewest:
            return False
    return left == 0


@inner
def _forget(layout: Layout, left: int, near: int, before: int, node: int) -> None:
    """Reset traffic with the previous worker, and with its node and rack if the next one is elsewhere."""
    for position in range(near):
        layout.close[layout.waiting[position]] = 0.0
        if node != before:
            layout.near[layout.waiting[position]] = 0.0
    if before != NOWHERE and layout.nodes[node].rack != layout.nodes[before].rack:
        for position in range(left):
            layout.around[layout.waiting[position]] = 0.0


@inner
def _exchange(layout: Layout, a: int, b: int) -> None:
    """Swap two waiting executors."""
    executor, other = layout.waiting[a], layout.waiting[b]
    layout.waiting[a], layout.waiting[b] = other, executor
    layout.saved_worker[executor], layout.saved_worker[other] = b, a


@inner
def _next_to_grow(layout: Layout, left: int, near: int, worker: int) -> int:
    """Return the position in `waiting` of the next executor of a worker: most saved, then most traffic."""
    node, topology = layout.workers[worker].node, layout.workers[worker].topology
    limited = layout.topologies[topology].limited
    in_rack = layout.inter_rack - layout.inter_node if len(layout.racks) > 1 else 0.0
    on_node = layout.inter_node - layout.inter_worker
    best, most, most_tps = NOWHERE, -1.0, -1.0
    for position in range(min(left, max(min(near, _MAX_EVALUATED), _FEWEST_EVALUATED))):
        executor = layout.waiting[position]
        cpu_hz, memory_mb = layout.executors[executor].cpu_hz, layout.executors[executor].memory_mb
        if cpu_hz > layout.nodes[node].cpu_hz_left or memory_mb > layout.nodes[node].memory_mb_left:
            continue
        saved = in_rack * layout.around[executor] + on_node * layout.near[executor]
        saved += layout.inter_worker * layout.close[executor]
        tps = layout.executors[executor].tps
        better = saved > most or (saved == most and tps > most_tps)
        if better and (not limited or may_join(layout.rules, topology, executor, worker, node)):
            best, most, most_tps = position, saved, tps
    return best


@inner
def _attract_neighbours(layout: Layout, executor: int, near: int) -> int:
    """Add the traffic of waiting executors with one just placed; return how many then have traffic with its node."""
    for link in range(layout.executors[executor].first, layout.executors[executor].last):
        other, pull = layout.links[link].executor, layout.pull[link]
        if layout.executors[other].worker != NOWHERE or pull == 0:
            continue
        if layout.saved_worker[other] >= near:
            _exchange(layout, layout.saved_worker[other], near)
            near += 1
        layout.around[other] += pull
        layout.near[other] += pull
        layout.close[other] += pull
    return near


#: Topologies with more executors are grown (`grow_topology`): evaluating all waiting executors for every place is slow.
_LARGE = 2048

#: Weight of traffic with the node relative to that with the worker when a worker grows.
_NODE_FIRST = 2.0


@compiled
def construct(layout: Layout, order: IndexArray) -> None:
    """Place the waiting executors of topologies one after the other; without sufficient capacity, limits are broken.

    Parameters
    ----------
    layout
        Gets a worker for every executor and a node for every worker; tables are right afterwards. The cost is not added
        up (`layout.start.add_up_cost`).
    order
        Numbers of the topologies, int64; the first has most choice.
    """
    for topology in order:
        if layout.topologies[topology].last - layout.topologies[topology].first > _LARGE:
            placed = grow_topology(layout, topology)
        else:
            placed = place_topology(layout, topology, 0.0, _NODE_FIRST)
        if not placed:
            place_anywhere(layout, topology)
        tabulate(layout, topology)


@inner
def place_topology(layout: Layout, topology: int, blink: float, node_first: float) -> bool:
    """Put a topology's unplaced executors into its workers without a node; return whether all are placed.

    Workers are filled in the order of their numbers. Each stays on the node of the previous one as long as that has
    capacity for the least that the worker must take: the executors that the remaining workers, filled to the limit,
    would leave over. On failure, placed executors stay placed; tables are unchanged.

    Parameters
    ----------
    layout
        Written: workers and nodes; `waiting`, `near` and `close` are scratch.
    topology
        Index of the topology.
    blink
        Probability with which a node is overlooked, as in Christiaens, Vanden Berghe, "Slack Induction by String
        Removals", 2020, https://doi.org/10.1287/trsc.2019.0914.
    node_first
        Weight of an executor's traffic with its node relative to that with its worker when a worker grows.
    """
    left = _gather(layout, topology)
    cpu_hz, memory_mb = 0.0, 0.0
    _request_resources(layout, left)
    for position in range(left):
        cpu_hz += layout.executors[layout.waiting[position]].cpu_hz
        memory_mb += layout.executors[layout.waiting[position]].memory_mb
    workers, node = _workers_without_node(layout, topology), NOWHERE
    for worker in range(layout.topologies[topology].first_worker, layout.topologies[topology].last_worker):
        if layout.workers[worker].node != NOWHERE:
            continue
        before = node
        node, fewest, most = _open_worker(layout, worker, before, left, workers, cpu_hz, memory_mb, blink)
        if node == NOWHERE:
            return False
        workers -= 1
        if node != before:
            for position in range(left):
                layout.near[layout.waiting[position]] = 0.0
        start_worker(layout, worker, node)
        for position in range(left):
            layout.close[layout.waiting[position]] = 0.0
        size = 0
        while size < most:
            position = _next_executor(layout, left, worker, node_first)
            if position == NOWHERE:
                break
            executor = layout.waiting[position]
            left -= 1
            layout.waiting[position] = layout.waiting[left]
            cpu_hz -= layout.executors[executor].cpu_hz
            memory_mb -= layout.executors[executor].memory_mb
            for resource in range(len(layout.rules.requested)):
                layout.rules.requested[resource] -= demand_of(layout.rules, executor, resource)
            join(layout, executor, worker)
            _attract(layout, executor)
            size += 1
        if size < fewest:
            return False
    return left == 0


@inner
def place_anywhere(layout: Layout, topology: int) -> None:
    """Put executors left over by `place_topology` where most CPU is free, breaking limits of nodes.

    Every worker gets a port and at least one executor, and none gets more executors than it may have: only CPU and
    memory of nodes are exceeded, which a search can repair. Of equal nodes and workers the lower number wins.
    """
    first, last = layout.topologies[topology].first_worker, layout.topologies[topology].last_worker
    for worker in range(first, last):
        if layout.workers[worker].node == NOWHERE:
            node = NOWHERE
            for other in range(len(layout.nodes)):
                if layout.nodes[other].used < layout.nodes[other].ports and (
                    node == NOWHERE or layout.nodes[other].cpu_hz_left > layout.nodes[node].cpu_hz_left
                ):
                    node = other
            start_worker(layout, worker, node)
    for position in range(_gather(layout, topology)):
        to = NOWHERE
        for worker in range(first, last):
            if (
                layout.workers[worker].movable
                and layout.workers[worker].size < layout.topologies[topology].most
                and (to == NOWHERE or _comes_before(layout, worker, to))
            ):
                to = worker
        join(layout, layout.waiting[position], to)
    for worker in range(first, last):
        if layout.workers[worker].size == 0:
            largest = worker
            for other in range(first, last):
                if layout.workers[other].movable and layout.workers[other].size > layout.workers[largest].size:
                    largest = other
            executor = layout.workers[largest].any
            leave(layout, executor)
            join(layout, executor, worker)


@inner
def remove_topology(layout: Layout, topology: int) -> None:
    """Take all executors of a topology out of its workers, and these off their nodes.

    Loads of workers are set to exactly zero, without rounding errors of CPU and memory. Tables are unchanged.
    """
    for executor in range(layout.topologies[topology].first, layout.topologies[topology].last):
        if layout.executors[executor].worker != NOWHERE:
            leave(layout, executor)
    for worker in range(layout.topologies[topology].first_worker, layout.topologies[topology].last_worker):
        if layout.workers[worker].node != NOWHERE:
            stop_worker(layout, worker)
        layout.workers[worker].cpu_hz = layout.workers[worker].memory_mb = 0.0


@inner
def _gather(layout: Layout, topology: int) -> int:
    """Write the unplaced executors to `waiting`; return their number."""
    count = 0
    for executor in range(layout.topologies[topology].first, layout.topologies[topology].last):
        if layout.executors[executor].worker == NOWHERE:
            layout.waiting[count] = executor
            layout.near[executor] = layout.close[executor] = 0.0
            count += 1
    return count


@inner
def _request_resources(layout: Layout, left: int) -> None:
    """Record the demand of waiting executors for further resources, by which nodes are chosen."""
    for resource in range(len(layout.rules.requested)):
        layout.rules.requested[resource] = 0.0
        for position in range(left):
            layout.rules.requested[resource] += demand_of(layout.rules, layout.waiting[position], resource)


@inner
def _comes_before(layout: Layout, a: int, b: int) -> bool:
    """Return whether an executor that fits nowhere prefers the worker `a` to `b`: empty ones, then free CPU."""
    empty_a, empty_b = layout.workers[a].size == 0, layout.workers[b].size == 0
    if empty_a != empty_b:
        return bool(empty_a)
    left_a, left_b = (
        layout.nodes[layout.workers[a].node].cpu_hz_left,
        layout.nodes[layout.workers[b].node].cpu_hz_left,
    )
    return bool(left_a > left_b)


@inner
def _next_executor(layout: Layout, left: int, worker: int, node_first: float) -> int:
    """Return the position in `waiting` of the next executor of a worker: most saved, then most traffic."""
    node, topology = layout.workers[worker].node, layout.workers[worker].topology
    limited = layout.topologies[topology].limited
    best, most, most_tps = NOWHERE, -math.inf, -1.0
    for position in range(left):
        executor = layout.waiting[position]
        cpu_hz, memory_mb = layout.executors[executor].cpu_hz, layout.executors[executor].memory_mb
        if cpu_hz > layout.nodes[node].cpu_hz_left or memory_mb > layout.nodes[node].memory_mb_left:
            continue
        saved = node_first * layout.near[executor] + layout.close[executor]
        tps = layout.executors[executor].tps
        better = saved > most or (saved == most and tps > most_tps)
        if better and (not limited or may_join(layout.rules, topology, executor, worker, node)):
            best, most, most_tps = position, saved, tps
    return best


@inner
def _attract(layout: Layout, executor: int) -> None:
    """Add the traffic of waiting executors with one just placed."""
    for link in range(layout.executors[executor].first, layout.executors[executor].last):
        other = layout.links[link].executor
        layout.near[other] += layout.pull[link]
        layout.close[other] += layout.pull[link]
