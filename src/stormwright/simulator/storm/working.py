"""A thread works: on a core of its own, or on cores that it shares.

A node with a core for each of its threads, and no quota, has nothing to share: a thread that begins with a tuple is
done so much later, whatever others do. So there is no heap of jobs there, and the clock has each thread's own end.
"""

from __future__ import annotations

from math import ceil

from stormwright.jit.compiled import Record, inner, often
from stormwright.jit.random_numbers import draw
from stormwright.simulator.kernel.arrays import NEVER
from stormwright.simulator.kernel.clock import set_time
from stormwright.simulator.kernel.shares import go_on, next_end, put
from stormwright.simulator.kernel.times import draw_time
from stormwright.simulator.kernel.turns import enter, run_on, turn_ends
from stormwright.simulator.storm.records import NONE, RECEIVER, SENDER, WORKS, Cluster


@inner
def looks_at(thread: Record, ready: float) -> float:
    """When a thread that has nothing to do sees what is ready at an instant: it may sleep then."""
    asleep_s = ready - thread.idle_since - thread.parks_s
    if thread.sleeps_s == 0.0 or asleep_s <= 0.0:
        return ready
    return float(thread.idle_since + thread.parks_s + ceil(asleep_s / thread.sleeps_s) * thread.sleeps_s)


@often
def work(of: Cluster, who: int, begins: float) -> None:
    """A thread begins to work on its tuple: now, or on a core of its own at an instant."""
    thread, run = of.threads[who], of.run[0]
    amount = thread.debt_s
    thread.debt_s = 0.0
    if thread.kind == SENDER:
        amount += (run.send_s + of.tuples[thread.tuple].bytes * run.send_byte_s) * thread.message_factor
    elif thread.kind == RECEIVER:
        amount += (run.receive_s + of.tuples[thread.tuple].bytes * run.receive_byte_s) * thread.message_factor
    else:
        amount += draw_time(of.random, 0, thread.work_s, thread.varies)
    run_for(of, who, amount, begins)


@often
def run_for(of: Cluster, who: int, amount: float, begins: float) -> None:
    """In `of` the thread `who` wants the `amount` of CPU from when it `begins`."""
    thread = of.threads[who]
    thread.state = WORKS
    thread.cpu_s += amount
    if not thread.alone:
        _share(of, who, amount, begins)
        return
    core = of.shares.cores[thread.core]
    lasts = amount if core.speed == 1.0 else amount / core.speed  # dividing takes long
    core.busy += lasts  # all of it at once: who reads it takes off what is to come
    thread.begins = begins
    set_time(of.clock, who, begins + lasts)


@inner
def _share(of: Cluster, who: int, amount: float, now: float) -> None:
    """In `of` the thread `who` wants the `amount` of CPU of cores that it shares from `now` on."""
    core = of.shares.cores[of.threads[who].core]
    if of.clock.when[who] != NEVER:
        set_time(of.clock, who, NEVER)
    pass_time(of, core, now)
    if core.quota >= 0:
        if core.count == 0 and core.turn == NONE and of.run[0].wait_s > 0.0:
            core.had = max(core.had, now + draw(of) * of.run[0].wait_s)
        enter(core, of.shares.jobs, who, amount)
    else:
        put(core, of.shares.jobs, who, amount)


@inner
def pass_time(of: Cluster, core: Record, now: float) -> None:
    """A core has worked until now."""
    if core.quota >= 0:
        run_on(core, of.shares.jobs, now)
    else:
        go_on(core, now)


@inner
def set_core(of: Cluster, number: int) -> None:
    """When something is next to happen to a core, jobs or speed of which have changed."""
    core, jobs = of.shares.cores[number], of.shares.jobs
    set_time(of.clock, of.run[0].threads + number, turn_ends(core, jobs) if core.quota >= 0 else next_end(core, jobs))


@inner
def left_alone(of: Cluster, who: int, now: float) -> float:
    """For how long a thread that works on a core of its own is yet to do so; it may be to begin."""
    return float(of.clock.when[who] - max(now, of.threads[who].begins))


@inner
def stop_alone(of: Cluster, who: int, now: float) -> float:
    """A thread no longer works on a core of its own; how much work it leaves."""
    core, left = of.shares.cores[of.threads[who].core], left_alone(of, who, now)
    core.busy -= left
    set_time(of.clock, who, NEVER)
    return float(left * core.speed)


@inner
def set_speed(of: Cluster, number: int, speed: float, now: float) -> None:
    """In `of` the core `number` has another `speed` from `now` on."""
    core = of.shares.cores[number]
    pass_time(of, core, now)
    for who in range(of.run[0].threads if core.alone else 0):
        thread = of.threads[who]
        if thread.core == number and thread.state == WORKS:
            left = left_alone(of, who, now)
            lasts = left * core.speed / speed
            core.busy += lasts - left
            set_time(of.clock, who, max(now, thread.begins) + lasts)
    core.speed = speed
    set_core(of, number)


@inner
def divide_cores(of: Cluster, now: float) -> None:
    """Threads are on other nodes: on some there is a core for each now, on others there no longer is."""
    for number in range(len(of.shares.cores)):
        core = of.shares.cores[number]
        enough = core.quota < 0 and core.room <= core.cores - core.taken
        if core.quota < 0 and enough != core.alone:
            go_on(core, now)
            for place in range(core.count):
                job = of.shares.jobs[core.first + place]
                left = max(job.at - core.done, 0.0) / core.speed
                of.threads[job.who].begins = now
                core.busy += left
                set_time(of.clock, job.who, now + left)
            core.count, core.done, core.alone = 0, 0.0, enough
            set_core(of, number)
    for who in range(of.run[0].threads):
        thread = of.threads[who]
        alone = thread.core != NONE and of.shares.cores[thread.core].alone
        if thread.state == WORKS and thread.alone and not alone:
            put(of.shares.cores[thread.core], of.shares.jobs, who, stop_alone(of, who, now))
            set_core(of, thread.core)
        thread.alone = alone
