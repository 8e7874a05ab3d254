"""Refinement: random steps, taken if they lower the cost or, while it is hot, raise it by little.

No step breaks a limit. The steps: an executor goes to another worker of its topology, or changes places with one there;
a worker goes to another node, or changes places with one there; a topology, with up to two that share nodes with it, is
taken out and placed anew (ruin and recreate, after Schrimpf, Schneider, Stamm-Wilbrandt, Dueck, "Record Breaking
Optimization Results Using the Ruin and Recreate Principle", 2000, https://doi.org/10.1006/jcph.1999.6413).
"""

from __future__ import annotations

import math

from stormwright.model.arrays import IndexArray
from stormwright.optimize.construct.topologies import place_topology, remove_topology
from stormwright.optimize.kernel.compiled import compiled
from stormwright.optimize.kernel.flows import note_costs
from stormwright.optimize.kernel.records import NOWHERE, Layout
from stormwright.optimize.kernel.steps import (
    cost_of_topology,
    draw,
    draw_below,
    is_away,
    join,
    rise_of_executor,
    rise_of_load,
    rise_of_swap,
    rise_of_worker,
    rise_of_worker_swap,
    shift_executor,
    shift_worker,
    start_worker,
    tabulate,
    takes,
)

#: A rise of so many temperatures is not taken: one in 10 million would be.
_HOPELESS = 16

#: Part of the steps of executors and workers that are of workers.
_WORKERS = 0.3

#: Part of the steps towards where something is that tuples are exchanged with, among very many workers; else to any.
_NEIGHBOURS = 0.8

#: Part of all steps that goes into placing topologies anew where there are many; none where there are at most so many,
#: since nearly everything would be taken out.
_RUIN, _FEW_TOPOLOGIES = 0.65, 4

#: How much hotter the steps of workers are than those of executors, as they change more at once.
_WORKER_HEAT = 1.5

#: What placing a topology anew counts as, in steps for each executor, and the steps of executors that follow on it
#: before the result is judged.
_PLACING, _POLISH = 4, 5

#: Topologies are placed anew with nodes overlooked, and traffic with the node weighed, at random up to this.
_BLINK, _NODE_FIRST = 0.3, 4.0

#: Steps that are tried on each overloaded node before the search, at most.
_RELIEVING = 2000


@compiled
def refine(layout: Layout, steps: int, temperature: float) -> None:
    """Make so many steps, those of the executors of topologies placed anew included.

    Parameters
    ----------
    temperature
        A rise of the cost by this much is taken with probability 1/e in steps of executors.
    """
    until = layout.totals[0].steps + steps
    ruin = 0.0
    if not _stays_near(layout) and len(layout.free_topologies) > _FEW_TOPOLOGIES:
        ruin = _RUIN * (1 - _FEW_TOPOLOGIES / len(layout.free_topologies))
    spent = 0.0
    while layout.totals[0].steps < until:
        if spent < ruin:
            before = layout.totals[0].steps
            _replace_topologies(layout, temperature)
            spent += (layout.totals[0].steps - before) * (1 - ruin)
            continue
        spent -= ruin
        layout.totals[0].steps += 1
        if draw(layout) < _WORKERS:
            worker = layout.free_workers[draw_below(layout, len(layout.free_workers))]
            _step_worker(layout, worker, _WORKER_HEAT * temperature)
        else:
            _step_executor(layout, layout.free_executors[draw_below(layout, len(layout.free_executors))], temperature)


@compiled
def _stays_near(layout: Layout) -> bool:
    """Whether it counts what is away from home."""
    return bool(layout.max_moves >= 0 or layout.move_price > 0 or _counts_restarts(layout))


@compiled
def _counts_restarts(layout: Layout) -> bool:
    return bool(layout.max_restarts >= 0 or layout.restart_price > 0)


@compiled
def _accepts(layout: Layout, rise: float, temperature: float) -> bool:
    return bool(rise <= 0 or (temperature > 0 and draw(layout) < math.exp(-rise / temperature)))


@compiled
def _is_overloaded(layout: Layout, node: int, cpu_hz: float, memory_mb: float) -> bool:
    """Whether a node lacks something that taking so much off it gives back."""
    return bool(
        (layout.nodes[node].cpu_hz_left < 0 and cpu_hz > 0) or (layout.nodes[node].memory_mb_left < 0 and memory_mb > 0)
    )


@compiled
def _may(layout: Layout, moved: int, restarted: int) -> bool:
    """Whether so many more executors may be away from home, and so many more workers restart."""
    return bool(
        (layout.max_moves < 0 or moved <= 0 or layout.totals[0].moved + moved <= layout.max_moves)
        and (layout.max_restarts < 0 or restarted <= 0 or layout.totals[0].restarted + restarted <= layout.max_restarts)
    )


@compiled
def _price(layout: Layout, moved: int, restarted: int, node: int, to: int, cpu_hz: float) -> float:
    """By how much all that rises that counts beside traffic, if so much CPU goes from a node to another."""
    price = layout.move_price * moved + layout.restart_price * restarted
    if node != to and layout.imbalance_price > 0:
        price += rise_of_load(layout, node, -cpu_hz) + rise_of_load(layout, to, cpu_hz)
    return price


@compiled
def _count(layout: Layout, rise: float, moved: int, restarted: int) -> None:
    """Note what a step that is made changes, except how nodes are used."""
    layout.totals[0].cost += rise
    layout.totals[0].moved += moved
    layout.totals[0].restarted += restarted


@compiled
def _restarted_by(layout: Layout, worker: int, joined: int, came_home: int, node: int) -> int:
    """How many more workers restart if one gets so many executors, some of them its own, and goes to a node."""
    home = layout.workers[worker].home_node
    if home == NOWHERE or not _counts_restarts(layout):
        return 0
    size, at_home, own = layout.workers[worker].size, layout.workers[worker].at_home, layout.workers[worker].home_size
    kept = layout.workers[worker].node == home and size == own and at_home == own
    keeps = node == home and size + joined == own and at_home + came_home == own
    return int(kept) - int(keeps)


# Executors ----------------------------------------------------------------------------------------


@compiled
def _draw_member(layout: Layout, worker: int) -> int:
    """An executor of a worker; of a large one any of those that come next in its ring."""
    executor = layout.workers[worker].any
    for _ in range(draw_below(layout, min(layout.workers[worker].size, 16))):
        executor = layout.executors[executor].next
    return int(executor)


@compiled
def _draw_worker(layout: Layout, executor: int) -> int:
    """Another worker that an executor may go to: where one is that it exchanges tuples with, or any; or -1."""
    topology, own = layout.executors[executor].topology, layout.executors[executor].worker
    first, last = layout.topologies[topology].first_worker, layout.topologies[topology].last_worker
    links = layout.executors[executor].last - layout.executors[executor].first
    if links > 0 and draw(layout) < _NEIGHBOURS * (1 - 1 / (last - first)):
        link = layout.executors[executor].first + draw_below(layout, links)
        to = layout.executors[layout.links[link].executor].worker
    else:
        to = first + draw_below(layout, last - first)
    if to == NOWHERE or own == to:
        return NOWHERE
    return to if layout.workers[to].movable and layout.nodes[layout.workers[to].node].ports > 0 else NOWHERE


@compiled
def _step_executor(layout: Layout, executor: int, temperature: float) -> None:
    """Move an executor to another worker, or exchange it with one there."""
    own, to = layout.executors[executor].worker, _draw_worker(layout, executor)
    if to == NOWHERE:
        return
    cpu_hz, memory_mb = layout.executors[executor].cpu_hz, layout.executors[executor].memory_mb
    node, to_node = layout.workers[own].node, layout.workers[to].node
    places = layout.executors[executor].places
    if (
        layout.workers[to].size + places <= layout.workers[to].most
        and layout.workers[own].size > places
        and (node == to_node or takes(layout, to_node, cpu_hz, memory_mb))
    ):
        rise = rise_of_executor(layout, executor, to)
        home, moved = layout.executors[executor].home, _moved_by(layout, executor, to)
        restarted = _restarted_by(layout, own, -1, -int(home == own), node)
        restarted += _restarted_by(layout, to, 1, int(home == to), to_node)
        relieves = node != to_node and _is_overloaded(layout, node, cpu_hz, memory_mb)
        price = _price(layout, moved, restarted, node, to_node, cpu_hz)
        if _may(layout, moved, restarted) and (relieves or _accepts(layout, rise + price, temperature)):
            shift_executor(layout, executor, to)
            _count(layout, rise, moved, restarted)
            return
    _swap_executors(layout, executor, to, temperature)


@compiled
def _swap_executors(layout: Layout, executor: int, to: int, temperature: float) -> None:
    own = layout.executors[executor].worker
    if layout.nodes[layout.workers[own].node].ports == 0:
        return
    other = _draw_member(layout, to)
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
    moved = _moved_by(layout, executor, to) + _moved_by(layout, other, own)
    home, home_other = layout.executors[executor].home, layout.executors[other].home
    restarted = _restarted_by(layout, own, 0, int(home_other == own) - int(home == own), node)
    restarted += _restarted_by(layout, to, 0, int(home == to) - int(home_other == to), to_node)
    price = _price(layout, moved, restarted, node, to_node, cpu_hz)
    relieves = node != to_node and (
        _is_overloaded(layout, node, cpu_hz, memory_mb) or _is_overloaded(layout, to_node, -cpu_hz, -memory_mb)
    )
    hopeless = math.inf if relieves else _HOPELESS * temperature - price
    rise = rise_of_swap(layout, executor, other, hopeless)
    if rise > hopeless:
        return
    if _may(layout, moved, restarted) and (relieves or _accepts(layout, rise + price, temperature)):
        shift_executor(layout, executor, to)
        shift_executor(layout, other, own)
        _count(layout, rise, moved, restarted)
        layout.workers[to].any = layout.executors[executor].next


@compiled
def _moved_by(layout: Layout, executor: int, to: int) -> int:
    """How many more executors are away from home if one goes to the worker `to`."""
    home = layout.executors[executor].home
    if home == NOWHERE:
        return 0
    comes_home = to == home and layout.workers[home].node == layout.workers[home].home_node
    return int(not comes_home) - int(is_away(layout, executor))


# Workers ------------------------------------------------------------------------------------------


@compiled
def _step_worker(layout: Layout, worker: int, temperature: float) -> None:
    """Move a worker to another node, or exchange it with one there."""
    to = _draw_node(layout, worker)
    node = layout.workers[worker].node
    if to == node or layout.nodes[to].ports == 0:
        return
    cpu_hz, memory_mb = layout.workers[worker].cpu_hz, layout.workers[worker].memory_mb
    if layout.nodes[to].used < layout.nodes[to].ports and takes(layout, to, cpu_hz, memory_mb):
        rise = rise_of_worker(layout, worker, to)
        moved, restarted = _moved_with(layout, worker, to), _restarted_by(layout, worker, 0, 0, to)
        relieves = _is_overloaded(layout, node, cpu_hz, memory_mb)
        more_nodes = int(layout.nodes[to].used == 0) - int(layout.nodes[node].used == 1)
        price = _price(layout, moved, restarted, node, to, cpu_hz) + layout.node_price * more_nodes
        if _may(layout, moved, restarted) and (relieves or _accepts(layout, rise + price, temperature)):
            shift_worker(layout, worker, to)
            _count(layout, rise, moved, restarted)
            return
    if layout.nodes[to].used > 0 and layout.nodes[node].ports > 0:
        at = draw_below(layout, layout.nodes[to].used)
        _swap_workers(layout, worker, layout.workers_on[layout.nodes[to].first + at], temperature)


@compiled
def _draw_node(layout: Layout, worker: int) -> int:
    """A node where another worker of the topology is, one in the rack of such a worker, or any."""
    topology = layout.workers[worker].topology
    first, last = layout.topologies[topology].first_worker, layout.topologies[topology].last_worker
    kind = draw(layout)
    if kind < 0.9 and last - first > 1:
        other, executor = first + draw_below(layout, last - first), _draw_member(layout, worker)
        links = layout.executors[executor].last - layout.executors[executor].first
        if links > 0 and draw(layout) < _NEIGHBOURS * (1 - 1 / (last - first)):
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


@compiled
def _swap_workers(layout: Layout, worker: int, other: int, temperature: float) -> None:
    node, to = layout.workers[worker].node, layout.workers[other].node
    cpu_hz = layout.workers[worker].cpu_hz - layout.workers[other].cpu_hz
    memory_mb = layout.workers[worker].memory_mb - layout.workers[other].memory_mb
    if not (
        layout.workers[other].movable
        and takes(layout, to, cpu_hz, memory_mb)
        and takes(layout, node, -cpu_hz, -memory_mb)
    ):
        return
    rise = rise_of_worker_swap(layout, worker, other)
    moved = _moved_with(layout, worker, to) + _moved_with(layout, other, node)
    restarted = _restarted_by(layout, worker, 0, 0, to) + _restarted_by(layout, other, 0, 0, node)
    price = _price(layout, moved, restarted, node, to, cpu_hz)
    relieves = _is_overloaded(layout, node, cpu_hz, memory_mb) or _is_overloaded(layout, to, -cpu_hz, -memory_mb)
    if _may(layout, moved, restarted) and (relieves or _accepts(layout, rise + price, temperature)):
        _exchange(layout, worker, other)
        _count(layout, rise, moved, restarted)


@compiled
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
    for moved in (worker, other):
        note_costs(layout, layout.workers[moved].topology)


@compiled
def _moved_with(layout: Layout, worker: int, to: int) -> int:
    """How many more executors are away from home if a worker goes to the node `to`."""
    home = layout.workers[worker].home_node
    if home == NOWHERE:
        return 0
    return int(layout.workers[worker].at_home) * (int(layout.workers[worker].node == home) - int(to == home))


# Topologies ---------------------------------------------------------------------------------------


@compiled
def _replace_topologies(layout: Layout, temperature: float) -> None:
    """Take one to three topologies that share nodes out and place them anew; undone if that raises the cost."""
    count, before = _choose_ruined(layout), 0.0
    cost, use_cost = layout.totals[0].cost, layout.totals[0].use_cost
    for number in range(count):
        topology = layout.ruined[number]
        before += cost_of_topology(layout, topology)
        _remember(layout, topology)
        layout.totals[0].steps += _PLACING * (layout.topologies[topology].last - layout.topologies[topology].first)
    for number in range(count):
        remove_topology(layout, layout.ruined[number])
    placed, after = True, 0.0
    blink, node_first = _BLINK * draw(layout), _NODE_FIRST * draw(layout)
    for number in range(count):
        placed = placed and place_topology(layout, layout.ruined[number], blink, node_first)
    if placed:
        for number in range(count):
            topology = layout.ruined[number]
            tabulate(layout, topology)
            first, last = layout.topologies[topology].first, layout.topologies[topology].last
            layout.totals[0].steps += _POLISH * (last - first)
            for step in range(_POLISH * (last - first)):
                _step_executor(layout, first + step % (last - first), 0.0)
            after += cost_of_topology(layout, topology)
        rise = after - before
        if _accepts(layout, rise + layout.totals[0].use_cost - use_cost, temperature):
            layout.totals[0].cost = cost + rise
            return
    for number in range(count):
        remove_topology(layout, layout.ruined[number])
    for number in range(count):
        _restore(layout, layout.ruined[number])
    layout.totals[0].cost, layout.totals[0].use_cost = cost, use_cost


@compiled
def _choose_ruined(layout: Layout) -> int:
    """Draw a topology and up to two that have workers on its nodes, in any order, into `ruined`; how many."""
    topology = layout.free_topologies[draw_below(layout, len(layout.free_topologies))]
    layout.ruined[0], count = topology, 1
    first, last = layout.topologies[topology].first_worker, layout.topologies[topology].last_worker
    for _ in range(draw_below(layout, len(layout.ruined))):
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


@compiled
def _remember(layout: Layout, topology: int) -> None:
    for executor in range(layout.topologies[topology].first, layout.topologies[topology].last):
        layout.kept_worker[executor] = layout.executors[executor].worker
    for worker in range(layout.topologies[topology].first_worker, layout.topologies[topology].last_worker):
        layout.kept_node[worker] = layout.workers[worker].node


@compiled
def _restore(layout: Layout, topology: int) -> None:
    for worker in range(layout.topologies[topology].first_worker, layout.topologies[topology].last_worker):
        start_worker(layout, worker, layout.kept_node[worker])
    for executor in range(layout.topologies[topology].first, layout.topologies[topology].last):
        join(layout, executor, layout.kept_worker[executor])
    tabulate(layout, topology)


# Overload -----------------------------------------------------------------------------------------


@compiled
def relieve(layout: Layout, nodes: IndexArray) -> None:
    """Take load off those of `nodes` that have too much, by random steps of what is on them; some may stay overloaded.

    These are no steps of the search, and not counted.
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
                _step_worker(layout, worker, 0.0)
            else:
                _step_executor(layout, _draw_member(layout, worker), 0.0)
                layout.workers[worker].any = layout.executors[layout.workers[worker].any].next
