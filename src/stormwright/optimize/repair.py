"""Compiled loops of `Repair`, on arrays.

All sums are recomputed from their items, node by node, whenever these change: a placement that is reached
in another way has the same sums to the last digit, and a long repair cannot drift.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stormwright.jit.compiled import compiled, inner
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.optimize.kernel.records import NOWHERE, Records

# State --------------------------------------------------------------------------------------------
# A placement under repair, as arrays of records, and changes that keep its derived data consistent.
#
# There are three orders beside the placement itself. Executors of a worker, and workers of a node, are lists by
# number, so that sums of them are the same however they came there. `hardest` has nodes by overload. A list from
# `totals.newest` by `older` has nodes by when they last changed::
#
#     newest ─▶ node ─older─▶ node ─older─▶ node        a node searched in vain at change c needs only those
#               changed 9     changed 7     changed 2    with `changed` > c

EXECUTOR = np.dtype([(name, np.int64) for name in ("worker", "next", "previous")])

WORKER = np.dtype(
    [
        *((name, np.int64) for name in ("node", "topology", "size", "most", "first", "next", "previous")),
        ("movable", np.bool_),
    ],
    align=True,
)

NODE = np.dtype(
    [
        ("overload", np.float64),
        *((name, np.int64) for name in ("first", "used", "ports", "rank", "changed", "looked", "newer", "older")),
    ]
)

STEP = np.dtype([("gain", np.float64), *((name, np.int64) for name in ("worker", "executor", "kind", "target"))])

TOTALS = np.dtype([(name, np.int64) for name in ("changes", "newest", "steps", "looks")])


class RepairState(NamedTuple):
    """A placement under repair, as arrays of records.

    Parameters
    ----------
    executors
        Of `EXECUTOR`: its worker; the executors after and before it there, by number.
    workers
        Of `WORKER`: its node; its topology; how many executors it has and may have, and the first of them; the workers
        after and before it on its node, by number; whether it may change. One without a node takes no part.
    nodes
        Of `NODE`: its overload, of all resources; the first of its workers, how many they are and may be; its rank in
        `hardest`; when it changed and was last examined, counted in changes; the nodes that changed after and before.
    demand, of_worker, of_node, capacity
        For each hard resource: demand of executors, load of workers and nodes, and capacity of nodes; shape (…, K).
    unit
        Unit of the overload of each resource, shape (K,).
    hardest
        The nodes, the most overloaded first, then by number.
    best
        Of `STEP`, one record: the best step found.
    totals
        Of `TOTALS`, one record: changes of nodes so far, the node that changed last, steps taken, and pairs of nodes
        that were examined for a step.
    """

    executors: Records
    workers: Records
    nodes: Records
    demand: FloatArray
    of_worker: FloatArray
    of_node: FloatArray
    capacity: FloatArray
    unit: FloatArray
    hardest: IndexArray
    best: Records
    totals: Records


@inner
def join(mending: RepairState, executor: int, worker: int) -> None:
    """Put an unplaced executor into a worker."""
    mending.executors[executor].worker = worker
    _link(mending.executors, mending.workers, executor, worker)
    mending.workers[worker].size += 1


@inner
def leave(mending: RepairState, executor: int) -> None:
    """Take an executor out of its worker."""
    worker = mending.executors[executor].worker
    mending.executors[executor].worker = NOWHERE
    _unlink(mending.executors, mending.workers, executor, worker)
    mending.workers[worker].size -= 1


@inner
def start(mending: RepairState, worker: int, node: int) -> None:
    """Put a worker without a node onto one."""
    mending.workers[worker].node = node
    _link(mending.workers, mending.nodes, worker, node)
    mending.nodes[node].used += 1


@inner
def stop(mending: RepairState, worker: int) -> None:
    """Take a worker off its node."""
    node = mending.workers[worker].node
    mending.workers[worker].node = NOWHERE
    _unlink(mending.workers, mending.nodes, worker, node)
    mending.nodes[node].used -= 1


@inner
def _link(items: Records, places: Records, item: int, place: int) -> None:
    """Insert an item into the list of a place, sorted by number."""
    before, after = NOWHERE, places[place].first
    while after != NOWHERE and after < item:
        before, after = after, items[after].next
    items[item].previous, items[item].next = before, after
    if before == NOWHERE:
        places[place].first = item
    else:
        items[before].next = item
    if after != NOWHERE:
        items[after].previous = item


@inner
def _unlink(items: Records, places: Records, item: int, place: int) -> None:
    """Take an item out of the list of its place."""
    before, after = items[item].previous, items[item].next
    if before == NOWHERE:
        places[place].first = after
    else:
        items[before].next = after
    if after != NOWHERE:
        items[after].previous = before


@inner
def sum_worker(mending: RepairState, worker: int) -> None:
    """Recompute the load of a worker, so that nothing drifts."""
    mending.of_worker[worker, :] = 0.0
    executor = mending.workers[worker].first
    while executor != NOWHERE:
        for resource in range(len(mending.unit)):
            mending.of_worker[worker, resource] += mending.demand[executor, resource]
        executor = mending.executors[executor].next


@inner
def sum_node(mending: RepairState, node: int) -> None:
    """Recompute the load and the overload of a node."""
    mending.of_node[node, :] = 0.0
    worker = mending.nodes[node].first
    while worker != NOWHERE:
        for resource in range(len(mending.unit)):
            mending.of_node[node, resource] += mending.of_worker[worker, resource]
        worker = mending.workers[worker].next
    overload = 0.0
    for resource in range(len(mending.unit)):
        overload += overload_with(mending, node, resource, 0.0)
    mending.nodes[node].overload = overload


@inner
def overload_with(mending: RepairState, node: int, resource: int, more: float) -> float:
    """Return the overload of a node for a resource with an additional load, as a fraction of the cluster's capacity.

    Parameters
    ----------
    mending
        Read only.
    node, resource
        The node; `resource` is a column of `demand`.
    more
        In the unit of the resource; below 0 for less.
    """
    over = mending.of_node[node, resource] + more - mending.capacity[node, resource]
    return float(max(over, 0.0) / mending.unit[resource])


@inner
def note_change(mending: RepairState, node: int) -> None:
    """Recompute the load of a node, rank it, and make it the one that changed last."""
    sum_node(mending, node)
    _rank(mending, node)
    mending.totals[0].changes += 1
    mending.nodes[node].changed = mending.totals[0].changes
    newer, older = mending.nodes[node].newer, mending.nodes[node].older
    if newer == NOWHERE:
        return
    mending.nodes[newer].older = older
    if older != NOWHERE:
        mending.nodes[older].newer = newer
    newest = mending.totals[0].newest
    mending.nodes[newest].newer = node
    mending.nodes[node].older, mending.nodes[node].newer = newest, NOWHERE
    mending.totals[0].newest = node


@inner
def _rank(mending: RepairState, node: int) -> None:
    """Move a node whose overload has changed to its position in `hardest`."""
    at = mending.nodes[node].rank
    while at + 1 < len(mending.hardest) and _comes_before(mending, mending.hardest[at + 1], node):
        _set_rank(mending, mending.hardest[at + 1], at)
        at += 1
    while at > 0 and _comes_before(mending, node, mending.hardest[at - 1]):
        _set_rank(mending, mending.hardest[at - 1], at)
        at -= 1
    _set_rank(mending, node, at)


@inner
def _set_rank(mending: RepairState, node: int, rank: int) -> None:
    """Put a node at a position in `hardest`."""
    mending.hardest[rank] = node
    mending.nodes[node].rank = rank


@inner
def _comes_before(mending: RepairState, a: int, b: int) -> bool:
    """Return the order of `hardest`: most overloaded first, then by number."""
    overload_a, overload_b = mending.nodes[a].overload, mending.nodes[b].overload
    return bool(overload_a > overload_b or (overload_a == overload_b and a < b))


# The best step ------------------------------------------------------------------------------------
# A step changes two nodes. So a node on which no step helped is searched again only with nodes that changed since:
# nodes are sorted by their last change.
#
# Overload is the sum over hard resources of the excess of nodes, relative to the capacity of the cluster.
# Four kinds of step take some of it off a node: a worker goes to another node with a free port, two workers change
# nodes, an executor goes to another worker of its topology, or two executors of a topology change workers. With w
# workers on each of two nodes and e executors in each of these, that is O(w² e²) steps for a pair of nodes; a bound
# of their gain (`_most_gain`) skips most pairs.

#: Gain, relative to the cluster's capacity, below which it is rounding; far less than one node's tolerance.
NOISE = 1e-15

#: Relative rounding error of a bound of a gain.
_ROUNDING = 1e-9

#: The kinds of steps.
MOVE_WORKER, SWAP_WORKERS, MOVE_EXECUTOR, SWAP_EXECUTORS = range(4)


@inner
def find_best(mending: RepairState, node: int) -> None:
    """Record the best step on an overloaded node; after a failed search only with nodes that changed since.

    `best[0].gain` is `NOISE` afterwards if there is none. Each examined pair of nodes counts in `totals`,
    which is how the time is limited without a clock.
    """
    mending.best[0].gain = NOISE
    since = mending.nodes[node].looked
    if mending.nodes[node].changed > since:
        since = NOWHERE
    other = mending.totals[0].newest
    while other != NOWHERE and mending.nodes[other].changed > since:
        mending.totals[0].looks += 1
        if _most_gain(mending, node, other) * (1 + _ROUNDING) >= mending.best[0].gain:
            _look(mending, node, other)
        other = mending.nodes[other].older
    mending.nodes[node].looked = mending.totals[0].changes


@inner
def _most_gain(mending: RepairState, node: int, other: int) -> float:
    """Return an upper bound of the gain of any step between two nodes: excess of one, capacity of the other.

    0 for a node and itself.
    """
    most = 0.0
    for resource in range(len(mending.unit)):
        over = mending.of_node[node, resource] - mending.capacity[node, resource]
        over_other = mending.of_node[other, resource] - mending.capacity[other, resource]
        amount = max(min(over, -over_other), min(over_other, -over))
        if amount > 0:
            most += amount / mending.unit[resource]
    return most


@inner
def _look(mending: RepairState, node: int, other: int) -> None:
    """Search for a better step between an overloaded node and another one."""
    free = mending.nodes[other].used < mending.nodes[other].ports
    worker = mending.nodes[node].first
    while worker != NOWHERE:
        if mending.workers[worker].movable:
            if free:
                _note_step(mending, node, other, worker, NOWHERE, MOVE_WORKER, other)
            partner = mending.nodes[other].first
            while partner != NOWHERE:
                if mending.workers[partner].movable:
                    _note_step(mending, node, other, worker, NOWHERE, SWAP_WORKERS, partner)
                    if mending.workers[worker].topology == mending.workers[partner].topology:
                        _look_within(mending, worker, partner)
                partner = mending.workers[partner].next
        worker = mending.workers[worker].next


@inner
def _look_within(mending: RepairState, worker: int, partner: int) -> None:
    """Search for a better step of an executor between two workers of a topology."""
    node, other = mending.workers[worker].node, mending.workers[partner].node
    roomy = mending.workers[worker].size > 1 and mending.workers[partner].size < mending.workers[partner].most
    executor = mending.workers[worker].first
    while executor != NOWHERE:
        if roomy:
            _note_step(mending, node, other, worker, executor, MOVE_EXECUTOR, partner)
        swapped = mending.workers[partner].first
        while swapped != NOWHERE:
            _note_step(mending, node, other, worker, executor, SWAP_EXECUTORS, swapped)
            swapped = mending.executors[swapped].next
        executor = mending.executors[executor].next


@inner
def _note_step(mending: RepairState, node: int, other: int, worker: int, executor: int, kind: int, target: int) -> None:
    """Record a step if it is better than the best so far; of equal ones the first by worker, executor, kind, target.

    The order in which nodes are examined so has no influence on the step that is taken.

    Parameters
    ----------
    mending
        `best` is written.
    node, other
        The overloaded node, and the other one that the step would change.
    worker, executor
        The moved item: a worker of `node`, or an executor in it; -1 if the worker goes as a whole.
    kind
        One of the four.
    target
        A node, worker, worker or executor, by kind.
    """
    gain = 0.0
    for resource in range(len(mending.unit)):
        if kind == MOVE_WORKER:
            amount = mending.of_worker[worker, resource]
        elif kind == SWAP_WORKERS:
            amount = mending.of_worker[worker, resource] - mending.of_worker[target, resource]
        elif kind == MOVE_EXECUTOR:
            amount = mending.demand[executor, resource]
        else:
            amount = mending.demand[executor, resource] - mending.demand[target, resource]
        before = overload_with(mending, node, resource, 0.0) + overload_with(mending, other, resource, 0.0)
        gain += before - (
            overload_with(mending, node, resource, -amount) + overload_with(mending, other, resource, amount)
        )
    best = mending.best[0]
    if gain < best.gain or gain <= NOISE:
        return
    step = (worker, executor, kind, target)
    if gain > best.gain or step < (best.worker, best.executor, best.kind, best.target):
        best.gain, best.worker, best.executor, best.kind, best.target = gain, *step


# Repair -------------------------------------------------------------------------------------------


@compiled
def settle(mending: RepairState) -> None:
    """Update workers and nodes from the worker of every executor and the node of every worker."""
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
def take_steps(mending: RepairState, most_looks: int) -> bool:
    """Take the steepest step on the most overloaded node that has one, repeatedly; return whether none is left.

    Stops once about `most_looks` pairs of nodes were examined; another call continues as if it had not. So a caller
    can look at a clock in between, and the outcome does not depend on how often. Each step lowers the overload by
    more than `NOISE`, hence it ends.

    Parameters
    ----------
    mending
        Written.
    most_looks
        Pairs of nodes to examine, about.
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
def take_out(mending: RepairState, topology: int) -> None:
    """Take a topology's workers, except fixed ones, off their nodes. Their executors stay in them."""
    for worker in range(len(mending.workers)):
        node = mending.workers[worker].node
        if mending.workers[worker].topology == topology and mending.workers[worker].movable and node != NOWHERE:
            stop(mending, worker)
            note_change(mending, node)


@compiled
def put_back(mending: RepairState, workers: IndexArray) -> bool:
    """Place workers where they leave least capacity, ties to the lower node; return whether all fit, else none.

    Parameters
    ----------
    mending
        Written; if one of them fits nowhere, those placed before are taken off again.
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
def _left_beside(mending: RepairState, node: int, worker: int) -> float:
    """Return the remaining capacity of a node with a worker, relative to the cluster; infinite if it cannot take it."""
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
def _take_best(mending: RepairState) -> None:
    """Take the recorded best step, and mark its two nodes as changed."""
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
