"""Enumeration of all sets of executors of a node above a threshold of worth: depth first, with a bound.

The worth of a set is the traffic among its executors, counted in full in one worker and less between workers, minus a
price for each executor and for each worker, plus the payment for its node. The bound sums the most that each executor
can be worth by those that fit next to it (`pair_shares`), with the limit of CPU in the target at a few prices for it.

::

    {}                executors join in increasing number, so every set occurs once
    ├─ {0}            before one joins, its `reach` bounds all sets that continue with it: the least over prices λ of
    │   ├─ {0, 1}         value + λ · capacity left + (its addition - λ · its demand)
    │   └─ {0, 2}               + Σ of max(0, the same of each later one that fits)
    └─ {1} …

Sets are numbers of 64 bits, so there are no more than 63 executors.
"""

from __future__ import annotations

import math

import numpy as np

from stormwright.jit.compiled import compiled, inner
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.optimize.bounds.sets.small_problem import Executors, FoundSets, Kind, Scratch, SetPrices
from stormwright.optimize.bounds.sets.worker_split import least_split_loss, split_into_workers

#: Subgradient steps, and the fraction of Polyak's length of each.
_POLYAK, _STEP = 60, 0.7


# The traffic of two executors is divided between them so that a bound on any set of executors is low.
#
# The bound is that of the quadratic knapsack problem: A. Caprara, D. Pisinger, P. Toth, "Exact Solution of the
# Quadratic Knapsack Problem", INFORMS Journal on Computing 11, 1999, https://doi.org/10.1287/ijoc.11.2.125.
#
# A set S is worth Σ own_i over its executors and Σ pair_ij over its pairs. Let executor i have share_ij of a pair and j
# the rest::
#
#     pair_ij = share_ij + share_ji,    share_ij = pair_ij / 2 + skew_ij,    skew_ij = -skew_ji
#
# Then i is worth no more than own_i and its best shares with those that fit next to it, and S no more than the best
# executors that fit on the node: two nested fractional knapsacks. Any skew is valid.
@inner
def divide_pairs(executors: Executors, prices: SetPrices, capacity: float, above: float, scratch: Scratch) -> float:
    """Divide the traffic of pairs between their executors so that the bound on sets is low; return the capacity price.

    Steps along the subgradient, of the length of B. T. Polyak, "Minimization of unsmooth functionals", USSR
    Computational Mathematics and Mathematical Physics 9, 1969, https://doi.org/10.1016/0041-5553(69)90061-5.
    Each takes O(E³) at worst, as executors are sorted by insertion.

    Parameters
    ----------
    executors
        Executors of the problem; only the first resource counts.
    prices
        `seat` is the price of an executor.
    capacity
        Capacity of the node for the first resource.
    above
        Threshold: a bound as low as this is sufficient.
    scratch
        `skew` is where it begins and ends, so that a later call continues from there; `share` is the result.
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
    """Return the most worth of items from `first` on within the capacity, fractionally; `part` is the fraction taken.

    The fractional knapsack problem: highest worth per size first, the last one as far as it fits. Ties go to
    the lower number.

    Parameters
    ----------
    size, worth
        Size and worth of each item, shape (n,); worth of 0 or less is never taken, and size 0 goes first.
    room
        Capacity; below 0 nothing is taken.
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
    """Tabulate the most worth of the neighbours of every executor, as far as it counts for that executor.

    For every level of remaining capacity of a node, and each first executor allowed: computed once for a search, so
    that each of its steps looks one number up for each executor. Writes `scratch.half`, shape (levels + 1, E + 1, E).
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
    """Return the lowest level of `halve` with at least this much capacity left."""
    levels: int = scratch.half.shape[0] - 1
    if left >= capacity:
        return levels
    return min(levels, math.ceil(left / capacity * levels * (1 + 1e-12)))


#: Prices of the first resource that a bound tries, relative to the best one for the empty set.
_SHARES = np.array([0.0, 0.4, 0.7, 0.9, 1.0, 1.15, 1.5])


@compiled
def find_sets(
    executors: Executors,
    prices: SetPrices,
    kind: Kind,
    above: float,
    slack: float,
    found: FoundSets,
    scratch: Scratch,
    most_steps: int,
) -> tuple[int, bool, float]:
    """Find the sets that a node takes and that are worth more than `above`.

    Parameters
    ----------
    executors
        Executors of the problem, those with most traffic first.
    prices
        Prices of executors, workers and nodes.
    kind
        Kind of the node.
    above
        The threshold, in weighted tuples/s. It rises with the sets found, if `slack` is finite.
    slack
        Sets that are worth less than the best so far by more than this are left out; infinite for all of them.
    found
        Written from its beginning: `bits`, `worth`, `workers`.
    scratch
        Written; of these executors (`Scratch.of`).
    most_steps
        Maximum number of sets to examine.

    Returns
    -------
    The number of sets found; whether the search is complete, which it is not if `found` is full or it takes more than
    `most_steps`; and an upper bound of the worth of any set.
    """
    count, capacity, ports = executors.tps.shape[0], kind.capacity, kind.ports
    shares_of = divide_pairs(executors, prices, capacity[0], above - prices.node, scratch)
    halve(executors, capacity[0], scratch)
    bonus = _paid_for_spare_places(executors, prices)
    scratch.bits[0], scratch.value[0], scratch.next[0] = 0, prices.node, 0
    for resource in range(len(capacity)):
        scratch.left[0, resource] = capacity[resource]
    scratch.gain[0, :], scratch.counts[0, :] = 0.0, 0
    _look_ahead(executors, prices, capacity[0], shares_of, bonus, scratch, 0, 0)
    number, depth, steps, beyond, best = 0, 0, 0, above, above
    while depth >= 0:
        executor = scratch.next[depth]
        while executor < count and scratch.reach[depth, executor] <= above:
            executor += 1
        if executor == count:
            depth -= 1
            continue
        steps += 1
        if steps > most_steps or number == len(found.bits):
            for left in range(depth + 1):
                for later in range(scratch.next[left], count):
                    beyond = max(beyond, scratch.reach[left, later])
            return number, False, max(beyond, best)
        scratch.next[depth] = executor + 1
        if not _add(executors, prices, ports, scratch, depth, executor):
            continue
        depth += 1
        _look_ahead(executors, prices, capacity[0], shares_of, bonus, scratch, depth, executor + 1)
        worth = _worth(executors, prices, ports, scratch, depth, above, found.workers[number])
        if worth > above:
            best = max(best, worth)
            found.bits[number], found.worth[number] = scratch.bits[depth], worth
            number += 1
            above = max(above, worth - slack)
    return number, True, best


@inner
def _paid_for_spare_places(executors: Executors, prices: SetPrices) -> float:
    """Return the most paid for empty places of workers, if these have a negative price."""
    paid = 0.0
    for topology in range(len(prices.worker)):
        paid += max(0.0, -prices.worker[topology]) * executors.spare[topology] / executors.most[topology]
    return paid


@inner
def _add(executors: Executors, prices: SetPrices, ports: int, scratch: Scratch, depth: int, executor: int) -> bool:
    """Go one deeper with `executor` in the set; return whether it fits on the node.

    Only ports are checked, as demand was when its `reach` was computed. Workers are counted as the fewest that
    could take it all.
    """
    count = executors.tps.shape[0]
    workers = 0
    for topology in range(len(executors.most)):
        members = scratch.counts[depth, topology] + (executors.topology[executor] == topology)
        scratch.counts[depth + 1, topology] = members
        workers += -(-members // executors.most[topology])
    if workers > ports:
        return False
    for resource in range(executors.demand.shape[0]):
        scratch.left[depth + 1, resource] = scratch.left[depth, resource] - executors.demand[resource, executor]
    for other in range(count):
        scratch.gain[depth + 1, other] = scratch.gain[depth, other] + executors.pair[executor, other]
    scratch.bits[depth + 1] = scratch.bits[depth] | (1 << executor)
    scratch.value[depth + 1] = (
        scratch.value[depth] + scratch.gain[depth, executor] + executors.own[executor] - prices.seat[executor]
    )
    scratch.next[depth + 1] = executor + 1
    return True


@inner
def _gather(executors: Executors, scratch: Scratch, depth: int, topology: int) -> int:
    """Write the executors of a topology in the set at `depth` to `members`; return their number."""
    members = 0
    for executor in range(executors.tps.shape[0]):
        if scratch.bits[depth] >> executor & 1 and executors.topology[executor] == topology:
            scratch.members[members] = executor
            members += 1
    return members


@inner
def _look_ahead(
    executors: Executors,
    prices: SetPrices,
    capacity: float,
    shares_of: float,
    bonus: float,
    scratch: Scratch,
    depth: int,
    first: int,
) -> None:
    """Bound the worth of the set at `depth` with each executor from `first` on as the next.

    Computed from the last executor back, so that each has the additions of those after it. Any price of capacity
    gives a bound, so the least over a few of them does. An executor that does not fit on the node has none: -inf.

    Parameters
    ----------
    executors, prices
        Executors of the problem, and prices of executors, workers and nodes.
    capacity, shares_of
        Capacity of the node for the first resource, and its best price for the empty set (`divide_pairs`).
    bonus
        The most that empty places could be paid.
    scratch, depth, first
        Row `depth` of `reach` is written, from executor `first` on.
    """
    left = scratch.left[depth, 0]
    level = level_of(left, capacity, scratch)
    rest, reach = scratch.rest, scratch.reach[depth]
    for share in range(len(_SHARES)):
        rest[share] = scratch.value[depth] + bonus + _SHARES[share] * shares_of * left
    for executor in range(executors.tps.shape[0] - 1, first - 1, -1):
        fits = True
        for resource in range(executors.demand.shape[0]):
            fits = fits and executors.demand[resource, executor] <= scratch.left[depth, resource]
        if not fits:
            reach[executor] = -math.inf
            continue
        own = (
            scratch.gain[depth, executor]
            + executors.own[executor]
            - prices.seat[executor]
            + scratch.half[level, first, executor]
        )
        paid = shares_of * executors.demand[0, executor]
        least = math.inf
        for share in range(len(_SHARES)):
            more = own - _SHARES[share] * paid
            least = min(least, rest[share] + more)
            rest[share] += max(0.0, more)
        reach[executor] = least


@inner
def _worth(
    executors: Executors,
    prices: SetPrices,
    ports: int,
    scratch: Scratch,
    depth: int,
    above: float,
    workers: IndexArray,
) -> float:
    """Return the worth of the set at `depth`, optimally split into workers; if not above the threshold, a lower value.

    1. By the bound that led here, with the price of the cheapest number of workers.
    2. By the real traffic, as if one worker took all of a topology.
    3. Topology by topology: minus the least cost of splitting (`least_split_loss`), then by `split_into_workers`.

    Whichever is not above the threshold ends it.

    Parameters
    ----------
    executors, prices, ports
        As in `find_sets`; ports of the node.
    scratch, depth
        Scratch with the set, and its depth in it.
    above
        Threshold of the worth.
    workers
        Written, shape (T,): the best number of workers of each topology.
    """
    value = float(scratch.value[depth])
    for topology in range(len(executors.most)):
        members = scratch.counts[depth, topology]
        if members:
            fewest, most = _numbers_of_workers(executors, topology, members, ports)
            if most < fewest:
                return -math.inf
            price = prices.worker[topology]
            value -= min(price * fewest, price * most) - price * members / executors.most[topology]
    if value <= above:
        return float(value)
    value += _whole(executors, prices, scratch, depth) - scratch.value[depth]
    if value <= above:
        return float(value)
    for topology in range(len(executors.most)):
        workers[topology] = 0
        members = _gather(executors, scratch, depth, topology)
        if not members:
            continue
        price, limit = prices.worker[topology], executors.most[topology]
        fewest, most = _numbers_of_workers(executors, topology, members, ports)
        at_best = min(price * fewest, price * most)
        if members <= limit and price >= 0:
            workers[topology] = 1
            continue
        value += at_best - least_split_loss(executors, scratch, members, limit)
        if value - at_best <= above:
            return float(value - at_best)
        value += least_split_loss(executors, scratch, members, limit)
        lost, count = split_into_workers(executors, scratch, members, limit, 1, most, price, value - above)
        if count == 0:  # none that loses little enough; the difference would be `above` but for rounding
            return above
        workers[topology] = count
        value -= lost
        if value <= above:
            return float(value)
    return float(value)


@inner
def _numbers_of_workers(executors: Executors, topology: int, members: int, ports: int) -> tuple[int, int]:
    """Return the least and the most workers of a topology on a node, with this number of members."""
    limit = executors.most[topology]
    return -(-members // limit), min(members, ports, (members + executors.spare[topology]) // limit)


@inner
def _whole(executors: Executors, prices: SetPrices, scratch: Scratch, depth: int) -> float:
    """Return the worth of the set at `depth` if a worker could take all executors of a topology."""
    total = prices.node
    for executor in range(executors.tps.shape[0]):
        if scratch.bits[depth] >> executor & 1:
            total -= prices.seat[executor]
            for other in range(executor):
                if scratch.bits[depth] >> other & 1:
                    total += (executors.near + executors.inner) * executors.tps[executor, other]
    return total
