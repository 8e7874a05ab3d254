"""Messages: tuples that go from one worker to another, through its sending thread, two links and a receiving thread."""

from __future__ import annotations

from stormwright.compiling.compiled import Record, inner
from stormwright.simulator.kernel.arrays import NEVER
from stormwright.simulator.kernel.clock import set_time
from stormwright.simulator.storm.queues import call_waiting, hand, join, lose, take, wait_for
from stormwright.simulator.storm.records import NONE, Cluster


@inner
def carry_on(of: Cluster, who: int, now: float) -> bool:
    """A sending thread is done with a message, which goes to the link; False while there is no room in its buffer."""
    thread, run = of.threads[who], of.run[0]
    number = thread.tuple
    target = of.threads[of.pairs[of.tuples[number].pair].target]
    if target.worker == NONE or target.node == thread.node:
        _arrive(of, number, now)
        return True
    size = of.tuples[number].size + run.overhead_bytes
    link = of.links[thread.node]
    if link.bytes_per_s > 0.0 and link.bytes + size > link.limit and link.count > 0:
        wait_for(of, who, link)
        return False
    of.tuples[number].size = size
    if _passes(of, thread.node, number, now):
        _come(of, number, now)
    return True


@inner
def link_done(of: Cluster, which: int, now: float) -> None:
    """A link has sent its first message."""
    link, run = of.links[which], of.run[0]
    number = take(of, link)
    size = of.tuples[number].size
    link.bytes -= size
    link.busy_s += size / link.bytes_per_s
    link.tokens, link.since = 0.0, now
    if link.count > 0:
        set_time(of.clock, run.first_link + which, now + _lasts(of, link))
    else:
        set_time(of.clock, run.first_link + which, NEVER)
    call_waiting(of, link, now)
    if which < run.nodes:
        _come(of, number, now)
    else:
        _arrive(of, number, now)


@inner
def deliver(of: Cluster, who: int, number: int, now: float) -> None:
    """The receiving thread `who` puts the tuple `number` into its executor's queue, full or not, `now`, in `of`."""
    target = of.pairs[of.tuples[number].pair].target
    if of.threads[target].worker == of.threads[who].worker:
        hand(of, target, number, now + of.run[0].local_hop_s)
    else:
        lose(of, number)


@inner
def _come(of: Cluster, number: int, now: float) -> None:
    """A message has left its node for another one."""
    target = of.threads[of.pairs[of.tuples[number].pair].target]
    if target.worker == NONE:
        lose(of, number)
    elif _passes(of, of.run[0].nodes + target.node, number, now):
        _arrive(of, number, now)


@inner
def _passes(of: Cluster, which: int, number: int, now: float) -> bool:
    """Whether a message passes a link at once: that has no limit, or lets a burst pass; otherwise it waits there."""
    link, size = of.links[which], of.tuples[number].size
    link.sent_bytes += size
    if link.bytes_per_s == 0.0:
        return True
    if link.count == 0:
        link.tokens = min(link.tokens + (now - link.since) * link.bytes_per_s, link.burst)
        link.since = now
        if link.tokens >= size:
            link.tokens -= size
            link.busy_s += size / link.bytes_per_s
            return True
    join(of, link, number)
    link.bytes += size
    if link.count > link.most:
        link.most = link.count
    if link.count == 1:
        set_time(of.clock, of.run[0].first_link + which, now + _lasts(of, link))
    return False


@inner
def _lasts(of: Cluster, link: Record) -> float:
    return float((of.tuples[link.first].size - link.tokens) / link.bytes_per_s)


@inner
def _arrive(of: Cluster, number: int, now: float) -> None:
    """A message is at its node: the worker's receiving thread gets it, if the worker is still there."""
    run = of.run[0]
    worker = of.threads[of.pairs[of.tuples[number].pair].target].worker
    if worker == NONE or not of.workers[worker].up:
        lose(of, number)
    else:
        hand(of, run.executors + run.workers + worker, number, now + run.remote_hop_s)
