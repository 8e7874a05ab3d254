"""Limits beside CPU, memory, ports and places, counted incrementally as a placement changes.

They are of components that may not share a worker, of executors of a component on a node, of further resources of
nodes (generic ones such as GPUs, and requests where a scheduler of Storm's uses them), of the heap of
workers, and of memory that components share. All follow from how many executors of each component a worker and a node
have, and from sums. So no step is evaluated hypothetically: a change is made here, `put_in` and the others return the
increase of the violation, and an unwanted change is undone. Amounts are multiples of one power of two, and units are
powers of two (see `layout.ruling`), which leaves no rounding error.

Violation is counted: 1 for each forbidden pair in a worker and for each excess executor on a node, and the lack of a
resource or of heap relative to the mean request of an executor.
"""

from __future__ import annotations

from stormwright.jit.compiled import inner, seldom
from stormwright.optimize.kernel.records import NOWHERE, Rules


def copied(rules: Rules) -> Rules:
    """Return the same rules with separate counts."""
    return rules._replace(counts=rules.counts.copy(), amounts=rules.amounts.copy(), requested=rules.requested.copy())


@inner
def clear(rules: Rules) -> None:
    """Reset to an empty placement."""
    shelf = rules.shelf[0]
    for at in range(shelf.left, shelf.heap_room):
        rules.amounts[at] = rules.amounts[at - shelf.left + shelf.room]
    for at in range(shelf.heap_left, shelf.used):
        rules.amounts[at] = rules.amounts[at - shelf.heap_left + shelf.heap_room]
    for at in range(shelf.used, shelf.end):
        rules.amounts[at] = 0.0
    for at in range(shelf.first_held, shelf.end_held):
        rules.counts[at] = 0


@inner
def is_limited(rules: Rules, topology: int) -> bool:
    """Return whether anything here limits a topology; if not, its changes need not be recorded."""
    return bool(rules.topologies[topology].limited)


@inner
def demand_of(rules: Rules, executor: int, resource: int) -> float:
    """Return the demand of an executor for a resource; the last one is heap."""
    shelf = rules.shelf[0]
    return float(rules.amounts[shelf.demand + executor * (shelf.resources + 1) + resource])


@inner
def left_on(rules: Rules, node: int, resource: int) -> float:
    """Return the remaining capacity of a node for a resource."""
    shelf = rules.shelf[0]
    return float(rules.amounts[shelf.left + node * shelf.resources + resource])


@inner
def put_in(rules: Rules, topology: int, executor: int, worker: int, node: int) -> float:
    """Put an executor into a worker that is on a node; return the increase of the violation.

    Parameters
    ----------
    rules
        Limits, whose state is updated.
    topology, executor, worker, node
        The executor, which is in no worker, and the worker.
    """
    return _change(rules, topology, executor, worker, node, 1)


@inner
def take_from(rules: Rules, topology: int, executor: int, worker: int, node: int) -> float:
    """Take an executor out of a worker that is on a node; return the increase of the violation, never above 0.

    Parameters
    ----------
    rules
        Limits, whose state is updated.
    topology, executor, worker, node
        The executor, which is in that worker, and the worker.
    """
    return _change(rules, topology, executor, worker, node, -1)


@seldom
def rise_of_step(rules: Rules, topology: int, executor: int, places: tuple[int, int, int, int], partner: int) -> float:
    """Return the increase of the violation if an executor went to another worker, in exchange for a partner if any.

    Parameters
    ----------
    rules
        Limits and their current use; changed for the trial, then restored.
    topology, executor
        Topology and executor that change.
    places
        Current worker and its node; the other worker and its node.
    partner
        Executor that moves in the opposite direction; -1 for none.
    """
    own, node, to, to_node = places
    total = 0.0
    for back in range(2):  # there, and back: one place in the code for each change
        for turn in range(4):
            # The leaving executor goes first.
            moved = executor if turn % 2 == 0 else partner
            if moved < 0:
                continue
            leaves_own = (moved == executor) == (back == 0)
            if turn >= 2:
                leaves_own = not leaves_own
            worker, on = (own, node) if leaves_own else (to, to_node)
            broken = _change(rules, topology, moved, worker, on, -1 if turn < 2 else 1)
            total += broken if back == 0 else 0.0
    return total


@seldom
def _change(rules: Rules, topology: int, executor: int, worker: int, node: int, sign: int) -> float:
    limits, shelf = rules.topologies[topology], rules.shelf[0]
    component = rules.counts[shelf.component + executor]
    row = limits.held + (worker - limits.first_worker) * limits.components
    broken = 0.0
    if limits.apart != NOWHERE:
        beside = 0
        for other in range(limits.components):
            if rules.counts[limits.apart + component * limits.components + other] > 0:
                beside += rules.counts[row + other] - int(sign < 0 and other == component)
        broken += sign * beside
    if limits.on != NOWHERE:
        broken += _crowd(rules, topology, component, node, sign)
    for resource in range(shelf.resources + 1):
        amount = sign * demand_of(rules, executor, resource)
        if amount != 0:
            broken += _use(rules, worker, node, resource, amount)
    rules.counts[row + component] += sign
    for region in range(limits.first_region, limits.last_region):
        if rules.counts[rules.regions[region].users + component] == 0:
            continue
        # Whether this is its only user, in the worker and on the node, while it is there.
        if _users(rules, region, row, limits.components) == max(sign, 0):
            broken += _use(rules, worker, node, shelf.resources, sign * rules.regions[region].heap)
            broken += _use(rules, worker, node, shelf.memory, sign * rules.regions[region].memory)
        at = limits.on + node * limits.components
        if rules.regions[region].on_node > 0 and _users(rules, region, at, limits.components) == max(sign, 0):
            broken += _take(rules, node, shelf.memory, sign * rules.regions[region].on_node)
    return broken


@seldom
def bring(rules: Rules, topology: int, worker: int, node: int, sign: int) -> float:
    """Move a worker with all its executors to a node, or off it; return the increase of the violation.

    Parameters
    ----------
    rules
        Limits, whose state is updated.
    topology, worker, node
        The worker and the node.
    sign
        1 to come, -1 to leave.
    """
    limits, shelf, broken = rules.topologies[topology], rules.shelf[0], 0.0
    for resource in range(shelf.resources):
        amount = rules.amounts[shelf.used + worker * shelf.resources + resource]
        broken += _take(rules, node, resource, sign * amount)
    if limits.on == NOWHERE:
        return broken
    row, at = limits.held + (worker - limits.first_worker) * limits.components, limits.on + node * limits.components
    for region in range(limits.first_region, limits.last_region):
        here = _users(rules, region, row, limits.components)
        others = _users(rules, region, at, limits.components) - (here if sign < 0 else 0)
        if here > 0 and others == 0:
            broken += _take(rules, node, shelf.memory, sign * rules.regions[region].on_node)
    for component in range(limits.components):
        broken += _crowd(rules, topology, component, node, sign * rules.counts[row + component])
    return broken


@inner
def _crowd(rules: Rules, topology: int, component: int, node: int, more: int) -> float:
    """Add `more` executors of a component on a node; return the increase of the excess."""
    limits = rules.topologies[topology]
    at, most = limits.on + node * limits.components + component, rules.counts[limits.most + component]
    before = rules.counts[at]
    rules.counts[at] = before + more
    return float(max(before + more - most, 0) - max(before - most, 0))


@inner
def _users(rules: Rules, region: int, at: int, components: int) -> int:
    """Return the number of executors that use a region, of those counted in a row."""
    total = 0
    for component in range(components):
        if rules.counts[rules.regions[region].users + component] > 0:
            total += rules.counts[at + component]
    return total


@inner
def _use(rules: Rules, worker: int, node: int, resource: int, amount: float) -> float:
    """Add to the use of a worker's heap, or of a resource of its node; return the increase of the violation."""
    shelf = rules.shelf[0]
    if resource == shelf.resources:
        return _lack(rules, shelf.heap_left + worker, resource, amount)
    rules.amounts[shelf.used + worker * shelf.resources + resource] += amount
    return _take(rules, node, resource, amount)


@inner
def _take(rules: Rules, node: int, resource: int, amount: float) -> float:
    shelf = rules.shelf[0]
    return _lack(rules, shelf.left + node * shelf.resources + resource, resource, amount)


@inner
def _lack(rules: Rules, at: int, resource: int, amount: float) -> float:
    """Subtract an amount from a remaining capacity; return the increase of its lack, in units of the resource."""
    left = rules.amounts[at]
    rules.amounts[at] = left - amount
    return float((max(amount - left, 0.0) - max(-left, 0.0)) / rules.amounts[rules.shelf[0].unit + resource])
