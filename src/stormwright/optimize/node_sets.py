"""Every set of executors that a node could have and that is worth more than so much: depth first, with a bound.

What a set is worth is what its executors exchange among themselves, counted in full in one worker and less between
workers, minus a price for each executor and for each worker. The bound is that of the quadratic knapsack problem
(A. Caprara, D. Pisinger, P. Toth, "Exact Solution of the Quadratic Knapsack Problem", INFORMS Journal on Computing 11,
1999, https://doi.org/10.1287/ijoc.11.2.125) with half of what two executors exchange counted for each of them, and the
limit of CPU in the target with a few prices for it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.optimize.compiled import compiled

#: Executors at most; sets are kept as bits.
MOST_EXECUTORS = 60

#: Prices of the first resource that a bound tries, in parts of what executors are worth on average.
_SHARES = np.array([0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0])


class Executors(NamedTuple):
    """The executors of a small problem, all topologies together.

    Parameters
    ----------
    tps
        What two of them exchange in both directions, shape (E, E); whole multiples of a power of two.
    demand
        What each uses of every resource, shape (K, E).
    topology
        The topology of each, shape (E,).
    most
        Executors that a worker of each topology may have, shape (T,).
    near, inner
        What a tuple between workers of a node saves against one between nodes, and one within a worker beyond that.
    """

    tps: FloatArray
    demand: FloatArray
    topology: IndexArray
    most: IndexArray
    near: float
    inner: float


class Prices(NamedTuple):
    """What a set pays for each executor, and for each worker by topology."""

    executor: FloatArray
    worker: FloatArray


class Found(NamedTuple):
    """Sets that were found, as many places as are wanted at most: their bits, what they are worth, their workers."""

    bits: NDArray[np.int64]
    worth: FloatArray
    workers: IndexArray


class Scratch(NamedTuple):
    """What the search keeps at each depth."""

    bits: NDArray[np.int64]
    value: FloatArray
    next: IndexArray
    left: FloatArray
    gain: FloatArray
    reach: FloatArray
    counts: IndexArray
    half: FloatArray
    order: IndexArray
    members: IndexArray
    group: IndexArray
    size: IndexArray
    cut: FloatArray
    best: FloatArray

    @classmethod
    def of(cls, executors: Executors) -> Scratch:
        """Room for the search among `executors`."""
        resources, count = executors.demand.shape
        depths, topologies = count + 2, len(executors.most)
        return cls(
            bits=np.zeros(depths, np.int64),
            value=np.zeros(depths),
            next=np.zeros(depths, np.int64),
            left=np.zeros((depths, resources)),
            gain=np.zeros((depths, count)),
            reach=np.zeros((depths, count + 1)),
            counts=np.zeros((depths, topologies), np.int64),
            half=np.zeros((count + 1, count)),
            order=np.argsort(-executors.tps / np.maximum(executors.demand[0], 1e-300), axis=1, kind="stable"),
            members=np.zeros(count, np.int64),
            group=np.zeros(depths, np.int64),
            size=np.zeros(depths, np.int64),
            cut=np.zeros(depths),
            best=np.zeros(depths),
        )


@compiled
def find_sets(
    executors: Executors,
    prices: Prices,
    capacity: FloatArray,
    ports: int,
    above: float,
    every: bool,
    found: Found,
    scratch: Scratch,
    most_steps: int,
) -> tuple[int, bool, float]:
    """The sets that a node takes and that are worth more than `above`.

    Parameters
    ----------
    capacity, ports
        Of the node.
    every
        All of them; else each that is worth more than those before.

    Returns
    -------
    How many were found, the last one the best if not `every`; whether the search is complete, which it is not if there
    are more than `found` has room for or it takes more than `most_steps`; and what none is worth more than.
    """
    count = executors.tps.shape[0]
    _halve(executors, capacity[0], scratch)
    bonus = 0.0
    for topology in range(len(prices.worker)):
        bonus += max(0.0, -prices.worker[topology]) * ports
    shares_of = 0.0
    for executor in range(count):
        shares_of += abs(prices.executor[executor])
    shares_of /= max(capacity[0], 1e-300)
    scratch.bits[0], scratch.value[0], scratch.next[0] = 0, 0.0, 0
    for resource in range(len(capacity)):
        scratch.left[0, resource] = capacity[resource]
    for executor in range(count):
        scratch.gain[0, executor] = 0.0
    for topology in range(len(prices.worker)):
        scratch.counts[0, topology] = 0
    _look_ahead(executors, prices, shares_of, bonus, scratch, 0, 0)
    number, depth, steps, beyond = 0, 0, 0, above
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
            return number, False, max(beyond, above)
        scratch.next[depth] = executor + 1
        if not _add(executors, prices, ports, scratch, depth, executor):
            continue
        depth += 1
        _look_ahead(executors, prices, shares_of, bonus, scratch, depth, executor + 1)
        worth = _worth(executors, prices, ports, scratch, depth, above, found.workers[number])
        if worth > above:
            found.bits[number], found.worth[number] = scratch.bits[depth], worth
            number += 1
            if not every:
                above = worth
    return number, True, above


@compiled
def _halve(executors: Executors, capacity: float, scratch: Scratch) -> None:
    """For each first executor allowed, half of what every one can exchange with those that fit beside it."""
    count = executors.tps.shape[0]
    weight = executors.near + executors.inner
    for first in range(count + 1):
        for executor in range(count):
            room, total = capacity - executors.demand[0, executor], 0.0
            for position in range(count):
                other = scratch.order[executor, position]
                if other < first or other == executor:
                    continue
                tps, asks = executors.tps[executor, other], executors.demand[0, other]
                if asks <= room:
                    total += tps
                    room -= asks
                else:
                    total += tps * max(room, 0.0) / asks
                    break
            scratch.half[first, executor] = weight * total / 2


@compiled
def _add(executors: Executors, prices: Prices, ports: int, scratch: Scratch, depth: int, executor: int) -> bool:
    """Go one deeper with `executor` in the set; whether the node has room for it."""
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
    weight = executors.near + executors.inner
    for other in range(count):
        scratch.gain[depth + 1, other] = scratch.gain[depth, other] + weight * executors.tps[executor, other]
    scratch.bits[depth + 1] = scratch.bits[depth] | (1 << executor)
    scratch.value[depth + 1] = scratch.value[depth] + scratch.gain[depth, executor] - prices.executor[executor]
    scratch.next[depth + 1] = executor + 1
    return True


@compiled
def _look_ahead(
    executors: Executors, prices: Prices, shares_of: float, bonus: float, scratch: Scratch, depth: int, first: int
) -> None:
    """What the set at `depth` can be worth at most with each executor from `first` on as the next."""
    count = executors.tps.shape[0]
    left = scratch.left[depth, 0]
    now = scratch.value[depth] + bonus
    for topology in range(len(executors.most)):
        fewest = -(-scratch.counts[depth, topology] // executors.most[topology])
        now -= max(0.0, prices.worker[topology]) * fewest
    for executor in range(first, count):
        scratch.reach[depth, executor] = math.inf
    for share in range(len(_SHARES)):
        price = _SHARES[share] * shares_of
        rest = now + price * left
        for executor in range(count - 1, first - 1, -1):
            fits = True
            for resource in range(executors.demand.shape[0]):
                fits = fits and executors.demand[resource, executor] <= scratch.left[depth, resource]
            if not fits:
                scratch.reach[depth, executor] = -math.inf
                continue
            own = (
                scratch.gain[depth, executor]
                - prices.executor[executor]
                + scratch.half[first, executor]
                - price * executors.demand[0, executor]
            )
            scratch.reach[depth, executor] = min(scratch.reach[depth, executor], rest + own)
            rest += max(0.0, own)


@compiled
def _worth(
    executors: Executors,
    prices: Prices,
    ports: int,
    scratch: Scratch,
    depth: int,
    above: float,
    workers: IndexArray,
) -> float:
    """What the set at `depth` is worth, split into workers as well as can be; if not above so much, something less."""
    value = float(scratch.value[depth])
    for topology in range(len(executors.most)):
        members = scratch.counts[depth, topology]
        if members:
            fewest, most = -(-members // executors.most[topology]), min(members, ports)
            value -= min(prices.worker[topology] * fewest, prices.worker[topology] * most)
    if value <= above:
        return float(value)
    for topology in range(len(executors.most)):
        workers[topology] = 0
        members = 0
        for executor in range(executors.tps.shape[0]):
            if scratch.bits[depth] >> executor & 1 and executors.topology[executor] == topology:
                scratch.members[members] = executor
                members += 1
        if not members:
            continue
        price, limit = prices.worker[topology], executors.most[topology]
        fewest, most = -(-members // limit), min(members, ports)
        at_best = min(price * fewest, price * most)
        if members <= limit and price >= 0:
            workers[topology] = 1
            continue
        value += at_best - _least_kept_apart(executors, scratch, members, limit)
        if value - at_best <= above:
            return float(value - at_best)
        value += _least_kept_apart(executors, scratch, members, limit)
        lost, count = _split(executors, scratch, members, limit, 1, most, price, value - above)
        workers[topology] = count
        value -= lost
        if value <= above:
            return float(value)
    return float(value)


@compiled
def _least_kept_apart(executors: Executors, scratch: Scratch, members: int, limit: int) -> float:
    """What members at least lose by being split: each can share a worker with `limit` - 1 others only."""
    total = 0.0
    for a in range(members):
        row = scratch.members[a]
        # The others that it exchanges least with are apart from it: as many as do not fit beside it.
        for position in range(members - limit):
            scratch.best[position] = math.inf
        apart = members - limit
        for b in range(members):
            if b == a:
                continue
            tps = executors.tps[row, scratch.members[b]]
            at = apart
            while at > 0 and scratch.best[at - 1] > tps:
                if at < apart:
                    scratch.best[at] = scratch.best[at - 1]
                at -= 1
            if at < apart:
                scratch.best[at] = tps
        for position in range(apart):
            total += scratch.best[position]
    return executors.inner * total / 2


@compiled
def _split(
    executors: Executors,
    scratch: Scratch,
    members: int,
    limit: int,
    least: int,
    most: int,
    price: float,
    below: float,
) -> tuple[float, int]:
    """Least loss by splitting members into workers, the price of workers included, if below so much; and how many.

    There are `least` to `most` workers, none with more than `limit` members.

    Members go to workers one by one, each to one of those begun or to a new one.
    """
    best, best_count = below, 0
    group, cut = scratch.group, scratch.cut
    at = 0
    group[0] = -1
    for worker in range(most):
        scratch.size[worker] = 0
    used = 0
    while at >= 0:
        if group[at] >= 0:  # taken out of where it was
            scratch.size[group[at]] -= 1
            if group[at] == used - 1 and scratch.size[used - 1] == 0:
                used -= 1
        group[at] += 1
        while group[at] < min(used + 1, most) and scratch.size[group[at]] >= limit:
            group[at] += 1
        if group[at] >= min(used + 1, most):
            at -= 1
            continue
        scratch.size[group[at]] += 1
        used = max(used, group[at] + 1)
        lost = cut[at - 1] if at else 0.0
        for other in range(at):
            if group[other] != group[at]:
                lost += executors.inner * executors.tps[scratch.members[at], scratch.members[other]]
        cut[at] = lost
        fewest = max(used, -(-members // limit))
        if used + members - 1 - at < least:
            continue
        if lost + min(price * fewest, price * min(members, most)) >= best:
            continue
        if at == members - 1:
            if lost + price * used < best:
                best, best_count = lost + price * used, used
            continue
        at += 1
        group[at] = -1
    return best, best_count


@compiled
def lost_in_workers(executors: Executors, bits: int, topology: int, workers: int, scratch: Scratch) -> float:
    """What the executors of a topology in a set lose at least in exactly so many workers; inf if they cannot be."""
    members = 0
    for executor in range(executors.tps.shape[0]):
        if bits >> executor & 1 and executors.topology[executor] == topology:
            scratch.members[members] = executor
            members += 1
    if members == 0 or workers < 1:
        return 0.0 if members == workers == 0 else math.inf
    lost, _ = _split(executors, scratch, members, executors.most[topology], workers, workers, 0.0, math.inf)
    return lost
