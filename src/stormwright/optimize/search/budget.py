"""Budget of a search: its duration, and the number of threads."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from stormwright.optimize.kernel.records import Layout
from stormwright.optimize.kernel.rules import copied
from stormwright.optimize.layout.coarsen import coarsen, find_large
from stormwright.optimize.layout.regions import cut_into_regions
from stormwright.optimize.layout.start import add_up_cost, rearrange
from stormwright.optimize.search.anneal import AnnealEffort, SearchedPlacement, anneal, stretches
from stormwright.optimize.search.cooling import Cooling
from stormwright.optimize.search.refine import relieve
from stormwright.optimize.search.tabu import improve_small, is_small

#: Executors of a region, and how many executors of the largest topology make one larger, so that few lie across.
_REGION, _OF_LARGEST = 2500, 8

#: A layout of fewer regions is searched as a whole: it is as fast, and nothing lies across. With this many steps per
#: executor, the time to cut it is negligible.
_FEWEST, _FEWEST_OF_MANY, _MANY_STEPS = 8, 3, 300

#: Cuts into regions in each cooling that has this many steps an executor (one in shorter ones), and stretches of one
#: temperature in each region then.
_CUTS, _LONG, _STRETCHES = 3, 30, 16

#: Fields that no search changes.
_SHARED = ("links", "pull", "flowing", "flows", "racks", "rack_nodes")

#: Most places in a worker of joined executors, from the finest level that has any.
_PLACES = (3, 6, 12)

#: First temperature of each level, relative to the mean traffic, finest first, if there are enough steps: it is at most
#: this much for each step of the level. The finer ones must not undo what is good.
_HEATS, _HEAT_PER_STEP = (0.03, 0.05, 0.1, 0.25), 0.02

#: With fewer steps per executor joining takes longer than it gains.
_FEWEST_STEPS = 5

#: Approximate steps per second of a core on topologies of this size.
_JOINED_STEPS_PER_S = 1e6

#: Budget of a level when time is over: only enough for the fewest steps.
_MIN_S = 1e-6

#: Approximate steps per second of a core; with a budget in seconds the first temperature depends on it.
_STEPS_PER_S = 3e6

#: Overloaded nodes that are relieved between two checks of the clock: some milliseconds.
_NODES = 16

#: Largest fraction of the remaining time for relieving.
_RELIEVING = 0.5

#: Extension of the time until all limits hold: seconds, or a fraction of the given ones if more.
_GRACE_S, _GRACE = 0.5, 0.1


# Searches on one or several threads, which run in parallel as compiled code needs no interpreter. The outcome depends
# on the seed, the steps and the number of threads, and not on which thread is faster.
#
# There are two ways, as problems differ. `search_independently`: every thread searches the whole from the same
# placement with separate random numbers, and the best counts: for few topologies, where all steps meet.
# `search_regions`: every thread searches other regions of one placement at once, for very many topologies: with k
# threads k times as many steps.
def count_regions(layout: Layout, threads: int, steps: float = 0) -> int:
    """Return the number of regions for a layout; 1 for none. None if changes count: all share that limit.

    Parameters
    ----------
    layout
        Layout whose limits, prices and movable executors decide; not changed.
    threads
        Number of threads; regions are a multiple.
    steps
        Approximate number of steps, of all regions together.
    """
    if max(layout.max_moves, layout.max_restarts) >= 0 or max(layout.move_price, layout.restart_price) > 0:
        return 1
    sizes = np.bincount(layout.executors["topology"][layout.free_executors])
    regions = int(sizes.sum() / max(_REGION, _OF_LARGEST * sizes.max()))
    fewest = _FEWEST_OF_MANY if steps >= _MANY_STEPS * sizes.sum() else _FEWEST
    return -(-regions // threads) * threads if regions >= fewest else 1


def search_regions(
    layout: Layout, cooling: Cooling, effort: AnnealEffort, regions: int, threads: int
) -> tuple[SearchedPlacement, int]:
    """Refine a layout by regions, cut differently a few times in each cooling; return the best placement, and steps.

    Every thread has separate regions.

    Parameters
    ----------
    layout
        Written; it ends as the last cut left it.
    cooling
        Each cut goes through its part of it.
    effort
        Steps of all regions together, or seconds.
    regions
        Number of regions, a multiple of `threads`.
    threads
        Each refines every `threads`-th region, one after the other.
    """
    best = SearchedPlacement.of(layout)
    rng = np.random.default_rng(layout.random)
    rounds = cooling.times * (_CUTS if cooling.steps_an_executor >= _LONG else 1)
    begun_s = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        for number in range(rounds):
            span = number / rounds, (number + 1) / rounds
            with cut_into_regions(layout, regions, rng) as parts:
                free = sum(len(part.free_executors) for part in parts)
                steps = effort.steps / rounds / max(free, 1)  # all topologies may lie across
                ends_s = begun_s + span[1] * effort.seconds
                refine_some = partial(_refine_in_turn, cooling=cooling, span=span, steps=steps, ends_s=ends_s)
                started = [pool.submit(refine_some, parts[thread::threads]) for thread in range(threads)]
                wait(started)  # for all, also if one fails: they work on what is put together again after this
                for each in started:
                    each.result()
            best = min(best, SearchedPlacement.of(layout), key=lambda placed: placed.rank)
    return best, int(layout.totals["steps"][0])


def _refine_in_turn(
    regions: list[Layout], cooling: Cooling, span: tuple[float, float], steps: float, ends_s: float
) -> None:
    """Refine one region after the other, each for its share of the time left or number of steps an executor."""
    left = sum(len(region.free_executors) for region in regions)
    for region in regions:
        size = len(region.free_executors)
        seconds = max((ends_s - time.perf_counter()) * size / left, _MIN_S)
        left -= size
        for _ in stretches(region, cooling, AnnealEffort(steps * size, seconds), _STRETCHES, *span):
            pass


def search_independently(
    layout: Layout, cooling: Cooling, effort: AnnealEffort, threads: int
) -> tuple[SearchedPlacement, int]:
    """Refine a layout by every thread separately, with other random numbers; return the best placement, and all steps.

    Of equal ones the first counts.

    Parameters
    ----------
    layout
        Searched by the first thread, hence written; the others have copies of mutable data.
    cooling
        The same for all.
    effort
        Steps or seconds of each thread.
    threads
        Number of concurrent searches, each in a thread.
    """
    rng = np.random.default_rng(layout.random)
    layouts = [layout, *(_copy(layout, rng) for _ in range(1, threads))]
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(lambda each: anneal(each, cooling, effort), layouts))
    return min(found, key=lambda placed: placed.rank), sum(int(each.totals["steps"][0]) for each in layouts)


def _copy(layout: Layout, rng: np.random.Generator) -> Layout:
    """Return a layout that can be searched concurrently, with its own random numbers."""
    own: dict[str, Any] = {
        name: value.copy()
        for name, value in layout._asdict().items()
        if isinstance(value, np.ndarray) and name not in _SHARED
    }
    own["rules"] = copied(layout.rules)
    return Layout(**{**layout._asdict(), **own, "random": rng.integers(2**64, size=1, dtype=np.uint64)})


# Very large topologies are searched level by level: first with executors joined several times, last with single ones.
#
# So a step first moves a whole group of executors, which single steps would have to take apart: G. Karypis, V.
# Kumar, "A Fast and High Quality Multilevel Scheme for Partitioning Irregular Graphs", SIAM Journal on Scientific
# Computing 20, 1998, https://doi.org/10.1137/S1064827595287997; with annealing in place of their refinement.
#
# ::
#
#     executors ─join─▶ ≤ 3 places ─join─▶ ≤ 6 places ─join─▶ ≤ 12 places
#     search 4  ◀─────   search 3  ◀─────   search 2  ◀─────   search 1, the hottest
#
# Executors are joined within workers only, so each level represents the placement of the previous one at the same
# cost.
def has_levels(layout: Layout, effort: AnnealEffort) -> bool:
    """Return whether most movable executors are of large topologies, moves cost nothing, and steps are many."""
    stays = max(layout.max_moves, layout.max_restarts) >= 0 or max(layout.move_price, layout.restart_price) > 0
    joined = find_large(layout)[layout.executors["topology"][layout.free_executors]]
    enough = (effort.steps or effort.seconds * _JOINED_STEPS_PER_S) >= _FEWEST_STEPS * len(joined)
    return enough and not stays and 2 * int(np.count_nonzero(joined)) > len(joined)


def search_levels(layout: Layout, effort: AnnealEffort, threads: int) -> tuple[SearchedPlacement, int]:
    """Refine a layout level by level, each for the same time; return the best placement, and steps made.

    Every level begins with the best placement of the previous one, so none gives a worse one than that.
    """
    ends_s = time.perf_counter() + effort.seconds
    rng = np.random.default_rng(layout.random)
    levels, groups, large = [layout], [], find_large(layout)
    for most in _PLACES:
        level, number_of = coarsen(levels[-1], large, most, rng)
        levels.append(level)
        groups.append(number_of)
    made = 0
    for number in reversed(range(len(levels))):
        level, executors = levels[number], len(levels[number].free_executors)
        level.totals["steps"] = 0
        seconds = max((ends_s - time.perf_counter()) / (number + 1), _MIN_S)
        share = AnnealEffort(effort.steps / len(levels), seconds)
        steps = share.steps or seconds * _JOINED_STEPS_PER_S
        cooling = Cooling.of(level, steps).begun_at(min(_HEATS[number], _HEAT_PER_STEP * steps / executors))
        best, steps_made = search_independently(level, cooling, share, threads)
        made += steps_made
        if number:
            best = replace(best, worker=best.worker[groups[number - 1]])
            rearrange(levels[number - 1], best.worker, best.node)
    return best, made


class Budget:
    """Steps, or seconds from now on.

    Parameters
    ----------
    seconds
        Counts if `iterations` is 0.
    iterations
        Steps of each search, whatever time that takes; the outcome is then reproducible.
    threads
        Cores to search on at once; the outcome depends on their number.
    """

    def __init__(self, seconds: float, iterations: int = 0, threads: int = 1) -> None:
        self._seconds, self._iterations, self._threads = seconds, iterations, threads
        self._start = time.perf_counter()
        self._searched_s = 0.0
        #: Steps made so far.
        self.made = 0

    def improve(self, layout: Layout, share: float = 1.0) -> SearchedPlacement:
        """Refine `layout` for a share of the remaining time; return the best placement found, at worst the initial one.

        Overloaded nodes come first, whatever that costs in traffic. Half as long as all but searching has taken so far
        is reserved for the steps after it. Few executors are searched on dense arrays (`improve_small`), very many
        topologies region by region (`search_regions`), very large ones level by level (`search_levels`), others as a
        whole, by every thread separately (`search_independently`).
        """
        add_up_cost(layout)
        self._relieve(layout, share)
        begun_s = self._elapsed_s()
        seconds = share * (self._seconds - begun_s - (begun_s - self._searched_s) / 2)
        if not len(layout.free_executors) or not (self._iterations or seconds > 0):
            return SearchedPlacement.of(layout)
        effort = AnnealEffort(self._iterations, seconds)
        steps = self._iterations or seconds * _STEPS_PER_S
        of_all = self._iterations or steps * self._threads
        if is_small(layout):
            dense, made = improve_small(layout, self._iterations, lambda: self._elapsed_s() - begun_s >= seconds)
            best = SearchedPlacement(dense.worker, dense.node, float(dense.best.rank[0]), float(dense.best.rank[1]))
        elif (regions := count_regions(layout, self._threads, of_all)) > 1:
            cooling = Cooling.of(layout, of_all)
            best, made = search_regions(layout, cooling, effort, regions, self._threads)
        elif has_levels(layout, effort):
            best, made = search_levels(layout, effort, self._threads)
        else:
            cooling = Cooling.of(layout, steps)
            best, made = search_independently(layout, cooling, effort, self._threads)
        self.made += made
        self._searched_s += self._elapsed_s() - begun_s
        return best

    def is_late(self) -> bool:
        """Return whether no more time may be spent on overloaded nodes; never without a budget in seconds."""
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
