"""What a thread does next: it looks for a tuple, works on it, sends what that sets off, and looks again."""

from __future__ import annotations

from stormwright.compiling.compiled import Record, inner
from stormwright.compiling.draw import draw
from stormwright.simulator.kernel.arrays import NEVER
from stormwright.simulator.kernel.clock import set_time
from stormwright.simulator.kernel.shares import go_on, put
from stormwright.simulator.kernel.times import draw_time
from stormwright.simulator.kernel.turns import enter, run_on
from stormwright.simulator.storm.carrying import carry_on, deliver
from stormwright.simulator.storm.queues import call_waiting, end_tuple, looks_at, make_tuple, take
from stormwright.simulator.storm.records import (
    ACKER,
    ASLEEP,
    NONE,
    RECEIVER,
    SENDER,
    SPOUT,
    WORKS,
    Cluster,
)
from stormwright.simulator.storm.sending import emit
from stormwright.simulator.storm.trees import begin_tree, complete, hear

#: A thread that wakes and finds tuples works on the first of them with cold caches: as many wakings more.
COLD = 1.0

#: To write to a socket, or to read from one, a thread of its own wakes and calls the system: as many wakings.
AT_SOCKET = 3.0


@inner
def done(of: Cluster, who: int, now: float) -> None:
    """A thread has done its work on a tuple."""
    thread = of.threads[who]
    if thread.tuple == NONE:  # it has only woken
        if thread.count > 0 and thread.kind != RECEIVER:
            thread.debt_s += thread.wakes_s * (AT_SOCKET if thread.kind == SENDER else COLD)
        look(of, who, now)
        return
    if thread.kind < SENDER:
        of.run[0].hops += 1
    if thread.kind == SPOUT:
        _begun(of, who, now)
    elif thread.kind == ACKER:
        thread.received += 1
        hear(of, who, now)
    elif thread.kind == RECEIVER:
        number = thread.tuple
        thread.tuple = NONE
        deliver(of, who, number, now)
        look(of, who, now)
        return
    elif thread.kind != SENDER:
        thread.received += 1
        thread.acked += 1
    thread.route, thread.left, thread.pair = thread.first_route, NONE, NONE
    send_on(of, who, now)


@inner
def send_on(of: Cluster, who: int, now: float) -> None:
    """A thread sends, or goes on with it where it had to wait; then it looks for the next tuple."""
    thread = of.threads[who]
    if thread.kind == SENDER:
        if not carry_on(of, who, now):
            return
    else:
        if not emit(of, who, now):
            return
        end_tuple(of, thread.tuple)
    thread.tuple = NONE
    look(of, who, now)


@inner
def rouse(of: Cluster, who: int, now: float) -> None:
    """A thread wakes, which takes CPU: it looks what there is once that is done."""
    thread = of.threads[who]
    set_time(of.clock, who, NEVER)
    _run(of, who, thread.wakes_s * (AT_SOCKET if thread.kind == RECEIVER else 1.0), now)


@inner
def look(of: Cluster, who: int, now: float) -> None:
    """A thread that has nothing to do takes its next tuple, or sleeps until there is one."""
    thread = of.threads[who]
    if thread.kind == SPOUT:
        _look_of_spout(of, who, now)
        return
    if thread.count > 0:
        ready = of.tuples[thread.first].ready
        if ready <= now:
            thread.tuple = take(of, thread)
            if thread.waiting != NONE and thread.count < thread.limit:
                call_waiting(of, thread, now)
            _work(of, who, now)
            return
        _sleep(of, who, ready, now)
        return
    _sleep(of, who, NEVER, now)


@inner
def _sleep(of: Cluster, who: int, until: float, now: float) -> None:
    """A thread has nothing to do until an instant, at which it may sleep for a little longer."""
    thread = of.threads[who]
    if thread.state != ASLEEP:
        thread.state, thread.idle_since = ASLEEP, now
    if thread.polls:
        until = now + (thread.park_s if now - thread.idle_since < thread.parks_s else thread.sleeps_s)
    elif until < NEVER:
        until = looks_at(thread, until)
    if of.clock.when[who] != until:
        set_time(of.clock, who, until)


@inner
def _work(of: Cluster, who: int, now: float) -> None:
    """A thread begins to work on its tuple."""
    thread, run = of.threads[who], of.run[0]
    work = thread.debt_s
    thread.debt_s = 0.0
    if thread.kind == SENDER:
        work += (run.send_s + of.tuples[thread.tuple].size * run.send_byte_s) * thread.message_factor
    elif thread.kind == RECEIVER:
        work += (run.receive_s + of.tuples[thread.tuple].size * run.receive_byte_s) * thread.message_factor
    else:
        work += draw_time(of.random, 0, thread.work_s, thread.varies)
    if of.clock.when[who] != NEVER:
        set_time(of.clock, who, NEVER)
    _run(of, who, work, now)


@inner
def _run(of: Cluster, who: int, work: float, now: float) -> None:
    """A thread wants so much CPU."""
    thread = of.threads[who]
    thread.state = WORKS
    thread.cpu_s += work
    core = of.shares.cores[thread.core]
    pass_time(of, core, now)
    if core.quota >= 0:
        if core.count == 0 and core.turn == NONE and of.run[0].wait_s > 0.0:
            core.had = max(core.had, now + draw(of) * of.run[0].wait_s)
        enter(core, of.shares.jobs, who, work)
    else:
        put(core, of.shares.jobs, who, work)


@inner
def pass_time(of: Cluster, core: Record, now: float) -> None:
    """A core has worked until now."""
    if core.quota >= 0:
        run_on(core, of.shares.jobs, now)
    else:
        go_on(core, now)


@inner
def _look_of_spout(of: Cluster, who: int, now: float) -> None:
    """A spout takes note of trees that are complete, then begins another one if it may."""
    thread = of.threads[who]
    spout = of.spouts[thread.spout]
    while thread.count > 0 and of.tuples[thread.first].ready <= now:
        number = take(of, thread)
        complete(of, who, of.tuples[number].tree, of.tuples[number].use)
        end_tuple(of, number)
    if spout.apart_s > 0.0:
        _come(of, spout, now)
    later, topology = NEVER, of.topologies[thread.topology]
    if topology.active and of.workers[thread.worker].ready and spout.pending < spout.most:
        if spout.again > 0 or spout.offered > 0 or spout.apart_s == 0.0:
            thread.tuple = make_tuple(of, NONE, 0, NONE, 0)
            _work(of, who, now)
            return
        later = spout.comes
    if thread.count > 0:
        later = min(later, of.tuples[thread.first].ready)
    _sleep(of, who, later, now)


@inner
def _come(of: Cluster, spout: Record, now: float) -> None:
    """Trees that the spout is offered have come."""
    while spout.comes <= now:
        spout.offered += 1
        spout.comes += draw_time(of.random, 0, spout.apart_s, spout.varies)


@inner
def _begun(of: Cluster, who: int, now: float) -> None:
    """A spout begins a tree: one that it has begun before, if there is such."""
    thread = of.threads[who]
    spout, topology, current = of.spouts[thread.spout], of.topologies[thread.topology], of.tuples[thread.tuple]
    if spout.again > 0:
        spout.again -= 1
        topology.replayed += 1
    elif spout.apart_s > 0.0:
        spout.offered -= 1
    topology.begun += 1
    thread.received += 1
    if spout.acked:
        number = begin_tree(of, who, now)
        current.tree, current.use = number, of.trees[number].use
