"""Every set of executors that a node could have and that is worth more than so much: depth first, with a bound.

What a set is worth is what its executors exchange among themselves, counted in full in one worker and less between
workers, minus a price for each executor and for each worker, and what it is paid for its node. The bound adds up what
each executor can be worth by those that fit beside it (`pair_shares`), with the limit of CPU in the target at a few
prices for it.

::

    {}                executors join in rising number, so every set is met once
    ├─ {0}            before one joins, its `reach` bounds all sets that go on with it: the least over prices λ of
    │   ├─ {0, 1}         value + λ · room left + (what it adds - λ · its demand)
    │   └─ {0, 2}               + Σ of max(0, the same of each later one that fits)
    └─ {1} …

Sets are numbers of 64 bits, so there are no more than 63 executors.
"""

from __future__ import annotations

import math

import numpy as np

from stormwright.jit.compiled import compiled, inner
from stormwright.model.arrays import IndexArray
from stormwright.optimize.bounds.sets.pair_shares import divide_pairs, halve, level_of
from stormwright.optimize.bounds.sets.small_problem import Executors, FoundSets, Kind, Scratch, SetPrices
from stormwright.optimize.bounds.sets.worker_split import least_apart, split_into_workers

#: Prices of the first resource that a bound tries, in parts of the best one where nothing is chosen.
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
    """The sets that a node takes and that are worth more than `above`.

    Parameters
    ----------
    executors
        Of the problem, sorted so that those come first that exchange most.
    prices
        Of executors, workers and nodes.
    kind
        Of the node.
    above
        The threshold, in weighted tuples/s. It rises with what is found, if `slack` is finite.
    slack
        Sets that are worth less than the best so far by more than this are left out; infinite for all of them.
    found
        Written from its beginning: `bits`, `worth`, `workers`.
    scratch
        Written; of these executors (`Scratch.of`).
    most_steps
        Sets that are looked at, at most.

    Returns
    -------
    How many were found; whether the search is complete, which it is not if there are more than `found` has room for or
    it takes more than `most_steps`; and what none is worth more than.
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
    """What workers are paid for at most that stay empty, where these have a negative price."""
    paid = 0.0
    for topology in range(len(prices.worker)):
        paid += max(0.0, -prices.worker[topology]) * executors.spare[topology] / executors.most[topology]
    return paid


@inner
def _add(executors: Executors, prices: SetPrices, ports: int, scratch: Scratch, depth: int, executor: int) -> bool:
    """Go one deeper with `executor` in the set; whether the node has room for it.

    Only ports are looked at, as demand was when its `reach` was worked out. Workers are counted as the fewest that
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
    """Note the executors of a topology in the set at `depth` as `members`; how many they are."""
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
    """What the set at `depth` can be worth at most with each executor from `first` on as the next.

    Worked out from the last executor back, so that each has at hand what those after it could add. Any price of room
    gives a bound, so the least over a few of them does. An executor that does not fit on the node has none: -inf.

    Parameters
    ----------
    executors, prices
        As in `find_sets`.
    capacity, shares_of
        What the node has of the first resource, and its best price where nothing is chosen (`divide_pairs`).
    bonus
        What empty places could be paid at most.
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
    """What the set at `depth` is worth, split into workers as well as can be; if not above so much, something less.

    1. By the bound that led here, with the price of as few or as many workers as are cheapest.
    2. By what is really exchanged, as if one worker took all of a topology.
    3. Topology by topology: less what splitting costs at least (`least_apart`), then by `split_into_workers`.

    Whichever is not above the threshold ends it.

    Parameters
    ----------
    executors, prices, ports
        As in `find_sets`; ports of the node.
    scratch, depth
        Where the set is.
    above
        The threshold.
    workers
        Written, shape (T,): in how many workers of each topology the set is best.
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
        value += at_best - least_apart(executors, scratch, members, limit)
        if value - at_best <= above:
            return float(value - at_best)
        value += least_apart(executors, scratch, members, limit)
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
    """How many workers of a topology a node has at least and at most, if these have so many members."""
    limit = executors.most[topology]
    return -(-members // limit), min(members, ports, (members + executors.spare[topology]) // limit)


@inner
def _whole(executors: Executors, prices: SetPrices, scratch: Scratch, depth: int) -> float:
    """What the set at `depth` would be worth if a worker could take all executors of a topology."""
    total = prices.node
    for executor in range(executors.tps.shape[0]):
        if scratch.bits[depth] >> executor & 1:
            total -= prices.seat[executor]
            for other in range(executor):
                if scratch.bits[depth] >> other & 1:
                    total += (executors.near + executors.inner) * executors.tps[executor, other]
    return total
