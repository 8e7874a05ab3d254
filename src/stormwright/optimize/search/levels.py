"""A search of very large topologies level by level: first of executors joined several times, last of single ones.

What a step moves is so first a whole group of executors, which single steps would have to take apart: G. Karypis, V.
Kumar, "A Fast and High Quality Multilevel Scheme for Partitioning Irregular Graphs", SIAM Journal on Scientific
Computing 20, 1998, https://doi.org/10.1137/S1064827595287997; with annealing in place of their refinement.

::

    executors ─join─▶ ≤ 3 places ─join─▶ ≤ 6 places ─join─▶ ≤ 12 places
    search 4  ◀─────   search 3  ◀─────   search 2  ◀─────   search 1, the hottest

Executors are joined within workers only, so each level holds the placement of the one before without a change of cost.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from stormwright.optimize.kernel.records import Layout
from stormwright.optimize.layout.coarsen import coarsen, find_large
from stormwright.optimize.layout.start import rearrange
from stormwright.optimize.search.anneal import Effort, Placed
from stormwright.optimize.search.cooling import Cooling
from stormwright.optimize.search.threads import search_apart

#: Places in a worker that executors which are joined take at most, from the finest level that has any.
_PLACES = (3, 6, 12)

#: First temperature of each level, in parts of what is exchanged on average, finest first, if there are steps enough:
#: it is at most so much for each step that one of the level makes. The finer ones must not undo what is good.
_HEATS, _HEAT_PER_STEP = (0.03, 0.05, 0.1, 0.25), 0.02

#: With fewer steps for each executor joining takes longer than it gains.
_FEWEST_STEPS = 5

#: Steps that a core makes in a second on so large topologies, roughly.
_STEPS_PER_S = 1e6

#: A level is not left out when time is over: too little to make more than the fewest steps.
_LEAST_S = 1e-6


def has_levels(layout: Layout, effort: Effort) -> bool:
    """Whether most of what may move is of topologies that are large enough, moves cost nothing, and steps are many."""
    stays = max(layout.max_moves, layout.max_restarts) >= 0 or max(layout.move_price, layout.restart_price) > 0
    joined = find_large(layout)[layout.executors["topology"][layout.free_executors]]
    enough = (effort.steps or effort.seconds * _STEPS_PER_S) >= _FEWEST_STEPS * len(joined)
    return enough and not stays and 2 * int(np.count_nonzero(joined)) > len(joined)


def search_levels(layout: Layout, effort: Effort, threads: int) -> tuple[Placed, int]:
    """Refine a layout level by level, each for as long; the best placement, at worst the one at hand, and steps made.

    Every level begins with the best placement of the one before, so none gives a worse one than that.
    """
    ends_s = time.perf_counter() + effort.seconds
    rng = np.random.default_rng(layout.random)
    levels, of, large = [layout], [], find_large(layout)
    for most in _PLACES:
        level, number_of = coarsen(levels[-1], large, most, rng)
        levels.append(level)
        of.append(number_of)
    made = 0
    for number in reversed(range(len(levels))):
        level, executors = levels[number], len(levels[number].free_executors)
        level.totals["steps"] = 0
        seconds = max((ends_s - time.perf_counter()) / (number + 1), _LEAST_S)
        share = Effort(effort.steps / len(levels), seconds)
        steps = share.steps or seconds * _STEPS_PER_S
        cooling = Cooling.of(level, steps).begun_at(min(_HEATS[number], _HEAT_PER_STEP * steps / executors))
        best, steps_made = search_apart(level, cooling, share, threads)
        made += steps_made
        if number:
            best = replace(best, worker=best.worker[of[number - 1]])
            rearrange(levels[number - 1], best.worker, best.node)
    return best, made
