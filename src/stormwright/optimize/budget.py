"""How long a search goes on, and how it cools down over that."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from stormwright.model.arrays import IndexArray
from stormwright.optimize.records import Layout
from stormwright.optimize.refine import refine
from stormwright.optimize.start import add_up_cost

#: Steps that a core makes in a second, roughly; with a budget in seconds the first temperature goes by it.
_STEPS_PER_S = 3e6

#: Stretches of one temperature in a search, at least so many in each cooling, and steps that one has at least.
_STRETCHES, _FEWEST_STRETCHES, _SHORTEST = 200, 40, 500

#: A cooling takes at most so many steps for each topology of E executors, factor × E ** power; then comes the next.
#: It takes no fewer than `_FEWEST_STRETCHES` × 50, or Python between them would take longer than the steps.
_COOLING, _COOLING_POWER, _SHORTEST_COOLING = 2, 2.7, 50 * _FEWEST_STRETCHES

#: First and last temperature, in parts of what an executor exchanges on average and what uneven CPU costs through it;
#: the first for very many topologies, and what is added for a single one, which is never placed anew as a whole. With
#: few steps for each executor there is no time to recover from a hot start.
_HOTTEST, _HOTTER, _HEAT_PER_STEP, _COLDEST = 0.1, 0.2, 1.2e-4, 0.001

#: Moves are at their limit from this part of it on; the price then goes up by this factor, from this part of what an
#: executor exchanges on average.
_FULL, _SHADOW_STEP, _LEAST_SHADOW = 0.97, 1.1, 0.003

#: Restarts begin at such a price, in the same parts, so that the first go where they gain most: once they are at their
#: limit there is no way from one topology to another.
_FIRST_RESTARTS = 10.0


class Budget:
    """Steps, or seconds from now on.

    Parameters
    ----------
    seconds
        Counts if `iterations` is 0.
    iterations
        Steps that each search makes, whatever time that takes; the outcome is then the same each time.
    """

    def __init__(self, seconds: float, iterations: int = 0) -> None:
        self._seconds, self._iterations = seconds, iterations
        self._start = time.perf_counter()
        self._searched_s = 0.0
        #: Steps made so far.
        self.made = 0

    def improve(self, layout: Layout, share: float = 1.0) -> Placed:
        """Refine `layout` for a share of what time is left; the best placement seen, at worst the one at hand.

        Half as long as all but searching has taken so far is kept back for what comes after. An overload counts before
        any cost.
        """
        add_up_cost(layout)
        best = Placed.of(layout)
        executors = len(layout.free_executors)
        begun_s = self._elapsed_s()
        seconds = share * (self._seconds - begun_s - (begun_s - self._searched_s) / 2)
        if not executors or not (self._iterations or seconds > 0):
            return best
        steps = self._iterations or seconds * _STEPS_PER_S
        mean = _mean_rise(layout)
        sizes = np.bincount(layout.executors["topology"][layout.free_executors])
        most = _HOTTEST + _HOTTER * sizes.max() / executors
        hottest = min(most, max(_HEAT_PER_STEP * steps / executors, _COLDEST))
        cooling = max(_COOLING * float((sizes.astype(float) ** _COOLING_POWER).sum()), _SHORTEST_COOLING)
        coolings = max(1, round(steps / cooling))
        stretches = max(_STRETCHES, _FEWEST_STRETCHES * coolings)
        part, move_shadow, restart_shadow = 0.0, 0.0, mean * _FIRST_RESTARTS
        stretch = math.ceil(steps / stretches) if self._iterations else _SHORTEST
        while part < 1:
            cooled = part * coolings % 1
            totals = layout.totals[0]
            move_shadow = _shadow_price(move_shadow, totals["moved"], layout.max_moves, mean)
            restart_shadow = _shadow_price(restart_shadow, totals["restarted"], layout.max_restarts, mean)
            dearer = layout._replace(
                move_price=layout.move_price + move_shadow, restart_price=layout.restart_price + restart_shadow
            )
            refine(dearer, stretch, mean * hottest ** (1 - cooled) * _COLDEST**cooled)
            if rank(layout) < (best.overload, best.cost):
                best = Placed.of(layout)
            made = int(layout.totals["steps"][0])
            if self._iterations:
                part = made / steps
            else:
                part = (self._elapsed_s() - begun_s) / seconds
                stretch = max(int(made / max(part, 1e-3) / stretches), _SHORTEST)
        self.made += made
        self._searched_s += self._elapsed_s() - begun_s
        return best

    def _elapsed_s(self) -> float:
        return time.perf_counter() - self._start


def _mean_rise(layout: Layout) -> float:
    """What an executor exchanges on average, and what uneven CPU costs through it where that has a price."""
    free = layout.executors[layout.free_executors]
    capacity = layout.nodes["cpu_hz"][layout.nodes["cpu_hz"] > 0]
    uneven = layout.imbalance_price * 2 * free["cpu_hz"].mean() ** 2 / capacity.mean() if len(capacity) else 0.0
    return float(free["tps"].mean() + uneven)


def _shadow_price(before: float, changed: int, most: int, mean: float) -> float:
    """What moves, or restarts, cost for the search beyond their price: more while they are at their limit, else less.

    So those come home that gain least, and others can be tried; at the mere limit all would stay as they are.
    """
    if most <= 0:
        return 0.0
    if changed < _FULL * most:
        return before / _SHADOW_STEP
    return max(before * _SHADOW_STEP, mean * _LEAST_SHADOW)


@dataclass(frozen=True)
class Placed:
    """A placement that a search came by.

    Parameters
    ----------
    worker, node
        Worker of every executor and node of every worker of a layout, -1 for none.
    overload
        CPU and memory beyond what nodes have, as sums of Hz and MB.
    cost
        That of its traffic, and all prices.
    """

    worker: IndexArray
    node: IndexArray
    overload: float
    cost: float

    @classmethod
    def of(cls, layout: Layout) -> Placed:
        """The placement that `layout` is now."""
        return cls(layout.executors["worker"].copy(), layout.workers["node"].copy(), *rank(layout))


def rank(layout: Layout) -> tuple[float, float]:
    """What is beyond the CPU (Hz) and memory (MB) of nodes, and the cost of traffic and all prices; less is better."""
    left = layout.nodes["cpu_hz_left"], layout.nodes["memory_mb_left"]
    overload = -sum(float(np.minimum(each, 0.0).sum()) for each in left)
    totals = layout.totals[0]
    changes = layout.move_price * totals["moved"] + layout.restart_price * totals["restarted"]
    return overload, float(totals["cost"] + totals["use_cost"] + changes)
