"""Every set of executors that could be part of something better than what is known, and all ways to put sets together.

Prices of executors, workers and nodes bound what a placement keeps (`exact`): a set that is worth less than the best on
its node by more than what is unproven is in no better placement. Most sets go with one number of workers only, so ways
are first looked for without these; if there are too many, then once more with every number of workers apart.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from operator import add
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.optimize.bounds.sets.node_sets import find_sets
from stormwright.optimize.bounds.sets.partition import Sets, Terms, partitions
from stormwright.optimize.bounds.sets.small_problem import Executors, FoundSets, Kind, Scratch, SetPrices, members_of
from stormwright.optimize.bounds.sets.worker_split import lost_in_workers, tabulate_losses

#: Sets that are put together, and ways to do so that are looked at, at most.
_MANY, _WAYS = 1_500_000, 2_000

#: Steps of a search for sets, and sets tried in putting them together, that surely fit into a second: neither looks at
#: the clock.
STEPS_PER_S, _TRIES_PER_S = 500_000, 100_000_000

#: Sets split by their workers between looks at the clock; part of the time for looking without workers.
_CHUNK, _FIRST = 1_000, 0.3

#: Seconds of one search, at most.
_LONGEST_S = 400.0


class Unproven(NamedTuple):
    """What prices leave unproven.

    Parameters
    ----------
    tops
        What a set on a node of every kind is worth at most, none included.
    paid
        What all sets together pay at least; with `tops` for all nodes it is `most`.
    least_nodes
        No placement is on fewer; any set beyond so many is not paid for its node.
    most, known
        What a placement is proven to keep at most, and what the best known one keeps.
    """

    prices: SetPrices
    tops: FloatArray
    paid: float
    least_nodes: int
    most: float
    known: float


class Puzzle(NamedTuple):
    """What is put together.

    Parameters
    ----------
    executors
        Of the problem.
    workers
        How many each topology has, shape (T,).
    kinds
        All nodes, those that are alike together.
    same
        Within what two sums are the same; weighted tuples/s.
    """

    executors: Executors
    workers: IndexArray
    kinds: Sequence[Kind]
    same: float


def put_together(puzzle: Puzzle, unproven: Unproven, until: float, scratch: Scratch) -> float | None:
    """The most that is kept in any way, -inf if none keeps more than known; None if not all ways could be tried.

    Parameters
    ----------
    puzzle
        What is put together.
    unproven
        The prices, and what they leave open.
    until
        When to give up, of `time.perf_counter`. Loops do not look at it: their steps are limited by what fits into it.
    scratch
        Written.
    """
    sets = _listed(puzzle, unproven, until, scratch)
    if sets is None:
        return None
    nodes = np.array([kind.nodes for kind in puzzle.kinds])
    ways = np.zeros((_WAYS, int(nodes.sum())), np.int64)
    above = unproven.known + puzzle.same - unproven.paid
    terms = Terms(nodes, unproven.tops, above, unproven.prices.node, unproven.least_nodes)
    first = time.perf_counter() + (until - time.perf_counter()) * _FIRST
    none = np.zeros_like(puzzle.workers)
    count = partitions(sets, terms, none, ways, best_only=False, most_steps=fitting(_TRIES_PER_S, first))
    if count < 0:  # too many, most of them with more or fewer workers than there are
        by_workers = _by_workers(puzzle, unproven, sets, until, scratch)
        if by_workers is None:
            return None
        sets = by_workers
        tries = fitting(_TRIES_PER_S, until)
        count = partitions(sets, terms, puzzle.workers, ways, best_only=True, most_steps=tries)
    if count < 0:
        return None
    return max((_kept(puzzle, sets, way, scratch) for way in ways[:count]), default=-np.inf)


def compile_loops(puzzle: Puzzle, unproven: Unproven, scratch: Scratch) -> None:
    """Have the machine code ready before any clock runs: with a puzzle of which something is unproven."""
    sets = _listed(puzzle, unproven, np.inf, scratch)
    split = _by_workers(puzzle, unproven, sets, np.inf, scratch) if sets else None
    if split:
        nodes, way = np.array([kind.nodes for kind in puzzle.kinds]), np.zeros((1, 2), np.int64)
        terms = Terms(nodes, unproven.tops, 0.0, unproven.prices.node, unproven.least_nodes)
        partitions(split, terms, puzzle.workers, way, best_only=True, most_steps=1)
    _splits(puzzle, 1, 1, scratch)


def fitting(per_second: int, until: float) -> int:
    """As many as fit into the time until then, at so many a second; that time counts as 0.001 to 400 seconds."""
    return int(min(max(until - time.perf_counter(), 0.001), _LONGEST_S) * per_second)


def _listed(puzzle: Puzzle, unproven: Unproven, until: float, scratch: Scratch) -> Sets | None:
    """Each set that could be in a better placement, with the kinds of nodes for which it could; None if too many."""
    executors = puzzle.executors
    bits: list[NDArray[np.int64]] = []
    worth: list[FloatArray] = []
    kinds: list[IndexArray] = []
    found = FoundSets.of(_MANY, len(puzzle.workers))
    for number, kind in enumerate(puzzle.kinds):
        above = unproven.tops[number] - (unproven.most - unproven.known) - puzzle.same
        steps = fitting(STEPS_PER_S, until)
        count, complete, _ = find_sets(executors, unproven.prices, kind, above, np.inf, found, scratch, steps)
        if not complete or time.perf_counter() > until:
            return None
        bits.append(found.bits[:count].copy())
        worth.append(found.worth[:count].copy())
        kinds.append(np.full(count, 1 << number))
    every, inverse = np.unique(np.concatenate(bits), return_inverse=True)
    if not len(every):
        return None
    fits, most = np.zeros(len(every), np.int64), np.full(len(every), -np.inf)
    np.bitwise_or.at(fits, inverse, np.concatenate(kinds))
    np.maximum.at(most, inverse, np.concatenate(worth))  # with more ports it may be worth more
    no_workers = np.zeros((len(every), len(puzzle.workers)), np.int64)
    return Sets.of(every, most, fits, no_workers, executors.tps.shape[0])


def _by_workers(puzzle: Puzzle, unproven: Unproven, sets: Sets, until: float, scratch: Scratch) -> Sets | None:
    """Every set once for each number of workers that it can be in and be worth enough; None if time is over."""
    executors, prices = puzzle.executors, unproven.prices
    ports = max(kind.ports for kind in puzzle.kinds)
    members = members_of(sets.bits[:, None], executors.tps.shape[0])
    within = np.einsum("ne,ef,nf->n", members, executors.tps, members, optimize=True) / 2
    whole = (executors.near + executors.inner) * within + prices.node - members @ prices.executor
    enough = min(unproven.tops) - (unproven.most - unproven.known) - puzzle.same
    most = np.minimum(puzzle.workers, ports)
    below = whole - np.minimum(0.0, prices.worker * most).sum() - enough
    lost = np.full((len(whole), len(most), int(most.max()) + 1), np.inf)
    for first in range(0, len(whole), _CHUNK):
        if time.perf_counter() > until:
            return None
        part = slice(first, first + _CHUNK)
        tabulate_losses(executors, sets.bits[part], below[part], scratch, lost[part])
    row, counts, worth = np.arange(len(whole)), np.zeros((len(whole), 0), np.int64), whole
    for topology, price in enumerate(prices.worker.tolist()):
        chosen, number = np.nonzero(np.isfinite(lost[row, topology]))
        worth = worth[chosen] - lost[row[chosen], topology, number] - price * number
        counts, row = np.column_stack([counts[chosen], number]), row[chosen]
    fits = sets.fits[row]
    for position, kind in enumerate(puzzle.kinds):
        fits[counts.sum(axis=1) > kind.ports] &= ~(1 << position)
    good = (fits > 0) & (worth > enough)
    return Sets.of(sets.bits[row[good]], worth[good], fits[good], counts[good], executors.tps.shape[0])


def _kept(puzzle: Puzzle, sets: Sets, way: IndexArray, scratch: Scratch) -> float:
    """What nodes that have these sets keep with as many workers as there are to be; -inf if there cannot be."""
    executors, workers = puzzle.executors, puzzle.workers
    ports = np.repeat([kind.ports for kind in puzzle.kinds], [kind.nodes for kind in puzzle.kinds])
    lost = {(0,) * len(workers): 0.0}  # workers so far, by topology → what is lost by them
    within = 0.0
    for number, most in zip(way.tolist(), ports.tolist(), strict=True):
        if number < 0:
            continue
        bits = int(sets.bits[number])
        members = members_of(bits, len(executors.tps))
        within += float(members @ executors.tps @ members) / 2
        after: dict[tuple[int, ...], float] = {}
        for used, before in lost.items():
            for counts, more in _splits(puzzle, bits, most, scratch).items():
                total = tuple(map(add, used, counts))
                after[total] = min(after.get(total, np.inf), before + more)
        lost = after
    least = lost.get(tuple(workers.tolist()), np.inf)
    return (executors.near + executors.inner) * within - least


def _splits(puzzle: Puzzle, bits: int, ports: int, scratch: Scratch) -> dict[tuple[int, ...], float]:
    """Numbers of workers that a set can be in, by topology → what is lost by them."""
    found: dict[tuple[int, ...], float] = {(): 0.0}
    for topology, most in enumerate(puzzle.workers.tolist()):
        ranges = [
            (workers, lost_in_workers(puzzle.executors, bits, topology, workers, np.inf, scratch))
            for workers in range(min(most, ports) + 1)
        ]
        found = {
            (*counts, workers): before + more
            for counts, before in found.items()
            for workers, more in ranges
            if more < np.inf and sum(counts) + workers <= ports
        }
    return found
