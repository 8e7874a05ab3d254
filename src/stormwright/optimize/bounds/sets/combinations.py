"""Enumeration of all combinations of sets of executors that could be better than the known solution.

Prices of executors, workers and nodes bound the traffic that a placement keeps (`exact`): a set that is worth less than
the best on its node by more than the unproven gap is in no better placement. Most sets have only one possible number of
workers, so combinations are first searched without these; if there are too many, then once more with every number of
workers as a separate set.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from operator import add
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.jit.compiled import compiled, inner
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.optimize.bounds.sets.node_sets import find_sets
from stormwright.optimize.bounds.sets.small_problem import Executors, FoundSets, Kind, Scratch, SetPrices, members_of
from stormwright.optimize.bounds.sets.worker_split import lost_in_workers, tabulate_losses


# Exact cover, depth first: combinations of sets in which every executor is in one set and no node is used twice. The
# first executor that is in no set yet must be in some set, and no executor before it can be in that one: so only the
# sets whose first executor it is are tried, a few of all. They are sorted by worth, so that as soon as one is too
# little, all that follow are. The bound: worth so far, that of the set, and the most that each remaining node could
# have.
class Sets(NamedTuple):
    """Sets of executors that nodes may have.

    Parameters
    ----------
    bits, worth
        Executors and worth of each; by its first executor, then the most valuable first.
    fits
        Kinds of nodes that take it, a bit each.
    workers
        Number of its workers of every topology, shape (n, T); 0 if not considered.
    first
        First set of each first executor in the others, shape (E + 1,).
    """

    bits: NDArray[np.int64]
    worth: FloatArray
    fits: NDArray[np.int64]
    workers: IndexArray
    first: IndexArray

    @classmethod
    def of(
        cls,
        bits: NDArray[np.int64],
        worth: FloatArray,
        fits: NDArray[np.int64],
        workers: IndexArray,
        num_executors: int,
    ) -> Sets:
        """Return sets from unsorted ones.

        Parameters
        ----------
        bits, worth, fits
            As in the class, unsorted, shape (n,); no set is empty.
        workers
            Number of workers of each set by topology, shape (n, T).
        num_executors
            E, no more than 63.
        """
        lowest = np.log2(bits & -bits).astype(np.int64)
        order = np.lexsort((-worth, lowest))
        first = np.searchsorted(lowest[order], np.arange(num_executors + 1))
        return cls(bits[order], worth[order], fits[order], workers[order], first)


class CombinationLimits(NamedTuple):
    """Requirements of a combination of sets.

    Parameters
    ----------
    nodes
        Number of nodes of every kind.
    most_worth
        The most that a set on a node of every kind is worth, the empty set included.
    above
        Threshold of its worth.
    node, least_nodes
        Amount that every set beyond this number is worth less.
    """

    nodes: IndexArray
    most_worth: FloatArray
    above: float
    node: float
    least_nodes: int


class PartialCombination(NamedTuple):
    """A combination under construction: remaining nodes and workers, the set at every depth and its kind, -1 for none.

    `first_node` is the first node of every kind.
    """

    nodes_left: IndexArray
    workers_left: IndexArray
    chosen: IndexArray
    kind_of: IndexArray
    first_node: IndexArray


def partitions(
    sets: Sets, terms: CombinationLimits, workers: IndexArray, found: IndexArray, *, best_only: bool, most_steps: int
) -> int:
    """Return the number of combinations that contain every executor once and exceed the threshold; -1 if too many.

    Parameters
    ----------
    sets
        Possible sets by their first executors.
    terms
        Requirements of a combination, and the nodes.
    workers
        Number of workers of every topology, of all sets together.
    found
        Written. For every combination the number of the set of each node, nodes by kind, -1 for none; shape (ways, N).
        There are too many if it is full.
    best_only
        Find only the best one.
    most_steps
        Maximum number of sets to try.
    """
    chosen = np.zeros(int(terms.nodes.sum()) + 1, np.int64)
    way = PartialCombination(
        terms.nodes.copy(), workers.copy(), chosen, chosen.copy(), np.cumsum(terms.nodes) - terms.nodes
    )
    return _combine(sets, terms, way, most_steps, best_only, found)


@compiled
def _combine(
    sets: Sets, terms: CombinationLimits, way: PartialCombination, most_steps: int, best_only: bool, found: IndexArray
) -> int:
    """Count combinations, see `partitions`."""
    everyone = (1 << (len(sets.first) - 1)) - 1
    above, rest = terms.above, 0.0
    for kind in range(len(terms.nodes)):
        rest += terms.nodes[kind] * terms.most_worth[kind]
    depth, covered, value, steps, number_found = 0, 0, 0.0, 0, 0
    way.chosen[0], way.kind_of[0] = sets.first[0], -1
    while depth >= 0:
        if way.kind_of[depth] >= 0:  # back from what was tried with it
            rest += terms.most_worth[way.kind_of[depth]]
            covered ^= sets.bits[way.chosen[depth]]
            value -= sets.worth[way.chosen[depth]]
            _take(sets, way, depth, -1)
        way.kind_of[depth] += 1
        placed, tried = _next_choice(sets, terms, way, depth, covered, value, rest, above)
        steps += tried
        if steps > most_steps:
            return -1
        if not placed:
            depth -= 1
            continue
        rest -= terms.most_worth[way.kind_of[depth]]
        covered |= sets.bits[way.chosen[depth]]
        value += sets.worth[way.chosen[depth]]
        complete = _take(sets, way, depth, 1)
        if covered == everyone:
            total = value - terms.node * (depth + 1 - terms.least_nodes)
            if not complete or total <= above:
                continue
            if best_only:
                above, number_found = total, 0
            if number_found == len(found):
                return -1
            _note(way, depth, found, number_found)
            number_found += 1
        elif depth + 1 < len(way.chosen):
            depth += 1
            way.chosen[depth], way.kind_of[depth] = sets.first[_lowest(covered)], -1
    return number_found


@inner
def _lowest(covered: int) -> int:
    """Return the first executor that is in no set."""
    lowest = 0
    while covered >> lowest & 1:
        lowest += 1
    return lowest


@inner
def _take(sets: Sets, way: PartialCombination, depth: int, sign: int) -> bool:
    """Take a node and workers for the set at a depth (1), or release them (-1); return whether no worker is left."""
    way.nodes_left[way.kind_of[depth]] -= sign
    complete = True
    for topology in range(len(way.workers_left)):
        way.workers_left[topology] -= sign * sets.workers[way.chosen[depth], topology]
        complete = complete and way.workers_left[topology] == 0
    return complete


@inner
def _next_choice(
    sets: Sets,
    terms: CombinationLimits,
    way: PartialCombination,
    depth: int,
    covered: int,
    value: float,
    rest: float,
    above: float,
) -> tuple[bool, int]:
    """Advance to the next possible set and kind at a depth; return whether there is one, and the sets tried.

    Parameters
    ----------
    sets, terms
        Possible sets by first executor, and the requirements of a combination.
    way
        `chosen` and `kind_of` at `depth` are written: where it continues from, and where it stops.
    depth
        Number of sets chosen already.
    covered
        The executors in these, as bits.
    value
        Total worth of the sets chosen already.
    rest
        The most that all remaining nodes could be worth.
    above
        Threshold of the worth.
    """
    kinds, tried, least = len(way.nodes_left), 0, math.inf
    for kind in range(kinds):
        if way.nodes_left[kind]:
            least = min(least, terms.most_worth[kind])
    last = sets.first[_lowest(covered) + 1]
    while way.chosen[depth] < last:
        number = way.chosen[depth]
        if value + sets.worth[number] + rest - least <= above:
            break
        tried += 1
        fits = sets.bits[number] & covered == 0
        for topology in range(len(way.workers_left)):
            fits = fits and sets.workers[number, topology] <= way.workers_left[topology]
        if fits:
            kind = way.kind_of[depth]
            while kind < kinds and not (
                sets.fits[number] >> kind & 1
                and way.nodes_left[kind]
                and value + sets.worth[number] + rest - terms.most_worth[kind] > above
            ):
                kind += 1
            way.kind_of[depth] = kind
            if kind < kinds:
                return True, tried
        way.chosen[depth] += 1
        way.kind_of[depth] = 0
    return False, tried


@inner
def _note(way: PartialCombination, depth: int, found: IndexArray, row: int) -> None:
    """Write a combination to a row of `found`: each set on the first free node of its kind."""
    for place in range(found.shape[1]):
        found[row, place] = -1
    for level in range(depth + 1):
        place = way.first_node[way.kind_of[level]]
        while found[row, place] >= 0:
            place += 1
        found[row, place] = way.chosen[level]


#: Most sets that are combined, and most combinations.
_MANY, _WAYS = 1_500_000, 2_000

#: Steps of a search for sets, and sets tried in combinations, that surely fit into a second: neither looks at the
#: clock.
STEPS_PER_S, _TRIES_PER_S = 500_000, 100_000_000

#: Sets split by their workers between checks of the clock; fraction of the time for combinations without workers.
_CHUNK, _FIRST = 1_000, 0.3

#: Most seconds of one search.
_LONGEST_S = 400.0


class ProofGap(NamedTuple):
    """Gap that prices leave unproven.

    Parameters
    ----------
    tops
        The most that a set on a node of every kind is worth, the empty set included.
    paid
        The least that all sets together pay; with `tops` for all nodes it is `most`.
    least_nodes
        No placement is on fewer; sets beyond this number are not paid for their node.
    most, known
        Upper bound of the traffic that a placement keeps, and that of the best known one.
    """

    prices: SetPrices
    tops: FloatArray
    paid: float
    least_nodes: int
    most: float
    known: float


class EnumerationInput(NamedTuple):
    """Input of the enumeration.

    Parameters
    ----------
    executors
        Executors of the problem.
    workers
        Number of workers of each topology, shape (T,).
    kinds
        All nodes, identical ones together.
    same
        Tolerance for equal sums; weighted tuples/s.
    """

    executors: Executors
    workers: IndexArray
    kinds: Sequence[Kind]
    same: float


def combine_sets(puzzle: EnumerationInput, unproven: ProofGap, until: float, scratch: Scratch) -> float | None:
    """Return the most traffic of any combination, -inf if none exceeds the known one; None if incomplete.

    Parameters
    ----------
    puzzle
        Input of the enumeration.
    unproven
        The prices, and the gap that they leave.
    until
        Deadline, of `time.perf_counter`. Loops do not look at it: their steps are limited to what fits into it.
    scratch
        Preallocated arrays of the search for sets; overwritten.
    """
    sets = _listed(puzzle, unproven, until, scratch)
    if sets is None:
        return None
    nodes = np.array([kind.nodes for kind in puzzle.kinds])
    ways = np.zeros((_WAYS, int(nodes.sum())), np.int64)
    above = unproven.known + puzzle.same - unproven.paid
    terms = CombinationLimits(nodes, unproven.tops, above, unproven.prices.node, unproven.least_nodes)
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
    return max((_saved(puzzle, sets, way, scratch) for way in ways[:count]), default=-np.inf)


def compile_loops(puzzle: EnumerationInput, unproven: ProofGap, scratch: Scratch) -> None:
    """Compile the loops before any clock runs, with an input with an unproven gap."""
    sets = _listed(puzzle, unproven, np.inf, scratch)
    split = _by_workers(puzzle, unproven, sets, np.inf, scratch) if sets else None
    if split:
        nodes, way = np.array([kind.nodes for kind in puzzle.kinds]), np.zeros((1, 2), np.int64)
        terms = CombinationLimits(nodes, unproven.tops, 0.0, unproven.prices.node, unproven.least_nodes)
        partitions(split, terms, puzzle.workers, way, best_only=True, most_steps=1)
    _splits(puzzle, 1, 1, scratch)


def fitting(per_second: int, until: float) -> int:
    """Return the number of steps until the deadline at this rate; that time counts as 0.001 to 400 seconds."""
    return int(min(max(until - time.perf_counter(), 0.001), _LONGEST_S) * per_second)


def _listed(puzzle: EnumerationInput, unproven: ProofGap, until: float, scratch: Scratch) -> Sets | None:
    """Return each set that could be in a better placement, with its possible kinds of nodes; None if too many."""
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


def _by_workers(
    puzzle: EnumerationInput, unproven: ProofGap, sets: Sets, until: float, scratch: Scratch
) -> Sets | None:
    """Return every set once for each possible number of workers with sufficient worth; None if time is over."""
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


def _saved(puzzle: EnumerationInput, sets: Sets, way: IndexArray, scratch: Scratch) -> float:
    """Return the local traffic of these sets with the required number of workers; -inf if that is impossible."""
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


def _splits(puzzle: EnumerationInput, bits: int, ports: int, scratch: Scratch) -> dict[tuple[int, ...], float]:
    """Return the possible numbers of workers of a set, by topology, with the loss of each."""
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
