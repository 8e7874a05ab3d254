"""What was measured up to a moment, by name; a `LoadProfile` once a problem says what the names stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stormwright.model import LoadProfile, Problem, Topology
from stormwright.pipeline.measure.activity import TopologyActivity, latency_histogram, topology_activity
from stormwright.pipeline.measure.nodes import NodeLoad, capacity_cores, node_loads
from stormwright.pipeline.measure.overload import NodeSeries
from stormwright.pipeline.measure.profile import topology_load, unknown_tuples
from stormwright.pipeline.measure.workload import executor_work, stream_traffic
from stormwright.pipeline.panes.gaps import worker_records
from stormwright.pipeline.panes.windows import by_topology, kind_of, newest_window, window_facts
from stormwright.pipeline.settings import StreamSettings


@dataclass(frozen=True)
class Measurement:
    """The newest window of facts and the CPU history of the nodes; worked out is what somebody asks for.

    Parameters
    ----------
    start_ms, end_ms
        The stretch of time that the facts come from.
    panes
        Of one window, as `stormwright.pipeline.panes.windows.PANES`.
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
        """As `stormwright.pipeline.panes.derive` describes them, of the window."""
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
