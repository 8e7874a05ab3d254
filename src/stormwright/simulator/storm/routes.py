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
    MOST_WEIGHT,
    NONE,
    ROUND,
    SHUFFLE,
    Cluster,
)

#: Tolerance of load above the least; gained and lost weights.
_AS_GOOD, _GAINS, _LOSES = 0.05, 1, 10

#: Load checks between reports to other workers.
_REPORT_EVERY = 5


@inner
def choose(of: Cluster, route: Record, left: int) -> int:
    """Return the pair for the next tuple of a route; of copies to all, `left` are still to be sent."""
    if route.kind == SHUFFLE:
        chosen = of.choices[route.choices + route.at]
        route.at = route.at + 1 if route.at + 1 < ROUND else 0
        return int(route.first + chosen)
    if route.kind == ALL:
        return int(route.first + (left - 1) % route.count)
    low, high = route.first, route.first + route.count - 1
    if route.kind == FIELDS:
        target = draw(of)
        while low < high:
            middle = (low + high) >> 1
            beyond = target >= of.pairs[middle].below  # branch-free, as it is unpredictable
            low += (middle + 1 - low) * beyond
            high += (middle - high) * (not beyond)
    return int(low)


@inner
def look_at_loads(of: Cluster) -> None:
    """Check loads of queues, and adapt all shuffles."""
    run = of.run[0]
    for who in range(run.executors):
        of.seen[who].here = of.threads[who].count / of.threads[who].limit
        if run.looks % _REPORT_EVERY == 0:
            of.seen[who].told = of.seen[who].here
    run.looks += 1
    for number in range(len(of.routes)):
        route = of.routes[number]
        if route.kind == SHUFFLE and of.threads[route.source].worker != NONE and _look(of, route):
            shuffle(of, route)


@inner
def place_shuffles(of: Cluster) -> None:
    """Restart all shuffles, as near as possible, after executors moved."""
    for number in range(len(of.routes)):
        route = of.routes[number]
        if route.kind == SHUFFLE and of.threads[route.source].worker != NONE:
            route.scope = IN_WORKER if route.aware or route.local else EVERYWHERE
            while route.scope < EVERYWHERE and _mean_load(of, route, route.scope) < 0.0:
                route.scope = _wider(route)
            _even(of, route)
            shuffle(of, route)


@inner
def shuffle(of: Cluster, route: Record) -> None:
    """Start a new round of choices by the targets' weights."""
    whole, filled = 0, 0
    for pair in range(route.first, route.first + route.count):
        if _within(of, route, pair, route.scope):
            whole += of.pairs[pair].weight
    for place in range(route.count):
        pair = route.first + place
        if whole > 0 and _within(of, route, pair, route.scope):
            for _ in range(of.pairs[pair].weight * ROUND // whole):
                of.choices[route.choices + filled] = place
                filled += 1
    for place in range(filled, ROUND):
        of.choices[route.choices + place] = (
            of.choices[route.choices + draw_below(of, filled)] if filled else place % route.count
        )
    for place in range(ROUND - 1, 0, -1):
        other = draw_below(of, place + 1)
        one = of.choices[route.choices + place]
        of.choices[route.choices + place] = of.choices[route.choices + other]
        of.choices[route.choices + other] = one
    route.at = 0


@inner
def _look(of: Cluster, route: Record) -> bool:
    """Update scope and weights of a shuffle by loads; return whether they changed."""
    if not route.aware:
        return False
    bounds, before, changed = of.topologies[of.threads[route.source].topology], route.scope, False
    mean = _mean_load(of, route, before)
    if before < EVERYWHERE and (mean < 0.0 or mean > bounds.higher):
        route.scope = _wider(route)
    elif before > IN_WORKER:
        nearer = IN_WORKER if route.local else before - 1
        mean = _mean_load(of, route, nearer)
        if 0.0 <= mean < bounds.lower:
            route.scope = nearer
    if route.scope != before:
        _even(of, route)
        changed = True
    least = 2.0
    for pair in range(route.first, route.first + route.count):
        if _within(of, route, pair, route.scope):
            least = min(least, _load(of, route, pair))
    for pair in range(route.first, route.first + route.count):
        if _within(of, route, pair, route.scope):
            target = of.pairs[pair]
            weight = target.weight
            if _load(of, route, pair) <= least + _AS_GOOD:
                target.weight = min(weight + _GAINS, MOST_WEIGHT)
            else:
                target.weight = max(weight - _LOSES, 0)
            changed = changed or target.weight != weight
    return changed


@inner
def _even(of: Cluster, route: Record) -> None:
    for pair in range(route.first, route.first + route.count):
        of.pairs[pair].weight = MOST_WEIGHT


@inner
def _wider(route: Record) -> int:
    return EVERYWHERE if route.local else route.scope + 1


@inner
def _mean_load(of: Cluster, route: Record, scope: int) -> float:
    """Return the mean load of the targets in a scope, -1 if there are none."""
    count, load = 0, 0.0
    for pair in range(route.first, route.first + route.count):
        if _within(of, route, pair, scope):
            count += 1
            load += _load(of, route, pair)
    return load / count if count else -1.0


@inner
def _within(of: Cluster, route: Record, pair: int, scope: int) -> bool:
    """Return whether the target of a pair is in a scope of its source."""
    source, target = of.threads[route.source], of.threads[of.pairs[pair].target]
    if target.worker == NONE:
        return False
    if scope == IN_WORKER:
        return bool(target.worker == source.worker)
    if scope == IN_NODE:
        return bool(target.node == source.node)
    return scope != IN_RACK or of.racks[target.node] == of.racks[source.node]


@inner
def _load(of: Cluster, route: Record, pair: int) -> float:
    target = of.pairs[pair].target
    here = of.threads[target].worker == of.threads[route.source].worker
    return float(of.seen[target].here if here else of.seen[target].told)
