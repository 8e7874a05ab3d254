"""Tuples made, queued, taken and lost; and who waits for room in a queue."""

from __future__ import annotations

from stormwright.jit.compiled import Record, inner, often
from stormwright.simulator.kernel.arrays import NEVER
from stormwright.simulator.kernel.clock import set_time
from stormwright.simulator.storm.records import ASLEEP, BLOCKED, NONE, RECEIVER, SPOUT, Cluster
from stormwright.simulator.storm.working import looks_at, work


@inner
def make_tuple(of: Cluster, pair: int, what: int, tree: int, use: int) -> int:
    """A new tuple of `of`, in no queue: `what` it is, its `pair`, its `tree` and which `use` of that is meant."""
    run = of.run[0]
    number = run.free_tuple
    made = of.tuples[number]
    run.free_tuple = made.next
    run.tuples_left -= 1
    made.next, made.pair, made.what, made.tree, made.use = NONE, pair, what, tree, use
    return int(number)


@inner
def end_tuple(of: Cluster, number: int) -> None:
    """A tuple is no more."""
    run = of.run[0]
    of.tuples[number].next = run.free_tuple
    run.free_tuple = number
    run.tuples_left += 1


@inner
def lose(of: Cluster, number: int) -> None:
    """A tuple, or a message to or from an acker, never arrives."""
    note_lost(of, of.tuples[number].tree, of.tuples[number].use)
    end_tuple(of, number)


@inner
def note_lost(of: Cluster, tree: int, use: int) -> None:
    """Something of a tree is lost, so that it will time out."""
    if tree != NONE and of.trees[tree].use == use and not of.trees[tree].lost:
        of.trees[tree].lost = True
        of.topologies[of.threads[of.trees[tree].spout].topology].lost += 1


@inner
def join(of: Cluster, queue: Record, number: int) -> None:
    """A tuple joins the queue of a thread or a link, as the last one."""
    if queue.count == 0:
        queue.first = number
    else:
        of.tuples[queue.last].next = number
    queue.last = number
    queue.count += 1


@inner
def take(of: Cluster, queue: Record) -> int:
    """The first tuple of a queue leaves it."""
    number = queue.first
    queue.first = of.tuples[number].next
    of.tuples[number].next = NONE
    queue.count -= 1
    return int(number)


@often
def hand(of: Cluster, who: int, number: int, ready: float) -> None:
    """In `of` the tuple `number` joins the queue of the thread `who`, which sees it once it is `ready`."""
    thread = of.threads[who]
    if thread.count >= of.seen[who].most:
        of.seen[who].most = thread.count + 1
    if thread.state == ASLEEP and thread.count == 0 and begins_by_itself(of, thread, ready):
        thread.tuple = number
        work(of, who, looks_at(thread, ready))
        call_waiting(of, thread, of.run[0].now)
        return
    of.tuples[number].ready = ready
    join(of, thread, number)
    sees = thread.state == ASLEEP and not thread.polls
    if sees and (thread.count == 1 or thread.spout != NONE) and ready < of.clock.when[who]:
        set_time(of.clock, who, looks_at(thread, ready))


@inner
def begins_by_itself(of: Cluster, thread: Record, ready: float) -> bool:
    """Whether it is known already that a thread begins with a tuple once that is ready, which so needs no event.

    Nothing comes in between where it has a core of its own, and no tuple comes before one that was handed to it. That
    may be so with a message that is yet on a link, as one from another worker of the node passes none.
    """
    if not thread.alone or thread.kind == SPOUT:
        return False
    return bool(thread.kind != RECEIVER or ready <= of.run[0].now + of.run[0].remote_hop_s)


@inner
def wait_for(of: Cluster, who: int, queue: Record) -> None:
    """A thread waits until there is room in a queue."""
    thread = of.threads[who]
    thread.state, thread.next = BLOCKED, NONE
    if of.clock.when[who] != NEVER:
        set_time(of.clock, who, NEVER)
    if queue.waiting == NONE:
        queue.waiting = who
    else:
        of.threads[queue.last_waiting].next = who
    queue.last_waiting = who


@inner
def call_waiting(of: Cluster, queue: Record, now: float) -> None:
    """There is room in a queue: who has waited longest for that tries again."""
    who = queue.waiting
    if who != NONE:
        queue.waiting = of.threads[who].next
        of.threads[who].next = NONE
        set_time(of.clock, who, now)
