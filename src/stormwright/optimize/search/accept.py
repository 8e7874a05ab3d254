"""Whether a step is taken: what it may change, what that costs beside traffic, and by how much the cost may rise.

Two sums that count only where something runs: `moved`, executors that are not where they run now, and `restarted`,
workers that are not exactly what they are now. A step knows by how much it changes both, which may be by less than 0:
coming home is a step like others. A step that takes load off an overloaded node is taken whatever it costs, within
limits on changes.
"""

from __future__ import annotations

import math

from stormwright.jit.compiled import inner
from stormwright.jit.random_numbers import draw
from stormwright.optimize.kernel.costs import rise_of_load
from stormwright.optimize.kernel.records import NOWHERE, Layout


@inner
def stays_near(layout: Layout) -> bool:
    """Whether it counts what is away from home."""
    return bool(layout.max_moves >= 0 or layout.move_price > 0 or _counts_restarts(layout))


@inner
def _counts_restarts(layout: Layout) -> bool:
    """Whether restarts have a price or a limit; else they are not worked out."""
    return bool(layout.max_restarts >= 0 or layout.restart_price > 0)


@inner
def accepts(layout: Layout, rise: float, temperature: float) -> bool:
    """Whether a step that raises the cost by so much is taken: always if by nothing, else with chance exp(-rise / T).

    Metropolis' rule. No random number is drawn where none is needed, and at a temperature of 0 nothing that costs is
    taken.
    """
    return bool(rise <= 0 or (temperature > 0 and draw(layout) < math.exp(-rise / temperature)))


@inner
def is_overloaded(layout: Layout, node: int, cpu_hz: float, memory_mb: float) -> bool:
    """Whether a node lacks something that taking so much off it gives back.

    Parameters
    ----------
    layout
        Read only.
    node
        As it is before the step.
    cpu_hz, memory_mb
        What it would be rid of; below 0 for what it would get.
    """
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
    """By how much all rises that counts beside traffic, if so much CPU goes from a node to another.

    But for nodes that come into use or out of it: only steps of workers know of these.

    Parameters
    ----------
    layout
        Read only.
    moved, restarted
        How many more executors are away from home, and how many more workers restart, or fewer.
    node, to
        Where the load is now and where it goes; the same if nodes are used as before.
    cpu_hz
        That load; of an exchange the difference.
    """
    price = layout.move_price * moved + layout.restart_price * restarted
    if node != to and layout.imbalance_price > 0:
        price += rise_of_load(layout, node, -cpu_hz) + rise_of_load(layout, to, cpu_hz)
    return price


@inner
def note_step(layout: Layout, rise: float, moved: int, restarted: int) -> None:
    """Note what a step that is made changes, except how nodes are used, which the step itself notes.

    Parameters
    ----------
    layout
        Its `totals` are written.
    rise
        Of the cost of traffic, without prices.
    moved, restarted
        As for `price_of`.
    """
    layout.totals[0].cost += rise
    layout.totals[0].moved += moved
    layout.totals[0].restarted += restarted


@inner
def restarted_by(layout: Layout, worker: int, joined: int, came_home: int, node: int) -> int:
    """How many more workers restart if one gets so many executors, some of them its own, and goes to a node.

    -1, 0 or 1; 0 wherever restarts have neither a price nor a limit. A worker is left running only if it stays on its
    node with the very executors that it has now: as many as then, and as many of its own.

    Parameters
    ----------
    layout
        Read only; as before the step.
    worker
        One that does not run now restarts in no case.
    joined, came_home
        Executors that it gets, and those of them that run in it now; below 0 for what leaves it.
    node
        Where it is after the step.
    """
    home = layout.workers[worker].home_node
    if home == NOWHERE or not _counts_restarts(layout):
        return 0
    size, at_home, own = layout.workers[worker].size, layout.workers[worker].at_home, layout.workers[worker].home_size
    kept = layout.workers[worker].node == home and size == own and at_home == own
    keeps = node == home and size + joined == own and at_home + came_home == own
    return int(kept) - int(keeps)
