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


# A placement under repair, as arrays of records, and changes that keep its derived data consistent.
#
# There are three orders beside the placement itself. Executors of a worker, and workers of a node, are lists by
# number, so that sums of them are the same however they came there. `hardest` has nodes by overload. A list from
# `totals.newest` by `older` has nodes by when they last changed::
#
#     newest ─▶ node ─older─▶ node ─older─▶ node        a node searched in vain at change c needs only those
#               changed 9     changed 7     changed 2    with `changed` > c
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
def join(state: RepairState, executor: int, worker: int) -> None:
    """Put an unplaced executor into a worker."""
    state.executors[executor].worker = worker
    _link(state.executors, state.workers, executor, worker)
    state.workers[worker].size += 1


@inner
def leave(state: RepairState, executor: int) -> None:
    """Take an executor out of its worker."""
    worker = state.executors[executor].worker
    state.executors[executor].worker = NOWHERE
    _unlink(state.executors, state.workers, executor, worker)
    state.workers[worker].size -= 1


@inner
def start(state: RepairState, worker: int, node: int) -> None:
    """Put a worker without a node onto one."""
    state.workers[worker].node = node
    _link(state.workers, state.nodes, worker, node)
    state.nodes[node].used += 1


@inner
def stop(state: RepairState, worker: int) -> None:
    """Take a worker off its node."""
    node = state.workers[worker].node
    state.workers[worker].node = NOWHERE
    _unlink(state.workers, state.nodes, worker, node)
    state.nodes[node].used -= 1


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
def sum_worker(state: RepairState, worker: int) -> None:
    """Recompute the load of a worker, so that nothing drifts."""
    state.of_worker[worker, :] = 0.0
    executor = state.workers[worker].first
    while executor != NOWHERE:
        for resource in range(len(state.unit)):
            state.of_worker[worker, resource] += state.demand[executor, resource]
        executor = state.executors[executor].next


@inner
def sum_node(state: RepairState, node: int) -> None:
    """Recompute the load and the overload of a node."""
    state.of_node[node, :] = 0.0
    worker = state.nodes[node].first
    while worker != NOWHERE:
        for resource in range(len(state.unit)):
            state.of_node[node, resource] += state.of_worker[worker, resource]
        worker = state.workers[worker].next
    overload = 0.0
    for resource in range(len(state.unit)):
        overload += overload_with(state, node, resource, 0.0)
    state.nodes[node].overload = overload


@inner
def overload_with(state: RepairState, node: int, resource: int, more: float) -> float:
    """Return the overload of a node for a resource with an additional load, as a fraction of the cluster's capacity.

    Parameters
    ----------
    state
        Placement with loads and capacities of nodes; not changed.
    node, resource
        The node; `resource` is a column of `demand`.
    more
        Additional load in the unit of the resource; below 0 for less.
    """
    over = state.of_node[node, resource] + more - state.capacity[node, resource]
    return float(max(over, 0.0) / state.unit[resource])


@inner
def note_change(state: RepairState, node: int) -> None:
    """Recompute the load of a node, rank it, and make it the one that changed last."""
    sum_node(state, node)
    _rank(state, node)
    state.totals[0].changes += 1
    state.nodes[node].changed = state.totals[0].changes
    newer, older = state.nodes[node].newer, state.nodes[node].older
    if newer == NOWHERE:
        return
    state.nodes[newer].older = older
    if older != NOWHERE:
        state.nodes[older].newer = newer
    newest = state.totals[0].newest
    state.nodes[newest].newer = node
    state.nodes[node].older, state.nodes[node].newer = newest, NOWHERE
    state.totals[0].newest = node


@inner
def _rank(state: RepairState, node: int) -> None:
    """Move a node whose overload has changed to its position in `hardest`."""
    at = state.nodes[node].rank
    while at + 1 < len(state.hardest) and _comes_before(state, state.hardest[at + 1], node):
        _set_rank(state, state.hardest[at + 1], at)
        at += 1
    while at > 0 and _comes_before(state, node, state.hardest[at - 1]):
        _set_rank(state, state.hardest[at - 1], at)
        at -= 1
    _set_rank(state, node, at)


@inner
def _set_rank(state: RepairState, node: int, rank: int) -> None:
    """Put a node at a position in `hardest`."""
    state.hardest[rank] = node
    state.nodes[node].rank = rank


@inner
def _comes_before(state: RepairState, a: int, b: int) -> bool:
    """Return the order of `hardest`: most overloaded first, then by number."""
    overload_a, overload_b = state.nodes[a].overload, state.nodes[b].overload
    return bool(overload_a > overload_b or (overload_a == overload_b and a < b))


#: Gain, relative to the cluster's capacity, below which it is rounding; far less than one node's tolerance.
NOISE = 1e-15

#: Relative rounding error of a bound of a gain.
_ROUNDING = 1e-9

#: The kinds of steps.
MOVE_WORKER, SWAP_WORKERS, MOVE_EXECUTOR, SWAP_EXECUTORS = range(4)


# A step changes two nodes. So a node on which no step helped is searched again only with nodes that changed since:
# nodes are sorted by their last change.
#
# Overload is the sum over hard resources of the excess of nodes, relative to the capacity of the cluster.
# Four kinds of step take some of it off a node: a worker goes to another node with a free port, two workers change
# nodes, an executor goes to another worker of its topology, or two executors of a topology change workers. With w
# workers on each of two nodes and e executors in each of these, that is O(w² e²) steps for a pair of nodes; a bound
# of their gain (`_most_gain`) skips most pairs.
@inner
def find_best(state: RepairState, node: int) -> None:
    """Record the best step on an overloaded node; after a failed search only with nodes that changed since.

    `best[0].gain` is `NOISE` afterwards if there is none. Each examined pair of nodes counts in `totals`,
    which is how the time is limited without a clock.
    """
    state.best[0].gain = NOISE
    since = state.nodes[node].looked
    if state.nodes[node].changed > since:
        since = NOWHERE
    other = state.totals[0].newest
    while other != NOWHERE and state.nodes[other].changed > since:
        state.totals[0].looks += 1
        if _most_gain(state, node, other) * (1 + _ROUNDING) >= state.best[0].gain:
            _look(state, node, other)
        other = state.nodes[other].older
    state.nodes[node].looked = state.totals[0].changes


@inner
def _most_gain(state: RepairState, node: int, other: int) -> float:
    """Return an upper bound of the gain of any step between two nodes: excess of one, capacity of the other.

    0 for a node and itself.
    """
    most = 0.0
    for resource in range(len(state.unit)):
        over = state.of_node[node, resource] - state.capacity[node, resource]
        over_other = state.of_node[other, resource] - state.capacity[other, resource]
        amount = max(min(over, -over_other), min(over_other, -over))
        if amount > 0:
            most += amount / state.unit[resource]
    return most


@inner
def _look(state: RepairState, node: int, other: int) -> None:
    """Search for a better step between an overloaded node and another one."""
    free = state.nodes[other].used < state.nodes[other].ports
    worker = state.nodes[node].first
    while worker != NOWHERE:
        if state.workers[worker].movable:
            if free:
                _note_step(state, node, other, worker, NOWHERE, MOVE_WORKER, other)
            partner = state.nodes[other].first
            while partner != NOWHERE:
                if state.workers[partner].movable:
                    _note_step(state, node, other, worker, NOWHERE, SWAP_WORKERS, partner)
                    if state.workers[worker].topology == state.workers[partner].topology:
                        _look_within(state, worker, partner)
                partner = state.workers[partner].next
        worker = state.workers[worker].next


@inner
def _look_within(state: RepairState, worker: int, partner: int) -> None:
    """Search for a better step of an executor between two workers of a topology."""
    node, other = state.workers[worker].node, state.workers[partner].node
    roomy = state.workers[worker].size > 1 and state.workers[partner].size < state.workers[partner].most
    executor = state.workers[worker].first
    while executor != NOWHERE:
        if roomy:
            _note_step(state, node, other, worker, executor, MOVE_EXECUTOR, partner)
        swapped = state.workers[partner].first
        while swapped != NOWHERE:
            _note_step(state, node, other, worker, executor, SWAP_EXECUTORS, swapped)
            swapped = state.executors[swapped].next
        executor = state.executors[executor].next


@inner
def _note_step(state: RepairState, node: int, other: int, worker: int, executor: int, kind: int, target: int) -> None:
    """Record a step if it is better than the best so far; of equal ones the first by worker, executor, kind, target.

    The order in which nodes are examined so has no influence on the step that is taken.

    Parameters
    ----------
    state
        Placement under repair, of which only `best` is written.
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
    for resource in range(len(state.unit)):
        if kind == MOVE_WORKER:
            amount = state.of_worker[worker, resource]
        elif kind == SWAP_WORKERS:
            amount = state.of_worker[worker, resource] - state.of_worker[target, resource]
        elif kind == MOVE_EXECUTOR:
            amount = state.demand[executor, resource]
        else:
            amount = state.demand[executor, resource] - state.demand[target, resource]
        before = overload_with(state, node, resource, 0.0) + overload_with(state, other, resource, 0.0)
        gain += before - (overload_with(state, node, resource, -amount) + overload_with(state, other, resource, amount))
    best = state.best[0]
    if gain < best.gain or gain <= NOISE:
        return
    step = (worker, executor, kind, target)
    if gain > best.gain or step < (best.worker, best.executor, best.kind, best.target):
        best.gain, best.worker, best.executor, best.kind, best.target = gain, *step


@compiled
def settle(state: RepairState) -> None:
    """Update workers and nodes from the worker of every executor and the node of every worker."""
    for executor in range(len(state.executors) - 1, -1, -1):  # the last first, as each goes before those after it
        if state.executors[executor].worker != NOWHERE:
            join(state, executor, state.executors[executor].worker)
    for worker in range(len(state.workers) - 1, -1, -1):
        sum_worker(state, worker)
        if state.workers[worker].node != NOWHERE:
            start(state, worker, state.workers[worker].node)
    for node in range(len(state.nodes)):
        sum_node(state, node)


@compiled
def take_steps(state: RepairState, most_looks: int) -> bool:
    """Take the steepest step on the most overloaded node that has one, repeatedly; return whether none is left.

    Stops once about `most_looks` pairs of nodes were examined; another call continues as if it had not. So a caller
    can look at a clock in between, and the outcome does not depend on how often. Each step lowers the overload by
    more than `NOISE`, hence it ends.

    Parameters
    ----------
    state
        State of the repair; written.
    most_looks
        Pairs of nodes to examine, about.
    """
    until = state.totals[0].looks + most_looks
    rank = 0
    while rank < len(state.hardest):
        node = state.hardest[rank]
        if state.nodes[node].overload == 0:
            break
        if state.totals[0].looks >= until:
            return False
        find_best(state, node)
        if state.best[0].gain > NOISE:
            _take_best(state)
            rank = 0
        else:
            rank += 1
    return True


@compiled
def take_out(state: RepairState, topology: int) -> None:
    """Take a topology's workers, except fixed ones, off their nodes. Their executors stay in them."""
    for worker in range(len(state.workers)):
        node = state.workers[worker].node
        if state.workers[worker].topology == topology and state.workers[worker].movable and node != NOWHERE:
            stop(state, worker)
            note_change(state, node)


@compiled
def put_back(state: RepairState, workers: IndexArray) -> bool:
    """Place workers where they leave least capacity, ties to the lower node; return whether all fit, else none.

    Parameters
    ----------
    state
        Written; if one of them fits nowhere, those placed before are taken off again.
    workers
        Workers in the order in which they are placed, int64.
    """
    for position in range(len(workers)):
        to, least = NOWHERE, math.inf
        for node in range(len(state.nodes)):
            left = _left_beside(state, node, workers[position])
            if left < least:
                to, least = node, left
        if to == NOWHERE:
            for placed in workers[:position]:
                node = state.workers[placed].node
                stop(state, placed)
                note_change(state, node)
            return False
        start(state, workers[position], to)
        note_change(state, to)
    return True


@inner
def _left_beside(state: RepairState, node: int, worker: int) -> float:
    """Return the remaining capacity of a node with a worker, relative to the cluster; infinite if it cannot take it."""
    if state.nodes[node].used >= state.nodes[node].ports:
        return math.inf
    total = 0.0
    for resource in range(len(state.unit)):
        amount = state.of_worker[worker, resource]
        left = state.capacity[node, resource] - state.of_node[node, resource] - amount
        if left < 0 and amount > 0:
            return math.inf
        total += left / state.unit[resource] if left < math.inf else 1.0
    return total


@inner
def _take_best(state: RepairState) -> None:
    """Take the recorded best step, and mark its two nodes as changed."""
    kind, target = state.best[0].kind, state.best[0].target
    worker, executor = state.best[0].worker, state.best[0].executor
    node = state.workers[worker].node
    if kind == MOVE_WORKER:
        other = target
        stop(state, worker)
        start(state, worker, other)
    elif kind == SWAP_WORKERS:
        other = state.workers[target].node
        stop(state, worker)
        stop(state, target)
        start(state, worker, other)
        start(state, target, node)
    else:
        partner = target if kind == MOVE_EXECUTOR else state.executors[target].worker
        other = state.workers[partner].node
        leave(state, executor)
        if kind == SWAP_EXECUTORS:
            leave(state, target)
            join(state, target, worker)
        join(state, executor, partner)
        sum_worker(state, worker)
        sum_worker(state, partner)
    note_change(state, node)
    note_change(state, other)
    state.totals[0].steps += 1
