"""Queueing networks: description, simulation, and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.jit.compiled import Record, Records, compiled, inner
from stormwright.jit.random_numbers import draw_at
from stormwright.simulator.kernel.arrays import NEVER, records, widened
from stormwright.simulator.kernel.clock import Clock, first_of, set_time
from stormwright.simulator.kernel.shares import JOB, SHARE, Shares, go_on, has_done, next_end, put, take_first
from stormwright.simulator.kernel.times import draw_time

# Records ------------------------------------------------------------------------------------------
# State of a queueing network, as arrays of records.

#: Destination of jobs that leave the network.
OUT = -1

#: Kinds of actors in the clock.
SERVER, SHARED, SOURCE = 0, 1, 2

#: Its jobs: `inside` now; their number over time, added up until `since`; how many went out. A station with servers
#: has its free ones in `free` from `first` on, `idle` of `servers`; for one that shares cores `node` is their number.
#: Where its jobs go is in `ways` from `first_way` to before `last_way`; where there is one, nothing is drawn.
STATION = np.dtype(
    [
        *((name, np.float64) for name in ("mean_s", "varies", "area", "since")),
        *(
            (name, np.int64)
            for name in ("inside", "served", "servers", "first", "idle", "node", "first_way", "last_way")
        ),
    ],
    align=True,
)

#: Part of a station's jobs that go to `to` or to what is before it.
WAY = np.dtype([("below", np.float64), ("to", np.int64)])

#: Who has a time in the clock: its kind and its station; of a source also how long until its next job, and by which
#: sequence of random numbers.
ACTOR = np.dtype(
    [
        *((name, np.float64) for name in ("mean_s", "varies")),
        *((name, np.int64) for name in ("kind", "station", "sequence")),
    ]
)

#: One record: the instant that was reached, hops (services that were completed), and whether a heap of jobs has no
#: room left.
RUN = np.dtype([("now", np.float64), ("hops", np.int64), ("full", np.bool_)])


class Network(NamedTuple):
    """State of a network.

    Parameters
    ----------
    stations, ways, actors, run
        Record arrays of the kinds above.
    free
        Idle servers, by station.
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
    run: Records
    free: NDArray[np.int64]
    shares: Shares
    clock: Clock
    random: NDArray[np.uint64]


# Recursion ----------------------------------------------------------------------------------------
# Simulation without a list of events, where that is exact.
#
# If each station has one server and one origin of its jobs, they arrive in the order in which they left it. So one job
# after the other can be followed through the network: its service begins when it has arrived and the previous one is
# done (D. V. Lindley, The theory of queues with a single server, Mathematical Proceedings of the Cambridge
# Philosophical Society 48(2), 1952, https://doi.org/10.1017/S0305004100027638). As stations and sources have their own
# random numbers, the result is the same as by events, job by job.


@compiled
def follow(network: Network, source: int, free_at: NDArray[np.float64], until: float, hops: int) -> None:
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
    while when[source] <= until and run.hops < hops:
        now, station = when[source], actor.station
        when[source] = now + draw_time(network.random, actor.sequence, actor.mean_s, actor.varies)
        while station != OUT:
            here = network.stations[station]
            done = max(now, free_at[station]) + draw_time(network.random, 2 * station, here.mean_s, here.varies)
            free_at[station] = done
            here.area += done - now
            here.served += 1
            run.hops += 1
            now, way = done, here.first_way
            if here.last_way - way > 1:
                sample = draw_at(network.random, 2 * station + 1)
                while sample >= network.ways[way].below:
                    way += 1
            station = network.ways[way].to
    run.now = until if when[source] > until else when[source]


# Events -------------------------------------------------------------------------------------------
# Simulation by events.


@compiled
def go_on_until(network: Network, time: float, hops: int) -> None:
    """Advance to a time, or until a total number of services, or a heap is full."""
    clock, run = network.clock, network.run[0]
    while run.hops < hops and not run.full:
        who = first_of(clock)
        now = clock.when[who]
        if now > time:
            run.now = time
            return
        run.now = now
        actor = network.actors[who]
        if actor.kind == SERVER:
            _server(network, who, actor.station, now)
        elif actor.kind == SOURCE:
            later = draw_time(network.random, actor.sequence, actor.mean_s, actor.varies)
            set_time(clock, who, now + later)
            enter(network, actor.station, now)
        else:
            _node(network, who, actor.station, now)


@compiled
def enter(network: Network, station: int, now: float) -> None:
    """Let a job enter a station."""
    here = network.stations[station]
    _count(here, now, 1)
    if here.node >= 0:
        node = network.shares.cores[here.node]
        go_on(node, now)
        put(node, network.shares.jobs, station, draw_time(network.random, 2 * station, here.mean_s, here.varies))
        network.run[0].full = node.count == node.room
        set_time(network.clock, here.first, next_end(node, network.shares.jobs))
    elif here.idle > 0:
        here.idle -= 1
        _begin(network, network.free[here.first + here.idle], station, now)


@inner
def _begin(network: Network, server: int, station: int, now: float) -> None:
    """Start the next job of a station on a server."""
    here = network.stations[station]
    set_time(network.clock, server, now + draw_time(network.random, 2 * station, here.mean_s, here.varies))


@inner
def _server(network: Network, who: int, station: int, now: float) -> None:
    """Complete a job on a server."""
    here = network.stations[station]
    _count(here, now, -1)
    if here.inside >= here.servers:
        _begin(network, who, station, now)
    else:
        network.free[here.first + here.idle] = who
        here.idle += 1
        set_time(network.clock, who, NEVER)
    _leave(network, station, now)


@inner
def _node(network: Network, who: int, station: int, now: float) -> None:
    """Handle an event of shared cores, usually the completion of the first job."""
    here = network.stations[station]
    node, jobs = network.shares.cores[here.node], network.shares.jobs
    go_on(node, now)
    done = has_done(node, jobs)
    if done:
        take_first(node, jobs)
        _count(here, now, -1)
    set_time(network.clock, who, next_end(node, jobs))
    if done:
        _leave(network, station, now)


@inner
def _leave(network: Network, station: int, now: float) -> None:
    """Route a served job."""
    here = network.stations[station]
    here.served += 1
    network.run[0].hops += 1
    way = here.first_way
    if here.last_way - way > 1:
        sample = draw_at(network.random, 2 * station + 1)
        while sample >= network.ways[way].below:
            way += 1
    to = network.ways[way].to
    if to != OUT:
        enter(network, to, now)


@inner
def _count(here: Record, now: float, more: int) -> None:
    here.area += here.inside * (now - here.since)
    here.since = now
    here.inside += more


# Queueing network ---------------------------------------------------------------------------------

#: Initial heap size of a node with shared cores.
_ROOM = 64

#: Number of services that stands for no limit.
_ENDLESS = 1 << 62


@dataclass(frozen=True)
class Station:
    """A service station: first come, first served by some servers, or processor sharing on cores.

    Parameters
    ----------
    mean_s
        Mean service time.
    varies
        Squared coefficient of variation of services: 0 for constant ones, 1 for exponential ones.
    servers
        Number of servers; or of cores, if `shared`.
    shared
        Whether jobs share cores.
    ways
        Number of a station → fraction of jobs that go there next; the rest leave the network.
    """

    mean_s: float
    varies: float = 1.0
    servers: int = 1
    shared: bool = False
    ways: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """Source of jobs for a station, with mean distance `mean_s`; exponential by default."""

    station: int
    mean_s: float
    varies: float = 1.0


class SimulatedNetwork:
    """A simulated network in virtual time.

    Parameters
    ----------
    stations, sources
        Stations and sources by number.
    inside
        Number of a station → initial jobs.
    seed
        Seed of the random numbers.
    events
        Whether to simulate by events even if jobs can be followed one after the other.
    """

    def __init__(
        self,
        stations: Sequence[Station],
        sources: Sequence[Source] = (),
        inside: Mapping[int, int] | None = None,
        seed: int = 0,
        *,
        events: bool = False,
    ) -> None:
        self.network = _network(stations, sources, seed)
        self.recursive = not events and not inside and _is_recursive(stations, sources)
        self._free_at = np.zeros(len(stations))
        for station, jobs in (inside or {}).items():
            self._widen(station, jobs)
            for _ in range(jobs):
                enter(self.network, station, 0.0)

    @property
    def hops(self) -> int:
        """Number of completed services."""
        return int(self.network.run[0]["hops"])

    @property
    def now_s(self) -> float:
        """Present time."""
        return float(self.network.run[0]["now"])

    def until(self, time_s: float = np.inf, hops: int = _ENDLESS) -> None:
        """Advance to a time, or until a total number of services."""
        if self.recursive:
            follow(self.network, len(self.network.actors) - 1, self._free_at, float(time_s), hops)
            return
        while True:
            go_on_until(self.network, float(time_s), hops)
            if not self.network.run[0]["full"]:
                return
            for number in range(len(self.network.stations)):
                self._widen(number, 1)

    def take(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean jobs at each station since the last call, and services per second; shape (S,)."""
        network, now = self.network.stations, self.now_s
        begun = getattr(self, "_taken_s", 0.0)
        self._taken_s = now
        if not self.recursive:
            network["area"] += network["inside"] * (now - network["since"])
            network["since"] = now
        inside, served = network["area"] / (now - begun), network["served"] / (now - begun)
        network["area"], network["served"] = 0.0, 0
        return inside, served

    def _widen(self, station: int, more: int) -> None:
        """Enlarge the heap of a node."""
        number = self.network.stations[station]["node"]
        nodes = self.network.shares.cores
        if number < 0 or nodes[number]["count"] + more < nodes[number]["room"]:
            return
        old = self.network.shares.jobs
        room = 2 * (int(nodes[number]["count"]) + more)
        jobs = widened(old, len(old) + room)  # its old place stays empty; as heaps double, that wastes at most half
        first, count = int(nodes[number]["first"]), int(nodes[number]["count"])
        jobs[len(old) : len(old) + count] = old[first : first + count]
        nodes[number]["first"], nodes[number]["room"] = len(old), room
        self.network.run[0]["full"] = False
        self.network = self.network._replace(shares=Shares(nodes, jobs))


def _is_recursive(stations: Sequence[Station], sources: Sequence[Source]) -> bool:
    """Return whether each station has one server and one origin of its jobs, and there is one source."""
    comes = [to for station in stations for to, part in station.ways.items() if part > 0]
    comes += [source.station for source in sources]
    alone = all(station.servers == 1 and not station.shared for station in stations)
    return len(sources) == 1 and alone and len(set(comes)) == len(comes)


def _network(stations: Sequence[Station], sources: Sequence[Source], seed: int) -> Network:
    network, node = records(len(stations), STATION), 0
    ways: list[tuple[float, int]] = []
    actors: list[tuple[float, float, int, int, int]] = []
    for number, station in enumerate(stations):
        first, at = len(ways), len(actors)
        ways += _ways(station)
        own = (SHARED, 1) if station.shared else (SERVER, station.servers)
        actors += [(0.0, 0.0, own[0], number, -1)] * own[1]
        network[number]["mean_s"], network[number]["varies"] = station.mean_s, station.varies
        network[number]["first"], network[number]["servers"], network[number]["idle"] = at, own[1], own[1]
        network[number]["first_way"], network[number]["last_way"] = first, len(ways)
        network[number]["node"] = node if station.shared else -1
        node += station.shared
    random = np.random.SeedSequence(seed).generate_state(2 * len(stations) + len(sources), np.uint64)
    times = [np.inf] * len(actors)
    for number, source in enumerate(sources, start=2 * len(stations)):
        actors.append((source.mean_s, source.varies, SOURCE, source.station, number))
        first_s = np.random.default_rng(int(random[number])).exponential(source.mean_s)
        times.append(first_s if source.varies else source.mean_s)
    return Network(
        stations=network,
        ways=_filled(ways, WAY),
        actors=_filled(actors, ACTOR),
        run=records(1, RUN),
        free=np.arange(len(actors)),
        shares=_shares(stations),
        clock=Clock.of(np.array(times)),
        random=random.astype(np.uint64),
    )


def _shares(stations: Sequence[Station]) -> Shares:
    shared = [station for station in stations if station.shared]
    nodes = records(len(shared), SHARE)
    nodes["cores"], nodes["speed"], nodes["quota"] = [station.servers for station in shared], 1.0, -1
    nodes["first"], nodes["room"] = _ROOM * np.arange(len(shared)), _ROOM
    return Shares(nodes, records(_ROOM * len(shared), JOB))


def _ways(station: Station) -> list[tuple[float, int]]:
    """Return the destinations of a station with cumulative probabilities; the last one takes the rest."""
    below = np.cumsum([*station.ways.values()]).tolist()
    ways = list(zip(below, station.ways, strict=True))
    if not ways or below[-1] < 1 - 1e-12:
        ways.append((np.inf, OUT))
    return [*ways[:-1], (np.inf, ways[-1][1])]


def _filled(rows: Sequence[tuple[float, ...]], kind: np.dtype[np.void]) -> Records:
    made = records(len(rows), kind)
    for number, row in enumerate(rows):
        made[number] = row
    return made
