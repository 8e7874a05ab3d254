"""The loops of `Repair`, on arrays, compiled.

All numbers are added up anew from what they are sums of, node by node, whenever these change: a placement that comes
about in another way has the same sums to the last digit, and a long repair cannot drift.
"""

from __future__ import annotations

import math

from stormwright.jit.compiled import compiled, inner
from stormwright.model.arrays import IndexArray
from stormwright.optimize.kernel.records import NOWHERE
from stormwright.optimize.repair.best import MOVE_EXECUTOR, MOVE_WORKER, NOISE, SWAP_EXECUTORS, SWAP_WORKERS, find_best
from stormwright.optimize.repair.mending import (
    Mending,
    join,
    leave,
    note_change,
    start,
    stop,
    sum_node,
    sum_worker,
)


@compiled
def settle(mending: Mending) -> None:
    """Bring workers and nodes in line with the worker of every executor and the node of every worker."""
    for executor in range(len(mending.executors) - 1, -1, -1):  # the last first, as each goes before those after it
        if mending.executors[executor].worker != NOWHERE:
            join(mending, executor, mending.executors[executor].worker)
    for worker in range(len(mending.workers) - 1, -1, -1):
        sum_worker(mending, worker)
        if mending.workers[worker].node != NOWHERE:
            start(mending, worker, mending.workers[worker].node)
    for node in range(len(mending.nodes)):
        sum_node(mending, node)


@compiled
def take_steps(mending: Mending, most_looks: int) -> bool:
    """Take the steepest step on the most overloaded node that has one, again and again; whether none is left.

    Stops once about so many pairs of nodes were looked at; called again, it goes on as if it had not. So whoever calls
    it can look at a clock in between, and the outcome does not depend on how often. Each step lowers the overload by
    more than `NOISE`, hence it ends.

    Parameters
    ----------
    mending
        Written.
    most_looks
        Pairs of nodes to look at, about.
    """
    until = mending.totals[0].looks + most_looks
    rank = 0
    while rank < len(mending.hardest):
        node = mending.hardest[rank]
        if mending.nodes[node].overload == 0:
            break
        if mending.totals[0].looks >= until:
            return False
        find_best(mending, node)
        if mending.best[0].gain > NOISE:
            _take_best(mending)
            rank = 0
        else:
            rank += 1
    return True


@compiled
def take_out(mending: Mending, topology: int) -> None:
    """Take a topology's workers, except those that may not change, off their nodes. Their executors stay in them."""
    for worker in range(len(mending.workers)):
        node = mending.workers[worker].node
        if mending.workers[worker].topology == topology and mending.workers[worker].movable and node != NOWHERE:
            stop(mending, worker)
            note_change(mending, node)


@compiled
def put_back(mending: Mending, workers: IndexArray) -> bool:
    """Put workers of no node where they leave least, ties to the lower node; whether there is room for all, or none.

    Parameters
    ----------
    mending
        Written; if there is no room for one of them, those put back before are taken off again.
    workers
        In the order in which they choose, int64.
    """
    for position in range(len(workers)):
        to, least = NOWHERE, math.inf
        for node in range(len(mending.nodes)):
            left = _left_beside(mending, node, workers[position])
            if left < least:
                to, least = node, left
        if to == NOWHERE:
            for placed in workers[:position]:
                node = mending.workers[placed].node
                stop(mending, placed)
                note_change(mending, node)
            return False
        start(mending, workers[position], to)
        note_change(mending, to)
    return True


@inner
def _left_beside(mending: Mending, node: int, worker: int) -> float:
    """What a node has left if it takes a worker, in parts of what the cluster has; infinite if it cannot take it."""
    if mending.nodes[node].used >= mending.nodes[node].ports:
        return math.inf
    total = 0.0
    for resource in range(len(mending.unit)):
        amount = mending.of_worker[worker, resource]
        left = mending.capacity[node, resource] - mending.of_node[node, resource] - amount
        if left < 0 and amount > 0:
            return math.inf
        total += left / mending.unit[resource] if left < math.inf else 1.0
    return total


@inner
def _take_best(mending: Mending) -> None:
    """Take the step that was noted as the best, and note that its two nodes changed."""
    kind, target = mending.best[0].kind, mending.best[0].target
    worker, executor = mending.best[0].worker, mending.best[0].executor
    node = mending.workers[worker].node
    if kind == MOVE_WORKER:
        other = target
        stop(mending, worker)
        start(mending, worker, other)
    elif kind == SWAP_WORKERS:
        other = mending.workers[target].node
        stop(mending, worker)
        stop(mending, target)
        start(mending, worker, other)
        start(mending, target, node)
    else:
        partner = target if kind == MOVE_EXECUTOR else mending.executors[target].worker
        other = mending.workers[partner].node
        leave(mending, executor)
        if kind == SWAP_EXECUTORS:
            leave(mending, target)
            join(mending, target, worker)
        join(mending, executor, partner)
        sum_worker(mending, worker)
        sum_worker(mending, partner)
    note_change(mending, node)
    note_change(mending, other)
    mending.totals[0].steps += 1
