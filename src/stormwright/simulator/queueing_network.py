"""Queueing networks: state, and simulation by recursion or by events, in compiled functions.

`stormwright.simulator.network` describes networks, runs these functions and makes room for them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.jit.compiled import Record, Records, compiled, inner
from stormwright.jit.random_numbers import draw_at
from stormwright.simulator.kernel.arrays import NEVER
from stormwright.simulator.kernel.clock import ActorTimes, first_of, set_time
from stormwright.simulator.kernel.shares import Shares, go_on, has_done, next_end, put, take_first
from stormwright.simulator.kernel.times import draw_time

# Records ------------------------------------------------------------------------------------------
# State of a queueing network, as arrays of records.

#: Destination of jobs that leave the network.
OUT = -1

#: No job: they are not followed; or no further one in a list.
NO_JOB = -1

#: Kinds of actors in the clock. The arrivals of a trace are samples: its times, and an infinite one.
SERVER, SHARED, SOURCE, TRACE = 0, 1, 2, 3

#: Samples that a station or source has left when more are drawn for it: an event takes no more.
RESERVE = 4

#: Entries that the log has left when it is taken: an event adds no more to it.
LOG_RESERVE = 2

#: Events after which Python gets a turn, to look at signals.
TURN = 200_000

#: Its jobs: `inside` now; their number over time, added up until `since`, and of those in service; how many went out. A
#: station with servers has its free ones in `free` from `first` on, `idle` of `servers`; for one that shares cores
#: `node` is their number. Jobs that wait are a list from `waits` to `last_waits`, if they are followed. Where its jobs
#: go is in `ways` from `first_way` to before `last_way`; where there is one, nothing is drawn. Of times that are drawn
#: in advance `samples` from `next` to before `end` are left; without any (`end` is 0) they are drawn when needed.
STATION = np.dtype(
    [
        *((name, np.float64) for name in ("mean_s", "varies", "area", "working", "since")),
        *(
            (name, np.int64)
            for name in ("inside", "served", "servers", "first", "idle", "node", "first_way", "last_way")
        ),
        *((name, np.int64) for name in ("waits", "last_waits", "next", "end")),
    ],
    align=True,
)

#: Part of a station's jobs that go to `to` or to what is before it.
WAY = np.dtype([("below", np.float64), ("to", np.int64)])

#: Who has a time in the clock: its kind and its station; of a server its job; of a source how long until its next job,
#: by which sequence of random numbers or by which samples, as for a station.
ACTOR = np.dtype(
    [
        *((name, np.float64) for name in ("mean_s", "varies")),
        *((name, np.int64) for name in ("kind", "station", "sequence", "job", "next", "end")),
    ]
)

#: A job that is followed: when it entered the network and its station, and the next one of its list.
JOB_TIMES = np.dtype([("entered", np.float64), ("arrived", np.float64), ("next", np.int64)])

#: A stay in a station, or `OUT` for that in the network, from the entry to the end, in order of the ends.
STAY = np.dtype([("station", np.int64), ("end", np.float64), ("stay", np.float64)])

#: One record: the instant that was reached, hops (services that were completed), whether jobs are followed, and their
#: free records, from `free_job` on; stays in the log; whether space, or samples, are running out; and whether it is
#: Python's turn.
RUN = np.dtype(
    [
        ("now", np.float64),
        *((name, np.int64) for name in ("hops", "free_job", "logged")),
        *((name, np.bool_) for name in ("follows", "full", "paused")),
    ],
    align=True,
)


class NetworkState(NamedTuple):
    """State of a network.

    Parameters
    ----------
    stations, ways, actors, jobs, log, run
        Record arrays of the kinds above.
    free
        Idle servers, by station.
    samples
        Times sampled in advance.
    shares
        Nodes with shared cores.
    clock
        Next event time of each actor.
    random
        Random states: of every station for its services and for its routing, then of every source. So each has its own
        sequence, independent of the others.
    """

    stations: Records
    ways: Records
    actors: Records
    jobs: Records
    log: Records
    run: Records
    free: NDArray[np.int64]
    samples: NDArray[np.float64]
    shares: Shares
    clock: ActorTimes
    random: NDArray[np.uint64]


@inner
def _service_s(network: NetworkState, station: int) -> float:
    """Return the time of the next service of a station."""
    here = network.stations[station]
    if here.end == 0:
        return draw_time(network.random, 2 * station, here.mean_s, here.varies)
    sample = network.samples[here.next]
    here.next += 1
    if here.end - here.next < RESERVE:
        network.run[0].full = True
    return float(sample)


@inner
def _next_arrival(network: NetworkState, who: int, now: float) -> float:
    """Return the time of the next job of a source."""
    actor = network.actors[who]
    if actor.end == 0:
        return float(now + draw_time(network.random, actor.sequence, actor.mean_s, actor.varies))
    sample = network.samples[actor.next]
    actor.next += 1
    if actor.kind == TRACE:
        return float(sample)
    if actor.end - actor.next < RESERVE:
        network.run[0].full = True
    return float(now + sample)


@inner
def _next_station(network: NetworkState, station: int) -> int:
    """Return where the next job of a station goes."""
    here = network.stations[station]
    way = here.first_way
    if here.last_way - way > 1:
        sample = draw_at(network.random, 2 * station + 1)
        while sample >= network.ways[way].below:
            way += 1
    return int(network.ways[way].to)


@inner
def _log(network: NetworkState, station: int, begin: float, end: float) -> None:
    run = network.run[0]
    entry = network.log[run.logged]
    entry.station, entry.end, entry.stay = station, end, end - begin
    run.logged += 1
    if run.logged + LOG_RESERVE > len(network.log):
        run.full = True


# Recursion ----------------------------------------------------------------------------------------
# Simulation without a list of events, where that is exact.
#
# If each station has one server and one origin of its jobs, they arrive in the order in which they left it. So one job
# after the other can be followed through the network: its service begins when it has arrived and the previous one is
# done (D. V. Lindley, The theory of queues with a single server, Mathematical Proceedings of the Cambridge
# Philosophical Society 48(2), 1952, https://doi.org/10.1017/S0305004100027638). As stations and sources have their own
# random numbers, the result is the same as by events, job by job.


@compiled
def follow(network: NetworkState, source: int, free_at: NDArray[np.float64], until: float, hops: int) -> None:
    """Follow the jobs of a source, each through the whole network, until a time or a number of services.

    Parameters
    ----------
    network
        Network with the next job of the source in its clock. Jobs inside at the end are followed to their exit.
    source
        Number of the source among the actors.
    free_at
        Time at which the server of each station is free.
    until, hops
        The end time, and the total number of services.
    """
    actor, run, when = network.actors[source], network.run[0], network.clock.when
    pause = run.hops + TURN
    while when[source] <= until and when[source] < NEVER and run.hops < hops and not run.full and run.hops < pause:
        now, station = when[source], actor.station
        when[source] = _next_arrival(network, source, now)
        while station != OUT:
            here = network.stations[station]
            service_s = _service_s(network, station)
            done = max(now, free_at[station]) + service_s
            free_at[station] = done
            here.area += done - now
            here.working += service_s
            here.served += 1
            run.hops += 1
            now = done
            station = _next_station(network, station)
    more = when[source] <= until and when[source] < NEVER
    run.paused = more and pause <= run.hops < hops
    if more:
        run.now = when[source]
    elif until < NEVER:
        run.now = until


# Events -------------------------------------------------------------------------------------------
# Simulation by events.


@compiled
def go_on_until(network: NetworkState, time: float, hops: int) -> None:
    """Advance to a time, or until a total number of services, or space runs out, or it is Python's turn."""
    clock, run = network.clock, network.run[0]
    run.paused = False
    events = 0
    while run.hops < hops and not run.full:
        who = first_of(clock)
        now = clock.when[who]
        if now > time or now == NEVER:
            if time < NEVER:
                run.now = time
            return
        if events == TURN:
            run.paused = True
            return
        events += 1
        run.now = now
        actor = network.actors[who]
        if actor.kind == SERVER:
            _server(network, who, actor.station, now)
        elif actor.kind == SHARED:
            _node(network, who, actor.station, now)
        else:
            set_time(clock, who, _next_arrival(network, who, now))
            enter(network, actor.station, now)


@compiled
def enter(network: NetworkState, station: int, now: float) -> None:
    """Let a new job enter a station."""
    run, job = network.run[0], NO_JOB
    if run.follows:
        job = run.free_job
        run.free_job = network.jobs[job].next
        network.jobs[job].entered = now
        if network.jobs[run.free_job].next == NO_JOB:
            run.full = True
    _arrive(network, station, job, now)


@inner
def _arrive(network: NetworkState, station: int, job: int, now: float) -> None:
    """Let a job arrive at a station."""
    here = network.stations[station]
    _count(here, now, 1)
    if job != NO_JOB:
        network.jobs[job].arrived = now
    if here.node >= 0:
        node = network.shares.cores[here.node]
        go_on(node, now)
        put(node, network.shares.jobs, job, _service_s(network, station))
        if node.count == node.room:
            network.run[0].full = True
        set_time(network.clock, here.first, next_end(node, network.shares.jobs))
    elif here.idle > 0:
        here.idle -= 1
        _begin(network, network.free[here.first + here.idle], station, job, now)
    elif job != NO_JOB:
        network.jobs[job].next = NO_JOB
        if here.waits == NO_JOB:
            here.waits = job
        else:
            network.jobs[here.last_waits].next = job
        here.last_waits = job


@inner
def _begin(network: NetworkState, server: int, station: int, job: int, now: float) -> None:
    """Start a job of a station on a server."""
    network.actors[server].job = job
    set_time(network.clock, server, now + _service_s(network, station))


@inner
def _server(network: NetworkState, who: int, station: int, now: float) -> None:
    """Complete a job on a server."""
    here, job = network.stations[station], network.actors[who].job
    _count(here, now, -1)
    if here.inside >= here.servers:
        waits = here.waits
        if waits != NO_JOB:
            here.waits = network.jobs[waits].next
        _begin(network, who, station, waits, now)
    else:
        network.free[here.first + here.idle] = who
        here.idle += 1
        set_time(network.clock, who, NEVER)
    _leave(network, station, job, now)


@inner
def _node(network: NetworkState, who: int, station: int, now: float) -> None:
    """Handle an event of shared cores, usually the completion of the first job."""
    here, job = network.stations[station], NO_JOB
    node, jobs = network.shares.cores[here.node], network.shares.jobs
    go_on(node, now)
    done = has_done(node, jobs)
    if done:
        job = take_first(node, jobs)
        _count(here, now, -1)
    set_time(network.clock, who, next_end(node, jobs))
    if done:
        _leave(network, station, job, now)


@inner
def _leave(network: NetworkState, station: int, job: int, now: float) -> None:
    """Route a served job."""
    here, run = network.stations[station], network.run[0]
    here.served += 1
    run.hops += 1
    if job != NO_JOB:
        _log(network, station, network.jobs[job].arrived, now)
    to = _next_station(network, station)
    if to != OUT:
        _arrive(network, to, job, now)
    elif job != NO_JOB:
        _log(network, OUT, network.jobs[job].entered, now)
        network.jobs[job].next = run.free_job
        run.free_job = job


@inner
def _count(here: Record, now: float, more: int) -> None:
    passed = now - here.since
    here.area += here.inside * passed
    here.working += min(here.inside, here.servers) * passed
    here.since = now
    here.inside += more
