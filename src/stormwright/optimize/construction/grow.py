"""Construction of very large topologies: nodes are filled one after the other with what is next to what they have.

As in `construct`, but only executors that exchange tuples with what is already on the node are looked at, and some that
do not: so time is linear in links. What counts is by how much a place lowers the cost, that in the rack included.

Those that wait are kept in two parts of one array, and change places to go from one to the other::

    waiting   │ near: exchange tuples with the node │ the others │ placed already │
              0                                  near         left
"""

from __future__ import annotations

from stormwright.jit.compiled import inner
from stormwright.optimize.construction.joining import may_join
from stormwright.optimize.construction.next_node import next_node
from stormwright.optimize.kernel.records import NOWHERE, Layout
from stormwright.optimize.kernel.steps import join, start_worker

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
            position = _next_executor(layout, left, near, worker)
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
            near = _attract(layout, executor, near)
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
def _next_executor(layout: Layout, left: int, near: int, worker: int) -> int:
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
def _attract(layout: Layout, executor: int, near: int) -> int:
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
