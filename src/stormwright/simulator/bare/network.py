"""Queueing networks as people write them, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stormwright.jit.compiled import Records
from stormwright.simulator.bare.events import enter, go_on_until
from stormwright.simulator.bare.records import ACTOR, OUT, RUN, SERVER, SHARED, SOURCE, STATION, WAY, Network
from stormwright.simulator.bare.recursion import follow
from stormwright.simulator.kernel.arrays import records, widened
from stormwright.simulator.kernel.clock import Clock
from stormwright.simulator.kernel.shares import JOB, SHARE, Shares

#: Jobs for which there is room at first on a node whose cores are shared.
_ROOM = 64

#: As many services as nobody waits for.
_ENDLESS = 1 << 62


@dataclass(frozen=True)
class Station:
    """Where jobs are served: first come, first served by some servers, or all at once on cores that they share.

    Parameters
    ----------
    mean_s
        Of a service.
    varies
        Squared coefficient of variation of services: 0 for constant ones, 1 for exponential ones.
    servers
        How many; or cores, where `shared`.
    shared
        Whether jobs share cores.
    ways
        Number of a station → part of jobs that go there next; the rest leave the network.
    """

    mean_s: float
    varies: float = 1.0
    servers: int = 1
    shared: bool = False
    ways: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """Jobs that come to a station, `mean_s` apart in the mean; exponential times between them by default."""

    station: int
    mean_s: float
    varies: float = 1.0


class SimulatedNetwork:
    """A network in virtual time.

    Parameters
    ----------
    stations, sources
        By number.
    inside
        Number of a station → jobs that are there at first.
    seed
        Of the random numbers.
    events
        Whether it goes on event by event also where jobs can be followed one after the other.
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
        """Services that were completed."""
        return int(self.network.run[0]["hops"])

    @property
    def now_s(self) -> float:
        """The instant that was reached."""
        return float(self.network.run[0]["now"])

    def until(self, time_s: float = np.inf, hops: int = _ENDLESS) -> None:
        """Go on to an instant, or until so many services were completed in all."""
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
        """Mean number of jobs at each station since this was last asked for, and services by second; shape (S,)."""
        of, now = self.network.stations, self.now_s
        begun = getattr(self, "_taken_s", 0.0)
        self._taken_s = now
        if not self.recursive:
            of["area"] += of["inside"] * (now - of["since"])
            of["since"] = now
        inside, served = of["area"] / (now - begun), of["served"] / (now - begun)
        of["area"], of["served"] = 0.0, 0
        return inside, served

    def _widen(self, station: int, more: int) -> None:
        """Room for more jobs on a node."""
        number = self.network.stations[station]["node"]
        nodes = self.network.shares.cores
        if number < 0 or nodes[number]["count"] + more < nodes[number]["room"]:
            return
        old = self.network.shares.jobs
        room = 2 * (int(nodes[number]["count"]) + more)
        jobs = widened(old, len(old) + room)  # its old place stays empty: rooms double, so that is no more than all
        first, count = int(nodes[number]["first"]), int(nodes[number]["count"])
        jobs[len(old) : len(old) + count] = old[first : first + count]
        nodes[number]["first"], nodes[number]["room"] = len(old), room
        self.network.run[0]["full"] = False
        self.network = self.network._replace(shares=Shares(nodes, jobs))


def _is_recursive(stations: Sequence[Station], sources: Sequence[Source]) -> bool:
    """Whether each station has one server and one place that its jobs come from, beginning with one source."""
    comes = [to for station in stations for to, part in station.ways.items() if part > 0]
    comes += [source.station for source in sources]
    alone = all(station.servers == 1 and not station.shared for station in stations)
    return len(sources) == 1 and alone and len(set(comes)) == len(comes)


def _network(stations: Sequence[Station], sources: Sequence[Source], seed: int) -> Network:
    of, node = records(len(stations), STATION), 0
    ways: list[tuple[float, int]] = []
    actors: list[tuple[float, float, int, int, int]] = []
    for number, station in enumerate(stations):
        first, at = len(ways), len(actors)
        ways += _ways(station)
        own = (SHARED, 1) if station.shared else (SERVER, station.servers)
        actors += [(0.0, 0.0, own[0], number, -1)] * own[1]
        of[number]["mean_s"], of[number]["varies"] = station.mean_s, station.varies
        of[number]["first"], of[number]["servers"], of[number]["idle"] = at, own[1], own[1]
        of[number]["first_way"], of[number]["last_way"] = first, len(ways)
        of[number]["node"] = node if station.shared else -1
        node += station.shared
    random = np.random.SeedSequence(seed).generate_state(2 * len(stations) + len(sources), np.uint64)
    times = [np.inf] * len(actors)
    for number, source in enumerate(sources, start=2 * len(stations)):
        actors.append((source.mean_s, source.varies, SOURCE, source.station, number))
        first_s = np.random.default_rng(int(random[number])).exponential(source.mean_s)
        times.append(first_s if source.varies else source.mean_s)
    return Network(
        stations=of,
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
    """Where its jobs go, with what is drawn below; the last one takes the rest."""
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
