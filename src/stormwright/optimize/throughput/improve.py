"""The whole search: stretches that cool down, with rates that grow to those sustained by the current placement.

Of a large problem half of the steps are about topologies on the fullest nodes, and the others go through all topologies
in turn, so that the data of a step is in the cache.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, repeat

import numpy as np

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.optimize.throughput.records import PlacementState
from stormwright.optimize.throughput.score import NODES, THROUGHPUT, add_up, headroom
from stormwright.optimize.throughput.search import keep, search

#: Number of stretches, and the most overhead after each relative to the steps, or the time, of one.
_STRETCHES, _FEWEST, _STEPS_A_TOPOLOGY, _TIMES = 40, 4, 8, 4

#: Relative increase that is accepted with probability 1/e, at first and at last.
_HOT, _COLD = 0.02, 0.0002

#: They are relative to the whole score, in which the weight of a node falls with their number: with more nodes than
#: these, they are proportionally less. Else a step might overload any node, and a large cluster would only get worse.
_NODES = 10

#: With fewer steps per executor than these the start is proportionally colder: there is no time to recover from a hot
#: one.
_ENOUGH = 100.0

#: Steps a second, about.
_A_SECOND = 50_000

#: Executors of a batch.
_AT_A_TIME = 2_500

#: Steps between two checks of the clock.
_LOOK = 2_000

#: Factor of growth beyond which no known limit applies.
_ENDLESS = 1e9


@dataclass(frozen=True)
class ImproveEffort:
    """Steps to try, or if that is 0 seconds."""

    steps: int
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class ImprovedPlacement:
    """Best result of a search: worker of every executor, node of every worker, its score, and the steps tried.

    `badness` compares placements of one problem and aim: less is better. `short` is the lack of memory (MB) of nodes,
    and of ports: no more than at the start of the search.
    """

    worker: IndexArray
    node: IndexArray
    badness: float
    short: float
    steps: int = 0


def improve(state: PlacementState, effort: ImproveEffort) -> ImprovedPlacement:
    """Search from the current placement of `state`; return the best at the end of a stretch.

    Parameters
    ----------
    state
        Placement from which the search starts, and which it changes.
    effort
        Length of the search.
    """
    wished, begun_s = state.topologies["rate"].copy(), time.perf_counter()
    best, made = _noted(state, wished), 0
    stretches = _stretches(state, effort, time.perf_counter() - begun_s)
    heat = max(_HOT * min(about_steps(effort) / max(_ENOUGH * len(state.free), 1.0), 1.0), _COLD)
    cooler = (_COLD / heat) ** (1 / (stretches - 1))
    if state.scoring["kind"][0] != NODES:
        heat *= min(_NODES / max(len(state.nodes), 1), 1.0)
    turns = _in_turn(state)
    for _ in range(stretches):
        made += _searched(state, ImproveEffort(-(-effort.steps // stretches), effort.seconds / stretches), heat, turns)
        now = _noted(state, wished)
        best = now if now.badness < best.badness else best
        heat *= cooler
    return replace(best, steps=made)


def about_steps(effort: ImproveEffort) -> float:
    """Return the number of steps; for seconds, approximately."""
    return effort.steps or effort.seconds * _A_SECOND


def _stretches(state: PlacementState, effort: ImproveEffort, noting_s: float) -> int:
    if effort.steps:
        most = effort.steps // (_STEPS_A_TOPOLOGY * max(len(state.topologies), 1))
    else:
        most = int(min(effort.seconds / max(_TIMES * noting_s, 1e-9), about_steps(effort) / _LOOK))
    return min(max(most, _FEWEST), _STRETCHES)


def _in_turn(state: PlacementState) -> Iterator[IndexArray]:
    """Yield batches of movable executors, without end."""
    if len(state.free) <= _AT_A_TIME:
        return repeat(state.free)
    parts = np.array_split(state.free, -(-len(state.free) // _AT_A_TIME))
    return chain.from_iterable(repeat(parts))


def _hot(state: PlacementState) -> IndexArray:
    """Return executors of topologies on the nodes with the worst terms of the score."""
    rank = np.empty(len(state.nodes), np.int64)
    rank[np.argsort(-state.nodes["term"], kind="stable")] = np.arange(len(rank))
    topology = state.executors["topology"][state.free]
    ranks = rank[state.workers["node"][state.executors["worker"][state.free]]]
    best = np.full(len(state.topologies), len(rank))
    np.minimum.at(best, topology, ranks)
    count = np.bincount(topology, minlength=len(best))
    order = np.argsort(best, kind="stable")
    chosen = np.zeros(len(best), bool)
    chosen[order[: np.searchsorted(np.cumsum(count[order]), _AT_A_TIME) + 1]] = True
    return np.compress(chosen[topology], state.free)


def _searched(state: PlacementState, effort: ImproveEffort, heat: float, turns: Iterator[IndexArray]) -> int:
    """Search for a stretch at one temperature; return the number of steps tried."""
    hot = _hot(state) if len(state.free) > _AT_A_TIME else state.free
    made, end = 0, time.perf_counter() + effort.seconds
    while made < effort.steps or (not effort.steps and len(state.free) and time.perf_counter() < end):
        if hot is state.free:
            steps, free = effort.steps or _LOOK, hot
        else:
            steps = min(_LOOK, effort.steps - made) if effort.steps else _LOOK
            free = next(turns) if made // _LOOK % 2 else hot
        search(state._replace(free=free), steps, heat, 1.0)
        made += steps
    return made


def _noted(state: PlacementState, wished_tps: FloatArray) -> ImprovedPlacement:
    """Return the current placement, and its score; for highest rates, continue with those that it sustains.

    Demand that does not grow with the rates (workers, silent topologies) then has its final weight. If that alone is
    too much, rates are unchanged.
    """
    add_up(state)
    if state.scoring["kind"][0] != THROUGHPUT:
        badness = float(state.scoring["score"][0])
    elif (grows := min(headroom(state), _ENDLESS)) > 0:
        state.topologies["rate"] *= grows
        add_up(state)
        begins = wished_tps > 0
        badness = -float((state.topologies["rate"][begins] / wished_tps[begins]).min(initial=np.inf))
    else:
        badness = 0.0
    worker, node = np.empty(len(state.executors), np.int64), np.empty(len(state.workers), np.int64)
    keep(state, worker, node)
    return ImprovedPlacement(worker, node, badness, float(state.scoring["short"][0]))
