"""What was measured up to a moment, by name; a `LoadProfile` once a problem says what the names stand for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stormwright.model import LoadProfile, Problem, Topology
from stormwright.model.arrays import FloatArray
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
from stormwright.pipeline.measurement.workload import executor_work, stream_traffic
from stormwright.pipeline.settings import StreamSettings

# Activity -----------------------------------------------------------------------------------------
# What a topology as a whole did: tuples, trees, complete latency.


@dataclass(frozen=True)
class LatencyHistogram:
    """Complete latencies of sampled tuple trees; one more count than `LATENCY_EDGES_MS`."""

    counts: FloatArray

    def quantile_ms(self, share: float) -> float | None:
        """The latency that `share` of the trees did not exceed, None without trees; within 19 %.

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
    """Sum up the facts of one topology in one window."""
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
    """The complete latencies among facts of one topology."""
    buckets = kind_of(facts, "latency")
    counts = np.zeros(len(LATENCY_EDGES_MS) + 1)
    counts[buckets["first"].to_numpy()] = numbers(buckets, "tuples")
    return LatencyHistogram(counts)


# Nodes --------------------------------------------------------------------------------------------
# What nodes have left: CPU in use and capacity, memory of their workers.


@dataclass(frozen=True)
class NodeLoad:
    """One node in a window.

    Parameters
    ----------
    cpu_cores
        Cores that its workers use on average, including what no executor accounts for (GC, network).
    capacity_cores
        Cores that it has; None where nobody has told.
    heap_bytes
        Java heap that its workers have in use, of each the most in the window.
    workers
        How many were heard of.
    """

    cpu_cores: float
    capacity_cores: float | None
    heap_bytes: int
    workers: int

    @property
    def headroom_cores(self) -> float | None:
        """Cores that are left; below 0 where the node has more to do than it can."""
        return None if self.capacity_cores is None else self.capacity_cores - self.cpu_cores

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"headroom_cores": self.headroom_cores}


def node_loads(
    facts: pa.Table, cpu_cores: Mapping[str, float], capacity_cores: Mapping[str, float]
) -> dict[str, NodeLoad]:
    """The nodes of a window, by supervisor.

    Parameters
    ----------
    facts
        Of one window.
    cpu_cores, capacity_cores
        By supervisor what is in use on average and, where known, what there is.
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
    """Cores of every node of a problem, by supervisor; a node without a limit is left out."""
    return {
        node.id: node.cpu_hz / settings.core_hz_at(node.id, problem.core_hz)
        for node in problem.supervisors
        if math.isfinite(node.cpu_hz)
    }


# Measurement --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measurement:
    """The newest window of facts and the CPU history of the nodes; worked out is what somebody asks for.

    Parameters
    ----------
    start_ms, end_ms
        The stretch of time that the facts come from.
    panes
        Of one window, as `stormwright.pipeline.measurement.windows.PANES`.
    seconds
        CPU time of every worker in every second, longer back than the panes.
    """

    start_ms: int
    end_ms: int
    panes: pa.Table = field(repr=False)
    seconds: pa.Table = field(repr=False)
    settings: StreamSettings

    def profile(self, problem: Problem) -> LoadProfile:
        """Loads of the problem's topologies that were heard of, and of its nodes."""
        loads = {
            topology.id: topology_load(topology, self.facts_of[topology.id], self.settings, problem.core_hz)
            for topology in problem.topologies
            if topology.id in self.facts_of
        }
        cores, overload_part = self._mean_cores, self.settings.overload_percent / 100
        capacity = capacity_cores(problem, self.settings)
        return LoadProfile(
            topologies=loads,
            node_cpu_hz={
                node.id: cores[node.id] * self.settings.core_hz_at(node.id, problem.core_hz)
                for node in problem.supervisors
                if node.id in cores
            },
            overload_s=self.node_series.overload_s({node: overload_part * has for node, has in capacity.items()}),
            start_ms=self.start_ms,
            end_ms=self.end_ms,
        )

    def unknown_tuples(self, problem: Problem) -> dict[str, int]:
        """Tuples that the profile leaves out, per topology: their task is in no executor of the problem."""
        return {
            topology.id: unknown_tuples(topology, self.facts_of[topology.id])
            for topology in problem.topologies
            if topology.id in self.facts_of
        }

    def activity(self, topology: Topology) -> TopologyActivity:
        """What a topology as a whole did."""
        return topology_activity(topology, self.facts_of.get(topology.id, self.facts.slice(0, 0)))

    def nodes(self, capacity: Mapping[str, float]) -> dict[str, NodeLoad]:
        """What every node that was heard of has in use, and left of its `capacity` in cores, where that is known."""
        return node_loads(self.facts, self._mean_cores, capacity)

    def as_dict(self, capacity: Mapping[str, float]) -> dict[str, Any]:
        """For JSON: CPU in cores, traffic by task."""
        return {
            "start_ms": self.start_ms,
            "end_ms": self.end_ms,
            "nodes": {node: load.as_dict() for node, load in self.nodes(capacity).items()},
            "workers": [asdict(worker) for worker in worker_records(self.facts)],
            "topologies": {name: _topology_dict(facts) for name, facts in self.facts_of.items()},
        }

    @cached_property
    def complete_latency_ms(self) -> dict[str, dict[str, float | None]]:
        """Quantiles of the complete latency by topology; None where no tree was completed."""
        return {name: _latency_quantiles(facts) for name, facts in self.facts_of.items()}

    @cached_property
    def facts(self) -> pa.Table:
        """As `stormwright.pipeline.measurement.panes` describes them, of the window."""
        return window_facts(self.panes)

    @cached_property
    def facts_of(self) -> dict[str, pa.Table]:
        """The facts of each topology an executor of which was heard of."""
        heard = pc.unique(kind_of(self.facts, "executor")["topology"]).to_pylist()
        return {name: facts for name, facts in sorted(by_topology(self.facts).items()) if name in heard}

    @cached_property
    def node_series(self) -> NodeSeries:
        """CPU of the nodes over time."""
        return NodeSeries(self.seconds, self.settings.settle_s)

    @property
    def _mean_cores(self) -> dict[str, float]:
        return self.node_series.mean_cores(self.start_ms / 1000, self.end_ms / 1000)


def measure(panes: pa.Table, seconds: pa.Table, settings: StreamSettings) -> Measurement | None:
    """The newest measurement among facts per pane; None where there are none."""
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
