"""The ways to put sets together so that every executor is in one of them and no node is used twice."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.optimize.kernel.compiled import compiled


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
        """Sets in any order."""
        lowest = np.log2(bits & -bits).astype(np.int64)
        order = np.lexsort((-worth, lowest))
        first = np.searchsorted(lowest[order], np.arange(num_executors + 1))
        return cls(bits[order], worth[order], fits[order], workers[order], first)


def partitions(
    sets: Sets,
    nodes: IndexArray,
    most_worth: FloatArray,
    above: float,
    node: float,
    least_nodes: int,
    most_steps: int,
    workers: IndexArray,
    best_only: bool,
    found: IndexArray,
) -> int:
    """How many ways there are in which sets take every executor once and are worth more than so much; -1 if too many.

    Parameters
    ----------
    nodes
        How many there are of every kind.
    most_worth
        What a set on a node of every kind is worth at most, none included.
    node, least_nodes
        What every set beyond so many is worth less in the end.
    most_steps
        Sets that are tried at most.
    workers
        How many all sets together are to have of every topology.
    best_only
        Find only the best way, as the one and only.
    found
        For every way the number of the set that each node has, nodes by kind, -1 for none; shape (ways, N). There are
        too many if it is full.
    """
    chosen = np.zeros(int(nodes.sum()) + 1, np.int64)
    first_node = np.cumsum(nodes) - nodes
    return _put_together(
        sets,
        nodes.copy(),
        most_worth,
        above,
        node,
        least_nodes,
        most_steps,
        workers.copy(),
        best_only,
        chosen,
        chosen.copy(),
        first_node,
        found,
    )


@compiled
def _put_together(
    sets: Sets,
    nodes_left: IndexArray,
    most_worth: FloatArray,
    above: float,
    node: float,
    least_nodes: int,
    most_steps: int,
    workers_left: IndexArray,
    best_only: bool,
    chosen: IndexArray,
    kind_of: IndexArray,
    first_node: IndexArray,
    found: IndexArray,
) -> int:
    """See `partitions`; what is left of nodes and workers is changed."""
    num_executors = len(sets.first) - 1
    kinds = len(nodes_left)
    everyone = (1 << num_executors) - 1
    rest = 0.0
    for kind in range(kinds):
        rest += nodes_left[kind] * most_worth[kind]
    depth, covered, value, steps, number_found = 0, 0, 0.0, 0, 0
    chosen[0], kind_of[0] = sets.first[0], -1
    while depth >= 0:
        if kind_of[depth] >= 0:  # back from what was tried with it
            kind = kind_of[depth]
            nodes_left[kind] += 1
            rest += most_worth[kind]
            covered ^= sets.bits[chosen[depth]]
            value -= sets.worth[chosen[depth]]
            for topology in range(len(workers_left)):
                workers_left[topology] += sets.workers[chosen[depth], topology]
        lowest = 0
        while covered >> lowest & 1:
            lowest += 1
        kind_of[depth] += 1
        least = np.inf
        for kind in range(kinds):
            if nodes_left[kind]:
                least = min(least, most_worth[kind])
        placed = False
        while chosen[depth] < sets.first[lowest + 1]:
            number = chosen[depth]
            if value + sets.worth[number] + rest - least <= above:
                break
            steps += 1
            fits = sets.bits[number] & covered == 0
            for topology in range(len(workers_left)):
                fits = fits and sets.workers[number, topology] <= workers_left[topology]
            if fits:
                while kind_of[depth] < kinds and not (
                    sets.fits[number] >> kind_of[depth] & 1
                    and nodes_left[kind_of[depth]]
                    and value + sets.worth[number] + rest - most_worth[kind_of[depth]] > above
                ):
                    kind_of[depth] += 1
                if kind_of[depth] < kinds:
                    placed = True
                    break
            chosen[depth] += 1
            kind_of[depth] = 0
        if steps > most_steps:
            return -1
        if not placed:
            depth -= 1
            continue
        number, kind = chosen[depth], kind_of[depth]
        nodes_left[kind] -= 1
        rest -= most_worth[kind]
        covered |= sets.bits[number]
        value += sets.worth[number]
        complete = True
        for topology in range(len(workers_left)):
            workers_left[topology] -= sets.workers[number, topology]
            complete = complete and workers_left[topology] == 0
        if covered == everyone:
            total = value - node * (depth + 1 - least_nodes)
            if not complete or total <= above:
                continue
            if best_only:
                above, number_found = total, 0
            if number_found == len(found):
                return -1
            for place in range(found.shape[1]):
                found[number_found, place] = -1
            for level in range(depth + 1):
                place = first_node[kind_of[level]]
                while found[number_found, place] >= 0:
                    place += 1
                found[number_found, place] = chosen[level]
            number_found += 1
            continue
        depth += 1
        if depth == len(chosen):
            depth -= 1
            continue
        lowest = 0
        while covered >> lowest & 1:
            lowest += 1
        chosen[depth], kind_of[depth] = sets.first[lowest], -1
    return number_found
