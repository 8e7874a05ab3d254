"""Queues of tuples: creation, insertion, removal, loss; and threads that wait for space."""

from __future__ import annotations

from stormwright.jit.compiled import Record, inner, often
from stormwright.simulator.kernel.arrays import NEVER
from stormwright.simulator.kernel.clock import set_time
from stormwright.simulator.storm.records import ASLEEP, BLOCKED, NONE, RECEIVER, SPOUT, ClusterState
from stormwright.simulator.storm.working import looks_at, work


@inner
def make_tuple(cluster: ClusterState, pair: int, kind: int, tree: int, use: int) -> int:
    """Create a tuple of `cluster` in no queue: its `kind`, `pair`, `tree` and the `use` of that record."""
    run = cluster.run[0]
    number = run.free_tuple
    made = cluster.tuples[number]
    run.free_tuple = made.next
    run.tuples_left -= 1
    made.next, made.pair, made.kind, made.tree, made.use = NONE, pair, kind, tree, use
    return int(number)


@inner
def end_tuple(cluster: ClusterState, number: int) -> None:
    """Free a tuple."""
    run = cluster.run[0]
    cluster.tuples[number].next = run.free_tuple
    run.free_tuple = number
    run.tuples_left += 1


@inner
def lose(cluster: ClusterState, number: int) -> None:
    """Lose a tuple, or a message to or from an acker."""
    note_lost(cluster, cluster.tuples[number].tree, cluster.tuples[number].use)
    end_tuple(cluster, number)


@inner
def note_lost(cluster: ClusterState, tree: int, use: int) -> None:
    """Mark a tree as incomplete, so that it will time out."""
    if tree != NONE and cluster.trees[tree].use == use and not cluster.trees[tree].lost:
        cluster.trees[tree].lost = True
        cluster.topologies[cluster.threads[cluster.trees[tree].spout].topology].lost += 1


@inner
def join(cluster: ClusterState, queue: Record, number: int) -> None:
    """Append a tuple to the queue of a thread or a link."""
    if queue.count == 0:
        queue.first = number
    else:
        cluster.tuples[queue.last].next = number
    queue.last = number
    queue.count += 1


@inner
def take(cluster: ClusterState, queue: Record) -> int:
    """Remove the first tuple of a queue."""
    number = queue.first
    queue.first = cluster.tuples[number].next
    cluster.tuples[number].next = NONE
    queue.count -= 1
    return int(number)


@often
def hand(cluster: ClusterState, who: int, number: int, ready: float) -> None:
    """Append tuple `number` to the queue of the thread `who` in `cluster`, visible once it is `ready`."""
    thread = cluster.threads[who]
    if thread.count >= cluster.queue_loads[who].most:
        cluster.queue_loads[who].most = thread.count + 1
    if thread.state == ASLEEP and thread.count == 0 and starts_without_tuple(cluster, thread, ready):
        thread.tuple = number
        work(cluster, who, looks_at(thread, ready))
        call_waiting(cluster, thread, cluster.run[0].now)
        return
    cluster.tuples[number].ready = ready
    join(cluster, thread, number)
    sees = thread.state == ASLEEP and not thread.polls
    if sees and (thread.count == 1 or thread.spout != NONE) and ready < cluster.clock.when[who]:
        set_time(cluster.clock, who, looks_at(thread, ready))


@inner
def starts_without_tuple(cluster: ClusterState, thread: Record, ready: float) -> bool:
    """Return whether a thread will begin with a tuple once that is ready without an event.

    That holds if it has a core of its own, and no tuple can overtake the present one, as a message from another worker
    of the node may overtake one on a link.
    """
    if not thread.alone or thread.kind == SPOUT:
        return False
    return bool(thread.kind != RECEIVER or ready <= cluster.run[0].now + cluster.run[0].remote_hop_s)


@inner
def wait_for(cluster: ClusterState, who: int, queue: Record) -> None:
    """Let a thread wait for space in a queue."""
    thread = cluster.threads[who]
    thread.state, thread.next = BLOCKED, NONE
    if cluster.clock.when[who] != NEVER:
        set_time(cluster.clock, who, NEVER)
    if queue.waiting == NONE:
        queue.waiting = who
    else:
        cluster.threads[queue.last_waiting].next = who
    queue.last_waiting = who


@inner
def call_waiting(cluster: ClusterState, queue: Record, now: float) -> None:
    """Wake the thread that has waited longest for space in a queue."""
    who = queue.waiting
    if who != NONE:
        queue.waiting = cluster.threads[who].next
        cluster.threads[who].next = NONE
        set_time(cluster.clock, who, now)
