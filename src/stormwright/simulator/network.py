"""Simulated queueing networks: description, run and results.

Longer than other modules: a sixth of it checks values that users type at a prompt.

::

    network = Network({"cpu": Station(Exponential(0.7))}, Source("cpu", Exponential(1.0)))
    print(network.run(seconds=100_000, warm_up_s=1_000))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from stormwright.errors import Fault, InputError, suggestion_for
from stormwright.jit.compiled import Records
from stormwright.model.faults import is_integer, is_number
from stormwright.simulator.distributions import (
    Distribution,
    Exponential,
    FloatArray,
    FromScipy,
    ScipyDistribution,
    TwoMoments,
    wrong_times,
)
from stormwright.simulator.kernel.arrays import NEVER, records, widened
from stormwright.simulator.kernel.clock import ActorTimes
from stormwright.simulator.kernel.shares import JOB, SHARE, Shares
from stormwright.simulator.network_result import NETWORK, NetworkResult, station_result
from stormwright.simulator.queueing_network import (
    ACTOR,
    JOB_TIMES,
    LOG_RESERVE,
    NO_JOB,
    OUT,
    RESERVE,
    RUN,
    SERVER,
    SHARED,
    SOURCE,
    STATION,
    STAY,
    TRACE,
    WAY,
    NetworkState,
    enter,
    follow,
    go_on_until,
)

# Description --------------------------------------------------------------------------------------

#: Queueing disciplines.
FIRST_COME, SHARING = "first come", "sharing"

#: Most servers of a station, and jobs inside at the beginning: larger numbers are treated as typing errors.
_MAX_SERVERS, _MAX_JOBS = 100_000, 10_000_000

#: Largest seed.
_MAX_SEED = 2**128 - 1


@dataclass(frozen=True)
class Station:
    """A service station: first come, first served by some servers, or processor sharing.

    Parameters
    ----------
    service
        Distribution of service times: a class of `stormwright.simulator`, or a distribution of ``scipy.stats`` with its
        parameters.
    servers
        Number of servers; or of cores that jobs share.
    discipline
        ``first come``: a job waits until a server is free; ``sharing``: all jobs progress at the same speed, none
        faster than one core.
    routes
        Station → probability that a job goes there next; the rest leave the network.
    """

    service: Distribution | ScipyDistribution
    servers: int = 1
    discipline: str = FIRST_COME
    routes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """Source of jobs.

    Parameters
    ----------
    station
        The station where its jobs enter.
    arrivals
        Distribution of the times between two jobs; or the times of all jobs in seconds, rising: a trace.
    """

    station: str
    arrivals: Distribution | ScipyDistribution | Sequence[float] | FloatArray


class Network:
    """A queueing network.

    Parameters
    ----------
    stations
        Name → station, at least one; the name `NETWORK` is reserved.
    sources
        Sources of jobs; none in a closed network.
    jobs
        Station → jobs that are there at the beginning.

    Raises
    ------
    InputError
        There is no station, a route or source leads to none, a number is out of range, or a value is of another type;
        all faults at once, with paths.
    """

    def __init__(
        self,
        stations: Mapping[str, Station],
        sources: Source | Sequence[Source] = (),
        *,
        jobs: Mapping[str, int] | None = None,
    ) -> None:
        given = (sources,) if isinstance(sources, Source) else sources
        if faults := list(_wrong_kinds(stations, given, jobs)):
            raise InputError("network", faults)
        self.sources = tuple(given)
        self.stations, self.jobs = dict(stations), dict(jobs or {})
        if faults := list(self._faults()):
            raise InputError("network", faults)
        self.services = {name: as_distribution(station.service) for name, station in self.stations.items()}

    def run(self, seconds: float, *, warm_up_s: float = 0.0, seed: int = 0) -> NetworkResult:
        """Simulate the network; the times of all jobs are recorded, 24 bytes for each service.

        Parameters
        ----------
        seconds
            Duration in virtual time, without the warm-up.
        warm_up_s
            Time before it, which does not count.
        seed
            Seed of the random numbers; the same seed gives the same result.

        Raises
        ------
        InputError
            A time is out of range or no number, a distribution drew a negative or infinite one, or jobs go round for
            ever in no time.
        """
        faults = []
        if not is_number(seconds) or not 0 < seconds < NEVER:
            faults.append(Fault(f"should be a finite time above 0, got {seconds!r}", "seconds"))
        if not is_number(warm_up_s) or not 0 <= warm_up_s < NEVER:
            faults.append(Fault(f"should be a finite time from 0 on, got {warm_up_s!r}", "warm_up_s"))
        if faults:
            raise InputError("run of a network", faults)
        run = self.start(seed, events=True, follow_jobs=True)
        if warm_up_s > 0:
            run.until(warm_up_s)
            run.take()
            run.take_stays()
        run.until(warm_up_s + seconds)
        return _result(self, run, warm_up_s, seconds)

    def start(self, seed: int = 0, *, events: bool = False, follow_jobs: bool = False) -> NetworkRun:
        """Return a run at time 0, to advance step by step.

        Parameters
        ----------
        seed
            Seed of the random numbers.
        events
            Whether to simulate by events even if jobs can be simulated one after the other, which is faster.
        follow_jobs
            Whether to record how long each job stays; by events only.

        Raises
        ------
        InputError
            The seed is no whole number from 0 on.
        """
        if not _is_whole(seed, 0, _MAX_SEED):
            raise InputError("run of a network", [Fault(f"should be a whole number from 0 on, got {seed!r}", "seed")])
        return NetworkRun(self, seed, events=events or follow_jobs, follow_jobs=follow_jobs)

    def _faults(self) -> Iterator[Fault]:
        if not self.stations:
            yield Fault("has no stations", "$.stations")
        for name, station in self.stations.items():
            if name == NETWORK:
                yield Fault("is the name of the whole network in results: choose another one", f"$.stations.{name}")
            yield from self._station_faults(f"$.stations.{name}", station)
        for number, source in enumerate(self.sources):
            yield from self._source_faults(f"$.sources[{number}]", source)
        for name, count in self.jobs.items():
            yield from self._unknown(name, f"$.jobs.{name}")
            if not _is_whole(count, 0, _MAX_JOBS):
                message = f"should be a number of jobs from 0 to {_MAX_JOBS:,}, got {count}"
                yield Fault(message, f"$.jobs.{name}")
        if self.stations and not self.sources and all(count == 0 for count in self.jobs.values()):
            yield Fault("has neither sources nor jobs inside: nothing would happen", "$")

    def _station_faults(self, path: str, station: Station) -> Iterator[Fault]:
        yield from _time_faults(station.service, f"{path}.service")
        if not _is_whole(station.servers, 1, _MAX_SERVERS):
            message = f"should be a number of servers from 1 to {_MAX_SERVERS:,}, got {station.servers!r}"
            yield Fault(message, f"{path}.servers")
        if station.discipline not in (FIRST_COME, SHARING):
            message = f"should be {FIRST_COME!r} or {SHARING!r}, got {station.discipline!r}"
            yield Fault(message, f"{path}.discipline")
        if not isinstance(station.routes, Mapping):
            message = f"should be probabilities by station, got {type(station.routes).__name__}"
            yield Fault(message, f"{path}.routes")
            return
        faults = []
        for to, part in station.routes.items():
            yield from self._unknown(to, f"{path}.routes.{to}")
            if not is_number(part) or not 0 <= part <= 1:
                faults.append(Fault(f"should be a probability from 0 to 1, got {part!r}", f"{path}.routes.{to}"))
        yield from faults
        if not faults and (total := sum(station.routes.values())) > 1 + 1e-9:
            yield Fault(f"should be probabilities whose sum is at most 1, got {total:g}", f"{path}.routes")

    def endless(self) -> Iterator[Fault]:
        """Yield the stations whose jobs go round for ever in no time."""
        for start in self.stations:
            around = {start}
            for name in (waiting := [start]):
                new = {to for to, part in self.stations[name].routes.items() if part > 0} - around
                around |= new
                waiting += new
            if all(self.services[name].mean_s == 0 and not _leads_out(self.stations[name]) for name in around):
                message = "jobs go round for ever in no time: give it a service time above 0, or limit the hops"
                yield Fault(message, f"$.stations.{start}")

    def _source_faults(self, path: str, source: Source) -> Iterator[Fault]:
        yield from self._unknown(source.station, f"{path}.station")
        found = source.arrivals
        if isinstance(found, (Distribution, ScipyDistribution)):
            faults = list(_time_faults(found, f"{path}.arrivals"))
            yield from faults
            if not faults and as_distribution(found).mean_s == 0:
                yield Fault("should have a mean above 0: jobs would come infinitely often", f"{path}.arrivals")
            return
        times = _trace(found)
        faults = list(wrong_times(times, f"{path}.arrivals"))
        yield from faults
        if faults:
            return
        falls = np.flatnonzero(np.diff(times) < 0)
        if len(falls):
            at = int(falls[0]) + 1
            message = f"should be rising times, got {times[at]:g} after {times[at - 1]:g}"
            yield Fault(message, f"{path}.arrivals[{at}]")

    def _unknown(self, name: object, path: str) -> Iterator[Fault]:
        if not isinstance(name, str) or name not in self.stations:
            yield Fault(f"no such station{suggestion_for(str(name), map(str, self.stations))}", path)


def _wrong_kinds(stations: object, sources: object, jobs: object) -> Iterator[Fault]:
    """Yield faults of values of other types."""
    if not isinstance(stations, Mapping):
        yield Fault(f"should be stations by name, got {type(stations).__name__}", "$.stations")
        return
    for name, station in stations.items():
        if not isinstance(name, str):
            yield Fault(f"should have a text as its name, got {name!r}", f"$.stations.{name}")
        if not isinstance(station, Station):
            yield Fault(f"should be a Station, got {type(station).__name__}", f"$.stations.{name}")
    if not isinstance(sources, Sequence):
        yield Fault(f"should be a Source or several, got {type(sources).__name__}", "$.sources")
    else:
        for number, source in enumerate(sources):
            if not isinstance(source, Source):
                yield Fault(f"should be a Source, got {type(source).__name__}", f"$.sources[{number}]")
    if jobs is not None and not isinstance(jobs, Mapping):
        yield Fault(f"should be numbers of jobs by station, got {type(jobs).__name__}", "$.jobs")


def as_distribution(given: Distribution | ScipyDistribution) -> Distribution:
    """Return a distribution of ``scipy.stats`` as a `Distribution`; others as they are."""
    return given if isinstance(given, Distribution) else FromScipy(given)


def _time_faults(given: object, path: str) -> Iterator[Fault]:
    if isinstance(given, type) or not isinstance(given, (Distribution, ScipyDistribution)):
        message = f"should be a distribution, such as Exponential(0.5), got {type(given).__name__}"
        yield Fault(message, path)
    elif hasattr(given, "freeze"):
        yield Fault("should have its parameters, such as scipy.stats.expon(scale=0.5)", path)
    else:
        yield from as_distribution(given).faults(path)


def _is_whole(value: object, least: int, most: int) -> bool:
    return is_integer(value) and least <= int(value) <= most


def _leads_out(station: Station) -> bool:
    """Return whether jobs of a station may leave the network; as in `NetworkRun`, rounding gives no way out."""
    return sum(station.routes.values()) < 1 - 1e-12


def _trace(times: object) -> FloatArray:
    try:
        return np.asarray(times, np.float64)
    except (TypeError, ValueError):
        return np.empty((0, 0))


# Run ----------------------------------------------------------------------------------------------

#: Initial heap size of a node with shared cores, initial records of jobs, and entries of the log.
_ROOM, _JOBS, _LOG = 64, 64, 65_536

#: Samples that are drawn at once, of each distribution that is not drawn when needed.
_SAMPLES = 4_096

#: Number of services that stands for no limit.
_ENDLESS = 1 << 62


class StationCounts(NamedTuple):
    """Means of an interval for every station: jobs inside, services per second, and jobs in service; shape (S,).

    See `NetworkRun.take` for what counts in an interval.
    """

    inside: FloatArray
    served: FloatArray
    working: FloatArray


class NetworkRun:
    """A run of a network in virtual time; see `Network.start`.

    Parameters
    ----------
    network
        Stations, sources and initial jobs to simulate.
    seed
        Seed of the random numbers.
    events, follow_jobs
        Whether to simulate by events, and whether to record each job's stay.

    Attributes
    ----------
    recursive
        Whether jobs are simulated one after the other.
    """

    def __init__(self, network: Network, seed: int = 0, *, events: bool = False, follow_jobs: bool = False) -> None:
        self._network = network
        self._numbers = {name: number for number, name in enumerate(network.stations)}
        self._random = [
            np.random.default_rng(each)
            for each in np.random.SeedSequence(seed).spawn(len(network.stations) + len(network.sources))
        ]
        self.state = self._begin(seed, follow_jobs)
        self.recursive = not events and not any(network.jobs.values()) and _is_recursive(network)
        self._stays: list[Records] = []
        self._free_at = np.zeros(len(network.stations))
        self._taken_s = 0.0
        self._make_room()
        for name, jobs in network.jobs.items():
            for _ in range(jobs):
                enter(self.state, self._numbers[name], 0.0)
                if self.state.run[0]["full"]:
                    self._make_room()

    @property
    def hops(self) -> int:
        """Number of completed services."""
        return int(self.state.run[0]["hops"])

    @property
    def now_s(self) -> float:
        """Present time."""
        return float(self.state.run[0]["now"])

    def until(self, time_s: float = np.inf, hops: int = _ENDLESS) -> None:
        """Advance to a time, or until a total number of services, or until nothing more happens.

        Raises
        ------
        InputError
            The time is before the present one, a distribution drew a negative or infinite one, or without a limit of
            services jobs go round for ever in no time.
        """
        if not is_number(time_s) or not time_s >= self.now_s:
            message = f"should be a time from the present one on, {self.now_s:g}, got {time_s!r}"
            raise InputError("run of a network", [Fault(message, "time_s")])
        if hops == _ENDLESS and (faults := list(self._network.endless())):
            raise InputError("run of a network", faults)
        while True:
            if self.recursive:
                source = len(self.state.actors) - 1
                follow(self.state, source, self._free_at, float(time_s), hops)
            else:
                go_on_until(self.state, float(time_s), hops)
            if self.state.run[0]["full"]:
                self._make_room()
            elif not self.state.run[0]["paused"]:
                break
        if self.recursive and self.state.clock.when[source] == NEVER and time_s == NEVER:
            self.state.run[0]["now"] = max(self.now_s, self._free_at.max())  # the last departure after a trace

    def take(self) -> StationCounts:
        """Return the means since the last call; 0 if no time has passed, and then nothing is taken.

        1. By events, these are the means over the interval of jobs inside and in service, and the services that ended
           in it.
        2. If `recursive`, each job counts as a whole, with all its stays and services, in the interval in which it
           enters the network, even where they end later. So an interval differs from 1 by the jobs inside at its begin
           and end; the totals of a run (means × durations) are equal once all jobs have left.
        """
        stations, now = self.state.stations, self.now_s
        passed = now - self._taken_s
        if passed == 0:
            return StationCounts(*np.zeros((3, len(stations))))
        self._taken_s = now
        if not self.recursive:
            since = now - stations["since"]
            stations["area"] += stations["inside"] * since
            stations["working"] += np.minimum(stations["inside"], stations["servers"]) * since
            stations["since"] = now
        found = StationCounts(*(stations[name] / passed for name in ("area", "served", "working")))
        for name in ("area", "served", "working"):
            stations[name] = 0
        return found

    def take_stays(self) -> Records:
        """Return the recorded stays since the last call, in order of their ends."""
        self._take_log()
        found = np.concatenate(self._stays) if self._stays else np.empty(0, STAY)
        self._stays.clear()
        return found

    def _begin(self, seed: int, follow_jobs: bool) -> NetworkState:
        network = self._network
        stations, node = records(len(network.stations), STATION), 0
        ways: list[tuple[float, int]] = []
        actors: list[tuple[float, float, int, int, int, int, int, int]] = []
        end = 0
        for number, (name, station) in enumerate(network.stations.items()):
            first, at, shared = len(ways), len(actors), station.discipline == SHARING
            ways += self._ways(station)
            own = (SHARED, 1) if shared else (SERVER, station.servers)
            actors += [(0.0, 0.0, own[0], number, -1, NO_JOB, 0, 0)] * own[1]
            here = stations[number]
            service = network.services[name]
            if isinstance(service, TwoMoments):
                here["mean_s"], here["varies"] = service.mean_s, service.scv
            else:
                end += _SAMPLES
                here["next"] = here["end"] = end
            here["first"], here["servers"], here["idle"] = at, station.servers, own[1]
            here["first_way"], here["last_way"] = first, len(ways)
            here["node"] = node if shared else -1
            here["waits"] = here["last_waits"] = NO_JOB
            node += shared
        random = np.random.SeedSequence(seed).generate_state(2 * len(stations) + len(network.sources), np.uint64)
        samples, times = [np.empty(end)], [np.inf] * len(actors)
        for number, source in enumerate(network.sources, start=2 * len(stations)):
            station_number, arrivals = self._numbers[source.station], source.arrivals
            generator = np.random.default_rng(int(random[number]))
            if isinstance(arrivals, np.ndarray) or not isinstance(arrivals, (Distribution, ScipyDistribution)):
                samples.append(np.append(_trace(arrivals), np.inf))
                actors.append((0.0, 0.0, TRACE, station_number, number, NO_JOB, end + 1, end + len(samples[-1])))
                times.append(float(samples[-1][0]))
                end += len(samples[-1])
                continue
            gaps = as_distribution(arrivals)
            times.append(float(_checked(gaps.draw(generator, 1), f"$.sources[{number - 2 * len(stations)}]")[0]))
            if isinstance(gaps, TwoMoments):
                actors.append((gaps.mean_s, gaps.scv, SOURCE, station_number, number, NO_JOB, 0, 0))
            else:
                end += _SAMPLES
                samples.append(np.empty(_SAMPLES))
                actors.append((0.0, 0.0, SOURCE, station_number, number, NO_JOB, end, end))
        jobs = records(_JOBS if follow_jobs else 0, JOB_TIMES)
        jobs["next"] = [*range(1, len(jobs)), NO_JOB] if follow_jobs else []
        run = records(1, RUN)
        run[0]["follows"] = follow_jobs
        return NetworkState(
            stations=stations,
            ways=_filled(ways, WAY),
            actors=_filled(actors, ACTOR),
            jobs=jobs,
            log=records(_LOG if follow_jobs else 0, STAY),
            run=run,
            free=np.arange(len(actors)),
            samples=np.concatenate(samples),
            shares=_shares(network),
            clock=ActorTimes.of(np.array(times)),
            random=random.astype(np.uint64),
        )

    def _ways(self, station: Station) -> list[tuple[float, int]]:
        """Return the destinations of a station with cumulative probabilities; the last one takes the rest."""
        below = np.cumsum([*station.routes.values()]).tolist()
        ways = list(zip(below, [self._numbers[name] for name in station.routes], strict=True))
        if not ways or below[-1] < 1 - 1e-12:
            ways.append((np.inf, OUT))
        return [*ways[:-1], (np.inf, ways[-1][1])]

    def _make_room(self) -> None:
        """Make room for jobs, draw samples and take the log, wherever it is necessary."""
        self.state.run[0]["full"] = False
        for number in range(len(self.state.stations)):
            self._widen(number)
        state = self.state
        if state.run[0]["follows"] and state.jobs["next"][state.run[0]["free_job"]] == NO_JOB:
            old = len(state.jobs)
            jobs = widened(state.jobs, 2 * old)
            jobs["next"][old:] = [*range(old + 1, 2 * old), NO_JOB]
            jobs["next"][state.run[0]["free_job"]] = old
            self.state = state = state._replace(jobs=jobs)
        if len(state.log) and state.run[0]["logged"] + LOG_RESERVE > len(state.log):
            self._take_log()
        for number, name in enumerate(self._network.stations):
            service = self._network.services[name]
            self._draw(state.stations[number], service, self._random[number], f"$.stations.{name}.service")
        first = len(state.actors) - len(self._network.sources)
        for number, source in enumerate(self._network.sources):
            actor = state.actors[first + number]
            if actor["kind"] == SOURCE:
                random = self._random[len(state.stations) + number]
                arrivals: Any = source.arrivals
                self._draw(actor, as_distribution(arrivals), random, f"$.sources[{number}].arrivals")

    def _draw(self, owner: Any, distribution: Distribution, random: np.random.Generator, path: str) -> None:
        """Draw the samples of a station or source if few are left."""
        end, left = int(owner["end"]), int(owner["end"] - owner["next"])
        if not end or left >= RESERVE:
            return
        first = end - _SAMPLES
        samples = self.state.samples
        samples[first : first + left] = samples[end - left : end].copy()
        samples[first + left : end] = _checked(distribution.draw(random, _SAMPLES - left), path)
        owner["next"] = first

    def _take_log(self) -> None:
        logged = int(self.state.run[0]["logged"])
        self._stays.append(np.array(self.state.log[:logged]))
        self.state.run[0]["logged"] = 0

    def _widen(self, station: int) -> None:
        """Enlarge the heap of a node if it is full."""
        number = self.state.stations[station]["node"]
        nodes = self.state.shares.cores
        if number < 0 or nodes[number]["count"] + 1 < nodes[number]["room"]:
            return
        old = self.state.shares.jobs
        room = 2 * (int(nodes[number]["count"]) + 1)
        jobs = widened(old, len(old) + room)  # its old place stays empty; as heaps double, that wastes at most half
        first, count = int(nodes[number]["first"]), int(nodes[number]["count"])
        jobs[len(old) : len(old) + count] = old[first : first + count]
        nodes[number]["first"], nodes[number]["room"] = len(old), room
        self.state = self.state._replace(shares=Shares(nodes, jobs))


def _checked(times_s: FloatArray, path: str) -> FloatArray:
    """Return samples of a distribution.

    Raises
    ------
    InputError
        One is negative or no finite number.
    """
    if faults := list(wrong_times(np.asarray(times_s, np.float64), path)):
        raise InputError("samples of a distribution", faults)
    return times_s


def _is_recursive(network: Network) -> bool:
    """Return whether each station has one server and one origin of its jobs, and there is one source."""
    comes = [to for station in network.stations.values() for to, part in station.routes.items() if part > 0]
    comes += [source.station for source in network.sources]
    alone = all(station.servers == 1 and station.discipline != SHARING for station in network.stations.values())
    return len(network.sources) == 1 and alone and len(set(comes)) == len(comes)


def _shares(network: Network) -> Shares:
    shared = [station for station in network.stations.values() if station.discipline == SHARING]
    nodes = records(len(shared), SHARE)
    nodes["cores"], nodes["speed"], nodes["quota"] = [station.servers for station in shared], 1.0, -1
    nodes["first"], nodes["room"] = _ROOM * np.arange(len(shared)), _ROOM
    return Shares(nodes, records(_ROOM * len(shared), JOB))


def _filled(rows: Sequence[tuple[float, ...]], kind: np.dtype[np.void]) -> Records:
    made = records(len(rows), kind)
    for number, row in enumerate(rows):
        made[number] = row
    return made


def ready_network() -> None:
    """Load the machine code, which is the same for all networks."""
    for events in (False, True):
        Network({"a": Station(Exponential(1.0))}, Source("a", Exponential(1.0))).start(events=events).until(hops=1)
    Network({"a": Station(Exponential(1.0))}, jobs={"a": 1}).start().until(hops=1)


def _result(network: Network, run: NetworkRun, begin_s: float, seconds: float) -> NetworkResult:
    counts, log = run.take(), run.take_stays()
    stays: dict[str, FloatArray] = {}
    rows = []
    for number, (name, station) in enumerate(network.stations.items()):
        own = log[log["station"] == number]
        stays[name] = own["stay"].copy()
        utilisation = float(counts.working[number]) / station.servers
        figures = float(counts.inside[number]), float(counts.served[number]), utilisation
        rows.append(station_result(name, figures, own, begin_s, seconds))
    whole = log[log["station"] == OUT]
    stays[NETWORK] = whole["stay"].copy()
    figures_of_all = float(counts.inside.sum()), len(whole) / seconds, None
    rows.append(station_result(NETWORK, figures_of_all, whole, begin_s, seconds))
    return NetworkResult(tuple(rows), stays, seconds, int(np.count_nonzero(log["station"] != OUT)))
