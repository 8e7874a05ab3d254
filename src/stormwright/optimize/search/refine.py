"""Refinement: random steps, accepted if they lower the cost or, while it is hot, raise it by little.

No step breaks a limit. The steps: an executor goes to another worker of its topology, or changes places with one there;
a worker goes to another node, or changes places with one there; a topology, with up to two that share nodes with it, is
removed and placed again (ruin and recreate, after Schrimpf, Schneider, Stamm-Wilbrandt, Dueck, "Record Breaking
Optimization Results Using the Ruin and Recreate Principle", 2000, https://doi.org/10.1006/jcph.1999.6413).
"""

from __future__ import annotations

import math

from stormwright.jit.compiled import compiled, inner
from stormwright.jit.random_numbers import draw, draw_below
from stormwright.model.arrays import IndexArray
from stormwright.optimize.construction.topologies import place_topology, remove_topology
from stormwright.optimize.kernel.costs import cost_as_noted, exchanged, far_row
from stormwright.optimize.kernel.flows import has_flows
from stormwright.optimize.kernel.records import NOWHERE, Layout
from stormwright.optimize.kernel.steps import join, shift_executor, start_worker, tabulate, takes
from stormwright.optimize.search.accept import accepts, stays_near
from stormwright.optimize.search.steps import draw_member, step_executor, step_worker

#: Most executors of a topology: evaluation takes quadratic time.
_MAX = 128

#: Relative tolerance, by the traffic of an executor, for a decrease: the rest is rounding.
_NOTHING = 1e-9


# Descent of a topology to a local optimum of steps of its executors.
#
# Every move and every exchange of two executors is evaluated by the cost of each executor in each worker: `reach`,
# executors × workers. So one exchange takes a few additions, and most are skipped: behind `reach` is the best gain from
# each worker to each other, workers × workers, and if that and the gain of an executor by the way there are too little,
# no exchange with that worker gains. So a topology of fifty executors converges in the time of some hundred random
# steps, which would leave half of the gain.
@inner
def can_settle(layout: Layout, topology: int) -> bool:
    """Return whether `settle` supports a topology: only fixed traffic, CPU and memory count."""
    return bool(
        layout.topologies[topology].tabled
        and layout.topologies[topology].last - layout.topologies[topology].first <= _MAX
        and not layout.topologies[topology].limited
        and not has_flows(layout, topology)
        and layout.imbalance_price == 0
    )


@inner
def settle(layout: Layout, topology: int) -> int:
    """Make the best step of one executor after the other until none lowers the cost; return the number evaluated.

    Parameters
    ----------
    layout
        With right tables; workers of the topology are on nodes, its executors take one place each. `reach` is scratch.
        The total cost is unchanged.
    topology
        Index of the topology.
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
    """Write behind `reach` the most that the cost falls if an executor of one worker goes to another."""
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

    Ties: moves first, then the lower worker, then the order of its ring.
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
    """Return whether the nodes of two executors have capacity for them to change places."""
    node = layout.workers[layout.executors[executor].worker].node
    to_node = layout.workers[layout.executors[other].worker].node
    cpu_hz = layout.executors[executor].cpu_hz - layout.executors[other].cpu_hz
    memory_mb = layout.executors[executor].memory_mb - layout.executors[other].memory_mb
    return bool(
        node == to_node or (takes(layout, to_node, cpu_hz, memory_mb) and takes(layout, node, -cpu_hz, -memory_mb))
    )


@inner
def _shift(layout: Layout, topology: int, executor: int, to: int) -> None:
    """Move an executor to another worker, and update `reach`."""
    first, begin = layout.topologies[topology].first, layout.topologies[topology].first_worker
    width = layout.topologies[topology].last_worker - begin
    far_own, far_to = far_row(layout, layout.executors[executor].worker), far_row(layout, to)
    for link in range(layout.executors[executor].first, layout.executors[executor].last):
        reach, tps = (layout.links[link].executor - first) * width, layout.links[link].tps
        for worker in range(width):
            layout.reach[reach + worker] += tps * (layout.table[far_to + worker] - layout.table[far_own + worker])
    shift_executor(layout, executor, to)


#: Steps per executor that placing a topology again counts as, and the steps of executors that polish the result before
#: it is evaluated.
_PLACING, _POLISH = 4, 5

#: Exchange partners that are evaluated in the time of a step.
_LOOKED_AT = 32

#: Relative cost, unpolished, above which a result is not polished if there are this many topologies: it would mostly
#: lose, and others are tried instead. With 5 topologies placements got worse by 0.1 %.
_HOPELESS, _MANY = 1.4, 16

#: Topologies drawn, of which the one with the highest cost beyond a single node is removed.
_ATTEMPTS = 3

#: Fraction of the additional topologies drawn from all, not from its nodes.
_FROM_ANYWHERE = 0.7

#: Upper limits of the random probability of overlooking a node, and of the weight of traffic with the node.
_BLINK, _NODE_FIRST = 0.3, 4.0


# Single steps cannot bring a topology from one node to another that is full: half-way it costs more than at either
# end. Ruin and recreate does so at once: others are removed with it, so that there is capacity, and placed in a random
# order with some nodes overlooked, so that the result differs. Of some topologies drawn the one with the highest cost
# beyond a single node is removed, as it has most to gain. The others share nodes with it, or are anywhere: without
# these, topologies on a single node would never make place for split ones. The result is polished by steps of its
# executors before it is evaluated, as a raw construction would mostly lose against a refined placement.
@inner
def replace_topologies(layout: Layout, temperature: float) -> None:
    """Remove one to three topologies and place them again; undone if that raises the cost.

    While it is hot an increase is accepted like that of other steps. The most expensive parts count as steps: a number
    for each executor placed, and those of polishing, so that a budget in steps takes about as long whatever they are.
    """
    count, before = _choose_ruined(layout), 0.0
    cost, use_cost = layout.totals[0].cost, layout.totals[0].use_cost
    for number in range(count):
        topology = layout.ruined[number]
        before += cost_as_noted(layout, topology)
        _remember(layout, topology)
        layout.totals[0].steps += _PLACING * (layout.topologies[topology].last - layout.topologies[topology].first)
    for number in range(count):
        remove_topology(layout, layout.ruined[number])
    placed, raw = True, 0.0
    blink, node_first = _BLINK * draw(layout), _NODE_FIRST * draw(layout)
    for number in range(count):
        placed = placed and place_topology(layout, layout.ruined[number], blink, node_first)
    if placed:
        for number in range(count):
            tabulate(layout, layout.ruined[number])
            raw += cost_as_noted(layout, layout.ruined[number])
    raw += layout.totals[0].use_cost - use_cost
    if placed and (raw <= _HOPELESS * before or len(layout.free_topologies) < _MANY):
        rise = -before
        for number in range(count):
            _polish(layout, layout.ruined[number])
            rise += cost_as_noted(layout, layout.ruined[number])
        if accepts(layout, rise + layout.totals[0].use_cost - use_cost, temperature):
            layout.totals[0].cost = cost + rise
            return
    for number in range(count):
        remove_topology(layout, layout.ruined[number])
    for number in range(count):
        _restore(layout, layout.ruined[number])
    layout.totals[0].cost, layout.totals[0].use_cost = cost, use_cost


@inner
def _polish(layout: Layout, topology: int) -> None:
    """Improve a topology that has been placed again by steps of its executors; they count as steps."""
    first, last = layout.topologies[topology].first, layout.topologies[topology].last
    if can_settle(layout, topology):
        layout.totals[0].steps += settle(layout, topology) * (last - first) // _LOOKED_AT
        return
    layout.totals[0].steps += _POLISH * (last - first)
    for step in range(_POLISH * (last - first)):
        step_executor(layout, first + step % (last - first), 0.0)


@inner
def _choose_ruined(layout: Layout) -> int:
    """Draw a topology and up to two others, from its nodes or from all, into `ruined`; return their number."""
    topology, most = NOWHERE, 0.0
    for _ in range(_ATTEMPTS):
        other = _draw_topology(layout)
        spread = _spread_cost(layout, other)
        if topology == NOWHERE or spread > most:
            topology, most = other, spread
    layout.ruined[0], count = topology, 1
    first, last = layout.topologies[topology].first_worker, layout.topologies[topology].last_worker
    for _ in range(draw_below(layout, len(layout.ruined))):
        if draw(layout) < _FROM_ANYWHERE:
            other = _draw_topology(layout)
        else:
            node = layout.workers[first + draw_below(layout, last - first)].node
            at = draw_below(layout, layout.nodes[node].used)
            other = layout.workers[layout.workers_on[layout.nodes[node].first + at]].topology
        known = not layout.topologies[other].whole
        for number in range(count):
            known = known or layout.ruined[number] == other
        if not known:
            place = draw_below(layout, count + 1)
            layout.ruined[count] = layout.ruined[place]
            layout.ruined[place] = other
            count += 1
    return count


@inner
def _draw_topology(layout: Layout) -> int:
    """Draw a topology that may be removed."""
    return int(layout.free_topologies[draw_below(layout, len(layout.free_topologies))])


@inner
def _spread_cost(layout: Layout, topology: int) -> float:
    """Return the cost of a topology's fixed traffic beyond that with all of its workers on one node.

    Flows, and topologies without tables, count nothing.
    """
    first, last = layout.topologies[topology].first_worker, layout.topologies[topology].last_worker
    total = 0.0
    if layout.topologies[topology].tabled:
        for worker in range(first, last):
            row, far = layout.workers[worker].row, far_row(layout, worker)
            for other in range(worker - first):
                beyond = layout.table[far + other] - layout.inter_worker
                total += layout.table[row + other] * max(beyond, 0.0)
    return total


@inner
def _remember(layout: Layout, topology: int) -> None:
    """Save the positions of the executors and workers of a topology."""
    for executor in range(layout.topologies[topology].first, layout.topologies[topology].last):
        layout.saved_worker[executor] = layout.executors[executor].worker
    for worker in range(layout.topologies[topology].first_worker, layout.topologies[topology].last_worker):
        layout.saved_node[worker] = layout.workers[worker].node


@inner
def _restore(layout: Layout, topology: int) -> None:
    """Restore a topology that was removed. Rings may be in another order than before."""
    for worker in range(layout.topologies[topology].first_worker, layout.topologies[topology].last_worker):
        start_worker(layout, worker, layout.saved_node[worker])
    for executor in range(layout.topologies[topology].first, layout.topologies[topology].last):
        join(layout, executor, layout.saved_worker[executor])
    tabulate(layout, topology)


#: Fraction of the steps of executors and workers that are of workers.
_WORKERS = 0.3

#: Fraction of all steps for placing topologies again if there are many; none with at most this many, since nearly
#: everything would be removed.
_RUIN, _FEW_TOPOLOGIES = 0.85, 4

#: Size of a window of consecutive executors, which gets as many steps: these are of one topology or two, and so stay in
#: the nearest cache. Smaller if there would be fewer windows than the second number.
_WINDOW, _FEWEST_WINDOWS = 64, 32

#: Factor of the temperature for steps of workers over those of executors, as they change more at once.
_WORKER_HEAT = 1.5

#: Most steps on each overloaded node before the search.
_RELIEVING = 2000


@compiled
def refine(layout: Layout, steps: int, temperature: float) -> None:
    """Make `steps` steps, those of the executors of topologies placed again included.

    Parameters
    ----------
    temperature
        An increase of the cost by this much is accepted with probability 1/e in steps of executors.
    """
    until = layout.totals[0].steps + steps
    ruin = 0.0
    if not stays_near(layout) and len(layout.free_topologies) > _FEW_TOPOLOGIES:
        ruin = _RUIN * (1 - _FEW_TOPOLOGIES / len(layout.free_topologies))
    spent, executors = 0.0, len(layout.free_executors)
    window = max(1, min(executors // _FEWEST_WINDOWS, _WINDOW))
    while layout.totals[0].steps < until:
        if spent < ruin:
            before = layout.totals[0].steps
            replace_topologies(layout, temperature)
            spent += (layout.totals[0].steps - before) * (1 - ruin)
            continue
        spent -= ruin * window
        layout.totals[0].steps += window
        first = draw_below(layout, executors)
        for _ in range(window):
            executor = layout.free_executors[(first + draw_below(layout, window)) % executors]
            if draw(layout) < _WORKERS:
                _step_any_worker(layout, layout.executors[executor].topology, _WORKER_HEAT * temperature)
            else:
                step_executor(layout, executor, temperature)


@inner
def _step_any_worker(layout: Layout, topology: int, temperature: float) -> None:
    """Make a step of a random worker of a topology; none if that worker may not move."""
    first, last = layout.topologies[topology].first_worker, layout.topologies[topology].last_worker
    worker = first + draw_below(layout, last - first)
    if layout.workers[worker].movable and layout.workers[worker].node != NOWHERE:
        step_worker(layout, worker, temperature)


@compiled
def relieve(layout: Layout, nodes: IndexArray) -> None:
    """Take load off overloaded `nodes`, by random steps of their executors and workers; some may stay overloaded.

    These are no steps of the search, and not counted. Nor does the cost count in steps that relieve a node; others
    are accepted only if they do not raise it.

    Parameters
    ----------
    layout
        Layout whose cost is added up; steps add to it.
    nodes
        Numbers of nodes, int64; those that are not overloaded are skipped.
    """
    for node in nodes:
        for _ in range(_RELIEVING):
            relieved = layout.nodes[node].cpu_hz_left >= 0 and layout.nodes[node].memory_mb_left >= 0
            if relieved or layout.nodes[node].used == 0:
                break
            worker = layout.workers_on[layout.nodes[node].first + draw_below(layout, layout.nodes[node].used)]
            if not layout.workers[worker].movable:
                continue
            if draw(layout) < _WORKERS:
                step_worker(layout, worker, 0.0)
            else:
                step_executor(layout, draw_member(layout, worker), 0.0)
                layout.workers[worker].any = layout.executors[layout.workers[worker].any].next
