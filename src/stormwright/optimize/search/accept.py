"""Whether a step is taken: what it may change, what that costs beside traffic, and by how much the cost may rise."""

from __future__ import annotations

import math

from stormwright.optimize.kernel.compiled import inner
from stormwright.optimize.kernel.costs import rise_of_load
from stormwright.optimize.kernel.draw import draw
from stormwright.optimize.kernel.records import NOWHERE, Layout


@inner
def stays_near(layout: Layout) -> bool:
    """Whether it counts what is away from home."""
    return bool(layout.max_moves >= 0 or layout.move_price > 0 or _counts_restarts(layout))


@inner
def _counts_restarts(layout: Layout) -> bool:
    return bool(layout.max_restarts >= 0 or layout.restart_price > 0)


@inner
def accepts(layout: Layout, rise: float, temperature: float) -> bool:
    return bool(rise <= 0 or (temperature > 0 and draw(layout) < math.exp(-rise / temperature)))


@inner
def is_overloaded(layout: Layout, node: int, cpu_hz: float, memory_mb: float) -> bool:
    """Whether a node lacks something that taking so much off it gives back."""
    return bool(
        (layout.nodes[node].cpu_hz_left < 0 and cpu_hz > 0) or (layout.nodes[node].memory_mb_left < 0 and memory_mb > 0)
    )


@inner
def may(layout: Layout, moved: int, restarted: int) -> bool:
    """Whether so many more executors may be away from home, and so many more workers restart."""
    return bool(
        (layout.max_moves < 0 or moved <= 0 or layout.totals[0].moved + moved <= layout.max_moves)
        and (layout.max_restarts < 0 or restarted <= 0 or layout.totals[0].restarted + restarted <= layout.max_restarts)
    )


@inner
def price_of(layout: Layout, moved: int, restarted: int, node: int, to: int, cpu_hz: float) -> float:
    """By how much all that rises that counts beside traffic, if so much CPU goes from a node to another."""
    price = layout.move_price * moved + layout.restart_price * restarted
    if node != to and layout.imbalance_price > 0:
        price += rise_of_load(layout, node, -cpu_hz) + rise_of_load(layout, to, cpu_hz)
    return price


@inner
def note_step(layout: Layout, rise: float, moved: int, restarted: int) -> None:
    """Note what a step that is made changes, except how nodes are used."""
    layout.totals[0].cost += rise
    layout.totals[0].moved += moved
    layout.totals[0].restarted += restarted


@inner
def restarted_by(layout: Layout, worker: int, joined: int, came_home: int, node: int) -> int:
    """How many more workers restart if one gets so many executors, some of them its own, and goes to a node."""
    home = layout.workers[worker].home_node
    if home == NOWHERE or not _counts_restarts(layout):
        return 0
    size, at_home, own = layout.workers[worker].size, layout.workers[worker].at_home, layout.workers[worker].home_size
    kept = layout.workers[worker].node == home and size == own and at_home == own
    keeps = node == home and size + joined == own and at_home + came_home == own
    return int(kept) - int(keeps)
