"""Load of topologies, measured or assumed: CPU per executor, and traffic between executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Any

import numpy as np

from stormwright.model.arrays import ByContent, FloatArray, IndexArray, IntArray, frozen
from stormwright.model.requests import CPU, OFF_HEAP, ON_HEAP, read_requests
from stormwright.model.topology import PLACEMENT_FOLLOWING, Topology

#: Fields of a `TopologyLoad` that are arrays, and the type of their items.
_INDICES = ("pair_source", "pair_target", "flow_source", "flow_component")
_AMOUNTS = ("cpu_hz", "memory_mb", "pair_tps", "flow_tps")
_OPTIONAL_AMOUNTS = (
    "flow_limit_tps",
    "pair_bytes_per_s",
    "flow_bytes_per_s",
    "forecast_cpu_hz",
    "live_heap_mb",
    "waited",
    "executing",
    "runs_per_s",
    "pending_trees",
)


@dataclass(frozen=True, eq=False)
class TopologyLoad(ByContent):
    """Load of one topology; executors are numbered within the topology.

    Arrays are read-only: writable ones are copied. Loads with equal arrays are equal.

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
        Tuples/s of flows that one executor of each component can take, shape (C,); inf for no limit.
        More than that goes on to executors further away. None: nothing limits any.
    bytes_per_tuple
        Mean size of a tuple on the wire, where measured.
    pair_bytes_per_s, flow_bytes_per_s
        The same traffic in bytes/s, shapes (P,) and (F,), where measured.
    forecast_cpu_hz
        Expected future `cpu_hz`, shape (E,), if there is a forecast. Limits apply to the present load.
    live_heap_mb
        Memory on the heap that each executor's live objects use, shape (E,), where measured; without the part of a
        worker that no executor accounts for (`stormwright.model.constraints.heaps.WORKER_BASE_MB`).
    waited
        Fraction of time for which an executor's thread could run and had no core, because of a quota or of other
        threads, shape (E,), where measured.
    executing
        Fraction of time for which it executed tuples, waiting for others included, shape (E,), 0 for spouts; where
        measured. Storm calls it capacity.
    runs_per_s
        How often a second its thread was given a core, mostly because it had slept, shape (E,), where measured.
    pending_trees
        Mean number of trees of a spout executor that were neither acked nor failed, shape (E,), 0 for bolts; where
        measured.
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
    live_heap_mb: FloatArray | None = None
    waited: FloatArray | None = None
    executing: FloatArray | None = None
    runs_per_s: FloatArray | None = None
    pending_trees: FloatArray | None = None

    def __post_init__(self) -> None:
        for name in _INDICES:
            object.__setattr__(self, name, frozen(getattr(self, name), np.int32))
        for name in _AMOUNTS:
            object.__setattr__(self, name, frozen(getattr(self, name), np.float64))
        for name in _OPTIONAL_AMOUNTS:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, frozen(getattr(self, name), np.float64))


@dataclass(frozen=True, eq=False)
class LoadProfile(ByContent):
    """Load of all topologies over a period of time, and of their nodes.

    Parameters
    ----------
    topologies
        Topology id → its load.
    node_cpu_hz
        Supervisor id → CPU used on it in Hz, by all of its processes where its control group counts them, else by its
        workers, including what no executor accounts for (GC, network).
    node_quota_hz
        Supervisor id → CPU in Hz that its control group allows, where there is one.
    node_overhead_hz
        Supervisor id → CPU in Hz used on it by others than workers (the supervisor, standby JVMs), where its control
        group counts them.
    overload_s
        Supervisor id → seconds for which its CPU has been at or above capacity without a break.
    start_ms, end_ms
        The period, in ms since 1970.
    costs
        Message and worker costs fitted to what ran: a `stormwright-calibration/1` document, which `stormwright.predict`
        reads; empty if there are none.
    """

    topologies: Mapping[str, TopologyLoad]
    node_cpu_hz: Mapping[str, float] = field(default_factory=dict)
    node_quota_hz: Mapping[str, float] = field(default_factory=dict)
    node_overhead_hz: Mapping[str, float] = field(default_factory=dict)
    overload_s: Mapping[str, float] = field(default_factory=dict)
    start_ms: int = 0
    end_ms: int = 0
    costs: Mapping[str, Any] = field(default_factory=dict)


def assumed_load(topology: Topology, core_hz: float, conf: Mapping[str, Any] | None = None) -> TopologyLoad:
    """Return the load that schedulers assume if none was measured.

    Every spout executor emits 1 tuple/s on each stream, bolts emit as many as they receive, and what a component
    receives is spread evenly over its executors. CPU and memory are as requested; `conf` is the cluster's
    configuration, below that of the topology.
    """
    sizes = list(topology.executor_counts.values())
    emitted_tps = _emitted_tps_per_executor(topology, sizes)
    streams = []
    for target, component in enumerate(topology.components):
        for grouping in component.inputs:
            source = topology.component_index.get(grouping.source)
            if source is not None and emitted_tps[source] != 0:
                streams.append(StreamRate(source, target, grouping.kind, emitted_tps[source]))
    return with_streams(silent_load(topology, core_hz, conf), topology, streams)


@dataclass(frozen=True)
class StreamRate:
    """Rate at which every executor of a component sends on a stream.

    Parameters
    ----------
    source, target
        Indices of the components in the topology.
    grouping
        Grouping of the target.
    tps
        Tuples/s of each executor of the source; with grouping ``all`` to each executor of the target.
    """

    source: int
    target: int
    grouping: str
    tps: float


def with_streams(load: TopologyLoad, topology: Topology, streams: Iterable[StreamRate]) -> TopologyLoad:
    """Return a load with the traffic of streams, spread evenly over the possible targets.

    Parameters
    ----------
    load
        The load, whose own traffic is replaced.
    topology
        Topology of the load.
    streams
        The streams, in the order of the resulting traffic.
    """
    executors_of = [np.flatnonzero(topology.executor_component == c) for c in range(len(topology.components))]
    none: IntArray = np.empty(0, np.int32)
    pairs: list[tuple[IndexArray, IndexArray, FloatArray]] = [(none, none, np.empty(0))]
    flows: list[tuple[IndexArray, IndexArray, FloatArray]] = [(none, none, np.empty(0))]
    groupings: list[str] = []
    for stream in streams:
        senders, receivers, kind = executors_of[stream.source], executors_of[stream.target], stream.grouping
        if len(receivers) == 0:
            continue
        if kind in PLACEMENT_FOLLOWING:
            flows.append((senders, np.full(len(senders), stream.target), np.full(len(senders), stream.tps)))
            groupings += [kind] * len(senders)
        else:
            share = stream.tps if kind in ("all", "global") else stream.tps / len(receivers)
            to = receivers[:1] if kind == "global" else receivers
            ends = np.repeat(senders, len(to)), np.tile(to, len(senders))
            pairs.append((*ends, np.full(len(ends[0]), share)))
    pair_source, pair_target, pair_tps = (np.concatenate(column) for column in zip(*pairs, strict=True))
    flow_source, flow_component, flow_tps = (np.concatenate(column) for column in zip(*flows, strict=True))
    return replace(
        load,
        pair_source=pair_source,
        pair_target=pair_target,
        pair_tps=pair_tps,
        flow_source=flow_source,
        flow_component=flow_component,
        flow_grouping=tuple(groupings),
        flow_tps=flow_tps,
    )


def requested(topology: Topology, conf: Mapping[str, Any] | None = None) -> list[dict[str, float]]:
    """Return resource → amount requested by each executor of a component, for every component.

    Parameters
    ----------
    topology
        The topology, whose configuration takes precedence.
    conf
        Configuration of the cluster, for keys that the topology lacks; none by default.

    Returns
    -------
    list[dict[str, float]]
        In the order of the topology's components, under Storm's normalised names.
    """
    requests, _ = read_requests({**(conf or {}), **topology.conf})
    return [requests.of(component.id, component.resources) for component in topology.components]


def cpu_hz_of(topology: Topology, requests: Sequence[Mapping[str, float]], core_hz: float) -> FloatArray:
    """CPU in Hz that every executor asks for, shape (E,); `requests` is by component, cores have `core_hz`."""
    return frozen(
        np.array([amounts[CPU] / 100 * core_hz for amounts in requests])[topology.executor_component], np.float64
    )


def memory_mb_of(topology: Topology, requests: Sequence[Mapping[str, float]]) -> FloatArray:
    """Memory in MB, on and off heap, that every executor asks for, shape (E,); `requests` is by component."""
    amounts = np.array([amounts[ON_HEAP] + amounts[OFF_HEAP] for amounts in requests])
    return frozen(amounts[topology.executor_component], np.float64)


def silent_load(topology: Topology, core_hz: float, conf: Mapping[str, Any] | None = None) -> TopologyLoad:
    """Return the load of a topology that was not measured: requests, and no traffic."""
    requests, none, no_rate = requested(topology, conf), np.empty(0, np.int32), np.empty(0)
    return TopologyLoad(
        cpu_hz=cpu_hz_of(topology, requests, core_hz),
        memory_mb=memory_mb_of(topology, requests),
        pair_source=none,
        pair_target=none,
        pair_tps=no_rate,
        flow_source=none,
        flow_component=none,
        flow_grouping=(),
        flow_tps=no_rate,
    )


def _emitted_tps_per_executor(topology: Topology, sizes: list[int]) -> list[float]:
    """Return the tuples/s that one executor of each component emits.

    Sources come first. In a cycle one component is evaluated before all its sources are, and what returns to it is not
    emitted again.
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
    """Yield components with their sources, in an order in which sources come first.

    In a cycle a component of which some source was yielded comes next, or else any. Ties go to the first.
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
