"""Descent of a topology to where no step of an executor lowers its cost any more.

Every move and every exchange of two executors is looked at, by what each executor would cost in each worker: `reach`,
executors × workers. So a look at one exchange takes a few additions, and most are spared: behind `reach` stands what
the best of each worker would gain in each other, workers × workers, and where that and what an executor gains by the
way there are too little, no exchange with that worker gains. So a topology of fifty executors has settled in the time
of some hundred random steps, which would leave half of the gain.
"""

from __future__ import annotations

import math

from stormwright.jit.compiled import inner
from stormwright.optimize.kernel.costs import exchanged, far_row
from stormwright.optimize.kernel.flows import has_flows
from stormwright.optimize.kernel.records import NOWHERE, Layout
from stormwright.optimize.kernel.steps import shift_executor, takes

#: Executors of a topology, at most: looks take time in their square.
_MOST = 128

#: A rise is below 0 only by more than this part of what an executor exchanges: the rest is rounding.
_NOTHING = 1e-9


@inner
def can_settle(layout: Layout, topology: int) -> bool:
    """Whether `settle` takes a topology of those that may be placed anew: only fixed traffic, CPU and memory count."""
    return bool(
        layout.topologies[topology].tabled
        and layout.topologies[topology].last - layout.topologies[topology].first <= _MOST
        and not layout.topologies[topology].limited
        and not has_flows(layout, topology)
        and layout.imbalance_price == 0
    )


@inner
def settle(layout: Layout, topology: int) -> int:
    """Make the best step of one executor after the other until none lowers the cost; how many were looked at.

    Parameters
    ----------
    layout
        With right tables; workers of the topology are on nodes, its executors take one place each. `reach` is scratch.
        The total cost is left as it is.
    topology
        Which.
    """
    first, last = layout.topologies[topology].first, layout.topologies[topology].last
    _fill_reach(layout, topology)
    _note_gains(layout, topology)
    looks, idle, executor = 0, 0, first
    while idle < last - first:
        looks += 1
        idle = 0 if _settle_executor(layout, topology, executor) else idle + 1
        executor = executor + 1 if executor + 1 < last else first
    return looks


@inner
def _fill_reach(layout: Layout, topology: int) -> None:
    first, last = layout.topologies[topology].first, layout.topologies[topology].last
    begin, end = layout.topologies[topology].first_worker, layout.topologies[topology].last_worker
    at = 0
    for executor in range(first, last):
        for to in range(end - begin):
            layout.reach[at + to] = 0.0
        for worker in range(end - begin):
            tps = layout.table[layout.executors[executor].row + worker]
            if tps > 0:
                far = far_row(layout, begin + worker)
                for to in range(end - begin):
                    layout.reach[at + to] += tps * layout.table[far + to]
        at += end - begin


@inner
def _note_gains(layout: Layout, topology: int) -> None:
    """Note behind `reach` by how much the cost falls at most if an executor of one worker goes to another."""
    first, last = layout.topologies[topology].first, layout.topologies[topology].last
    begin = layout.topologies[topology].first_worker
    width = layout.topologies[topology].last_worker - begin
    gains = (last - first) * width
    for place in range(gains, gains + width * width):
        layout.reach[place] = -math.inf
    for executor in range(first, last):
        own, reach = layout.executors[executor].worker - begin, (executor - first) * width
        here, row = layout.reach[reach + own], gains + own * width
        for to in range(width):
            layout.reach[row + to] = max(layout.reach[row + to], here - layout.reach[reach + to])


@inner
def _settle_executor(layout: Layout, topology: int, executor: int) -> bool:
    """Make the step of an executor that lowers the cost most, if any does.

    Ties: moves first, then the lower worker, then who comes first in its ring.
    """
    first, own = layout.topologies[topology].first, layout.executors[executor].worker
    begin, end = layout.topologies[topology].first_worker, layout.topologies[topology].last_worker
    width, node = end - begin, layout.workers[own].node
    cpu_hz, memory_mb = layout.executors[executor].cpu_hz, layout.executors[executor].memory_mb
    reach = (executor - first) * width - begin
    here, least = layout.reach[reach + own], -_NOTHING * layout.executors[executor].tps
    best, partner = NOWHERE, NOWHERE
    if layout.workers[own].size > 1:
        for to in range(begin, end):
            rise = layout.reach[reach + to] - here
            if rise >= least or to == own or layout.workers[to].size >= layout.workers[to].most:
                continue
            if node == layout.workers[to].node or takes(layout, layout.workers[to].node, cpu_hz, memory_mb):
                least, best = rise, to
    gains = (layout.topologies[topology].last - first) * width + own - begin
    for to in range(begin, end):
        move = layout.reach[reach + to] - here
        if to == own or move - layout.reach[gains + (to - begin) * width] >= least:
            continue
        other = layout.workers[to].any
        for _ in range(layout.workers[to].size):
            reach_other = (other - first) * width - begin
            rise = move + layout.reach[reach_other + own] - layout.reach[reach_other + to]
            if rise < least and _may_swap(layout, executor, other):
                rise += 2 * exchanged(layout, executor, other) * layout.table[far_row(layout, own) + to - begin]
                if rise < least:
                    least, best, partner = rise, to, other
            other = layout.executors[other].next
    if best == NOWHERE:
        return False
    _shift(layout, topology, executor, best)
    if partner != NOWHERE:
        _shift(layout, topology, partner, own)
    _note_gains(layout, topology)
    return True


@inner
def _may_swap(layout: Layout, executor: int, other: int) -> bool:
    """Whether the nodes of two executors have room for them to change places."""
    node = layout.workers[layout.executors[executor].worker].node
    to_node = layout.workers[layout.executors[other].worker].node
    cpu_hz = layout.executors[executor].cpu_hz - layout.executors[other].cpu_hz
    memory_mb = layout.executors[executor].memory_mb - layout.executors[other].memory_mb
    return bool(
        node == to_node or (takes(layout, to_node, cpu_hz, memory_mb) and takes(layout, node, -cpu_hz, -memory_mb))
    )


@inner
def _shift(layout: Layout, topology: int, executor: int, to: int) -> None:
    """Move an executor to another worker, and keep `reach` right."""
    first, begin = layout.topologies[topology].first, layout.topologies[topology].first_worker
    width = layout.topologies[topology].last_worker - begin
    far_own, far_to = far_row(layout, layout.executors[executor].worker), far_row(layout, to)
    for link in range(layout.executors[executor].first, layout.executors[executor].last):
        reach, tps = (layout.links[link].executor - first) * width, layout.links[link].tps
        for worker in range(width):
            layout.reach[reach + worker] += tps * (layout.table[far_to + worker] - layout.table[far_own + worker])
    shift_executor(layout, executor, to)
