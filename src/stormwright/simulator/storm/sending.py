"""What an executor emits for a tuple that it has handled, and how far that goes at once."""

from __future__ import annotations

from stormwright.jit.compiled import Record, inner
from stormwright.jit.random_numbers import draw
from stormwright.simulator.storm.queues import hand, make_tuple, note_lost, wait_for
from stormwright.simulator.storm.records import (
    ACK,
    ALL,
    BEGUN,
    DATA,
    DONE,
    NONE,
    SPOUT,
    TO_ACKER,
    TO_SPOUT,
    Cluster,
)
from stormwright.simulator.storm.routes import choose


@inner
def emit(of: Cluster, who: int, now: float) -> bool:
    """Send what a tuple sets off, or go on with that; whether all is sent, else the thread waits for room."""
    thread = of.threads[who]
    number, left, pair = thread.route, thread.left, thread.pair
    while number < thread.last_route:
        route = of.routes[number]
        if left == NONE:
            left = _copies(of, thread, route)
        while left > 0:
            if pair == NONE:
                pair = _pair(of, thread, route, left)
            if not _send(of, who, route, pair, now):
                thread.route, thread.left, thread.pair = number, left, pair
                return False
            pair = NONE
            left -= 1
        number += 1
        left = NONE
    return True


@inner
def _copies(of: Cluster, thread: Record, route: Record) -> int:
    """How many tuples go along a route for the tuple at work."""
    if route.kind == TO_ACKER:
        return 1 if of.tuples[thread.tuple].tree != NONE else 0
    if route.kind == TO_SPOUT:
        return 1 if of.tuples[thread.tuple].what == DONE else 0
    count = route.whole
    if route.part > 0.0 and draw(of) < route.part:
        count += 1
    return int(count * route.count if route.kind == ALL else count)


@inner
def _pair(of: Cluster, thread: Record, route: Record, left: int) -> int:
    if route.kind == TO_ACKER:
        return int(route.first + of.trees[of.tuples[thread.tuple].tree].acker % route.count)
    if route.kind == TO_SPOUT:
        spout = of.threads[of.trees[of.tuples[thread.tuple].tree].spout].spout
        return int(route.first + spout - of.topologies[thread.topology].first_spout)
    return choose(of, route, left)


@inner
def _send(of: Cluster, who: int, route: Record, pair: int, now: float) -> bool:
    """Send one tuple; False if there is no room for it yet."""
    thread, run = of.threads[who], of.run[0]
    target = of.pairs[pair].target
    receiver, current = of.threads[target], of.tuples[thread.tuple]
    there = receiver.worker != NONE and of.workers[receiver.worker].up
    near, sender = receiver.worker == thread.worker, run.executors + thread.worker
    if there:
        if receiver.count >= receiver.limit and receiver.kind != SPOUT:
            wait_for(of, who, receiver)
            return False
        if not near and of.threads[sender].count >= of.threads[sender].limit:
            wait_for(of, who, of.threads[sender])
            return False
    what, tree, use = DATA, current.tree, current.use
    if route.kind == TO_ACKER:
        what = BEGUN if thread.kind == SPOUT else ACK
    elif route.kind == TO_SPOUT:
        what = DONE
    elif tree != NONE and of.trees[tree].use == use:
        of.trees[tree].alive += 1
    thread.emitted += 1
    of.pairs[pair].tuples += 1
    if not there:
        note_lost(of, tree, use)
        return True
    number = make_tuple(of, pair, what, tree, use)
    if not near:
        of.tuples[number].bytes = route.bytes
        thread.debt_s += (run.serialise_s + route.bytes * run.serialise_byte_s) * thread.message_factor
    hand(of, target if near else sender, number, now + run.local_hop_s if near else now)
    return True
