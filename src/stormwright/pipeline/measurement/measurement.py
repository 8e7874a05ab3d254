"""The newest measurement by name, and its conversion to a `LoadProfile` of a problem."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stormwright.model import LoadProfile, Problem, Topology
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.perflog.schema import LATENCY_EDGES_MS
from stormwright.pipeline.measurement.load_profile import topology_load, unknown_tuples
from stormwright.pipeline.measurement.overload import NodeSeries
from stormwright.pipeline.measurement.windows import (
    by_topology,
    kind_of,
    newest_window,
    numbers,
    window_facts,
    worker_records,
)
from stormwright.pipeline.settings import StreamSettings

# Work per tuple -----------------------------------------------------------------------------------
# Work of executors: time per tuple, and output by stream and target.

#: The grouping that sends every tuple to each of its targets.
_TO_EACH = "all"

_STREAM = ["source", "stream", "component", "grouping"]


@dataclass(frozen=True)
class ExecutorWork:
    """Tuples that one executor processed, and the time per tuple.

    Parameters
    ----------
    received_tps
        Tuples that it executed per second.
    service_s
        Execute time per tuple; None where it executed none, as of spouts.
    """

    component: str
    first_task: int
    last_task: int
    received_tps: float
    service_s: float | None


@dataclass(frozen=True)
class StreamTraffic:
    """Traffic of one stream to one subscribed component.

    Parameters
    ----------
    source, stream, target, grouping
        Names as in the topology.
    sent_tps
        Tuples per second, counted at the source once for each task that they go to.
    bytes_per_s
        Their bytes per second, from sampled sizes; None without samples.
    selectivity
        Tuples emitted per tuple that the source executes; one that an ``all`` grouping sends to many tasks counts once.
        None where the source executes none, as a spout.
    shares
        Per task of the target its share of the tuples, which add up to 1. Empty where the grouping follows the
        placement: there the shares are the placement's.
    """

    source: str
    stream: str
    target: str
    grouping: str
    sent_tps: float
    bytes_per_s: float | None
    selectivity: float | None
    shares: Mapping[int, float]

    @property
    def skew(self) -> float | None:
        """The busiest task's share relative to an even share; at least 1. None without shares."""
        return max(self.shares.values()) * len(self.shares) if self.shares else None


def executor_work(facts: pa.Table) -> list[ExecutorWork]:
    """Return the work of each executor from the facts of one topology in one window, by task."""
    return [
        ExecutorWork(
            component=run["component"],
            first_task=run["first"],
            last_task=run["second"],
            received_tps=run["received"] / run["length_ns"] * 1e9,
            service_s=run["execute_ns"] / run["received"] / 1e9 if run["received"] else None,
        )
        for run in _runs(facts).to_pylist()
    ]


def stream_traffic(facts: pa.Table) -> list[StreamTraffic]:
    """Return the traffic of each stream from the facts of one topology in one window, in order of names.

    Rates are per second of the time that an executor's records cover, so that lost records change no ratio of them.
    """
    runs = _runs(facts)
    received_tps: dict[str, float] = {}
    tasks_of: dict[str, list[int]] = {}
    for run in runs.to_pylist():
        component, covered_s = run["component"], run["length_ns"] / 1e9
        received_tps[component] = received_tps.get(component, 0.0) + run["received"] / covered_s
        tasks_of.setdefault(component, []).extend(range(run["first"], run["second"] + 1))
    return [
        _traffic(keys, sent, received_tps[keys["source"]], tasks_of.get(keys["component"], []))
        for keys, sent in _by_stream(facts, runs)
    ]


def _traffic(keys: dict[str, str], sent: _StreamOutput, received_tps: float, tasks: list[int]) -> StreamTraffic:
    tps_by_task = sent.tps_by_task
    sent_tps = sum(tps_by_task.values())
    emitted_tps = sent_tps / len(tps_by_task) if keys["grouping"] == _TO_EACH else sent_tps
    known = {task: tps for task, tps in tps_by_task.items() if task is not None}
    # A task that receives nothing has a share of 0.
    shares = {task: known.get(task, 0.0) / sent_tps for task in sorted({*tasks, *known})} if known and sent_tps else {}
    return StreamTraffic(
        source=keys["source"],
        stream=keys["stream"],
        target=keys["component"],
        grouping=keys["grouping"],
        sent_tps=sent_tps,
        bytes_per_s=None if sent.bytes_per_tuple is None else sent_tps * sent.bytes_per_tuple,
        selectivity=emitted_tps / received_tps if received_tps else None,
        shares=shares,
    )


class _StreamOutput(NamedTuple):
    """Output of a stream: tuples/s per target task (None if it follows the placement); mean tuple size."""

    tps_by_task: dict[int | None, float]
    bytes_per_tuple: float | None


def _by_stream(facts: pa.Table, runs: pa.Table) -> list[tuple[dict[str, str], _StreamOutput]]:
    """Return the output per stream and target component."""
    traffic = facts.filter(pc.is_in(facts["kind"], pa.array(["pair", "flow"])))
    source = _run_of(runs, traffic["first"])
    known = source >= 0
    traffic, source = traffic.filter(pa.array(known)), source[known]
    tps = numbers(traffic, "tuples") / (numbers(runs, "length_ns") / 1e9)[source]
    to_tasks = (
        pa.table(
            {
                "source": runs["component"].take(pa.array(source)),
                **{name: traffic[name] for name in (*_STREAM[1:], "second", "bytes", "sampled")},
                "tps": tps,
            }
        )
        .group_by([*_STREAM, "second"], use_threads=False)
        .aggregate([("tps", "sum"), ("bytes", "sum"), ("sampled", "sum")])
        .sort_by([(name, "ascending") for name in _STREAM])
    )
    found = []
    for keys, rows in groupby(to_tasks.to_pylist(), key=lambda row: {name: row[name] for name in _STREAM}):
        tasks = list(rows)
        size, sampled = (sum(row[f"{name}_sum"] or 0 for row in tasks) for name in ("bytes", "sampled"))
        by_task = {row["second"]: row["tps_sum"] for row in tasks}
        found.append((keys, _StreamOutput(by_task, size / sampled if sampled else None)))
    return found


def _runs(facts: pa.Table) -> pa.Table:
    """Return one row per executor, by its first task, across all places where it ran."""
    sums = ["length_ns", "received", "execute_ns"]
    return (
        kind_of(facts, "executor")
        .group_by(["component", "first", "second"], use_threads=False)
        .aggregate([(name, "sum") for name in sums])
        .rename_columns(["component", "first", "second", *sums])
        .sort_by("first")
    )


def _run_of(runs: pa.Table, tasks: pa.ChunkedArray) -> IntArray:
    """Return the row of the executor that runs each task, -1 for none."""
    wanted = tasks.to_numpy()
    row = np.searchsorted(runs["first"].to_numpy(), wanted, side="right") - 1
    # A task before the first executor has row -1, which selects the appended element.
    last = np.append(runs["second"].to_numpy(), -1)[row]
    return np.where((row >= 0) & (wanted <= last), row, -1).astype(np.int32)


# Activity -----------------------------------------------------------------------------------------
# Activity of a whole topology: tuples, trees, complete latency.


@dataclass(frozen=True)
class LatencyHistogram:
    """Complete latencies of sampled tuple trees; one more count than `LATENCY_EDGES_MS`."""

    counts: FloatArray

    def quantile_ms(self, share: float) -> float | None:
        """Return the latency not exceeded by `share` of the trees, within 19 %; None without trees.

        Inside a bucket latencies are taken as evenly spread on a logarithmic scale.
        """
        total = self.counts.sum()
        if not total:
            return None
        reached = np.cumsum(self.counts)
        bucket = int(np.searchsorted(reached, share * total))
        inside = 1 - (reached[bucket] - share * total) / self.counts[bucket]
        step = LATENCY_EDGES_MS[1] / LATENCY_EDGES_MS[0]
        # Bucket 0 ends at the first edge; the last one has no end and is taken as wide as the others.
        return float(LATENCY_EDGES_MS[0] * step ** (bucket - 1 + inside))


@dataclass(frozen=True)
class TopologyActivity:
    """Rates of one topology in a window.

    Parameters
    ----------
    emitted_tps
        Tuples emitted by all executors.
    trees_tps, acked_tps, failed_tps
        Tuple trees begun, completed and failed, by its spouts.
    """

    emitted_tps: float
    trees_tps: float
    acked_tps: float
    failed_tps: float
    complete_latency: LatencyHistogram


def topology_activity(topology: Topology, facts: pa.Table) -> TopologyActivity:
    """Return the summed rates of one topology in one window."""
    executors = kind_of(facts, "executor")
    spouts = {component.id for component in topology.components if component.type == "spout"}
    of_spout = np.array([component in spouts for component in executors["component"].to_pylist()], dtype=bool)
    covered_s = numbers(executors, "length_ns") / 1e9
    trees, acked, failed = (
        float((numbers(executors, name) / covered_s)[of_spout].sum()) for name in ("trees", "acked", "failed")
    )
    return TopologyActivity(
        emitted_tps=float((numbers(executors, "emitted") / covered_s).sum()),
        trees_tps=trees,
        acked_tps=acked,
        failed_tps=failed,
        complete_latency=latency_histogram(facts),
    )


def latency_histogram(facts: pa.Table) -> LatencyHistogram:
    """Return the complete latencies among facts of one topology."""
    buckets = kind_of(facts, "latency")
    counts = np.zeros(len(LATENCY_EDGES_MS) + 1)
    counts[buckets["first"].to_numpy()] = numbers(buckets, "tuples")
    return LatencyHistogram(counts)


# Nodes --------------------------------------------------------------------------------------------
# Load and capacity of nodes: CPU, and memory of their workers.


@dataclass(frozen=True)
class NodeLoad:
    """Load of one node in a window.

    Parameters
    ----------
    cpu_cores
        Cores in use on average, by all of its processes where its control group counts them, else by its workers,
        including what no executor accounts for (GC, network).
    capacity_cores
        Cores of the node, or that its control group allows if they are fewer; None if unknown.
    heap_bytes
        Java heap in use by its workers, the maximum of each in the window.
    workers
        Number of reporting workers.
    """

    cpu_cores: float
    capacity_cores: float | None
    heap_bytes: int
    workers: int

    @property
    def headroom_cores(self) -> float | None:
        """Free cores; negative if the node is overloaded."""
        return None if self.capacity_cores is None else self.capacity_cores - self.cpu_cores

    def as_dict(self) -> dict[str, Any]:
        """Return the load as JSON."""
        return asdict(self) | {"headroom_cores": self.headroom_cores}


def node_loads(
    facts: pa.Table, cpu_cores: Mapping[str, float], capacity_cores: Mapping[str, float]
) -> dict[str, NodeLoad]:
    """Return the loads of nodes in a window, by supervisor.

    Parameters
    ----------
    facts
        Facts of one window.
    cpu_cores, capacity_cores
        Mean use and, if known, capacity by supervisor.
    """
    heaps: dict[str, dict[tuple[str, int], int]] = {}
    # A worker that takes over the port of another has its memory; the latest to start comes last.
    for worker in kind_of(facts, "worker").sort_by("first").to_pylist():
        own = heaps.setdefault(worker["supervisor"], {})
        own[worker["topology"], worker["second"]] = worker["heap_bytes"] or 0
    return {
        node: NodeLoad(
            cpu_cores=used,
            capacity_cores=capacity_cores.get(node),
            heap_bytes=sum(heaps.get(node, {}).values()),
            workers=len(heaps.get(node, {})),
        )
        for node, used in sorted(cpu_cores.items())
    }


def capacity_cores(problem: Problem, settings: StreamSettings) -> dict[str, float]:
    """Return the cores of every node of a problem, by supervisor; nodes without a limit are left out."""
    return {
        node.id: node.cpu_hz / settings.core_hz_at(node.id, problem.core_hz)
        for node in problem.supervisors
        if math.isfinite(node.cpu_hz)
    }


# Measurement --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measurement:
    """The newest window of facts and the CPU history of the nodes; results are computed on demand.

    Parameters
    ----------
    start_ms, end_ms
        Period of the facts.
    panes
        Panes of one window, as `stormwright.pipeline.measurement.windows.PANES`.
    seconds
        CPU time of every worker in every second, reaching further back than the panes.
    """

    start_ms: int
    end_ms: int
    panes: pa.Table = field(repr=False)
    seconds: pa.Table = field(repr=False)
    settings: StreamSettings

    def profile(self, problem: Problem) -> LoadProfile:
        """Return the measured loads of the problem's topologies and nodes."""
        loads = {
            topology.id: topology_load(topology, self.facts_of[topology.id], self.settings, problem.core_hz)
            for topology in problem.topologies
            if topology.id in self.facts_of
        }
        series, period_s = self.node_series, (self.start_ms / 1000, self.end_ms / 1000)
        nodes = {node.id: self.settings.core_hz_at(node.id, problem.core_hz) for node in problem.supervisors}

        def in_hz(cores: Mapping[str, float]) -> dict[str, float]:
            return {node: cores[node] * core_hz for node, core_hz in nodes.items() if node in cores}

        declared = capacity_cores(problem, self.settings)
        return LoadProfile(
            topologies=loads,
            node_cpu_hz=in_hz(self._mean_cores),
            node_quota_hz=in_hz(series.quota_cores(*period_s)),
            node_overhead_hz=in_hz(series.mean_overhead_cores(*period_s)),
            overload_s=series.overload_s(
                {node: declared.get(node, math.inf) for node in nodes}, self.settings.overload_percent / 100
            ),
            start_ms=self.start_ms,
            end_ms=self.end_ms,
        )

    def unknown_tuples(self, problem: Problem) -> dict[str, int]:
        """Return the tuples per topology that the profile leaves out, as no executor has their task."""
        return {
            topology.id: unknown_tuples(topology, self.facts_of[topology.id])
            for topology in problem.topologies
            if topology.id in self.facts_of
        }

    def activity(self, topology: Topology) -> TopologyActivity:
        """Return the rates of a topology as a whole."""
        return topology_activity(topology, self.facts_of.get(topology.id, self.facts.slice(0, 0)))

    def nodes(self, capacity: Mapping[str, float]) -> dict[str, NodeLoad]:
        """Return the load of every reporting node, with its `capacity` in cores if known, or its quota if less."""
        quota = self.node_series.quota_cores(self.start_ms / 1000, self.end_ms / 1000)
        limits = {node: min(capacity.get(node, math.inf), cores) for node, cores in quota.items()}
        return node_loads(self.facts, self._mean_cores, {**capacity, **limits})

    def as_dict(self, capacity: Mapping[str, float]) -> dict[str, Any]:
        """Return the measurement as JSON: CPU in cores, traffic by task."""
        return {
            "start_ms": self.start_ms,
            "end_ms": self.end_ms,
            "nodes": {node: load.as_dict() for node, load in self.nodes(capacity).items()},
            "workers": [asdict(worker) for worker in worker_records(self.facts)],
            "topologies": {name: _topology_dict(facts) for name, facts in self.facts_of.items()},
        }

    @cached_property
    def complete_latency_ms(self) -> dict[str, dict[str, float | None]]:
        """Return quantiles of the complete latency by topology; None if no tree completed."""
        return {name: _latency_quantiles(facts) for name, facts in self.facts_of.items()}

    @cached_property
    def facts(self) -> pa.Table:
        """The facts of the window, as described in `stormwright.pipeline.measurement.panes`."""
        return window_facts(self.panes)

    @cached_property
    def facts_of(self) -> dict[str, pa.Table]:
        """The facts of each topology with a reporting executor."""
        measured = pc.unique(kind_of(self.facts, "executor")["topology"]).to_pylist()
        return {name: facts for name, facts in sorted(by_topology(self.facts).items()) if name in measured}

    @cached_property
    def node_series(self) -> NodeSeries:
        """CPU of the nodes over time."""
        return NodeSeries(self.seconds, self.settings.settle_s)

    @property
    def _mean_cores(self) -> dict[str, float]:
        return self.node_series.mean_cores(self.start_ms / 1000, self.end_ms / 1000)


def measure(panes: pa.Table, seconds: pa.Table, settings: StreamSettings) -> Measurement | None:
    """Return the newest measurement from facts per pane; None without facts."""
    if not panes.num_rows:
        return None
    start_ms, inside = newest_window(panes, settings)
    newest_second = pc.max(kind_of(inside, "node")["first"]).as_py()
    end_ms = min(start_ms + settings.window_ms, (newest_second + 1) * 1000)
    return Measurement(start_ms, end_ms, inside, seconds, settings)


def _topology_dict(facts: pa.Table) -> dict[str, Any]:
    executors, pairs, flows = (kind_of(facts, kind).to_pylist() for kind in ("executor", "pair", "flow"))
    return {
        "executors": [
            {
                "component": e["component"],
                "first_task": e["first"],
                "last_task": e["second"],
                "supervisor": e["supervisor"],
                "covered_s": e["length_ns"] / 1e9,
                "cpu_cores": e["cpu_ns"] / e["length_ns"],
                **{name: e[name] for name in ("emitted", "trees", "acked", "failed")},
            }
            for e in executors
        ],
        "pairs": [[p["first"], p["second"], p["grouping"], p["tuples"], p["bytes"]] for p in pairs],
        "work": [asdict(work) for work in executor_work(facts)],
        "streams": [asdict(stream) | {"skew": stream.skew} for stream in stream_traffic(facts)],
        "flows": [[f["first"], f["component"], f["grouping"], f["tuples"], f["bytes"]] for f in flows],
        "complete_latency_ms": _latency_quantiles(facts),
    }


def _latency_quantiles(facts: pa.Table) -> dict[str, float | None]:
    latency = latency_histogram(facts)
    return {f"p{share:g}": latency.quantile_ms(share / 100) for share in (50, 95, 99)}
