"""Messages between workers, through a sending thread, two links and a receiving thread."""

from __future__ import annotations

from stormwright.jit.compiled import Record, inner, often
from stormwright.simulator.kernel.arrays import NEVER
from stormwright.simulator.kernel.clock import set_time
from stormwright.simulator.storm.queues import call_waiting, hand, join, lose, take, wait_for
from stormwright.simulator.storm.records import ASLEEP, NONE, ClusterState

#: A message that takes no longer than that for an idle link out of its node, in seconds, has its turn on the one into
#: the other node at once: so another one that comes there before it may have to wait for so long.
SHORT_S = 1e-5


@inner
def carry_on(cluster: ClusterState, who: int, now: float) -> bool:
    """Pass a message from a sending thread to the link; False while its buffer is full."""
    thread, run = cluster.threads[who], cluster.run[0]
    number = thread.tuple
    target = cluster.threads[cluster.pairs[cluster.tuples[number].pair].target]
    if target.worker == NONE or target.node == thread.node:
        _arrive(cluster, number, target.worker, now)
        return True
    size = cluster.tuples[number].bytes + run.overhead_bytes
    link = cluster.links[thread.node]
    if link.bytes_per_s > 0.0 and link.bytes + size > link.limit and link.count > 0:
        wait_for(cluster, who, link)
        return False
    cluster.tuples[number].bytes = size
    left = _passes(cluster, thread.node, number, now, SHORT_S)
    if left < NEVER:
        _come(cluster, number, target, left)
    return True


@inner
def link_done(cluster: ClusterState, which: int, now: float) -> None:
    """Complete the first message of a link."""
    link, run = cluster.links[which], cluster.run[0]
    number = take(cluster, link)
    link.bytes -= cluster.tuples[number].bytes
    link.free = now
    set_time(
        cluster.clock,
        run.first_link + which,
        _sends(link, cluster.tuples[link.first], now) if link.count > 0 else NEVER,
    )
    call_waiting(cluster, link, now)
    target = cluster.threads[cluster.pairs[cluster.tuples[number].pair].target]
    if which < run.nodes:
        _come(cluster, number, target, now)
    else:
        _arrive(cluster, number, target.worker, now)


@inner
def deliver(cluster: ClusterState, who: int, number: int, now: float) -> None:
    """Put tuple `number` into its executor's queue of `cluster` at `now`, by receiving thread `who`.

    It is put there even if the queue is full.
    """
    target = cluster.pairs[cluster.tuples[number].pair].target
    if cluster.threads[target].worker == cluster.threads[who].worker:
        hand(cluster, target, number, now + cluster.run[0].local_hop_s)
    else:
        lose(cluster, number)


@often
def _come(cluster: ClusterState, number: int, target: Record, at: float) -> None:
    """Schedule the arrival of a message for a thread of another node."""
    if target.worker == NONE:
        lose(cluster, number)
        return
    left = _passes(cluster, cluster.run[0].nodes + target.node, number, at, NEVER)
    if left < NEVER:
        _arrive(cluster, number, target.worker, left)


@inner
def _passes(cluster: ClusterState, which: int, number: int, at: float, most_s: float) -> float:
    """Return when a message will have passed an idle link within `most_s`; NEVER while it waits there."""
    link, message = cluster.links[which], cluster.tuples[number]
    link.sent_bytes += message.bytes
    if link.bytes_per_s == 0.0:
        return at
    message.ready = at
    if link.count == 0 and link.waiting == NONE and link.free <= at and message.bytes <= most_s * link.bytes_per_s:
        link.free = _sends(link, message, at)
        return float(link.free)
    join(cluster, link, number)
    link.bytes += message.bytes
    if link.count > link.most:
        link.most = link.count
    if link.count == 1:
        set_time(cluster.clock, cluster.run[0].first_link + which, _sends(link, message, link.free))
    return NEVER


@inner
def _sends(link: Record, message: Record, free: float) -> float:
    """Return until when a free link sends a message; its burst takes no time."""
    begins, lasts = max(free, message.ready), message.bytes / link.bytes_per_s
    link.busy_s += lasts
    if link.burst > 0.0:
        tokens = min(link.tokens + (begins - link.since) * link.bytes_per_s, link.burst)
        link.tokens = max(tokens - message.bytes, 0.0)
        lasts = max(message.bytes - tokens, 0.0) / link.bytes_per_s
    link.since = begins + lasts
    return float(link.since)


@inner
def _arrive(cluster: ClusterState, number: int, worker: int, at: float) -> None:
    """Let a message arrive at its node: the receiving thread of a worker gets it, if its port is open."""
    run = cluster.run[0]
    if worker == NONE or not cluster.workers[worker].port_open:
        lose(cluster, number)
        return
    who, ready = run.executors + run.workers + worker, at + run.remote_hop_s
    receiver = cluster.threads[who]
    last = receiver.last if receiver.count > 0 else NONE
    hand(cluster, who, number, ready)
    if last != NONE and cluster.tuples[last].ready > ready:
        _swap(cluster, last, number)
        if receiver.state == ASLEEP and receiver.count == 2 and ready < cluster.clock.when[who]:
            set_time(cluster.clock, who, ready)


@inner
def _swap(cluster: ClusterState, last: int, number: int) -> None:
    """Let the last message of a link, from its own node, pass one still on its way."""
    one, other = cluster.tuples[last], cluster.tuples[number]
    one.ready, other.ready = other.ready, one.ready
    one.bytes, other.bytes = other.bytes, one.bytes
    one.tree, other.tree = other.tree, one.tree
    one.use, other.use = other.use, one.use
    one.pair, other.pair = other.pair, one.pair
    one.kind, other.kind = other.kind, one.kind
