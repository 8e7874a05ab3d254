"""The ways to put sets together so that every executor is in one of them and no node is used twice.

Exact cover, depth first. The first executor that is in no set yet must be in some set, and no executor before it can
be in that one: so only the sets whose first executor it is are tried, a few of all. They are sorted by worth, so that
as soon as one is too little, all that follow are. What is bounded: worth so far, that of the set, and the most that
each node left over could have.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.jit.compiled import compiled, inner
from stormwright.model.arrays import FloatArray, IndexArray


class Sets(NamedTuple):
    """Sets of executors that nodes may have.

    Parameters
    ----------
    bits, worth
        The executors of each, and what it is worth; by its first executor, then the most valuable first.
    fits
        Which kinds of nodes take it, a bit each.
    workers
        How many it has of every topology, shape (n, T); 0 where that is not looked at.
    first
        Where the sets of each first executor start in the others, shape (E + 1,).
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
        """Sets in any order.

        Parameters
        ----------
        bits, worth, fits
            Shape (n,); no set is empty.
        workers
            Shape (n, T).
        num_executors
            E, no more than 63.
        """
        lowest = np.log2(bits & -bits).astype(np.int64)
        order = np.lexsort((-worth, lowest))
        first = np.searchsorted(lowest[order], np.arange(num_executors + 1))
        return cls(bits[order], worth[order], fits[order], workers[order], first)


class Terms(NamedTuple):
    """What a way to put sets together has to be.

    Parameters
    ----------
    nodes
        How many there are of every kind.
    most_worth
        What a set on a node of every kind is worth at most, none included.
    above
        It is worth more than this.
    node, least_nodes
        What every set beyond so many is worth less in the end.
    """

    nodes: IndexArray
    most_worth: FloatArray
    above: float
    node: float
    least_nodes: int


class Way(NamedTuple):
    """A way under way: nodes and workers that are left, the set at every depth and its kind, -1 for none.

    `first_node` is where nodes of every kind start.
    """

    nodes_left: IndexArray
    workers_left: IndexArray
    chosen: IndexArray
    kind_of: IndexArray
    first_node: IndexArray


def partitions(
    sets: Sets, terms: Terms, workers: IndexArray, found: IndexArray, *, best_only: bool, most_steps: int
) -> int:
    """How many ways there are in which sets take every executor once and are worth more than so much; -1 if too many.

    Parameters
    ----------
    sets
        By their first executors.
    terms
        What a way has to be worth, and the nodes.
    workers
        How many all sets together are to have of every topology.
    found
        Written. For every way the number of the set that each node has, nodes by kind, -1 for none; shape (ways, N).
        There are too many if it is full.
    best_only
        Find only the best way, as the one and only.
    most_steps
        Sets that are tried at most.
    """
    chosen = np.zeros(int(terms.nodes.sum()) + 1, np.int64)
    way = Way(terms.nodes.copy(), workers.copy(), chosen, chosen.copy(), np.cumsum(terms.nodes) - terms.nodes)
    return _put_together(sets, terms, way, most_steps, best_only, found)


@compiled
def _put_together(sets: Sets, terms: Terms, way: Way, most_steps: int, best_only: bool, found: IndexArray) -> int:
    """See `partitions`."""
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
    """The first executor that is in no set."""
    lowest = 0
    while covered >> lowest & 1:
        lowest += 1
    return lowest


@inner
def _take(sets: Sets, way: Way, depth: int, sign: int) -> bool:
    """Take a node and workers for the set at a depth (1), or give them back (-1); whether no worker is left."""
    way.nodes_left[way.kind_of[depth]] -= sign
    complete = True
    for topology in range(len(way.workers_left)):
        way.workers_left[topology] -= sign * sets.workers[way.chosen[depth], topology]
        complete = complete and way.workers_left[topology] == 0
    return complete


@inner
def _next_choice(
    sets: Sets, terms: Terms, way: Way, depth: int, covered: int, value: float, rest: float, above: float
) -> tuple[bool, int]:
    """Go on to the next set and kind at a depth that could be in such a way; whether there is one, and sets tried.

    Parameters
    ----------
    sets, terms
        As in `partitions`.
    way
        `chosen` and `kind_of` at `depth` are written: where it goes on from, and where it stops.
    depth
        How many sets are chosen already.
    covered
        The executors in these, as bits.
    value
        What they are worth together.
    rest
        What all nodes left over could be worth at most.
    above
        The threshold.
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
def _note(way: Way, depth: int, found: IndexArray, row: int) -> None:
    """Write a way to a row of `found`: each set on the first free node of its kind."""
    for place in range(found.shape[1]):
        found[row, place] = -1
    for level in range(depth + 1):
        place = way.first_node[way.kind_of[level]]
        while found[row, place] >= 0:
            place += 1
        found[row, place] = way.chosen[level]
