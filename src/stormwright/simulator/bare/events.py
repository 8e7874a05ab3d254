"""A queueing network, one thing after the other."""

from __future__ import annotations

from stormwright.jit.compiled import Record, compiled, inner
from stormwright.jit.random_numbers import draw_at
from stormwright.simulator.bare.records import OUT, SERVER, SOURCE, Network
from stormwright.simulator.kernel.arrays import NEVER
from stormwright.simulator.kernel.clock import first_of, set_time
from stormwright.simulator.kernel.shares import go_on, has_done, next_end, put, take_first
from stormwright.simulator.kernel.times import draw_time


@compiled
def go_on_until(of: Network, time: float, hops: int) -> None:
    """Go on to an instant, or until so many services were completed in all, or a heap has no room."""
    clock, run = of.clock, of.run[0]
    while run.hops < hops and not run.full:
        who = first_of(clock)
        now = clock.when[who]
        if now > time:
            run.now = time
            return
        run.now = now
        actor = of.actors[who]
        if actor.kind == SERVER:
            _server(of, who, actor.station, now)
        elif actor.kind == SOURCE:
            later = draw_time(of.random, actor.sequence, actor.mean_s, actor.varies)
            set_time(clock, who, now + later)
            enter(of, actor.station, now)
        else:
            _node(of, who, actor.station, now)


@compiled
def enter(of: Network, station: int, now: float) -> None:
    """A job comes to a station."""
    here = of.stations[station]
    _count(here, now, 1)
    if here.node >= 0:
        node = of.shares.cores[here.node]
        go_on(node, now)
        put(node, of.shares.jobs, station, draw_time(of.random, 2 * station, here.mean_s, here.varies))
        of.run[0].full = node.count == node.room
        set_time(of.clock, here.first, next_end(node, of.shares.jobs))
    elif here.idle > 0:
        here.idle -= 1
        _begin(of, of.free[here.first + here.idle], station, now)


@inner
def _begin(of: Network, server: int, station: int, now: float) -> None:
    """A server begins with the next job of its station."""
    here = of.stations[station]
    set_time(of.clock, server, now + draw_time(of.random, 2 * station, here.mean_s, here.varies))


@inner
def _server(of: Network, who: int, station: int, now: float) -> None:
    """A server is done with a job."""
    here = of.stations[station]
    _count(here, now, -1)
    if here.inside >= here.servers:
        _begin(of, who, station, now)
    else:
        of.free[here.first + here.idle] = who
        here.idle += 1
        set_time(of.clock, who, NEVER)
    _leave(of, station, now)


@inner
def _node(of: Network, who: int, station: int, now: float) -> None:
    """Something happens at cores that are shared: most often the first job is done."""
    here = of.stations[station]
    node, jobs = of.shares.cores[here.node], of.shares.jobs
    go_on(node, now)
    done = has_done(node, jobs)
    if done:
        take_first(node, jobs)
        _count(here, now, -1)
    set_time(of.clock, who, next_end(node, jobs))
    if done:
        _leave(of, station, now)


@inner
def _leave(of: Network, station: int, now: float) -> None:
    """A job that was served goes on."""
    here = of.stations[station]
    here.served += 1
    of.run[0].hops += 1
    way = here.first_way
    if here.last_way - way > 1:
        drawn = draw_at(of.random, 2 * station + 1)
        while drawn >= of.ways[way].below:
            way += 1
    to = of.ways[way].to
    if to != OUT:
        enter(of, to, now)


@inner
def _count(here: Record, now: float, more: int) -> None:
    here.area += here.inside * (now - here.since)
    here.since = now
    here.inside += more
