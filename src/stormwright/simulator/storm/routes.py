"""Routing: which executor a tuple goes to, and load awareness.

A shuffle goes through a shuffled round of choices, in which each target occurs according to its weight. Once a second
it checks loads, that is fill levels of receive queues. A target within 5 % of the least load gains a little weight,
another one loses ten times that. Its scope is the nearest with a target: worker, node, rack, all; it widens if the mean
load in it exceeds an upper bound, and narrows if that of the nearer one is below a lower bound. Loads of other workers
are five seconds old at most. (Storm 2.8.3: LoadAwareShuffleGrouping, Worker, WorkerState.)
"""

from __future__ import annotations

from stormwright.jit.compiled import Record, inner
from stormwright.jit.random_numbers import draw, draw_below
from stormwright.simulator.storm.records import (
    ALL,
    EVERYWHERE,
    FIELDS,
    IN_NODE,
    IN_RACK,
    IN_WORKER,
    MAX_WEIGHT,
    NONE,
    ROUND,
    SHUFFLE,
    ClusterState,
)

#: Tolerance of load above the least; gained and lost weights.
_AS_GOOD, _GAINS, _LOSES = 0.05, 1, 10

#: Load checks between reports to other workers.
_REPORT_EVERY = 5


@inner
def choose(cluster: ClusterState, route: Record, left: int) -> int:
    """Return the pair for the next tuple of a route; of copies to all, `left` are still to be sent."""
    if route.kind == SHUFFLE:
        chosen = cluster.choices[route.choices + route.at]
        route.at = route.at + 1 if route.at + 1 < ROUND else 0
        return int(route.first + chosen)
    if route.kind == ALL:
        return int(route.first + (left - 1) % route.count)
    low, high = route.first, route.first + route.count - 1
    if route.kind == FIELDS:
        target = draw(cluster)
        while low < high:
            middle = (low + high) >> 1
            beyond = target >= cluster.pairs[middle].below  # branch-free, as it is unpredictable
            low += (middle + 1 - low) * beyond
            high += (middle - high) * (not beyond)
    return int(low)


@inner
def look_at_loads(cluster: ClusterState) -> None:
    """Check loads of queues, and adapt all shuffles."""
    run = cluster.run[0]
    for who in range(run.executors):
        cluster.queue_loads[who].current = cluster.threads[who].count / cluster.threads[who].limit
        if run.looks % _REPORT_EVERY == 0:
            cluster.queue_loads[who].reported = cluster.queue_loads[who].current
    run.looks += 1
    for number in range(len(cluster.routes)):
        route = cluster.routes[number]
        if route.kind == SHUFFLE and cluster.threads[route.source].worker != NONE and _look(cluster, route):
            shuffle(cluster, route)


@inner
def place_shuffles(cluster: ClusterState) -> None:
    """Restart all shuffles, as near as possible, after executors moved."""
    for number in range(len(cluster.routes)):
        route = cluster.routes[number]
        if route.kind == SHUFFLE and cluster.threads[route.source].worker != NONE:
            route.scope = IN_WORKER if route.aware or route.local else EVERYWHERE
            while route.scope < EVERYWHERE and _mean_load(cluster, route, route.scope) < 0.0:
                route.scope = _wider(route)
            _even(cluster, route)
            shuffle(cluster, route)


@inner
def shuffle(cluster: ClusterState, route: Record) -> None:
    """Start a new round of choices by the targets' weights."""
    whole, filled = 0, 0
    for pair in range(route.first, route.first + route.count):
        if _within(cluster, route, pair, route.scope):
            whole += cluster.pairs[pair].weight
    for place in range(route.count):
        pair = route.first + place
        if whole > 0 and _within(cluster, route, pair, route.scope):
            for _ in range(cluster.pairs[pair].weight * ROUND // whole):
                cluster.choices[route.choices + filled] = place
                filled += 1
    for place in range(filled, ROUND):
        cluster.choices[route.choices + place] = (
            cluster.choices[route.choices + draw_below(cluster, filled)] if filled else place % route.count
        )
    for place in range(ROUND - 1, 0, -1):
        other = draw_below(cluster, place + 1)
        one = cluster.choices[route.choices + place]
        cluster.choices[route.choices + place] = cluster.choices[route.choices + other]
        cluster.choices[route.choices + other] = one
    route.at = 0


@inner
def _look(cluster: ClusterState, route: Record) -> bool:
    """Update scope and weights of a shuffle by loads; return whether they changed."""
    if not route.aware:
        return False
    bounds, before, changed = cluster.topologies[cluster.threads[route.source].topology], route.scope, False
    mean = _mean_load(cluster, route, before)
    if before < EVERYWHERE and (mean < 0.0 or mean > bounds.higher):
        route.scope = _wider(route)
    elif before > IN_WORKER:
        nearer = IN_WORKER if route.local else before - 1
        mean = _mean_load(cluster, route, nearer)
        if 0.0 <= mean < bounds.lower:
            route.scope = nearer
    if route.scope != before:
        _even(cluster, route)
        changed = True
    least = 2.0
    for pair in range(route.first, route.first + route.count):
        if _within(cluster, route, pair, route.scope):
            least = min(least, _load(cluster, route, pair))
    for pair in range(route.first, route.first + route.count):
        if _within(cluster, route, pair, route.scope):
            target = cluster.pairs[pair]
            weight = target.weight
            if _load(cluster, route, pair) <= least + _AS_GOOD:
                target.weight = min(weight + _GAINS, MAX_WEIGHT)
            else:
                target.weight = max(weight - _LOSES, 0)
            changed = changed or target.weight != weight
    return changed


@inner
def _even(cluster: ClusterState, route: Record) -> None:
    for pair in range(route.first, route.first + route.count):
        cluster.pairs[pair].weight = MAX_WEIGHT


@inner
def _wider(route: Record) -> int:
    return EVERYWHERE if route.local else route.scope + 1


@inner
def _mean_load(cluster: ClusterState, route: Record, scope: int) -> float:
    """Return the mean load of the targets in a scope, -1 if there are none."""
    count, load = 0, 0.0
    for pair in range(route.first, route.first + route.count):
        if _within(cluster, route, pair, scope):
            count += 1
            load += _load(cluster, route, pair)
    return load / count if count else -1.0


@inner
def _within(cluster: ClusterState, route: Record, pair: int, scope: int) -> bool:
    """Return whether the target of a pair is in a scope of its source."""
    source, target = cluster.threads[route.source], cluster.threads[cluster.pairs[pair].target]
    if target.worker == NONE:
        return False
    if scope == IN_WORKER:
        return bool(target.worker == source.worker)
    if scope == IN_NODE:
        return bool(target.node == source.node)
    return scope != IN_RACK or cluster.racks[target.node] == cluster.racks[source.node]


@inner
def _load(cluster: ClusterState, route: Record, pair: int) -> float:
    target = cluster.pairs[pair].target
    here = cluster.threads[target].worker == cluster.threads[route.source].worker
    return float(cluster.queue_loads[target].current if here else cluster.queue_loads[target].reported)
