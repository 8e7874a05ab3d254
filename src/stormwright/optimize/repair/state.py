"""A placement that is mended, as arrays of records, and its changes: what is noted of it stays right.

Three orders are kept beside the placement itself. Executors of a worker, and workers of a node, are lists in rising
number, so that sums of them are the same however they came there. `hardest` has nodes by overload. A list from
`totals.newest` by `older` has nodes by when they last changed::

    newest ─▶ node ─older─▶ node ─older─▶ node        a node looked at in vain at change c needs only those
              changed 9     changed 7     changed 2    with `changed` > c
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stormwright.jit.compiled import inner
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


class RepairState(NamedTuple):
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


@inner
def join(mending: RepairState, executor: int, worker: int) -> None:
    """Put an executor of no worker into one."""
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
    """Put a worker of no node onto one."""
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
    """Add up what a worker holds; anew, so that nothing drifts."""
    mending.of_worker[worker, :] = 0.0
    executor = mending.workers[worker].first
    while executor != NOWHERE:
        for resource in range(len(mending.unit)):
            mending.of_worker[worker, resource] += mending.demand[executor, resource]
        executor = mending.executors[executor].next


@inner
def sum_node(mending: RepairState, node: int) -> None:
    """Add up what a node holds, and by how much that is too much."""
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
    """What a node would hold beyond what it has of a resource, with so much more, as a part of what the cluster has.

    Parameters
    ----------
    mending
        Read only.
    node, resource
        Which; `resource` is a column of `demand`.
    more
        In the unit of the resource; below 0 for less.
    """
    over = mending.of_node[node, resource] + more - mending.capacity[node, resource]
    return float(max(over, 0.0) / mending.unit[resource])


@inner
def note_change(mending: RepairState, node: int) -> None:
    """Add up what a node holds, rank it, and make it the one that changed last."""
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
    """Bring a node whose overload has changed to its place in `hardest`."""
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
    """Put a node at a place in `hardest`."""
    mending.hardest[rank] = node
    mending.nodes[node].rank = rank


@inner
def _comes_before(mending: RepairState, a: int, b: int) -> bool:
    """The order of `hardest`: most overloaded first, then by number."""
    overload_a, overload_b = mending.nodes[a].overload, mending.nodes[b].overload
    return bool(overload_a > overload_b or (overload_a == overload_b and a < b))
