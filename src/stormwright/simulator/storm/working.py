"""Work of threads: on a core of their own, or on shared cores.

On a node with a core for each of its threads, and no quota, the completion time of a thread does not depend on others.
So there is no heap of jobs there, and the clock has each thread's completion.
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
    """Return when an idle thread notices what is ready at a time, as it may sleep then."""
    asleep_s = ready - thread.idle_since - thread.parks_s
    if thread.sleeps_s == 0.0 or asleep_s <= 0.0:
        return ready
    return float(thread.idle_since + thread.parks_s + ceil(asleep_s / thread.sleeps_s) * thread.sleeps_s)


@often
def work(of: Cluster, who: int, begins: float) -> None:
    """Let a thread process its tuple: now, or on a core of its own at a time."""
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
    """Let the thread `who` of `of` use the `amount` of CPU from when it `begins`."""
    thread = of.threads[who]
    thread.state = WORKS
    thread.cpu_s += amount
    if not thread.alone:
        _share(of, who, amount, begins)
        return
    core = of.shares.cores[thread.core]
    lasts = amount if core.speed == 1.0 else amount / core.speed  # division is slow
    core.busy += lasts  # counted in advance; readers subtract the future part
    thread.begins = begins
    set_time(of.clock, who, begins + lasts)


@inner
def _share(of: Cluster, who: int, amount: float, now: float) -> None:
    """Let the thread `who` use the `amount` of CPU of shared cores from `now` on."""
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
    """Advance a core to now."""
    if core.quota >= 0:
        run_on(core, of.shares.jobs, now)
    else:
        go_on(core, now)


@inner
def set_core(of: Cluster, number: int) -> None:
    """Schedule the next event of a core after a change of its jobs or speed."""
    core, jobs = of.shares.cores[number], of.shares.jobs
    set_time(of.clock, of.run[0].threads + number, turn_ends(core, jobs) if core.quota >= 0 else next_end(core, jobs))


@inner
def left_alone(of: Cluster, who: int, now: float) -> float:
    """Return the remaining time of a thread on a core of its own, which may not have begun yet."""
    return float(of.clock.when[who] - max(now, of.threads[who].begins))


@inner
def stop_alone(of: Cluster, who: int, now: float) -> float:
    """Stop a thread on a core of its own; return its remaining work."""
    core, left = of.shares.cores[of.threads[who].core], left_alone(of, who, now)
    core.busy -= left
    set_time(of.clock, who, NEVER)
    return float(left * core.speed)


@inner
def set_speed(of: Cluster, number: int, speed: float, now: float) -> None:
    """Set the `speed` of the core `number` of `of` from `now` on."""
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
    """Update which threads have cores of their own after threads moved."""
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
