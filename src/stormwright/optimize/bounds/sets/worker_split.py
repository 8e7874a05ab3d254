"""Optimal split of a topology's executors on one node into workers, with least traffic between these.

With t_ab the traffic of two members, `inner` the extra cost of a tuple between workers over one within, a split into
groups loses inner · Σ t_ab over separated pairs. Groups have a limit, so this is graph partition: hard in general, but
members are few. Depth first over members, each to an existing group or to one new group: empty workers are
interchangeable, so each split occurs once.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stormwright.jit.compiled import compiled, inner
from stormwright.model.arrays import FloatArray
from stormwright.optimize.bounds.sets.small_problem import Executors, Scratch


@inner
def least_split_loss(executors: Executors, scratch: Scratch, members: int, limit: int) -> float:
    """Return a lower bound of the loss of members by a split: each shares a worker with at most `limit` - 1 others.

    `inner` / 2 · Σ over members a of the (members - limit) smallest t_ab, as each pair is counted from both ends; 0 if
    they fit into one worker. O(members³) at worst, and no search.

    Parameters
    ----------
    executors
        Traffic of pairs, and the cost of a tuple between workers.
    scratch
        Its `members` are read, `best` is written.
    members
        Number of executors to split, the first ones in `scratch.members`.
    limit
        Executors that a worker may have.
    """
    total = 0.0
    for a in range(members):
        row = scratch.members[a]
        # The others with least traffic are separated from it: as many as do not fit next to it.
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


@inner
def split_into_workers(
    executors: Executors,
    scratch: Scratch,
    members: int,
    limit: int,
    least: int,
    most: int,
    price: float,
    below: float,
) -> tuple[float, int]:
    """Return the least loss by a split into workers, the price of workers included, if below a limit; and their number.

    Members go to workers one by one, each to an existing one or to a new one, and the branch ends if those to come
    cannot make up for the loss.

    Parameters
    ----------
    executors
        Traffic of pairs, and the cost of a tuple between workers.
    scratch
        Its `members` are read.
    members
        Number of members, at least 1.
    limit
        Executors that a worker may have.
    least, most
        Minimum and maximum number of workers.
    price
        Price of a worker; may be below 0, so that more workers than needed pay.
    below
        Upper limit of the loss.

    Returns
    -------
    The loss, and the number of workers; `below` and 0 if there is no split below it.
    """
    best, best_count = below, 0
    group, cut, joined = scratch.group, scratch.cut, scratch.joined
    _rank_others(executors, scratch, members)
    for worker in range(most):
        scratch.size[worker] = 0
        for member in range(members):
            joined[member, worker] = 0.0
    at, used = 0, 0
    group[0] = -1
    while at >= 0:
        if group[at] >= 0:  # taken out of where it was
            _join(executors, scratch, members, at, -1)
            if group[at] == used - 1 and scratch.size[used - 1] == 0:
                used -= 1
        group[at] += 1
        while group[at] < min(used + 1, most) and scratch.size[group[at]] >= limit:
            group[at] += 1
        if group[at] >= min(used + 1, most):
            at -= 1
            continue
        lost = cut[at - 1] if at else 0.0
        for worker in range(used):
            if worker != group[at]:
                lost += executors.inner * joined[at, worker]
        cut[at] = lost
        _join(executors, scratch, members, at, 1)
        used = max(used, group[at] + 1)
        fewest = max(used, -(-members // limit))
        if used + members - 1 - at < least:
            continue
        cheapest = min(price * fewest, price * min(members, most))
        if lost + cheapest >= best:
            continue
        if at == members - 1:
            if lost + price * used < best:
                best, best_count = lost + price * used, used
            continue
        if lost + cheapest + _least_to_come(executors, scratch, members, limit, at + 1, used, most) >= best:
            continue
        at += 1
        group[at] = -1
    return best, best_count


@inner
def _rank_others(executors: Executors, scratch: Scratch, members: int) -> None:
    """Sort the others of every member by traffic with it, most first."""
    for member in range(members):
        row = scratch.members[member]
        at = 0
        for other in range(members):
            if other == member:
                continue
            tps = executors.tps[row, scratch.members[other]]
            place = at
            while place > 0 and executors.tps[row, scratch.members[scratch.nearest[member, place - 1]]] < tps:
                scratch.nearest[member, place] = scratch.nearest[member, place - 1]
                place -= 1
            scratch.nearest[member, place] = other
            at += 1


@inner
def _join(executors: Executors, scratch: Scratch, members: int, at: int, sign: int) -> None:
    """Add the member `at` to its worker, or remove it, for the members after it."""
    worker, row = scratch.group[at], scratch.members[at]
    scratch.size[worker] += sign
    for member in range(at + 1, members):
        scratch.joined[member, worker] += sign * executors.tps[row, scratch.members[member]]


@inner
def _least_to_come(
    executors: Executors, scratch: Scratch, members: int, limit: int, first: int, used: int, most: int
) -> float:
    """Return a lower bound of the loss of members from `first` on, by the places next to each.

    The traffic of two of them is counted half with each. If a worker would be the best of more members than it has
    places, those that lose least by it are in another.
    """
    total = 0.0
    choices = min(used + 1, most)  # the last one is any new worker
    for worker in range(choices):
        scratch.wanted[worker] = 0
    for member in range(first, members):
        row = scratch.members[member]
        before = 0.0
        for worker in range(used):
            before += scratch.joined[member, worker]
        beside, rest = 0, 0.0
        scratch.best[0] = 0.0  # half of what it exchanges with so many of those to come, at most
        for position in range(members - 1):
            other = scratch.nearest[member, position]
            if other < first:
                continue
            rest += executors.tps[row, scratch.members[other]] / 2
            beside += 1
            scratch.best[beside] = rest
        chosen, saved, next_saved = -1, -1.0, -1.0
        for worker in range(choices):
            free = limit - 1 - (scratch.size[worker] if worker < used else 0)
            if free < 0:
                continue
            here = scratch.best[min(free, beside)] + (scratch.joined[member, worker] if worker < used else 0.0)
            if here > saved:
                chosen, saved, next_saved = worker, here, saved
            elif here > next_saved:
                next_saved = here
        if chosen < 0:
            return math.inf
        total += before + rest - saved
        at = scratch.wanted[chosen]
        while at > 0 and scratch.regret[chosen, at - 1] > saved - next_saved:
            scratch.regret[chosen, at] = scratch.regret[chosen, at - 1]
            at -= 1
        scratch.regret[chosen, at] = saved - next_saved if next_saved >= 0.0 else math.inf
        scratch.wanted[chosen] += 1
    for worker in range(choices):
        places = limit - scratch.size[worker] if worker < used else limit * (most - used)
        for at in range(scratch.wanted[worker] - places):
            total += scratch.regret[worker, at]
    return executors.inner * total


@compiled
def lost_in_workers(
    executors: Executors, bits: int, topology: int, workers: int, below: float, scratch: Scratch
) -> float:
    """Return the least loss of a topology's executors in a set in exactly this number of workers.

    Infinite if that is impossible, or the loss is not less than `below`.

    Parameters
    ----------
    executors
        Executors of the problem.
    bits
        The set, bit e for executor e.
    topology
        Topology of the executors.
    workers
        Number of workers, each with one executor at least; 0 only without any.
    below
        Upper limit of the loss.
    scratch
        Preallocated arrays, of which those of `worker_split` are overwritten.
    """
    members = 0
    for executor in range(executors.tps.shape[0]):
        if bits >> executor & 1 and executors.topology[executor] == topology:
            scratch.members[members] = executor
            members += 1
    if members == 0 or workers < 1:
        return 0.0 if members == workers == 0 else math.inf
    lost, count = split_into_workers(
        executors, scratch, members, executors.most[topology], workers, workers, 0.0, below
    )
    return lost if count else math.inf


@compiled
def tabulate_losses(
    executors: Executors, bits: NDArray[np.int64], below: FloatArray, scratch: Scratch, lost: FloatArray
) -> None:
    """Tabulate the least loss of each set in every number of workers of every topology.

    Parameters
    ----------
    executors
        Executors of the problem.
    bits
        The sets, shape (n,).
    below
        Upper limit of the loss of each, shape (n,).
    scratch
        Preallocated arrays, of which those of `worker_split` are overwritten.
    lost
        Written, shape (n, T, most workers + 1): infinite if impossible or the loss reaches the limit.
    """
    for number in range(len(bits)):
        for topology in range(lost.shape[1]):
            for workers in range(lost.shape[2]):
                lost[number, topology, workers] = lost_in_workers(
                    executors, bits[number], topology, workers, below[number], scratch
                )
