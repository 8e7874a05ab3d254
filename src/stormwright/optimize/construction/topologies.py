"""Construction: topology by topology onto few nodes, the best fit where one node takes all, workers filled one by one.

Those come first that exchange most for the CPU they take: room side by side is worth most to them. A topology goes
whole onto the node that it fills best; if there is none, into the rack and onto the node that take the largest part of
it, and so on with the rest. A worker grows by the executor that exchanges most with what is already in it and on its
node. Time is linear in executors, links and topologies × nodes; very large topologies have a way of their own (`grow`).
"""

from __future__ import annotations

import math

from stormwright.jit.compiled import compiled, inner
from stormwright.jit.random_numbers import draw
from stormwright.model.arrays import IndexArray
from stormwright.optimize.kernel.records import NOWHERE, Layout, Rules
from stormwright.optimize.kernel.rules import demand_of, left_on, put_in, take_from
from stormwright.optimize.kernel.steps import join, leave, start_worker, stop_worker, tabulate

# Choice of nodes ----------------------------------------------------------------------------------
# Which node construction goes on to: one with room for the largest part of what is still to be placed.
#
# A topology on one node costs least, so a node that takes all that is left comes first, and of these the one that it
# fills best: larger ones stay free for larger topologies. Else the node that takes the largest part, in a rack whose
# nodes can take all together, if there is one; the rack of the worker before is tried first. How large a part a node
# takes is the least over ports, CPU, memory and further resources of what it has left over what is asked for.

# Limits of workers --------------------------------------------------------------------------------
# Who may grow a worker, of those that limits beside CPU, memory, ports and places leave.


@inner
def may_join(rules: Rules, topology: int, executor: int, worker: int, node: int) -> bool:
    """Whether further limits allow that an executor of no worker joins one.

    Parameters
    ----------
    rules
        As before afterwards.
    topology, executor, worker, node
        Which; the worker is on the node.
    """
    rise = put_in(rules, topology, executor, worker, node)
    take_from(rules, topology, executor, worker, node)
    return bool(rise <= 0)


# Next node ----------------------------------------------------------------------------------------


@inner
def next_node(
    layout: Layout, node: int, cpu_hz: float, memory_mb: float, workers: int, part: float, blink: float
) -> int:
    """The node of a topology's next worker, or -1: `node`, if it has room for so large a part of what is left.

    Parameters
    ----------
    layout
        Its `rack_room` is scratch, and random numbers are drawn where `blink` is above 0; nothing else is written.
    node
        That of the worker before, or -1.
    cpu_hz, memory_mb, workers
        What is left to be placed.
    part
        Part of it that the node must have room for, as the worker cannot be given less, from 0 to 1.
    blink
        Probability with which a node is overlooked.
    """
    if node != NOWHERE and _opens(layout, node, cpu_hz * part, memory_mb * part):
        return node
    rack = NOWHERE if node == NOWHERE else layout.nodes[node].rack
    return int(_choose_node(layout, cpu_hz, memory_mb, workers, part, rack, blink))


@inner
def _opens(layout: Layout, node: int, cpu_hz: float, memory_mb: float) -> bool:
    """Whether a node has a port for one more worker with so much in it."""
    return bool(
        layout.nodes[node].used < layout.nodes[node].ports
        and cpu_hz <= layout.nodes[node].cpu_hz_left
        and memory_mb <= layout.nodes[node].memory_mb_left
    )


@inner
def _choose_node(
    layout: Layout, cpu_hz: float, memory_mb: float, workers: int, least: float, rack: int, blink: float
) -> int:
    """The node for so much: the fullest that takes all; else that with room for the largest part, in a rack with room.

    Parameters
    ----------
    least
        Part of all that the node must have room for.
    rack
        The rack to stay in, if one of its nodes will do.
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
    """That one of `nodes`."""
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
    """What part of so much a node has room for; 0 without a port, above 1 if more than all."""
    ports = layout.nodes[node].ports - layout.nodes[node].used
    if ports <= 0:
        return 0.0
    part = ports / workers
    if cpu_hz > 0:
        part = min(part, layout.nodes[node].cpu_hz_left / cpu_hz)
    if memory_mb > 0:
        part = min(part, layout.nodes[node].memory_mb_left / memory_mb)
    for resource in range(len(layout.rules.asked)):
        if layout.rules.asked[resource] > 0:
            part = min(part, left_on(layout.rules, node, resource) / layout.rules.asked[resource])
    return float(part)


# Very large topologies ----------------------------------------------------------------------------
# Construction of very large topologies: nodes are filled one after the other with what is next to what they have.
#
# As in `construct`, but only executors that exchange tuples with what is already on the node are looked at, and some
# that do not: so time is linear in links. What counts is by how much a place lowers the cost, that in the rack
# included.
#
# Those that wait are kept in two parts of one array, and change places to go from one to the other::
#
#     waiting   │ near: exchange tuples with the node │ the others │ placed already │
#               0                                  near         left

#: Executors that are looked at for the next place in a worker: at least, and at most.
_FEWEST_SEEN, _MOST_SEEN = 512, 2048


@inner
def grow_topology(layout: Layout, topology: int) -> bool:
    """Put a topology's executors that are in no worker into its workers that are on no node; whether all are.

    Those that wait and exchange tuples with what is on the node in question come first in `waiting`; `kept_worker` is
    where each stands in it. Workers are filled in the order of their numbers, each with as many as limits and the
    workers to come allow: every one of these gets one executor at least. If it fails, what has been placed stays
    placed.
    """
    left, near, workers = 0, 0, 0
    cpu_hz, memory_mb = 0.0, 0.0
    for executor in range(layout.topologies[topology].first, layout.topologies[topology].last):
        if layout.executors[executor].worker == NOWHERE:
            layout.around[executor] = layout.near[executor] = layout.close[executor] = 0.0
            layout.waiting[left], layout.kept_worker[executor] = executor, left
            left += 1
            cpu_hz += layout.executors[executor].cpu_hz
            memory_mb += layout.executors[executor].memory_mb
    first, last = layout.topologies[topology].first_worker, layout.topologies[topology].last_worker
    for worker in range(first, last):
        workers += layout.workers[worker].node == NOWHERE
    most, node = layout.topologies[topology].most, NOWHERE
    for worker in range(first, last):
        if layout.workers[worker].node != NOWHERE:
            continue
        if left == 0:
            return False
        workers -= 1
        fewest = max(1, left - workers * most)
        before, node = node, next_node(layout, node, cpu_hz, memory_mb, workers + 1, fewest / left, 0.0)
        if node == NOWHERE:
            return False
        _forget(layout, left, near, before, node)
        near = near if node == before else 0
        start_worker(layout, worker, node)
        size, room = 0, min(most, left - workers)
        while size < room:
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
    """Forget what executors exchange with the worker before, and with its node and rack where the next is elsewhere."""
    for position in range(near):
        layout.close[layout.waiting[position]] = 0.0
        if node != before:
            layout.near[layout.waiting[position]] = 0.0
    if before != NOWHERE and layout.nodes[node].rack != layout.nodes[before].rack:
        for position in range(left):
            layout.around[layout.waiting[position]] = 0.0


@inner
def _exchange(layout: Layout, a: int, b: int) -> None:
    """Let two that wait change places."""
    executor, other = layout.waiting[a], layout.waiting[b]
    layout.waiting[a], layout.waiting[b] = other, executor
    layout.kept_worker[executor], layout.kept_worker[other] = b, a


@inner
def _next_to_grow(layout: Layout, left: int, near: int, worker: int) -> int:
    """Position in `waiting` of the executor that a worker grows by: most saved, then most traffic."""
    node, topology = layout.workers[worker].node, layout.workers[worker].topology
    limited = layout.topologies[topology].limited
    in_rack = layout.inter_rack - layout.inter_node if len(layout.racks) > 1 else 0.0
    on_node = layout.inter_node - layout.inter_worker
    best, most, most_tps = NOWHERE, -1.0, -1.0
    for position in range(min(left, max(min(near, _MOST_SEEN), _FEWEST_SEEN))):
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
    """Note for all that wait what they exchange with one that has just been placed; how many are then on its node's."""
    for link in range(layout.executors[executor].first, layout.executors[executor].last):
        other, pull = layout.links[link].executor, layout.pull[link]
        if layout.executors[other].worker != NOWHERE or pull == 0:
            continue
        if layout.kept_worker[other] >= near:
            _exchange(layout, layout.kept_worker[other], near)
            near += 1
        layout.around[other] += pull
        layout.near[other] += pull
        layout.close[other] += pull
    return near


# Topologies ---------------------------------------------------------------------------------------

#: Topologies with more executors are grown (`grow_topology`): it takes long to look at all that wait for every place.
_LARGE = 2048

#: What traffic with the node counts beside that with the worker when a worker grows.
_NODE_FIRST = 2.0


@compiled
def construct(layout: Layout, order: IndexArray) -> None:
    """Place the waiting executors of topologies one after the other; where there is no room, limits are broken.

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
    """Put a topology's executors that are in no worker into its workers that are on no node; whether all are.

    Workers are filled in the order of their numbers. Each stays on the node of the one before as long as that has room
    for the least that the worker must take: what those to come, full to the limit, would leave over. If it fails, what
    has been placed stays placed; tables are left as they are.

    Parameters
    ----------
    layout
        Written: workers and nodes; `waiting`, `near` and `close` are scratch.
    topology
        Which.
    blink
        Probability with which a node is overlooked, as in Christiaens, Vanden Berghe, "Slack Induction by String
        Removals", 2020, https://doi.org/10.1287/trsc.2019.0914.
    node_first
        What an executor's traffic with its node counts beside that with its worker when a worker grows.
    """
    left = _gather(layout, topology)
    cpu_hz, memory_mb, workers = 0.0, 0.0, 0
    _ask(layout, left)
    for position in range(left):
        cpu_hz += layout.executors[layout.waiting[position]].cpu_hz
        memory_mb += layout.executors[layout.waiting[position]].memory_mb
    first, last = layout.topologies[topology].first_worker, layout.topologies[topology].last_worker
    for worker in range(first, last):
        workers += layout.workers[worker].node == NOWHERE
    most, node = layout.topologies[topology].most, NOWHERE
    for worker in range(first, last):
        if layout.workers[worker].node != NOWHERE:
            continue
        if left == 0:
            return False
        workers -= 1
        fewest = max(1, left - workers * most)
        part = fewest / left
        before, node = node, next_node(layout, node, cpu_hz, memory_mb, workers + 1, part, blink)
        if node == NOWHERE:
            return False
        if node != before:
            for position in range(left):
                layout.near[layout.waiting[position]] = 0.0
        start_worker(layout, worker, node)
        for position in range(left):
            layout.close[layout.waiting[position]] = 0.0
        size, room = 0, min(most, left - workers)
        while size < room:
            position = _next_executor(layout, left, worker, node_first)
            if position == NOWHERE:
                break
            executor = layout.waiting[position]
            left -= 1
            layout.waiting[position] = layout.waiting[left]
            cpu_hz -= layout.executors[executor].cpu_hz
            memory_mb -= layout.executors[executor].memory_mb
            for resource in range(len(layout.rules.asked)):
                layout.rules.asked[resource] -= demand_of(layout.rules, executor, resource)
            join(layout, executor, worker)
            _attract(layout, executor)
            size += 1
        if size < fewest:
            return False
    return left == 0


@inner
def place_anywhere(layout: Layout, topology: int) -> None:
    """Put what `place_topology` left over where most CPU is free, whatever that overloads.

    Every worker gets a port and at least one executor, and none gets more executors than it may have: only CPU and
    memory of nodes are broken, which a search can mend. Of equal nodes and workers the lower number wins.
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

    Workers are set to hold exactly nothing, whatever rounding of CPU and memory left. Tables are left as they are.
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
    """Note the executors that are in no worker in `waiting`; how many they are."""
    count = 0
    for executor in range(layout.topologies[topology].first, layout.topologies[topology].last):
        if layout.executors[executor].worker == NOWHERE:
            layout.waiting[count] = executor
            layout.near[executor] = layout.close[executor] = 0.0
            count += 1
    return count


@inner
def _ask(layout: Layout, left: int) -> None:
    """Note what those that wait ask for of further resources, by which nodes are chosen."""
    for resource in range(len(layout.rules.asked)):
        layout.rules.asked[resource] = 0.0
        for position in range(left):
            layout.rules.asked[resource] += demand_of(layout.rules, layout.waiting[position], resource)


@inner
def _comes_before(layout: Layout, a: int, b: int) -> bool:
    """Whether an executor that fits nowhere goes to the worker `a` rather than `b`: empty ones first, then free CPU."""
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
    """Position in `waiting` of the executor that a worker grows by: most saved, then most traffic."""
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
    """Note for all that wait what they exchange with one that has just been placed."""
    for link in range(layout.executors[executor].first, layout.executors[executor].last):
        other = layout.links[link].executor
        layout.near[other] += layout.pull[link]
        layout.close[other] += layout.pull[link]
