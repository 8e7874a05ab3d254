"""Messages between workers, through a sending thread, two links and a receiving thread."""

from __future__ import annotations

from stormwright.jit.compiled import Record, inner, often
from stormwright.simulator.kernel.arrays import NEVER
from stormwright.simulator.kernel.clock import set_time
from stormwright.simulator.storm.queues import call_waiting, hand, join, lose, take, wait_for
from stormwright.simulator.storm.records import ASLEEP, NONE, Cluster

#: A message that takes no longer than that for an idle link out of its node, in seconds, has its turn on the one into
#: the other node at once: so another one that comes there before it may have to wait for so long.
SHORT_S = 1e-5


@inner
def carry_on(of: Cluster, who: int, now: float) -> bool:
    """Pass a message from a sending thread to the link; False while its buffer is full."""
    thread, run = of.threads[who], of.run[0]
    number = thread.tuple
    target = of.threads[of.pairs[of.tuples[number].pair].target]
    if target.worker == NONE or target.node == thread.node:
        _arrive(of, number, target.worker, now)
        return True
    size = of.tuples[number].bytes + run.overhead_bytes
    link = of.links[thread.node]
    if link.bytes_per_s > 0.0 and link.bytes + size > link.limit and link.count > 0:
        wait_for(of, who, link)
        return False
    of.tuples[number].bytes = size
    left = _passes(of, thread.node, number, now, SHORT_S)
    if left < NEVER:
        _come(of, number, target, left)
    return True


@inner
def link_done(of: Cluster, which: int, now: float) -> None:
    """Complete the first message of a link."""
    link, run = of.links[which], of.run[0]
    number = take(of, link)
    link.bytes -= of.tuples[number].bytes
    link.free = now
    set_time(of.clock, run.first_link + which, _sends(link, of.tuples[link.first], now) if link.count > 0 else NEVER)
    call_waiting(of, link, now)
    target = of.threads[of.pairs[of.tuples[number].pair].target]
    if which < run.nodes:
        _come(of, number, target, now)
    else:
        _arrive(of, number, target.worker, now)


@inner
def deliver(of: Cluster, who: int, number: int, now: float) -> None:
    """Put tuple `number` into its executor's queue in `of` at `now` by receiving thread `who`, even if it is full."""
    target = of.pairs[of.tuples[number].pair].target
    if of.threads[target].worker == of.threads[who].worker:
        hand(of, target, number, now + of.run[0].local_hop_s)
    else:
        lose(of, number)


@often
def _come(of: Cluster, number: int, target: Record, at: float) -> None:
    """Schedule the arrival of a message for a thread of another node."""
    if target.worker == NONE:
        lose(of, number)
        return
    left = _passes(of, of.run[0].nodes + target.node, number, at, NEVER)
    if left < NEVER:
        _arrive(of, number, target.worker, left)


@inner
def _passes(of: Cluster, which: int, number: int, at: float, most_s: float) -> float:
    """Return when a message will have passed an idle link within `most_s`; NEVER while it waits there."""
    link, message = of.links[which], of.tuples[number]
    link.sent_bytes += message.bytes
    if link.bytes_per_s == 0.0:
        return at
    message.ready = at
    if link.count == 0 and link.waiting == NONE and link.free <= at and message.bytes <= most_s * link.bytes_per_s:
        link.free = _sends(link, message, at)
        return float(link.free)
    join(of, link, number)
    link.bytes += message.bytes
    if link.count > link.most:
        link.most = link.count
    if link.count == 1:
        set_time(of.clock, of.run[0].first_link + which, _sends(link, message, link.free))
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
def _arrive(of: Cluster, number: int, worker: int, at: float) -> None:
    """Let a message arrive at its node: the receiving thread of a worker gets it, if it is up."""
    run = of.run[0]
    if worker == NONE or not of.workers[worker].up:
        lose(of, number)
        return
    who, ready = run.executors + run.workers + worker, at + run.remote_hop_s
    receiver = of.threads[who]
    last = receiver.last if receiver.count > 0 else NONE
    hand(of, who, number, ready)
    if last != NONE and of.tuples[last].ready > ready:
        _swap(of, last, number)
        if receiver.state == ASLEEP and receiver.count == 2 and ready < of.clock.when[who]:
            set_time(of.clock, who, ready)


@inner
def _swap(of: Cluster, last: int, number: int) -> None:
    """Let the last message of a link, from its own node, pass one still on its way."""
    one, other = of.tuples[last], of.tuples[number]
    one.ready, other.ready = other.ready, one.ready
    one.bytes, other.bytes = other.bytes, one.bytes
    one.tree, other.tree = other.tree, one.tree
    one.use, other.use = other.use, one.use
    one.pair, other.pair = other.pair, one.pair
    one.what, other.what = other.what, one.what
