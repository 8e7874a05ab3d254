"""Loads of a virtual cluster without Spark: counted by its engine, not read from the performance log."""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from stormwright.model import LoadProfile, Problem, Topology, TopologyLoad
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.model.load import cpu_hz_of, requested
from stormwright.model.topology import PLACEMENT_FOLLOWING
from stormwright.pipeline.measurement.load_profile import executor_cpu_hz, executor_pending, flow_limit_tps
from stormwright.pipeline.measurement.measurement import LatencyHistogram, NodeLoad
from stormwright.pipeline.streaming.progress import StreamProgress
from stormwright.simulator.cluster.records import HEAP_BYTES, Streams
from stormwright.simulator.cluster.storm import VirtualStorm
from stormwright.simulator.engine import Counts, EngineCounts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Measurement --------------------------------------------------------------------------------------
# Load profiles directly from counts, equal to those that the pipeline would measure from records.

#: Maximum length of the window of a profile, in seconds.
WINDOW_S = 15.0


class _Part(NamedTuple):
    """A part of the window: counts, executors with live workers, CPU time of nodes in s, pending trees at its end."""

    counted: EngineCounts
    running: BoolArray
    node_cpu_s: FloatArray
    pending: Counts


@dataclass(frozen=True, eq=False)
class _PairClasses:
    """Classes of pairs of executors for a load; valid as long as the same pairs send.

    `pair_class` is the class of each pair, shape (P,). For each class, by source: the sending executor, the executor or
    component that receives, whether it is the latter, and the stream, shape (W,).
    """

    source: Counts
    pair_class: IndexArray
    sender: IndexArray
    receiver: IndexArray
    flows: BoolArray
    stream: IndexArray


class _Sums(NamedTuple):
    """Sums over the window: seconds of uptime, pending trees times those, CPU cycles and tuples received, shape (E,);
    tuples (W,).
    """

    covered_s: FloatArray
    pending_s: FloatArray
    cycles: FloatArray
    received: FloatArray
    tuples: FloatArray


class LoadWithLatencies(NamedTuple):
    """A load, and the latencies counted meanwhile by topology and bucket, shape (T, 66)."""

    load: LoadProfile
    latency: Counts


class CountedMeasurement:
    """Counts of the recent past.

    Parameters
    ----------
    problem
        Problem that numbers executors and nodes, with unmeasured data: memory and tuple sizes.
    overload
        Part of a node's CPU from which it is overloaded.
    """

    def __init__(self, problem: Problem, overload: float = 1.0) -> None:
        self._problem, self._streams = problem, Streams(problem)
        own = [topology.executor_component for topology in problem.topologies]
        self._component = np.concatenate(own).astype(np.int64) if own else np.empty(0, np.int64)
        self._groupings = [stream[3] for streams in self._streams.of_topology for stream in streams]
        self._components = max((len(topology.components) for topology in problem.topologies), default=1)
        self._requested_hz = [_request_hz(topology, problem.core_hz) for topology in problem.topologies]
        cores = np.array([node.cpu_hz for node in problem.supervisors]) / problem.core_hz
        self._most_cores, self._overload_s = cores * overload, np.zeros(len(cores))
        self._parts: deque[_Part] = deque()
        self._seconds = 0.0
        self._classes: _PairClasses | None = None

    def add(self, counted: EngineCounts, running: BoolArray, node_cpu_s: FloatArray, pending: Counts) -> None:
        """Add the counts of a period.

        Parameters
        ----------
        counted
            Counts of the period.
        running
            Executors whose workers were up, shape (E,).
        node_cpu_s
            CPU time that nodes used in it, shape (N,).
        pending
            Pending trees of executors at its end, shape (E,).
        """
        seconds = counted.length_s
        over = node_cpu_s >= self._most_cores * seconds
        self._overload_s = np.where(over, self._overload_s + seconds, 0.0)
        self._parts.append(_Part(counted, running.copy(), node_cpu_s, pending))
        self._seconds += seconds
        while self._seconds - self._parts[0].counted.length_s >= WINDOW_S:
            self._seconds -= self._parts.popleft().counted.length_s

    def measured(self, end_ms: float) -> LoadWithLatencies | None:
        """Return the result of the window that ends now, in ms since 1970; None without counts."""
        if not self._seconds:
            return None
        problem, parts = self._problem, self._parts
        ways, sums = self._sums()
        heard = np.bincount(problem.executor_topology, sums.covered_s, len(problem.topologies)) > 0
        first = np.searchsorted(ways.sender, problem.executor_offset)
        node_hz = np.sum([part.node_cpu_s for part in parts], axis=0) / self._seconds * problem.core_hz
        nodes = [node.id for node in problem.supervisors]
        load = LoadProfile(
            topologies={
                problem.topologies[number].id: self._load(
                    number, ways, sums, slice(*first[number : number + 2].tolist())
                )
                for number in np.flatnonzero(heard).tolist()
            },
            node_cpu_hz={node: hz for node, hz in zip(nodes, node_hz.tolist(), strict=True) if hz > 0},
            # A node's limit is a quota, and nothing but workers runs there.
            node_quota_hz={node.id: node.cpu_hz for node in problem.supervisors if math.isfinite(node.cpu_hz)},
            node_overhead_hz={node.id: 0.0 for node in problem.supervisors if math.isfinite(node.cpu_hz)},
            overload_s={node: s for node, s in zip(nodes, self._overload_s.tolist(), strict=True) if s > 0},
            start_ms=round(end_ms - self._seconds * 1000),
            end_ms=round(end_ms),
            costs=problem.load.costs if problem.load else {},
        )
        return LoadWithLatencies(load, np.sum([part.counted.latency for part in parts], axis=0))

    def _sums(self) -> tuple[_PairClasses, _Sums]:
        parts = self._parts
        counted = [part.counted for part in parts]
        last = counted[-1]
        if all(each.source is last.source for each in counted):
            source, target, tuples = last.source, last.target, np.sum([each.tuples for each in counted], axis=0)
        else:
            source, target, tuples = (
                np.concatenate([getattr(each, name) for each in counted]) for name in ("source", "target", "tuples")
            )
        if self._classes is None or self._classes.source is not source:
            self._classes = self._classes_of(source, target)
        return self._classes, _Sums(
            covered_s=np.sum([part.running * part.counted.length_s for part in parts], axis=0),
            pending_s=np.sum([part.pending * part.running * part.counted.length_s for part in parts], axis=0),
            cycles=np.sum([each.cpu_ns for each in counted], axis=0) * 1e-9 * self._problem.core_hz,
            received=np.sum([each.received for each in counted], axis=0).astype(float),
            tuples=np.bincount(self._classes.pair_class, tuples, len(self._classes.sender)).astype(float),
        )

    def _classes_of(self, source: Counts, target: Counts) -> _PairClasses:
        problem, topology = self._problem, self._problem.executor_topology[source]
        listed = np.array([len(streams) for streams in self._streams.of_topology], np.int64)
        stream = self._streams.between(source, target) + (np.cumsum(listed) - listed)[topology]
        flows = np.array([kind in PLACEMENT_FOLLOWING for kind in self._groupings], dtype=bool)[stream]
        executors = problem.num_executors
        to = np.where(flows, executors + self._component[target], target)
        keys, at, way = np.unique(source * (executors + self._components) + to, return_index=True, return_inverse=True)
        sender, to = np.divmod(keys, executors + self._components)
        flows = to >= executors
        return _PairClasses(source, way, sender, np.where(flows, to - executors, to), flows, stream[at])

    def _load(self, number: int, ways: _PairClasses, sums: _Sums, own: slice) -> TopologyLoad:
        """Return the load of one topology, to which some of the ways belong."""
        problem, topology = self._problem, self._problem.topologies[number]
        executors, base = problem.executors_of(number), problem.loads[number]
        covered_s = sums.covered_s[executors]
        sender = ways.sender[own] - executors.start
        some = (covered_s[sender] > 0) & (sums.tuples[own] > 0)
        tps = np.divide(sums.tuples[own], covered_s[sender], out=np.zeros(len(sender)), where=some)
        pairs, flows = np.flatnonzero(some & ~ways.flows[own]), np.flatnonzero(some & ways.flows[own])
        cycles, received, size = sums.cycles[executors], sums.received[executors], base.bytes_per_tuple
        load = TopologyLoad(
            cpu_hz=executor_cpu_hz(topology, cycles, covered_s, self._requested_hz[number]),
            memory_mb=base.memory_mb,
            pair_source=sender[pairs].astype(np.int32),
            pair_target=(ways.receiver[own][pairs] - executors.start).astype(np.int32),
            pair_tps=tps[pairs],
            flow_source=sender[flows].astype(np.int32),
            flow_component=ways.receiver[own][flows].astype(np.int32),
            flow_tps=tps[flows],
            flow_grouping=tuple(self._groupings[each] for each in ways.stream[own][flows].tolist()),
            bytes_per_tuple=size,
            pair_bytes_per_s=None if size is None else tps[pairs] * size,
            flow_bytes_per_s=None if size is None else tps[flows] * size,
            pending_trees=executor_pending(topology, sums.pending_s[executors], covered_s),
        )
        limit = flow_limit_tps(topology, load, cycles, received, covered_s, problem.core_hz)
        return replace(load, flow_limit_tps=limit)


def _request_hz(topology: Topology, core_hz: float) -> FloatArray:
    return cpu_hz_of(topology, requested(topology), core_hz)


# Loads --------------------------------------------------------------------------------------------

#: Quantiles of complete latency in percent, as in the pipeline.
_QUANTILES = (50, 95, 99)


#: Node or topology → its figures.
_Figures = dict[str, dict[str, float | None]]


class CountedLoads:
    """Load measurement of a virtual cluster; `Loads` of a service.

    Parameters
    ----------
    storm
        Virtual cluster that runs the topologies.
    every_s
        Virtual seconds from one profile to the next.
    """

    def __init__(self, storm: VirtualStorm, every_s: float) -> None:
        self._storm, self._measuring = storm, CountedMeasurement(storm.problem)
        self._measured: LoadWithLatencies | None = None
        self._reported: tuple[LoadWithLatencies | None, _Figures, _Figures] = (None, {}, {})
        self._used_s, self._profiles = np.zeros(len(storm.problem.supervisors)), 0
        self._workers: Counter[str] = Counter()
        storm.heard = self._hear
        storm.clock.every(every_s, self.measure)

    @property
    def spark(self) -> SparkSession | None:
        """None: the history stays in files."""
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        pass

    def latest(self, problem: Problem) -> LoadProfile | None:
        """Return the last load of the problem's topologies, all numbered as in the cluster."""
        measured = self._measured
        if measured is None or measured.load.topologies.keys() <= problem.topology_index.keys():
            return measured and measured.load
        known = {
            name: topology for name, topology in measured.load.topologies.items() if name in problem.topology_index
        }
        return replace(measured.load, topologies=known)

    def note(self, problem: Problem) -> None:
        """Do nothing; the topologies are known."""

    def measure_promptly(self) -> None:
        """Do nothing: virtual time has no cost."""

    def require_running(self) -> None:
        """Do nothing; it always runs."""

    def closed_panes_error(self) -> str | None:
        """None; there are no panes."""
        return None

    def age_s(self) -> float | None:
        """Return the seconds since the newest load; None if there is none yet."""
        measured = self._measured
        return None if measured is None else self._storm.clock.time() - measured.load.end_ms / 1000

    def progress(self) -> StreamProgress:
        """Return the progress."""
        measured = self._measured
        found: StreamProgress = {"running": True, "error": None, "batch": self._profiles - 1}
        if measured is not None:
            if self._reported[0] is not measured:
                self._reported = measured, self._nodes(measured.load), self._latencies(measured)
            _, nodes, latencies = self._reported
            found |= {"profile_age_s": self.age_s(), "nodes": nodes, "complete_latency_ms": latencies}
        return found

    def measure(self) -> None:
        """Make a profile of the recent counts."""
        self._storm.count()
        self._measured = self._measuring.measured(self._storm.clock.time() * 1000)
        self._profiles += 1
        workers = self._storm.supervisors.workers.values()
        self._workers = Counter(worker.supervisor for worker in workers if worker.up)

    def _hear(self, counted: EngineCounts) -> None:
        used_s = self._storm.used().cpu_s
        pending = self._storm.pending_trees()
        self._measuring.add(counted, self._storm.supervisors.running, used_s - self._used_s, pending)
        self._used_s = used_s

    def _nodes(self, load: LoadProfile) -> _Figures:
        problem = self._storm.problem
        return {
            node.id: NodeLoad(
                cpu_cores=load.node_cpu_hz[node.id] / problem.core_hz,
                capacity_cores=node.cpu_hz / problem.core_hz,
                heap_bytes=HEAP_BYTES * self._workers[node.id],
                workers=self._workers[node.id],
            ).as_dict()
            for node in problem.supervisors
            if node.id in load.node_cpu_hz
        }

    def _latencies(self, measured: LoadWithLatencies) -> _Figures:
        found = {}
        for topology, counts in zip(self._storm.problem.topologies, measured.latency, strict=True):
            if topology.id in measured.load.topologies:
                latency = LatencyHistogram(counts.astype(float))
                found[topology.id] = {f"p{percent}": latency.quantile_ms(percent / 100) for percent in _QUANTILES}
        return found
