"""What two executors exchange, divided between them so that a bound on any set of executors is low.

The bound is that of the quadratic knapsack problem: A. Caprara, D. Pisinger, P. Toth, "Exact Solution of the Quadratic
Knapsack Problem", INFORMS Journal on Computing 11, 1999, https://doi.org/10.1287/ijoc.11.2.125.

A set S is worth Σ own_i over its executors and Σ pair_ij over its pairs. Let executor i have share_ij of a pair and j
the rest::

    pair_ij = share_ij + share_ji,    share_ij = pair_ij / 2 + skew_ij,    skew_ij = -skew_ji

Then i is worth no more than own_i and its best shares with those that fit beside it, and S no more than the best
executors that fit on the node: two knapsacks, one within the other, each filled in parts. Any skew is right.
"""

from __future__ import annotations

import math

from stormwright.jit.compiled import inner
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.optimize.bounds.sets.small_problem import Executors, Scratch, SetPrices

#: Steps by which traffic is divided between executors, and the part of Polyak's length that each has.
_POLYAK, _STEP = 60, 0.7


@inner
def divide_pairs(executors: Executors, prices: SetPrices, capacity: float, above: float, scratch: Scratch) -> float:
    """Divide what two executors exchange between them so that the bound on any set is low; the price of room in it.

    Steps along the subgradient, of the length of B. T. Polyak, "Minimization of unsmooth functionals", USSR
    Computational Mathematics and Mathematical Physics 9, 1969, https://doi.org/10.1016/0041-5553(69)90061-5.
    Each takes O(E³) at worst, as executors are sorted by insertion.

    Parameters
    ----------
    executors
        Of the problem; only the first resource counts.
    prices
        `seat` is what an executor pays.
    capacity
        What the node has of the first resource.
    above
        A bound as low as this is low enough: no set is of interest then.
    scratch
        `skew` is where it begins and ends, so that a later call goes on from there; `share` is what it amounts to.
        `part`, `worth`, `taken` and `rank` are written too.
    """
    count = executors.tps.shape[0]
    price = 0.0
    least = math.inf
    for _ in range(_POLYAK):
        for executor in range(count):
            for other in range(count):
                scratch.share[executor, other] = executors.pair[executor, other] / 2 + scratch.skew[executor, other]
            room = capacity - executors.demand[0, executor]
            scratch.worth[executor] = (
                executors.own[executor]
                - prices.seat[executor]
                + fill(
                    executors.demand[0],
                    scratch.share[executor],
                    room,
                    executor,
                    0,
                    scratch.rank,
                    scratch.part[executor],
                )
            )
        bound = fill(executors.demand[0], scratch.worth, capacity, -1, 0, scratch.rank, scratch.taken)
        if bound < least:
            least = bound
            price = 0.0
            for executor in range(count):
                if 0.0 < scratch.taken[executor] < 1.0:
                    price = scratch.worth[executor] / max(executors.demand[0, executor], 1e-300)
                for other in range(count):
                    scratch.best_skew[executor, other] = scratch.skew[executor, other]
        square = 0.0
        for executor in range(count):
            for other in range(executor):
                slope = (
                    scratch.taken[executor] * scratch.part[executor, other]
                    - scratch.taken[other] * scratch.part[other, executor]
                )
                square += slope * slope
        if square < 1e-9 or bound <= above:
            break
        step = _STEP * (bound - above) / square
        for executor in range(count):
            for other in range(executor):
                slope = (
                    scratch.taken[executor] * scratch.part[executor, other]
                    - scratch.taken[other] * scratch.part[other, executor]
                )
                scratch.skew[executor, other] -= step * slope
                scratch.skew[other, executor] += step * slope
    for executor in range(count):
        for other in range(count):
            scratch.skew[executor, other] = scratch.best_skew[executor, other]
            scratch.share[executor, other] = executors.pair[executor, other] / 2 + scratch.skew[executor, other]
    return price


@inner
def fill(
    size: FloatArray, worth: FloatArray, room: float, without: int, first: int, rank: IndexArray, part: FloatArray
) -> float:
    """The most that those from `first` on are worth which fit into the room, in parts; `part` is which are taken.

    The knapsack problem with parts: those worth most for their size first, the last one as far as it fits. Ties go to
    the lower number.

    Parameters
    ----------
    size, worth
        Of each item, shape (n,); worth of 0 or less is never taken, and size 0 goes first.
    room
        What there is; below 0 nothing is taken.
    without
        An item that is left out, or -1.
    first
        Items before this one are left out.
    rank
        Scratch, shape (n,), int64.
    part
        Written, shape (n,): from 0 to 1.
    """
    count = 0
    for item in range(len(worth)):
        part[item] = 0.0
        if item < first or item == without or worth[item] <= 0.0:
            continue
        at = count
        while at > 0 and worth[rank[at - 1]] * size[item] < worth[item] * size[rank[at - 1]]:
            rank[at] = rank[at - 1]
            at -= 1
        rank[at] = item
        count += 1
    total = 0.0
    for position in range(count):
        item = rank[position]
        if size[item] <= room:
            part[item] = 1.0
        elif room > 0.0:
            part[item] = room / size[item]
        else:
            break
        total += part[item] * worth[item]
        room -= size[item]
    return total


@inner
def halve(executors: Executors, capacity: float, scratch: Scratch) -> None:
    """What those beside every executor can be worth, as far as it counts for that one.

    For every level of what is left of a node, and each first executor allowed: worked out once for a search, so that
    each of its steps looks one number up for each executor. Writes `scratch.half`, shape (levels + 1, E + 1, E).
    """
    count, levels = executors.tps.shape[0], scratch.half.shape[0] - 1
    for level in range(levels + 1):
        for first in range(count + 1):
            for executor in range(count):
                scratch.half[level, first, executor] = fill(
                    executors.demand[0],
                    scratch.share[executor],
                    capacity * level / levels - executors.demand[0, executor],
                    executor,
                    first,
                    scratch.rank,
                    scratch.part[executor],
                )


@inner
def level_of(left: float, capacity: float, scratch: Scratch) -> int:
    """The lowest level of `halve` at which there is no less than so much left."""
    levels: int = scratch.half.shape[0] - 1
    if left >= capacity:
        return levels
    return min(levels, math.ceil(left / capacity * levels * (1 + 1e-12)))
