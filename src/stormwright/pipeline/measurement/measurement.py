"""The newest measurement by name, and its conversion to a `LoadProfile` of a problem."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stormwright.model import LoadProfile, Problem, Topology
from stormwright.pipeline.measurement.load_profile import topology_load, unknown_tuples
from stormwright.pipeline.measurement.node_loads import NodeLoad, capacity_cores, node_loads
from stormwright.pipeline.measurement.overload import NodeSeries
from stormwright.pipeline.measurement.stream_traffic import executor_work, stream_traffic
from stormwright.pipeline.measurement.topology_activity import TopologyActivity, latency_histogram, topology_activity
from stormwright.pipeline.measurement.windows import by_topology, kind_of, newest_window, window_facts, worker_records
from stormwright.pipeline.settings import StreamSettings


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
