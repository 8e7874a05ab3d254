"""Searches on one or several threads, which run at the same time as compiled code needs no interpreter.

The outcome depends on the seed, the steps and the number of threads, and not on which thread is faster.

Two ways, as problems differ. `search_apart`: every thread searches the whole from the same placement with random
numbers of its own, and the best counts: for few topologies, where all steps meet. `search_regions`: every thread
searches other regions of one placement at once, for very many topologies: with k threads k times as many steps.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any

import numpy as np

from stormwright.optimize.kernel.records import Layout
from stormwright.optimize.kernel.rules import copied
from stormwright.optimize.layout.regions import cut_into_regions
from stormwright.optimize.search.anneal import Effort, Placed, anneal, stretches
from stormwright.optimize.search.cooling import Cooling

#: Executors of a region, and how many executors of the largest topology make one larger, so that few lie across.
_REGION, _OF_LARGEST = 2500, 8

#: A layout of fewer regions is searched as a whole: as fast, and nothing lies across. With so many steps for each
#: executor, what it takes to cut it is soon made up for.
_FEWEST, _FEWEST_OF_MANY, _MANY_STEPS = 8, 3, 300

#: How often regions are cut anew in each cooling that has so many steps an executor (once in shorter ones), and
#: stretches of one temperature in each region then.
_CUTS, _LONG, _STRETCHES = 3, 30, 16

#: A region is not left out when time is over: too little to make more than the fewest steps.
_LEAST_S = 1e-6

#: What no search changes.
_SHARED = ("links", "pull", "flowing", "flows", "racks", "rack_nodes")


def count_regions(layout: Layout, threads: int, steps: float = 0) -> int:
    """How many regions to cut a layout into; 1 for none. Not where what runs had better stay: all share that limit.

    Parameters
    ----------
    layout
        Read only.
    threads
        How many search; regions are a multiple.
    steps
        About how many there will be, of all regions together.
    """
    if max(layout.max_moves, layout.max_restarts) >= 0 or max(layout.move_price, layout.restart_price) > 0:
        return 1
    sizes = np.bincount(layout.executors["topology"][layout.free_executors])
    regions = int(sizes.sum() / max(_REGION, _OF_LARGEST * sizes.max()))
    fewest = _FEWEST_OF_MANY if steps >= _MANY_STEPS * sizes.sum() else _FEWEST
    return -(-regions // threads) * threads if regions >= fewest else 1


def search_regions(layout: Layout, cooling: Cooling, effort: Effort, regions: int, threads: int) -> tuple[Placed, int]:
    """Refine a layout region by region, cut otherwise a few times in each cooling; the best placement, and steps made.

    Every thread has regions of its own.

    Parameters
    ----------
    layout
        Written; it ends as the last cut left it.
    cooling
        Each cut goes through its part of it.
    effort
        Steps of all regions together, or seconds.
    regions
        How many to cut it into, a multiple of `threads`.
    threads
        Each refines every `threads`-th region, one after the other.
    """
    best = Placed.of(layout)
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
            best = min(best, Placed.of(layout), key=lambda placed: placed.rank)
    return best, int(layout.totals["steps"][0])


def _refine_in_turn(
    regions: list[Layout], cooling: Cooling, span: tuple[float, float], steps: float, ends_s: float
) -> None:
    """Refine one region after the other, each for its share of the time left or with so many steps an executor."""
    left = sum(len(region.free_executors) for region in regions)
    for region in regions:
        size = len(region.free_executors)
        seconds = max((ends_s - time.perf_counter()) * size / left, _LEAST_S)
        left -= size
        for _ in stretches(region, cooling, Effort(steps * size, seconds), _STRETCHES, *span):
            pass


def search_apart(layout: Layout, cooling: Cooling, effort: Effort, threads: int) -> tuple[Placed, int]:
    """Refine a layout by every thread on its own, with other random numbers; the best placement, and all steps made.

    Of equal ones the first counts.

    Parameters
    ----------
    layout
        Searched by the first thread, hence written; the others have copies of what changes.
    cooling
        The same for all.
    effort
        Of each thread.
    threads
        How many.
    """
    rng = np.random.default_rng(layout.random)
    layouts = [layout, *(_copy(layout, rng) for _ in range(1, threads))]
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(lambda each: anneal(each, cooling, effort), layouts))
    return min(found, key=lambda placed: placed.rank), sum(int(each.totals["steps"][0]) for each in layouts)


def _copy(layout: Layout, rng: np.random.Generator) -> Layout:
    """A layout that another one may be searched beside, with random numbers of its own."""
    own: dict[str, Any] = {
        name: value.copy()
        for name, value in layout._asdict().items()
        if isinstance(value, np.ndarray) and name not in _SHARED
    }
    own["rules"] = copied(layout.rules)
    return Layout(**{**layout._asdict(), **own, "random": rng.integers(2**64, size=1, dtype=np.uint64)})
