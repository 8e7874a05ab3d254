"""Limits beside CPU, memory, ports and places, counted as a placement changes: whatever search changes it.

They are of components that may not share a worker, of executors of a component on a node, of further resources of nodes
(generic ones such as GPUs, and what is asked for where a scheduler of Storm's goes by that), of the heap of workers, and
of memory that components share. All of them follow from how many executors of each component a worker and a node have,
and from sums. So nobody tries in thought: a change is made here, `put_in` and the others return by how much more is
broken, and what is not wanted is made back. Amounts are multiples of one power of two (`layout.ruling` sees to that),
which leaves no trace of rounding.

What is broken is counted: 1 for each pair in a worker that may not be together and for each executor too many on a
node, and what lacks of a resource or of heap in parts of what one executor asks for on average.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.optimize.kernel.compiled import compiled, inner
from stormwright.optimize.kernel.records import NOWHERE, Records

#: Of a topology: its first worker and how many components it has; where its tables begin, `NOWHERE` for none.
RULED = np.dtype(
    [
        *((name, np.int64) for name in ("first_worker", "components", "held", "on", "apart", "most")),
        *((name, np.int64) for name in ("first_region", "last_region")),
        ("limited", np.bool_),
    ],
    align=True,
)
#: Memory that components share, in MB: heap of a worker, all memory of a worker, and memory of a node.
REGION = np.dtype([("heap", np.float64), ("memory", np.float64), ("on_node", np.float64), ("users", np.int64)])


class Rules(NamedTuple):
    """What limits topologies further, and what of it a placement takes.

    Parameters
    ----------
    topologies
        Of `RULED`.
    component
        Of every executor, by its number in the topology, shape (E,).
    demand, heap
        What executors ask for of the further resources, shape (E, K), and of their worker's heap, shape (E,).
    room, heap_room
        What nodes have, shape (N, K), and workers, infinite where that is no limit, shape (W,).
    left, heap_left, used
        What of that is left, and what workers take of the resources, shape (W, K).
    unit
        In which a lack of each resource and of heap is counted, shape (K + 1,).
    memory
        The resource that shared memory takes; `NOWHERE` for none, one number.
    held, on
        Executors of each component in each worker, and on each node, of topologies where that counts.
    apart, most
        Whether executors of two components may not share a worker; and how many a node may have of each.
    regions, users
        Of `REGION`, and whether each component of the topology uses it.
    asked
        Scratch of construction: what is still to be placed asks for, shape (K,).
    """

    topologies: Records
    component: IndexArray
    demand: FloatArray
    heap: FloatArray
    room: FloatArray
    heap_room: FloatArray
    left: FloatArray
    heap_left: FloatArray
    used: FloatArray
    unit: FloatArray
    memory: IndexArray
    held: IndexArray
    on: IndexArray
    apart: BoolArray
    most: IndexArray
    regions: Records
    users: BoolArray
    asked: FloatArray


def copied(rules: Rules) -> Rules:
    """The same with books of its own."""
    own = ("left", "heap_left", "used", "held", "on", "asked")
    return rules._replace(**{name: getattr(rules, name).copy() for name in own})


@inner
def clear(rules: Rules) -> None:
    """Nothing is placed."""
    for node in range(len(rules.left)):
        for resource in range(len(rules.asked)):
            rules.left[node, resource] = rules.room[node, resource]
    for worker in range(len(rules.used)):
        rules.heap_left[worker] = rules.heap_room[worker]
        for resource in range(len(rules.asked)):
            rules.used[worker, resource] = 0.0
    for number in range(len(rules.held)):
        rules.held[number] = 0
    for number in range(len(rules.on)):
        rules.on[number] = 0


@inner
def is_limited(rules: Rules, topology: int) -> bool:
    """Whether anything here limits a topology; if not, nothing of it needs to be noted."""
    return bool(rules.topologies[topology].limited)


@inner
def put_in(rules: Rules, topology: int, executor: int, worker: int, node: int) -> float:
    """Put an executor into a worker that is on a node; how much more is broken."""
    return _change(rules, topology, executor, worker, node, 1)


@inner
def take_from(rules: Rules, topology: int, executor: int, worker: int, node: int) -> float:
    """Take an executor out of a worker that is on a node; how much more is broken, which is never above 0."""
    return _change(rules, topology, executor, worker, node, -1)


@compiled
def settle(rules: Rules, topology: IndexArray, worker: IndexArray, node: IndexArray) -> float:
    """Put all executors into their workers; what is broken.

    Parameters
    ----------
    rules
        With nothing placed.
    topology, worker
        Of every executor, worker -1 for none, shape (E,), int64.
    node
        Of every worker, shape (W,), int64.
    """
    broken = 0.0
    for executor in range(len(worker)):
        if worker[executor] != NOWHERE and is_limited(rules, topology[executor]):
            own = worker[executor]
            broken += put_in(rules, topology[executor], executor, own, node[own])
    return broken


@inner
def _change(rules: Rules, topology: int, executor: int, worker: int, node: int, sign: int) -> float:
    of, component = rules.topologies[topology], rules.component[executor]
    row = of.held + (worker - of.first_worker) * of.components
    broken = 0.0
    if of.apart != NOWHERE:
        beside = 0
        for other in range(of.components):
            if rules.apart[of.apart + component * of.components + other]:
                beside += rules.held[row + other] - int(sign < 0 and other == component)
        broken += sign * beside
    if of.on != NOWHERE:
        broken += _crowd(rules, topology, component, node, sign)
    for resource in range(len(rules.asked)):
        broken += _use(rules, worker, node, resource, sign * rules.demand[executor, resource])
    broken += _fill(rules, worker, sign * rules.heap[executor])
    rules.held[row + component] += sign
    for region in range(of.first_region, of.last_region):
        if not rules.users[rules.regions[region].users + component]:
            continue
        # Whether this is its only user, in the worker and on the node, while it is there.
        if _users(rules, region, rules.held, row, of.components) == max(sign, 0):
            broken += _fill(rules, worker, sign * rules.regions[region].heap)
            broken += _use(rules, worker, node, rules.memory[0], sign * rules.regions[region].memory)
        at = of.on + node * of.components
        if rules.regions[region].on_node > 0 and _users(rules, region, rules.on, at, of.components) == max(sign, 0):
            broken += _take(rules, node, rules.memory[0], sign * rules.regions[region].on_node)
    return broken


@inner
def bring(rules: Rules, topology: int, worker: int, node: int, sign: int) -> float:
    """Let a worker with all that is in it come to a node (1), or leave it (-1); how much more is broken."""
    of, broken = rules.topologies[topology], 0.0
    for resource in range(len(rules.asked)):
        broken += _take(rules, node, resource, sign * rules.used[worker, resource])
    if of.on == NOWHERE:
        return broken
    row, at = of.held + (worker - of.first_worker) * of.components, of.on + node * of.components
    for region in range(of.first_region, of.last_region):
        here = _users(rules, region, rules.held, row, of.components)
        others = _users(rules, region, rules.on, at, of.components) - (here if sign < 0 else 0)
        if here > 0 and others == 0:
            broken += _take(rules, node, rules.memory[0], sign * rules.regions[region].on_node)
    for component in range(of.components):
        broken += _crowd(rules, topology, component, node, sign * rules.held[row + component])
    return broken


@inner
def _crowd(rules: Rules, topology: int, component: int, node: int, more: int) -> float:
    """Note so many more executors of a component on a node; how many more are too many."""
    of = rules.topologies[topology]
    at, most = of.on + node * of.components + component, rules.most[of.most + component]
    before = rules.on[at]
    rules.on[at] = before + more
    return float(max(before + more - most, 0) - max(before - most, 0))


@inner
def _users(rules: Rules, region: int, counts: IndexArray, at: int, components: int) -> int:
    """How many executors of those counted in a row use a region."""
    total = 0
    for component in range(components):
        if rules.users[rules.regions[region].users + component]:
            total += counts[at + component]
    return total


@inner
def _use(rules: Rules, worker: int, node: int, resource: int, amount: float) -> float:
    """Let a worker take so much more of a resource of its node; how much more is broken."""
    rules.used[worker, resource] += amount
    return _take(rules, node, resource, amount)


@inner
def _take(rules: Rules, node: int, resource: int, amount: float) -> float:
    if amount == 0:
        return 0.0
    left = rules.left[node, resource]
    rules.left[node, resource] = left - amount
    return (max(amount - left, 0.0) - max(-left, 0.0)) / rules.unit[resource]


@inner
def _fill(rules: Rules, worker: int, amount: float) -> float:
    """Let a worker take so much more of its heap; how much more is broken."""
    if amount == 0:
        return 0.0
    left = rules.heap_left[worker]
    rules.heap_left[worker] = left - amount
    return (max(amount - left, 0.0) - max(-left, 0.0)) / rules.unit[len(rules.asked)]
