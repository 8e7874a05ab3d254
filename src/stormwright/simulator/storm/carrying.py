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
    _enter(of, thread.node, number, now)
    return True


@inner
def link_done(of: Cluster, which: int, now: float) -> None:
    """A link has sent its first message."""
    link, run = of.links[which], of.run[0]
    number = take(of, link)
    size = of.tuples[number].size
    link.bytes -= size
    link.busy_s += size / link.bytes_per_s
    if link.count > 0:
        set_time(of.clock, run.threads + len(of.shares.nodes) + which, now + _lasts(of, link))
    else:
        set_time(of.clock, run.threads + len(of.shares.nodes) + which, NEVER)
    call_waiting(of, link, now)
    if which < len(of.shares.nodes):
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
def _enter(of: Cluster, which: int, number: int, now: float) -> None:
    """A message comes to a link."""
    link, run = of.links[which], of.run[0]
    link.sent_bytes += of.tuples[number].size
    if link.bytes_per_s == 0.0:
        if which < len(of.shares.nodes):
            _come(of, number, now)
        else:
            _arrive(of, number, now)
        return
    join(of, link, number)
    link.bytes += of.tuples[number].size
    if link.count > link.most:
        link.most = link.count
    if link.count == 1:
        set_time(of.clock, run.threads + len(of.shares.nodes) + which, now + _lasts(of, link))


@inner
def _come(of: Cluster, number: int, now: float) -> None:
    """A message has left its node for another one."""
    target = of.threads[of.pairs[of.tuples[number].pair].target]
    if target.worker == NONE:
        lose(of, number)
        return
    which = len(of.shares.nodes) + target.node
    link = of.links[which]
    link.sent_bytes += of.tuples[number].size
    if link.bytes_per_s == 0.0:
        _arrive(of, number, now)
        return
    join(of, link, number)
    link.bytes += of.tuples[number].size
    if link.count > link.most:
        link.most = link.count
    if link.count == 1:
        set_time(of.clock, of.run[0].threads + len(of.shares.nodes) + which, now + _lasts(of, link))


@inner
def _lasts(of: Cluster, link: Record) -> float:
    return float(of.tuples[link.first].size / link.bytes_per_s)


@inner
def _arrive(of: Cluster, number: int, now: float) -> None:
    """A message is at its node: the worker's receiving thread gets it, if the worker is still there."""
    run = of.run[0]
    worker = of.threads[of.pairs[of.tuples[number].pair].target].worker
    if worker == NONE or not of.workers[worker].up:
        lose(of, number)
    else:
        hand(of, run.executors + run.workers + worker, number, now + run.remote_hop_s)
