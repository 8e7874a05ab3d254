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
from stormwright.simulator.storm.records import NONE, RECEIVER, SENDER, WORKS, ClusterState


@inner
def looks_at(thread: Record, ready: float) -> float:
    """Return when an idle thread notices a tuple that is `ready` at a time, as it may sleep then."""
    asleep_s = ready - thread.idle_since - thread.parks_s
    if thread.sleeps_s == 0.0 or asleep_s <= 0.0:
        return ready
    return float(thread.idle_since + thread.parks_s + ceil(asleep_s / thread.sleeps_s) * thread.sleeps_s)


@often
def work(cluster: ClusterState, who: int, begins: float) -> None:
    """Let a thread process its tuple: now, or on a core of its own at a time."""
    thread, run = cluster.threads[who], cluster.run[0]
    amount = thread.debt_s
    thread.debt_s = 0.0
    if thread.kind == SENDER:
        amount += (run.send_s + cluster.tuples[thread.tuple].bytes * run.send_byte_s) * thread.message_factor
    elif thread.kind == RECEIVER:
        amount += (run.receive_s + cluster.tuples[thread.tuple].bytes * run.receive_byte_s) * thread.message_factor
    else:
        amount += draw_time(cluster.random, 0, thread.work_s, thread.varies)
    run_for(cluster, who, amount, begins)


@often
def run_for(cluster: ClusterState, who: int, amount: float, begins: float) -> None:
    """Let the thread `who` of `cluster` use the `amount` of CPU from when it `begins`."""
    thread = cluster.threads[who]
    thread.state = WORKS
    thread.cpu_s += amount
    if not thread.alone:
        _share(cluster, who, amount, begins)
        return
    core = cluster.shares.cores[thread.core]
    lasts = amount if core.speed == 1.0 else amount / core.speed  # division is slow
    core.busy += lasts  # counted in advance; readers subtract the future part
    thread.begins = begins
    set_time(cluster.clock, who, begins + lasts)


@inner
def _share(cluster: ClusterState, who: int, amount: float, now: float) -> None:
    """Let the thread `who` use the `amount` of CPU of shared cores from `now` on."""
    core = cluster.shares.cores[cluster.threads[who].core]
    if cluster.clock.when[who] != NEVER:
        set_time(cluster.clock, who, NEVER)
    pass_time(cluster, core, now)
    if core.quota >= 0:
        if core.count == 0 and core.turn == NONE and cluster.run[0].wait_s > 0.0:
            core.had = max(core.had, now + draw(cluster) * cluster.run[0].wait_s)
        enter(core, cluster.shares.jobs, who, amount)
    else:
        put(core, cluster.shares.jobs, who, amount)


@inner
def pass_time(cluster: ClusterState, core: Record, now: float) -> None:
    """Advance a core to now."""
    if core.quota >= 0:
        run_on(core, cluster.shares.jobs, now)
    else:
        go_on(core, now)


@inner
def set_core(cluster: ClusterState, number: int) -> None:
    """Schedule the next event of a core after a change of its jobs or speed."""
    core, jobs = cluster.shares.cores[number], cluster.shares.jobs
    set_time(
        cluster.clock,
        cluster.run[0].threads + number,
        turn_ends(core, jobs) if core.quota >= 0 else next_end(core, jobs),
    )


@inner
def left_alone(cluster: ClusterState, who: int, now: float) -> float:
    """Return the remaining time of a thread on a core of its own, which may not have begun yet."""
    return float(cluster.clock.when[who] - max(now, cluster.threads[who].begins))


@inner
def stop_alone(cluster: ClusterState, who: int, now: float) -> float:
    """Stop a thread on a core of its own; return its remaining work."""
    core, left = cluster.shares.cores[cluster.threads[who].core], left_alone(cluster, who, now)
    core.busy -= left
    set_time(cluster.clock, who, NEVER)
    return float(left * core.speed)


@inner
def set_speed(cluster: ClusterState, number: int, speed: float, now: float) -> None:
    """Set the `speed` of the core `number` of `cluster` from `now` on."""
    core = cluster.shares.cores[number]
    pass_time(cluster, core, now)
    for who in range(cluster.run[0].threads if core.alone else 0):
        thread = cluster.threads[who]
        if thread.core == number and thread.state == WORKS:
            left = left_alone(cluster, who, now)
            lasts = left * core.speed / speed
            core.busy += lasts - left
            set_time(cluster.clock, who, max(now, thread.begins) + lasts)
    core.speed = speed
    set_core(cluster, number)


@inner
def divide_cores(cluster: ClusterState, now: float) -> None:
    """Update which threads have cores of their own after threads moved."""
    for number in range(len(cluster.shares.cores)):
        core = cluster.shares.cores[number]
        enough = core.quota < 0 and core.room <= core.cores - core.taken
        if core.quota < 0 and enough != core.alone:
            go_on(core, now)
            for place in range(core.count):
                job = cluster.shares.jobs[core.first + place]
                left = max(job.at - core.done, 0.0) / core.speed
                cluster.threads[job.who].begins = now
                core.busy += left
                set_time(cluster.clock, job.who, now + left)
            core.count, core.done, core.alone = 0, 0.0, enough
            set_core(cluster, number)
    for who in range(cluster.run[0].threads):
        thread = cluster.threads[who]
        alone = thread.core != NONE and cluster.shares.cores[thread.core].alone
        if thread.state == WORKS and thread.alone and not alone:
            put(cluster.shares.cores[thread.core], cluster.shares.jobs, who, stop_alone(cluster, who, now))
            set_core(cluster, thread.core)
        thread.alone = alone
