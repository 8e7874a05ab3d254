"""Simulated annealing: stretches of steps, each cooler than the previous one, and the best placement found.

There are two additions. The clock is checked between stretches only, whose length follows the
speed of the previous ones, so that a budget in seconds ends about in time on any machine. And limits on changes are met
by *shadow prices*: a limit alone would freeze the search once it is reached, as every further move is then forbidden.
So moves become more expensive from stretch to stretch while they are near their limit, until those with least gain
return home, and cheaper otherwise. These prices steer the search and are in no cost that is compared or returned.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stormwright.model.arrays import IndexArray
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE
from stormwright.optimize.kernel.records import Layout
from stormwright.optimize.search.cooling import Cooling
from stormwright.optimize.search.refine import refine

#: Least steps of one temperature, if time counts.
_SHORTEST = 500

#: Fraction of the limit from which moves count as at the limit; the factor of the price then, and its start relative to
#: the mean traffic of an executor.
_FULL, _SHADOW_STEP, _MIN_SHADOW = 0.97, 1.1, 0.003

#: Initial price of restarts, in the same unit, so that the first go where they gain most: once they are at their limit
#: there is no way from one topology to another.
_FIRST_RESTARTS = 10.0


@dataclass(frozen=True)
class AnnealEffort:
    """Steps of a search, or, if these are 0, seconds."""

    steps: float
    seconds: float


@dataclass(frozen=True)
class SearchedPlacement:
    """A placement found by a search.

    Parameters
    ----------
    worker, node
        Worker of every executor and node of every worker of a layout, -1 for none.
    overload
        Excess over limits, see `rank`; of tabu search CPU and memory relative to the mean demand.
    cost
        Cost of its traffic, and all prices.
    """

    worker: IndexArray
    node: IndexArray
    overload: float
    cost: float

    @classmethod
    def of(cls, layout: Layout) -> SearchedPlacement:
        """Return the current placement of `layout`."""
        return cls(layout.executors["worker"].copy(), layout.workers["node"].copy(), *rank(layout))

    @property
    def rank(self) -> tuple[float, float]:
        """Overload and cost; less is better."""
        return self.overload, self.cost


def rank(layout: Layout) -> tuple[float, float]:
    """Return the excess over limits, and the cost of traffic and all prices; less is better.

    Of CPU in Hz, of memory in MB, of further limits as `rules` count it.
    """
    left = layout.nodes["cpu_hz_left"], layout.nodes["memory_mb_left"]
    totals = layout.totals[0]
    overload = float(totals["broken"]) - sum(float(np.minimum(each, 0.0).sum()) for each in left)
    changes = layout.move_price * totals["moved"] + layout.restart_price * totals["restarted"]
    return overload, float(totals["cost"] + totals["use_cost"] + changes)


def anneal(layout: Layout, cooling: Cooling, effort: AnnealEffort) -> SearchedPlacement:
    """Refine `layout`; return the best placement found, at worst the initial one.

    Compared after each stretch, by overload, then cost. The layout itself is left as the last stretch left it.
    """
    best = SearchedPlacement.of(layout)
    for _ in stretches(layout, cooling, effort, cooling.stretches):
        if _is_better(rank(layout), best, cooling.mean):
            best = SearchedPlacement.of(layout)
    return best


def _is_better(found: tuple[float, float], best: SearchedPlacement, mean: float) -> bool:
    """Return whether overload, then cost, is less by more than the rounding error of sums of steps.

    Equal cost is not better: it would move running executors for nothing.
    """
    overload, cost = found
    if overload < best.overload * (1 - RELATIVE_TOLERANCE):
        return True
    least = RELATIVE_TOLERANCE * (abs(best.cost) + mean)
    return overload <= best.overload * (1 + RELATIVE_TOLERANCE) and cost < best.cost - least


def stretches(
    layout: Layout, cooling: Cooling, effort: AnnealEffort, number: int, first: float = 0.0, last: float = 1.0
) -> Iterator[None]:
    """Refine `layout` in about `number` stretches, from one part of a cooling to another; pause after each.

    Parameters
    ----------
    layout
        Its arrays are written by each stretch; between two it may be read.
    cooling
        Temperatures of the search.
    effort
        If in steps, each stretch has the same number. If in seconds, the first has 500, and each later one as many as
        fit into its part of the time at the speed so far, at least 500.
    number
        Approximate number of stretches, each followed by a pause.
    first, last
        Parts of the cooling from 0 to 1, so that a search of a region goes through a part of it each time.

    Yields
    ------
    Nothing, after each stretch.
    """
    begun_s = time.perf_counter()
    part, move_shadow, restart_shadow = 0.0, 0.0, cooling.mean * _FIRST_RESTARTS
    stretch = math.ceil(effort.steps / number) if effort.steps else _SHORTEST
    while part < 1:
        totals = layout.totals[0]
        move_shadow = _shadow_price(move_shadow, totals["moved"], layout.max_moves, cooling.mean)
        restart_shadow = _shadow_price(restart_shadow, totals["restarted"], layout.max_restarts, cooling.mean)
        dearer = layout._replace(
            move_price=layout.move_price + move_shadow, restart_price=layout.restart_price + restart_shadow
        )
        refine(dearer, stretch, cooling.temperature(first + (last - first) * part))
        made = int(layout.totals["steps"][0])
        if effort.steps:
            part = made / effort.steps
        else:
            part = (time.perf_counter() - begun_s) / effort.seconds
            stretch = max(int(made / max(part, 1e-3) / number), _SHORTEST)
        yield


def _shadow_price(before: float, changed: int, most: int, mean: float) -> float:
    """Return the additional price of moves, or restarts, for the search: higher near their limit, else lower.

    So those with least gain return home, and others can be tried; with the limit alone nothing would change.
    """
    if most <= 0:
        return 0.0
    if changed < _FULL * most:
        return before / _SHADOW_STEP
    return max(before * _SHADOW_STEP, mean * _MIN_SHADOW)
