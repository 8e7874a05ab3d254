"""Steps of executors: to another worker of the topology, or in exchange with one there.

A proposal, in order: a worker is drawn; if it has a place and its node has room, the executor goes there; if it has
none, or that step is not taken, the executor changes places with one drawn from there. Whatever is tried keeps all
limits, so that a placement within them stays so. Neither may empty a worker: Storm would not start it.
"""

from __future__ import annotations

import math

from stormwright.jit.compiled import inner
from stormwright.jit.draw import draw, draw_below
from stormwright.optimize.kernel.costs import is_away, rise_of_executor, rise_of_swap
from stormwright.optimize.kernel.records import NOWHERE, Layout
from stormwright.optimize.kernel.steps import rise_of_rules, shift_executor, takes
from stormwright.optimize.search.accept import accepts, is_overloaded, may, note_step, price_of, restarted_by

#: A rise of so many temperatures is not taken: one in 10 million would be.
_HOPELESS = 16

#: By how many places of its ring the executor drawn from a worker is further than that before, at most.
_STRIDE = 4

#: Part of the steps towards where something is that tuples are exchanged with, among very many workers; else to any.
NEIGHBOURS = 0.8


@inner
def draw_member(layout: Layout, worker: int) -> int:
    """One of the next few executors in the ring of a worker, which becomes its head, so that all have their turn."""
    executor = layout.workers[worker].any
    for _ in range(1 + draw_below(layout, _STRIDE)):
        executor = layout.executors[executor].next
    layout.workers[worker].any = executor
    return int(executor)


@inner
def _draw_worker(layout: Layout, executor: int) -> int:
    """Another worker that an executor may go to: where one is that it exchanges tuples with, or any; or -1."""
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
    """Move an executor to another worker, or exchange it with one there; or leave all as it is.

    Its worker must be movable and on a node. Where the node of the worker is no longer usable it may leave, but not
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
    """Exchange an executor with one drawn from the worker `to`, if limits allow it and it is taken.

    Limits are looked at before the cost, which takes longest to work out.
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
    """How many more executors are away from home if one goes to the worker `to`."""
    home = layout.executors[executor].home
    if home == NOWHERE:
        return 0
    comes_home = to == home and layout.workers[home].node == layout.workers[home].home_node
    return int(not comes_home) - int(is_away(layout, executor))
