"""Acceptance of a step: limits on changes, prices beside traffic, and the allowed increase of the cost.

Two sums count only if something runs: `moved`, executors that are not where they run now, and `restarted`,
workers that differ from the current ones. A step changes both, possibly by less than 0: returning home is a step like
others. A step that takes load off an overloaded node is accepted whatever it costs, within limits on changes.
"""

from __future__ import annotations

import math

from stormwright.jit.compiled import inner
from stormwright.jit.random_numbers import draw
from stormwright.optimize.kernel.costs import rise_of_load
from stormwright.optimize.kernel.records import NOWHERE, Layout


@inner
def stays_near(layout: Layout) -> bool:
    """Return whether executors away from home count."""
    return bool(layout.max_moves >= 0 or layout.move_price > 0 or _counts_restarts(layout))


@inner
def _counts_restarts(layout: Layout) -> bool:
    """Return whether restarts have a price or a limit; else they are not computed."""
    return bool(layout.max_restarts >= 0 or layout.restart_price > 0)


@inner
def accepts(layout: Layout, rise: float, temperature: float) -> bool:
    """Return whether a step with an increase is accepted: always if not above 0, else with probability exp(-rise / T).

    Metropolis' rule. A random number is sampled only if needed, and at a temperature of 0 no increase is accepted.
    """
    return bool(rise <= 0 or (temperature > 0 and draw(layout) < math.exp(-rise / temperature)))


@inner
def is_overloaded(layout: Layout, node: int, cpu_hz: float, memory_mb: float) -> bool:
    """Return whether a node lacks a resource that removing this load gives back.

    Parameters
    ----------
    layout
        Layout with the free capacity of each node; not changed.
    node
        As it is before the step.
    cpu_hz, memory_mb
        Load that would be removed; below 0 for added load.
    """
    return bool(
        (layout.nodes[node].cpu_hz_left < 0 and cpu_hz > 0) or (layout.nodes[node].memory_mb_left < 0 and memory_mb > 0)
    )


@inner
def may(layout: Layout, moved: int, restarted: int) -> bool:
    """Return whether this many more executors may be away from home, and workers restart."""
    return bool(
        (layout.max_moves < 0 or moved <= 0 or layout.totals[0].moved + moved <= layout.max_moves)
        and (layout.max_restarts < 0 or restarted <= 0 or layout.totals[0].restarted + restarted <= layout.max_restarts)
    )


@inner
def price_of(layout: Layout, moved: int, restarted: int, node: int, to: int, cpu_hz: float) -> float:
    """Return the increase of all prices beside traffic, if load of CPU goes from a node to another.

    Without nodes that come into use or out of it: only steps of workers know these.

    Parameters
    ----------
    layout
        Layout with the prices and the loads of nodes; not changed.
    moved, restarted
        Additional executors away from home, and additional workers that restart; may be negative.
    node, to
        Current and new node of the load; the same if the use of nodes is unchanged.
    cpu_hz
        CPU of that load; for an exchange the difference.
    """
    price = layout.move_price * moved + layout.restart_price * restarted
    if node != to and layout.imbalance_price > 0:
        price += rise_of_load(layout, node, -cpu_hz) + rise_of_load(layout, to, cpu_hz)
    return price


@inner
def note_step(layout: Layout, rise: float, moved: int, restarted: int) -> None:
    """Record the effects of a step, except the use of nodes, which the step itself records.

    Parameters
    ----------
    layout
        Its `totals` are written.
    rise
        Increase of the cost of traffic, without prices.
    moved, restarted
        Additional executors away from home, and additional workers that restart; may be negative.
    """
    layout.totals[0].cost += rise
    layout.totals[0].moved += moved
    layout.totals[0].restarted += restarted


@inner
def restarted_by(layout: Layout, worker: int, joined: int, came_home: int, node: int) -> int:
    """Return the additional restarts if a worker gets executors, some of them its own, and goes to a node.

    -1, 0 or 1; 0 wherever restarts have neither a price nor a limit. A worker keeps running only if it stays on its
    node with exactly its current executors: the same number, and as many of its own.

    Parameters
    ----------
    layout
        Read only; as before the step.
    worker
        One that does not run now restarts in no case.
    joined, came_home
        Executors that it gets, and those of them that run in it now; below 0 for leaving ones.
    node
        Its node after the step.
    """
    home = layout.workers[worker].home_node
    if home == NOWHERE or not _counts_restarts(layout):
        return 0
    size, at_home, own = layout.workers[worker].size, layout.workers[worker].at_home, layout.workers[worker].home_size
    unchanged = layout.workers[worker].node == home and size == own and at_home == own
    keeps = node == home and size + joined == own and at_home + came_home == own
    return int(unchanged) - int(keeps)
