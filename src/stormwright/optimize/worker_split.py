"""Executors of a topology on one node split into workers, so that as little as can be is between these."""

from __future__ import annotations

import math

from stormwright.optimize.compiled import compiled
from stormwright.optimize.small import Executors, Scratch


@compiled
def least_apart(executors: Executors, scratch: Scratch, members: int, limit: int) -> float:
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
    lost, _ = split_into_workers(executors, scratch, members, executors.most[topology], workers, workers, 0.0, math.inf)
    return lost
