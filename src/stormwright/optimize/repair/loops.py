"""The loops of `Repair`, on arrays, compiled.

A step changes two nodes. So a node on which no step helped need not be looked at again but beside nodes that changed
since: nodes are kept in the order in which they last changed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.optimize.kernel.compiled import compiled

NOWHERE = -1

#: A gain, as a part of the cluster's capacity, below which it is rounding; far less than one node's tolerance.
_NOISE = 1e-15

#: What a bound of a gain may lack by rounding, as a part of it.
_ROUNDING = 1e-9

#: The kinds of steps.
_MOVE_WORKER, _SWAP_WORKERS, _MOVE_EXECUTOR, _SWAP_EXECUTORS = range(4)

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

Records = NDArray[np.void]


class Books(NamedTuple):
    """A placement under way, as arrays of records.

    Parameters
    ----------
    executors
        Of `EXECUTOR`: its worker; the executors after and before it there, by number.
    workers
        Of `WORKER`: its node; its topology; how many executors it has and may have, and the first of them; the workers
        after and before it on its node, by number; whether it may change. One without a node takes no part.
    nodes
        Of `NODE`: its overload, of all resources; the first of its workers, how many they are and may be; its rank in
        `hardest`; when it changed and was last looked at, counted in changes; the nodes that changed after and before.
    demand, of_worker, of_node, capacity
        Of each hard resource, what executors ask for, workers and nodes hold, and nodes have; shape (…, K).
    unit
        What overload of each resource is a part of, shape (K,).
    hardest
        The nodes, the most overloaded first, then by number.
    best
        Of `STEP`, one record: the best step found.
    totals
        Of `TOTALS`, one record: changes of nodes so far, the node that changed last, steps taken, and pairs of nodes
        that were looked at for a step.
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


@compiled
def settle(books: Books) -> None:
    """Bring workers and nodes in line with the worker of every executor and the node of every worker."""
    for executor in range(len(books.executors) - 1, -1, -1):  # the last first, as each goes before those after it
        if books.executors[executor].worker != NOWHERE:
            _join(books, executor, books.executors[executor].worker)
    for worker in range(len(books.workers) - 1, -1, -1):
        _sum_worker(books, worker)
        if books.workers[worker].node != NOWHERE:
            _start(books, worker, books.workers[worker].node)
    for node in range(len(books.nodes)):
        _sum_node(books, node)


@compiled
def take_steps(books: Books, most_looks: int) -> bool:
    """Take the steepest step on the most overloaded node that has one, again and again; whether none is left.

    Stops once about so many pairs of nodes were looked at; called again, it goes on as if it had not.
    """
    until = books.totals[0].looks + most_looks
    rank = 0
    while rank < len(books.hardest):
        node = books.hardest[rank]
        if books.nodes[node].overload == 0:
            break
        if books.totals[0].looks >= until:
            return False
        _find_best(books, node)
        if books.best[0].gain > _NOISE:
            _take_best(books)
            rank = 0
        else:
            rank += 1
    return True


@compiled
def take_out(books: Books, topology: int) -> None:
    """Take a topology's workers, except those that may not change, off their nodes."""
    for worker in range(len(books.workers)):
        node = books.workers[worker].node
        if books.workers[worker].topology == topology and books.workers[worker].movable and node != NOWHERE:
            _stop(books, worker)
            _note_change(books, node)


@compiled
def put_back(books: Books, workers: IndexArray) -> bool:
    """Put workers of no node where they leave least, ties to the lower node; whether there is room for all, or none."""
    for position in range(len(workers)):
        to, least = NOWHERE, math.inf
        for node in range(len(books.nodes)):
            left = _left_beside(books, node, workers[position])
            if left < least:
                to, least = node, left
        if to == NOWHERE:
            for placed in workers[:position]:
                node = books.workers[placed].node
                _stop(books, placed)
                _note_change(books, node)
            return False
        _start(books, workers[position], to)
        _note_change(books, to)
    return True


@compiled
def _left_beside(books: Books, node: int, worker: int) -> float:
    """What a node has left if it takes a worker, in parts of what the cluster has; infinite if it cannot take it."""
    if books.nodes[node].used >= books.nodes[node].ports:
        return math.inf
    total = 0.0
    for resource in range(len(books.unit)):
        amount = books.of_worker[worker, resource]
        left = books.capacity[node, resource] - books.of_node[node, resource] - amount
        if left < 0 and amount > 0:
            return math.inf
        total += left / books.unit[resource] if left < math.inf else 1.0
    return total


# The best step ------------------------------------------------------------------------------------


@compiled
def _find_best(books: Books, node: int) -> None:
    """Note the best step on an overloaded node; if it was looked at in vain, only beside nodes that changed since."""
    books.best[0].gain = _NOISE
    since = books.nodes[node].looked
    if books.nodes[node].changed > since:
        since = NOWHERE
    other = books.totals[0].newest
    while other != NOWHERE and books.nodes[other].changed > since:
        books.totals[0].looks += 1
        if _most_gain(books, node, other) * (1 + _ROUNDING) >= books.best[0].gain:
            _look(books, node, other)
        other = books.nodes[other].older
    books.nodes[node].looked = books.totals[0].changes


@compiled
def _most_gain(books: Books, node: int, other: int) -> float:
    """A bound of what any step between two nodes gains: of each resource one gives what the other has room for.

    0 for a node and itself.
    """
    most = 0.0
    for resource in range(len(books.unit)):
        over = books.of_node[node, resource] - books.capacity[node, resource]
        over_other = books.of_node[other, resource] - books.capacity[other, resource]
        amount = max(min(over, -over_other), min(over_other, -over))
        if amount > 0:
            most += amount / books.unit[resource]
    return most


@compiled
def _look(books: Books, node: int, other: int) -> None:
    """Look for a better step between an overloaded node and another one."""
    free = books.nodes[other].used < books.nodes[other].ports
    worker = books.nodes[node].first
    while worker != NOWHERE:
        if books.workers[worker].movable:
            if free:
                _note_step(books, node, other, worker, NOWHERE, _MOVE_WORKER, other)
            partner = books.nodes[other].first
            while partner != NOWHERE:
                if books.workers[partner].movable:
                    _note_step(books, node, other, worker, NOWHERE, _SWAP_WORKERS, partner)
                    if books.workers[worker].topology == books.workers[partner].topology:
                        _look_within(books, worker, partner)
                partner = books.workers[partner].next
        worker = books.workers[worker].next


@compiled
def _look_within(books: Books, worker: int, partner: int) -> None:
    """Look for a better step of an executor between two workers of a topology."""
    node, other = books.workers[worker].node, books.workers[partner].node
    roomy = books.workers[worker].size > 1 and books.workers[partner].size < books.workers[partner].most
    executor = books.workers[worker].first
    while executor != NOWHERE:
        if roomy:
            _note_step(books, node, other, worker, executor, _MOVE_EXECUTOR, partner)
        swapped = books.workers[partner].first
        while swapped != NOWHERE:
            _note_step(books, node, other, worker, executor, _SWAP_EXECUTORS, swapped)
            swapped = books.executors[swapped].next
        executor = books.executors[executor].next


@compiled
def _note_step(books: Books, node: int, other: int, worker: int, executor: int, kind: int, target: int) -> None:
    """Note a step if it is better than the best so far; of equal ones the first by worker, executor, kind, target."""
    gain = 0.0
    for resource in range(len(books.unit)):
        if kind == _MOVE_WORKER:
            amount = books.of_worker[worker, resource]
        elif kind == _SWAP_WORKERS:
            amount = books.of_worker[worker, resource] - books.of_worker[target, resource]
        elif kind == _MOVE_EXECUTOR:
            amount = books.demand[executor, resource]
        else:
            amount = books.demand[executor, resource] - books.demand[target, resource]
        before = _overload(books, node, resource, 0.0) + _overload(books, other, resource, 0.0)
        gain += before - (_overload(books, node, resource, -amount) + _overload(books, other, resource, amount))
    best = books.best[0]
    if gain < best.gain or gain <= _NOISE:
        return
    step = (worker, executor, kind, target)
    if gain > best.gain or step < (best.worker, best.executor, best.kind, best.target):
        best.gain, best.worker, best.executor, best.kind, best.target = gain, *step


@compiled
def _overload(books: Books, node: int, resource: int, more: float) -> float:
    """What a node would hold beyond what it has, with so much more, as a part of what the cluster has."""
    over = books.of_node[node, resource] + more - books.capacity[node, resource]
    return float(max(over, 0.0) / books.unit[resource])


# Changes ------------------------------------------------------------------------------------------


@compiled
def _take_best(books: Books) -> None:
    kind, target = books.best[0].kind, books.best[0].target
    worker, executor = books.best[0].worker, books.best[0].executor
    node = books.workers[worker].node
    if kind == _MOVE_WORKER:
        other = target
        _stop(books, worker)
        _start(books, worker, other)
    elif kind == _SWAP_WORKERS:
        other = books.workers[target].node
        _stop(books, worker)
        _stop(books, target)
        _start(books, worker, other)
        _start(books, target, node)
    else:
        partner = target if kind == _MOVE_EXECUTOR else books.executors[target].worker
        other = books.workers[partner].node
        _leave(books, executor)
        if kind == _SWAP_EXECUTORS:
            _leave(books, target)
            _join(books, target, worker)
        _join(books, executor, partner)
        _sum_worker(books, worker)
        _sum_worker(books, partner)
    _note_change(books, node)
    _note_change(books, other)
    books.totals[0].steps += 1


@compiled
def _join(books: Books, executor: int, worker: int) -> None:
    """Put an executor of no worker into one."""
    books.executors[executor].worker = worker
    _link(books.executors, books.workers, executor, worker)
    books.workers[worker].size += 1


@compiled
def _leave(books: Books, executor: int) -> None:
    """Take an executor out of its worker."""
    worker = books.executors[executor].worker
    books.executors[executor].worker = NOWHERE
    _unlink(books.executors, books.workers, executor, worker)
    books.workers[worker].size -= 1


@compiled
def _start(books: Books, worker: int, node: int) -> None:
    """Put a worker of no node onto one."""
    books.workers[worker].node = node
    _link(books.workers, books.nodes, worker, node)
    books.nodes[node].used += 1


@compiled
def _stop(books: Books, worker: int) -> None:
    """Take a worker off its node."""
    node = books.workers[worker].node
    books.workers[worker].node = NOWHERE
    _unlink(books.workers, books.nodes, worker, node)
    books.nodes[node].used -= 1


@compiled
def _link(items: Records, places: Records, item: int, place: int) -> None:
    """Put an item into the list of a place, behind those of lower number."""
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


@compiled
def _unlink(items: Records, places: Records, item: int, place: int) -> None:
    """Take an item out of the list of its place."""
    before, after = items[item].previous, items[item].next
    if before == NOWHERE:
        places[place].first = after
    else:
        items[before].next = after
    if after != NOWHERE:
        items[after].previous = before


@compiled
def _sum_worker(books: Books, worker: int) -> None:
    """Add up what a worker holds; anew, so that nothing drifts."""
    books.of_worker[worker, :] = 0.0
    executor = books.workers[worker].first
    while executor != NOWHERE:
        for resource in range(len(books.unit)):
            books.of_worker[worker, resource] += books.demand[executor, resource]
        executor = books.executors[executor].next


@compiled
def _sum_node(books: Books, node: int) -> None:
    """Add up what a node holds, and by how much that is too much."""
    books.of_node[node, :] = 0.0
    worker = books.nodes[node].first
    while worker != NOWHERE:
        for resource in range(len(books.unit)):
            books.of_node[node, resource] += books.of_worker[worker, resource]
        worker = books.workers[worker].next
    overload = 0.0
    for resource in range(len(books.unit)):
        overload += _overload(books, node, resource, 0.0)
    books.nodes[node].overload = overload


@compiled
def _note_change(books: Books, node: int) -> None:
    """Add up what a node holds, rank it, and make it the one that changed last."""
    _sum_node(books, node)
    _rank(books, node)
    books.totals[0].changes += 1
    books.nodes[node].changed = books.totals[0].changes
    newer, older = books.nodes[node].newer, books.nodes[node].older
    if newer == NOWHERE:
        return
    books.nodes[newer].older = older
    if older != NOWHERE:
        books.nodes[older].newer = newer
    newest = books.totals[0].newest
    books.nodes[newest].newer = node
    books.nodes[node].older, books.nodes[node].newer = newest, NOWHERE
    books.totals[0].newest = node


@compiled
def _rank(books: Books, node: int) -> None:
    """Bring a node whose overload has changed to its place in `hardest`."""
    at = books.nodes[node].rank
    while at + 1 < len(books.hardest) and _comes_before(books, books.hardest[at + 1], node):
        _set_rank(books, books.hardest[at + 1], at)
        at += 1
    while at > 0 and _comes_before(books, node, books.hardest[at - 1]):
        _set_rank(books, books.hardest[at - 1], at)
        at -= 1
    _set_rank(books, node, at)


@compiled
def _set_rank(books: Books, node: int, rank: int) -> None:
    books.hardest[rank] = node
    books.nodes[node].rank = rank


@compiled
def _comes_before(books: Books, a: int, b: int) -> bool:
    overload_a, overload_b = books.nodes[a].overload, books.nodes[b].overload
    return bool(overload_a > overload_b or (overload_a == overload_b and a < b))
