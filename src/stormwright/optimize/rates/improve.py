"""A whole search: in stretches that cool down, with rates that grow to what the placement sustains by then."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.optimize.rates.records import Sustained
from stormwright.optimize.rates.score import THROUGHPUT, add_up, fullest
from stormwright.optimize.rates.search import keep, search

_STRETCHES = 40

#: By what part a step may make things worse so that it is taken with probability 1/e, at first and at last.
_HOT, _COLD = 0.02, 0.0002

#: Steps between two looks at the clock.
_LOOK = 2_000

#: How often rates are made what a placement sustains at the rates of before; and what is no load.
_CLOSER, _IDLE = 3, 1e-9


@dataclass(frozen=True)
class Effort:
    """Steps to try, or where that is 0 seconds to take."""

    steps: int
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Improved:
    """The best of a search: worker of every executor, node of every worker, how good it is, and the steps tried.

    `badness` compares placements of one problem and aim: the less the better. `short` is what memory (MB) nodes lack,
    and ports: no more than where the search began.
    """

    worker: IndexArray
    node: IndexArray
    badness: float
    short: float
    steps: int = 0


def improve(of: Sustained, effort: Effort) -> Improved:
    """Search from the placement that `of` is; the best seen at the end of a stretch.

    Parameters
    ----------
    of
        Written.
    effort
        How long.
    """
    wished = of.topologies["rate"].copy()
    best, made = _noted(of, wished), 0
    heat, cooler = _HOT, (_COLD / _HOT) ** (1 / (_STRETCHES - 1))
    for _ in range(_STRETCHES):
        made += _searched(of, Effort(-(-effort.steps // _STRETCHES), effort.seconds / _STRETCHES), heat)
        now = _noted(of, wished)
        best = now if now.badness < best.badness else best
        heat *= cooler
    return replace(best, steps=made)


def _searched(of: Sustained, effort: Effort, heat: float) -> int:
    """Search for a stretch at one heat; the steps that were tried."""
    if effort.steps:
        search(of, effort.steps, heat, 1.0)
        return effort.steps
    made, end = 0, time.perf_counter() + effort.seconds
    while len(of.free) and time.perf_counter() < end:
        search(of, _LOOK, heat, 1.0)
        made += _LOOK
    return made


def _noted(of: Sustained, wished_tps: FloatArray) -> Improved:
    """The placement as it is, and how good; for highest rates, go on with those that it sustains.

    What does not grow with the rates (workers, silent topologies) then weighs as much as it will.
    """
    add_up(of)
    if of.state["kind"][0] != THROUGHPUT:
        badness = float(of.state["score"][0])
    else:
        for _ in range(_CLOSER):
            of.topologies["rate"] /= max(fullest(of), _IDLE)
            add_up(of)
        grown = np.divide(of.topologies["rate"], wished_tps, out=np.ones(len(wished_tps)), where=wished_tps > 0)
        badness = -float(grown.min(initial=np.inf))
    worker, node = np.empty(len(of.executors), np.int64), np.empty(len(of.workers), np.int64)
    keep(of, worker, node)
    return Improved(worker, node, badness, float(of.state["short"][0]))
