"""What a running topology was measured, or is assumed, to do: CPU per executor and traffic between executors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Any

import numpy as np

from stormwright.model.arrays import FloatArray, IntArray
from stormwright.model.requests import CPU, OFF_HEAP, ON_HEAP, read_requests
from stormwright.model.topology import PLACEMENT_FOLLOWING, Topology


@dataclass(frozen=True)
class TopologyLoad:
    """Load of one topology; executors are numbered within the topology.

    Parameters
    ----------
    cpu_hz, memory_mb
        L, per executor, shape (E,).
    pair_source, pair_target, pair_tps
        Directed traffic in tuples/s that does not depend on the placement (fields, all, global, direct, acks),
        shape (P,).
    flow_source, flow_component, flow_grouping, flow_tps
        Traffic of one executor towards a component that the grouping spreads according to the placement, shape (F,).
    flow_limit_tps
        What one executor of each component can take of flows, in tuples/s, shape (C,); inf where nothing limits it.
        More than that goes on to executors further away. None: nothing limits any.
    bytes_per_tuple
        Mean size of a tuple on the wire, where measured.
    pair_bytes_per_s, flow_bytes_per_s
        The same traffic in bytes/s, shapes (P,) and (F,), where measured.
    forecast_cpu_hz
        What `cpu_hz` is expected to become, shape (E,), where there is a forecast. Limits are kept for the load of
        now.
    """

    cpu_hz: FloatArray
    memory_mb: FloatArray
    pair_source: IntArray
    pair_target: IntArray
    pair_tps: FloatArray
    flow_source: IntArray
    flow_component: IntArray
    flow_tps: FloatArray
    flow_grouping: tuple[str, ...]
    bytes_per_tuple: float | None = None
    flow_limit_tps: FloatArray | None = None
    pair_bytes_per_s: FloatArray | None = None
    flow_bytes_per_s: FloatArray | None = None
    forecast_cpu_hz: FloatArray | None = None


@dataclass(frozen=True)
class LoadProfile:
    """Loads of all topologies over a stretch of time, and what their nodes went through.

    Parameters
    ----------
    topologies
        Topology id → its load.
    node_cpu_hz
        Supervisor id → CPU used by its workers in Hz, including what no executor accounts for (GC, network).
    overload_s
        Supervisor id → seconds for which its CPU has been at or above capacity without a break.
    start_ms, end_ms
        The stretch of time, epoch milliseconds.
    """

    topologies: Mapping[str, TopologyLoad]
    node_cpu_hz: Mapping[str, float] = field(default_factory=dict)
    overload_s: Mapping[str, float] = field(default_factory=dict)
    start_ms: int = 0
    end_ms: int = 0


def assumed_load(topology: Topology, core_hz: float, conf: Mapping[str, Any] | None = None) -> TopologyLoad:
    """The load a scheduler assumes where none was measured.

    Every spout executor emits 1 tuple/s on each stream, bolts emit what they receive, and what a component
    receives is spread evenly over its executors. CPU and memory are what the components ask for; `conf` is what the
    cluster says where a topology's own configuration is silent.
    """
    executors_of = [np.flatnonzero(topology.executor_component == c) for c in range(len(topology.components))]
    emitted_tps = _emitted_tps_per_executor(topology, [len(executors) for executors in executors_of])
    pairs: list[tuple[int, int, float]] = []
    flows: list[tuple[int, int, str, float]] = []
    for target, component in enumerate(topology.components):
        for grouping in component.inputs:
            source = topology.component_index.get(grouping.source)
            if source is None or emitted_tps[source] == 0 or len(executors_of[target]) == 0:
                continue
            rate = emitted_tps[source]
            for executor in executors_of[source]:
                if grouping.kind in PLACEMENT_FOLLOWING:
                    flows.append((int(executor), target, grouping.kind, rate))
                else:
                    share = rate if grouping.kind in ("all", "global") else rate / len(executors_of[target])
                    targets = executors_of[target][:1] if grouping.kind == "global" else executors_of[target]
                    pairs.extend((int(executor), int(receiver), share) for receiver in targets)
    return replace(
        silent_load(topology, core_hz, conf),
        pair_source=np.array([p[0] for p in pairs], np.int32),
        pair_target=np.array([p[1] for p in pairs], np.int32),
        pair_tps=np.array([p[2] for p in pairs], float),
        flow_source=np.array([f[0] for f in flows], np.int32),
        flow_component=np.array([f[1] for f in flows], np.int32),
        flow_grouping=tuple(f[2] for f in flows),
        flow_tps=np.array([f[3] for f in flows], float),
    )


def requested(topology: Topology, conf: Mapping[str, Any] | None = None) -> list[dict[str, float]]:
    """Resource → amount that each executor of a component asks for, by component; `conf` is the cluster's."""
    requests, _ = read_requests({**(conf or {}), **topology.conf})
    return [requests.of(component.id, component.resources) for component in topology.components]


def silent_load(topology: Topology, core_hz: float, conf: Mapping[str, Any] | None = None) -> TopologyLoad:
    """What the executors of a topology ask for, and no traffic: the load of one that tells nothing."""
    asked = requested(topology, conf)
    of_component = topology.executor_component
    none, no_rate = np.empty(0, np.int32), np.empty(0)
    return TopologyLoad(
        cpu_hz=np.array([amounts[CPU] / 100 * core_hz for amounts in asked])[of_component],
        memory_mb=np.array([amounts[ON_HEAP] + amounts[OFF_HEAP] for amounts in asked])[of_component],
        pair_source=none,
        pair_target=none,
        pair_tps=no_rate,
        flow_source=none,
        flow_component=none,
        flow_grouping=(),
        flow_tps=no_rate,
    )


def _emitted_tps_per_executor(topology: Topology, sizes: list[int]) -> list[float]:
    """Tuples/s that one executor of each component emits.

    Sources come first. In a cycle one component is worked out before all its sources are, and what comes back to it is
    not emitted again.
    """
    inputs = [
        [(topology.component_index[g.source], g.kind) for g in component.inputs if g.source in topology.component_index]
        for component in topology.components
    ]
    emitted_tps: dict[int, float] = {}
    for target in _sources_first([[source for source, _ in own] for own in inputs]):
        received_tps = 0.0
        for source, kind in inputs[target]:
            copies = sizes[target] if kind == "all" else 1
            received_tps += emitted_tps.get(source, 0.0) * sizes[source] * copies
        if topology.components[target].type == "spout":
            received_tps = 1.0 * sizes[target]
        emitted_tps[target] = received_tps / sizes[target] if sizes[target] else 0.0
    return [emitted_tps[component] for component in range(len(inputs))]


def _sources_first(sources: list[list[int]]) -> Iterator[int]:
    """Components, each given with its sources, in an order in which those come before it.

    Where there is none, in a cycle, one of which some source was there comes next, or else any. Of several that could
    come next the first does.
    """
    missing = [len(own) for own in sources]
    targets: list[list[int]] = [[] for _ in sources]
    for target, own in enumerate(sources):
        for source in own:
            targets[source].append(target)
    ready = [target for target, count in enumerate(missing) if not count]  # sorted, so it is a heap
    reached: list[int] = []
    waiting = list(range(len(sources)))
    done = [False] * len(sources)
    while queue := next((each for each in (ready, reached, waiting) if each), None):
        component = heappop(queue)
        if done[component]:
            continue
        done[component] = True
        yield component
        for target in targets[component]:
            missing[target] -= 1
            heappush(reached if missing[target] else ready, target)
