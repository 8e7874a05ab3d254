"""Threads: fetch a tuple, process it, send the results, and repeat."""

from __future__ import annotations

from math import cos, log, pi, sqrt

from stormwright.jit.compiled import Record, inner
from stormwright.jit.random_numbers import draw
from stormwright.simulator.kernel.arrays import NEVER
from stormwright.simulator.kernel.clock import set_time
from stormwright.simulator.kernel.times import draw_time
from stormwright.simulator.storm.carrying import carry_on, deliver
from stormwright.simulator.storm.queues import (
    call_waiting,
    end_tuple,
    hand,
    make_tuple,
    note_lost,
    starts_without_tuple,
    take,
    wait_for,
)
from stormwright.simulator.storm.records import (
    ACK,
    ACKER,
    ALL,
    ASLEEP,
    BEGUN,
    BLOCKED,
    BOLT,
    DATA,
    DONE,
    NONE,
    RECEIVER,
    SENDER,
    SPOUT,
    TO_ACKER,
    TO_SPOUT,
    WORKS,
    ClusterState,
)
from stormwright.simulator.storm.routes import choose
from stormwright.simulator.storm.trees import begin_tree, complete, hear
from stormwright.simulator.storm.working import looks_at, run_for, work


@inner
def emit(cluster: ClusterState, who: int, now: float) -> bool:
    """Send the results of a tuple, or continue; return whether all is sent, else the thread waits for space."""
    thread = cluster.threads[who]
    number, left, pair = thread.route, thread.left, thread.pair
    while number < thread.last_route:
        route = cluster.routes[number]
        if left == NONE:
            left = _copies(cluster, thread, route)
        while left > 0:
            if pair == NONE:
                pair = _pair(cluster, thread, route, left)
            if not _send(cluster, who, route, pair, now):
                thread.route, thread.left, thread.pair = number, left, pair
                return False
            pair = NONE
            left -= 1
        number += 1
        left = NONE
    return True


@inner
def _copies(cluster: ClusterState, thread: Record, route: Record) -> int:
    """Return the number of tuples along a route for the present tuple."""
    if route.kind == TO_ACKER:
        return 1 if cluster.tuples[thread.tuple].tree != NONE else 0
    if route.kind == TO_SPOUT:
        return 1 if cluster.tuples[thread.tuple].kind == DONE else 0
    count = route.whole
    if route.part > 0.0 and draw(cluster) < route.part:
        count += 1
    return int(count * route.count if route.kind == ALL else count)


@inner
def _pair(cluster: ClusterState, thread: Record, route: Record, left: int) -> int:
    if route.kind == TO_ACKER:
        return int(route.first + cluster.trees[cluster.tuples[thread.tuple].tree].acker % route.count)
    if route.kind == TO_SPOUT:
        spout = cluster.threads[cluster.trees[cluster.tuples[thread.tuple].tree].spout].spout
        return int(route.first + spout - cluster.topologies[thread.topology].first_spout)
    return choose(cluster, route, left)


@inner
def _send(cluster: ClusterState, who: int, route: Record, pair: int, now: float) -> bool:
    """Send one tuple; False if there is no space for it yet."""
    thread, run = cluster.threads[who], cluster.run[0]
    target = cluster.pairs[pair].target
    receiver, current = cluster.threads[target], cluster.tuples[thread.tuple]
    there = receiver.worker != NONE and cluster.workers[receiver.worker].port_open
    near, sender = receiver.worker == thread.worker, run.executors + thread.worker
    if there:
        if receiver.count >= receiver.limit and receiver.kind != SPOUT:
            wait_for(cluster, who, receiver)
            return False
        if not near and cluster.threads[sender].count >= cluster.threads[sender].limit:
            wait_for(cluster, who, cluster.threads[sender])
            return False
    kind, tree, use = DATA, current.tree, current.use
    if route.kind == TO_ACKER:
        kind = BEGUN if thread.kind == SPOUT else ACK
    elif route.kind == TO_SPOUT:
        kind = DONE
    elif tree != NONE and cluster.trees[tree].use == use:
        cluster.trees[tree].alive += 1
    thread.emitted += 1
    cluster.pairs[pair].tuples += 1
    if not there:
        note_lost(cluster, tree, use)
        return True
    number = make_tuple(cluster, pair, kind, tree, use)
    if not near:
        cluster.tuples[number].bytes = route.bytes
        thread.debt_s += (run.serialise_s + route.bytes * run.serialise_byte_s) * thread.message_factor
    hand(cluster, target if near else sender, number, now + run.local_hop_s if near else now)
    return True


#: Cost of cold caches for the first tuple after waking, in wakings.
COLD = 1.0

#: Cost of a write to or read from a socket by a separate thread, in wakings.
AT_SOCKET = 3.0


@inner
def step(cluster: ClusterState, who: int, now: float) -> None:
    """Continue a thread after work, a retry or idleness, until it has to wait."""
    thread = cluster.threads[who]
    sends = thread.state == BLOCKED
    if thread.state == WORKS:
        sends = _done(cluster, who, now)
    if sends:
        if not (carry_on(cluster, who, now) if thread.kind == SENDER else emit(cluster, who, now)):
            return
        if thread.kind != SENDER:
            end_tuple(cluster, thread.tuple)
        thread.tuple = NONE
    at = _next_of_spout(cluster, who, now) if thread.kind == SPOUT else _next(cluster, thread, now)
    if thread.tuple != NONE:
        work(cluster, who, at)
    else:
        _sleep(cluster, who, at, now)


@inner
def _done(cluster: ClusterState, who: int, now: float) -> bool:
    """Complete the work on a tuple; return whether results have to be sent."""
    thread = cluster.threads[who]
    if thread.tuple == NONE:  # it only woke up
        if thread.count > 0 and thread.kind != RECEIVER:
            thread.debt_s += thread.wakes_s * (AT_SOCKET if thread.kind == SENDER else COLD)
        return False
    if thread.kind == RECEIVER:
        number = thread.tuple
        thread.tuple = NONE
        deliver(cluster, who, number, now)
        return False
    if thread.kind < SENDER:
        cluster.run[0].hops += 1
        thread.received += 1
    if thread.kind == SPOUT:
        _begun(cluster, who, now)
    elif thread.kind == ACKER:
        hear(cluster, who, now)
    elif thread.kind == BOLT:
        thread.acked += 1
    thread.route, thread.left, thread.pair = thread.first_route, NONE, NONE
    return True


@inner
def rouse(cluster: ClusterState, who: int, now: float) -> None:
    """Wake a thread, which takes CPU before it looks for tuples."""
    thread = cluster.threads[who]
    set_time(cluster.clock, who, NEVER)
    run_for(cluster, who, thread.wakes_s * (AT_SOCKET if thread.kind == RECEIVER else 1.0), now)


@inner
def _next(cluster: ClusterState, thread: Record, now: float) -> float:
    """Take the next tuple, or return when the thread will begin with it; or sleep until a time."""
    if thread.count == 0:
        return NEVER
    ready = float(cluster.tuples[thread.first].ready)
    if ready > now:
        if not starts_without_tuple(cluster, thread, ready):
            return ready
        if thread.state != ASLEEP:
            thread.idle_since = now
        ready = looks_at(thread, ready)
    thread.tuple = take(cluster, thread)
    if thread.waiting != NONE and thread.count < thread.limit:
        call_waiting(cluster, thread, now)
    return max(ready, now)


@inner
def _sleep(cluster: ClusterState, who: int, until: float, now: float) -> None:
    """Let a thread sleep until a time, or a little longer."""
    thread = cluster.threads[who]
    if thread.state != ASLEEP:
        thread.state, thread.idle_since = ASLEEP, now
    if thread.polls:
        until = now + (thread.park_s if now - thread.idle_since < thread.parks_s else thread.sleeps_s)
    elif until < NEVER:
        until = looks_at(thread, until)
    if cluster.clock.when[who] != until:
        set_time(cluster.clock, who, until)


@inner
def _next_of_spout(cluster: ClusterState, who: int, now: float) -> float:
    """Process completed trees of a spout, then begin another one if allowed."""
    thread = cluster.threads[who]
    spout = cluster.spouts[thread.spout]
    while thread.count > 0 and cluster.tuples[thread.first].ready <= now:
        number = take(cluster, thread)
        complete(cluster, who, cluster.tuples[number].tree, cluster.tuples[number].use)
        end_tuple(cluster, number)
    if spout.apart_s > 0.0:
        _come(cluster, spout, now)
    later, topology = NEVER, cluster.topologies[thread.topology]
    if topology.active and cluster.workers[thread.worker].ready and spout.pending < spout.most:
        if spout.again > 0 or spout.offered > 0 or spout.apart_s == 0.0:
            thread.tuple = make_tuple(cluster, NONE, 0, NONE, 0)
            return now
        later = spout.comes
    if thread.count > 0:
        later = min(later, cluster.tuples[thread.first].ready)
    return float(later)


#: Trees offered at once that are drawn together, as their number is about normally distributed; and the most of them.
_MANY, _MAX_OFFERED = 1e5, 1e18

#: Distance of adjacent times, relative to the time: each tree comes later than the one before it.
_RESOLUTION = 2.3e-16


@inner
def _come(cluster: ClusterState, spout: Record, now: float) -> None:
    """Add trees offered to a spout."""
    expected = (now - spout.comes) / spout.apart_s
    if expected > _MANY:
        normal = sqrt(-2.0 * log(1.0 - draw(cluster))) * cos(2.0 * pi * draw(cluster))
        many = min(max(expected + normal * sqrt(spout.varies * expected), 0.0), _MAX_OFFERED)
        spout.offered += int(many)
        spout.offered = min(spout.offered, int(_MAX_OFFERED))
        spout.comes = now + draw_time(cluster.random, 0, spout.apart_s, spout.varies)
    while spout.comes <= now:
        spout.offered += 1
        spout.comes += max(draw_time(cluster.random, 0, spout.apart_s, spout.varies), _RESOLUTION * now)
    if spout.offered * spout.apart_s > spout.backlog_s:
        spout.offered = max(int(spout.backlog_s / spout.apart_s), 1)


@inner
def _begun(cluster: ClusterState, who: int, now: float) -> None:
    """Begin a tree, a replayed one first."""
    thread = cluster.threads[who]
    spout, topology, current = (
        cluster.spouts[thread.spout],
        cluster.topologies[thread.topology],
        cluster.tuples[thread.tuple],
    )
    if spout.again > 0:
        spout.again -= 1
        topology.replayed += 1
    elif spout.apart_s > 0.0:
        spout.offered -= 1
    topology.begun += 1
    if spout.acked:
        number = begin_tree(cluster, who, now)
        current.tree, current.use = number, cluster.trees[number].use
