"""How long a search goes on, and on how many cores."""

from __future__ import annotations

import time

import numpy as np

from stormwright.optimize.kernel.records import Layout
from stormwright.optimize.layout.start import add_up_cost
from stormwright.optimize.search.anneal import Effort, Placed
from stormwright.optimize.search.cooling import Cooling
from stormwright.optimize.search.levels import has_levels, search_levels
from stormwright.optimize.search.refine import relieve
from stormwright.optimize.search.threads import count_regions, search_apart, search_regions
from stormwright.optimize.small.tabu import improve_small, is_small

#: Steps that a core makes in a second, roughly; with a budget in seconds the first temperature goes by it.
_STEPS_PER_S = 3e6

#: Overloaded nodes that are relieved between two looks at the clock: some milliseconds.
_NODES = 16

#: Part of the time left that relieving takes at most.
_RELIEVING = 0.5

#: What may follow when time is up, until all limits hold: so many seconds, or such a part of those given if more.
_GRACE_S, _GRACE = 0.5, 0.1


class Budget:
    """Steps, or seconds from now on.

    Parameters
    ----------
    seconds
        Counts if `iterations` is 0.
    iterations
        Steps that each search makes, whatever time that takes; the outcome is then the same each time.
    threads
        Cores to search on at once; the outcome depends on their number.
    """

    def __init__(self, seconds: float, iterations: int = 0, threads: int = 1) -> None:
        self._seconds, self._iterations, self._threads = seconds, iterations, threads
        self._start = time.perf_counter()
        self._searched_s = 0.0
        #: Steps made so far.
        self.made = 0

    def improve(self, layout: Layout, share: float = 1.0) -> Placed:
        """Refine `layout` for a share of what time is left; the best placement seen, at worst the one at hand.

        Overloaded nodes come first, whatever that costs in traffic. Half as long as all but searching has taken so far
        is kept back for what comes after. Few executors are searched on dense arrays (`improve_small`), very many
        topologies region by region (`search_regions`), very large ones level by level (`search_levels`), others as a
        whole, by every thread on its own (`search_apart`).
        """
        add_up_cost(layout)
        self._relieve(layout, share)
        begun_s = self._elapsed_s()
        seconds = share * (self._seconds - begun_s - (begun_s - self._searched_s) / 2)
        if not len(layout.free_executors) or not (self._iterations or seconds > 0):
            return Placed.of(layout)
        effort = Effort(self._iterations, seconds)
        steps = self._iterations or seconds * _STEPS_PER_S
        of_all = self._iterations or steps * self._threads
        if is_small(layout):
            dense, made = improve_small(layout, self._iterations, lambda: self._elapsed_s() - begun_s >= seconds)
            best = Placed(dense.worker, dense.node, float(dense.best.rank[0]), float(dense.best.rank[1]))
        elif (regions := count_regions(layout, self._threads, of_all)) > 1:
            cooling = Cooling.of(layout, of_all)
            best, made = search_regions(layout, cooling, effort, regions, self._threads)
        elif has_levels(layout, effort):
            best, made = search_levels(layout, effort, self._threads)
        else:
            cooling = Cooling.of(layout, steps)
            best, made = search_apart(layout, cooling, effort, self._threads)
        self.made += made
        self._searched_s += self._elapsed_s() - begun_s
        return best

    def is_late(self) -> bool:
        """Whether no more time may go into room for what overloads nodes; never without a budget in seconds."""
        grace_s = max(_GRACE_S, _GRACE * self._seconds)
        return self._seconds > 0 and self._elapsed_s() > self._seconds + grace_s

    def _relieve(self, layout: Layout, share: float) -> None:
        """Take load off overloaded nodes, as long as there is time."""
        overloaded = np.flatnonzero((layout.nodes["cpu_hz_left"] < 0) | (layout.nodes["memory_mb_left"] < 0))
        begun_s = self._elapsed_s()
        until_s = begun_s + _RELIEVING * share * (self._seconds - begun_s)
        for first in range(0, len(overloaded), _NODES):
            if self._seconds and self._elapsed_s() > until_s:
                return
            relieve(layout, overloaded[first : first + _NODES])

    def _elapsed_s(self) -> float:
        return time.perf_counter() - self._start
