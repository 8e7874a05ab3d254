"""Recorded loads of Storm's own load generator: as ``CaptureLoad`` writes them and ``GenLoad`` replays them.

After the package ``org.apache.storm.loadgen`` of Storm 2.8.3 and its README. A file has the shape of a topology, the
rate at which each executor emits on each stream, and how long a tuple takes, without any code: what anybody can send
with a report of a fault, and anybody can replay.

A component executes for less than a millisecond by using CPU, and waits from then on (``ExecAndProcessLatencyEngine``),
so longer execution takes no CPU here either. What a spout does is not recorded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import yaml
from pydantic import BeforeValidator, Field

from stormwright.errors import InputError
from stormwright.formats.document.documents import FormatDocument
from stormwright.formats.document.faults import FaultList, join_path, shown
from stormwright.formats.files.yaml_files import read_yaml
from stormwright.formats.storm.conf import Layer, StormConf
from stormwright.formats.storm.submission import UserComponent, check_submitted, submitted
from stormwright.model import Component, Grouping, LoadProfile, Problem, Topology, TopologyLoad
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.model.load import StreamRate, silent_load, with_streams
from stormwright.model.requests import ACKER, CPU, ON_HEAP, SINGLE

#: Grouping in a file → as Storm's interface names it.
_GROUPINGS: Final = {
    **{name: name.lower() for name in ("SHUFFLE", "FIELDS", "ALL", "GLOBAL", "LOCAL_OR_SHUFFLE", "NONE")},
    "PARTIAL_KEY": "custom_serialized",
}
_NAMES: Final = {kind: name for name, kind in _GROUPINGS.items()}

#: Milliseconds of execution from which a component waits instead of using CPU.
_WAITS_MS: Final = 1.0

#: Keys of a topology's configuration that are recorded, as far as they concern where it runs.
_RECORDED: Final = (
    "topology.workers",
    "topology.acker.executors",
    "topology.component.",
    "topology.executor.receive.buffer.size",
    "topology.max.spout.pending",
    "topology.max.task.parallelism",
    "topology.message.timeout.secs",
    "topology.priority",
    "topology.scheduler.strategy",
    "topology.worker.",
)


def _number(value: object) -> object:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


_Amount = Annotated[float, Field(ge=0), BeforeValidator(_number)]


class StatsDocument(FormatDocument):
    """A normal distribution within bounds; without `stddev` a quarter of the mean."""

    mean: _Amount
    stddev: _Amount | None = None
    min: _Amount = 0.0
    max: _Amount | None = None


class OutputDocument(FormatDocument):
    """A stream of a component, and the tuples/s that each executor emits on it."""

    stream: str = Field("default", alias="streamId")
    rate: StatsDocument
    skewed: bool = Field(False, alias="areKeysSkewed")


class SlownessDocument(FormatDocument):
    """Slower executors: the first `count` of a component take `slowness_ms` longer for each tuple."""

    slowness_ms: _Amount = Field(0.0, alias="slownessMs")
    count: Annotated[int, Field(ge=0)] = 1


class RecordedComponentDocument(FormatDocument):
    """A spout or bolt; `cpu_load` is in percent of a core, `memory_load` in MB, both 0 if nothing is requested."""

    id: Annotated[str, Field(min_length=1)]
    parallelism: Annotated[int, Field(ge=1, le=2**31 - 1)] = 1
    streams: list[OutputDocument] | None = None
    cpu_load: _Amount = Field(0.0, alias="cpuLoad")
    memory_load: _Amount = Field(0.0, alias="memoryLoad")
    slow_executors: SlownessDocument | None = Field(None, alias="slowExecutorPattern")


class RecordedGroupingDocument(FormatDocument):
    """Grouping of an input stream."""

    type: str | None = None
    stream: str = Field("default", alias="streamId")

    @property
    def kind(self) -> str | None:
        """As Storm's interface names it; None if there is no such grouping."""
        return _GROUPINGS.get((self.type or "SHUFFLE").upper())


class RecordedInputDocument(FormatDocument):
    """A subscription of a bolt, and the milliseconds that a tuple takes until it is executed, and acked."""

    source: str = Field(alias="from")
    to: str
    grouping: RecordedGroupingDocument
    exec_time: StatsDocument | None = Field(None, alias="execTime")
    process_time: StatsDocument | None = Field(None, alias="processTime")


class LoadgenDocument(FormatDocument):
    """A recorded topology. Without a name it has that of its file."""

    name: str | None = None
    config: dict[str, Any] | None = None
    spouts: list[RecordedComponentDocument]
    bolts: list[RecordedComponentDocument] | None = None
    streams: list[RecordedInputDocument] | None = None


def read_loadgen(
    paths: Sequence[Path], cluster: StormConf, core_hz: float
) -> tuple[tuple[Topology, ...], LoadProfile, list[InputError]]:
    """Read recorded topologies as submitted in this order to a cluster, with their loads.

    Parameters
    ----------
    paths
        Files as ``CaptureLoad`` writes them.
    cluster
        Configuration of the cluster; its faults go to its layers.
    core_hz
        Speed of a core in Hz, on which execution takes the recorded time.

    Returns
    -------
    topologies, load, errors
        Topologies in the order of the files, their load, and an error for each file with faults.
    """
    topologies, loads, errors = list[Topology](), dict[str, TopologyLoad](), list[InputError]()
    for number, path in enumerate(paths, 1):
        faults = FaultList()
        try:
            document = faults.parse(LoadgenDocument, read_yaml(path), "$")
        except InputError as error:
            errors.append(error)
            continue
        if document is not None:
            _check(document, faults)
        if document is not None and not faults:
            conf = cluster.over(Layer(document.config or {}, faults, "$.config"))
            components = list(_components(document, faults))
            topology = submitted(document.name or path.stem, components, conf, cluster, number)
            check_submitted(StormConf(conf.layers[:1]))
            topologies.append(topology)
            loads[topology.id] = _load(document, topology, core_hz, cluster)
        if faults:
            errors.append(faults.error(str(path)))
    return tuple(topologies), LoadProfile(loads), errors


def _check(document: LoadgenDocument, faults: FaultList) -> None:
    """Add the faults between parts of a file."""
    bolts = {each.id for each in document.bolts or ()}
    everything = [*document.spouts, *(document.bolts or ())]
    if len({each.id for each in everything}) < len(everything):
        faults.add("two components have the same id", "$")
    emitted = {(each.id, output.stream) for each in everything for output in each.streams or ()}
    for number, stream in enumerate(document.streams or ()):
        at = join_path("$", "streams", number)
        if stream.to not in bolts:
            faults.add(f"unknown bolt {shown(stream.to)}", join_path(at, "to"))
        if (stream.source, stream.grouping.stream) not in emitted:
            of = f"{shown(stream.source)} has no stream {shown(stream.grouping.stream)}"
            faults.add(f"{of} in its streams", join_path(at, "from"))
        if stream.grouping.kind is None:
            faults.add(f"should be one of {', '.join(_GROUPINGS)}", join_path(at, "grouping", "type"))


def _components(document: LoadgenDocument, faults: FaultList) -> Iterator[UserComponent]:
    inputs: dict[str, list[Grouping]] = {}
    for stream in document.streams or ():
        kind = stream.grouping.kind or ""
        fields = ("key",) if kind == "fields" else ()
        inputs.setdefault(stream.to, []).append(Grouping(stream.source, stream.grouping.stream, kind, fields))
    for kind, components in (("spout", document.spouts), ("bolt", document.bolts or [])):
        for number, each in enumerate(components):
            amounts = {SINGLE[CPU]: each.cpu_load, SINGLE[ON_HEAP]: each.memory_load}
            layer = Layer({key: value for key, value in amounts.items() if value}, faults, f"$.{kind}s[{number}]")
            own = tuple(inputs.get(each.id, ())) if kind == "bolt" else ()
            yield UserComponent(each.id, kind, each.parallelism, StormConf([layer]), own)


def _load(document: LoadgenDocument, topology: Topology, core_hz: float, cluster: StormConf) -> TopologyLoad:
    """Return the load of a recorded topology: its streams, those of its ackers, and the CPU of execution.

    Components that the configuration leaves without executors neither send nor receive.
    """
    index, executors = topology.component_index, topology.executor_counts
    rate_tps = {
        (each.id, output.stream): output.rate.mean
        for each in (*document.spouts, *(document.bolts or ()))
        for output in each.streams or ()
    }
    streams, received = list[StreamRate](), np.zeros(len(topology.components))
    cpu_hz, executing = np.zeros((2, len(topology.components)))
    for each in document.streams or ():
        if each.source not in index or each.to not in index:
            continue
        kind, tps = each.grouping.kind or "", rate_tps[each.source, each.grouping.stream]
        streams.append(StreamRate(index[each.source], index[each.to], kind, tps))
        each_receives = tps * executors[each.source] / (1 if kind == "all" else executors[each.to])
        received[index[each.to]] += each_receives
        ms = each.exec_time.mean if each.exec_time else 0.0
        executing[index[each.to]] += each_receives * ms / 1000
        cpu_hz[index[each.to]] += each_receives * (ms if ms < _WAITS_MS else 0.0) / 1000 * core_hz
    if (acker := index.get(ACKER)) is not None:
        for spout in document.spouts:
            if spout.id in index:
                tps = sum(output.rate.mean for output in spout.streams or ())
                streams.append(StreamRate(index[spout.id], acker, "fields", tps))
                of_acker = tps * executors[spout.id] / executors[ACKER]
                streams.append(StreamRate(acker, index[spout.id], "direct", of_acker))
        acked = np.flatnonzero(received)
        streams += [StreamRate(number, acker, "fields", float(received[number])) for number in acked.tolist()]
    load = with_streams(silent_load(topology, core_hz, cluster.selected(("topology.",))), topology, streams)
    of = topology.executor_component
    return replace(load, cpu_hz=cpu_hz[of], executing=np.minimum(executing, 1.0)[of])


def write_loadgen(problem: Problem, topology: int) -> str:
    """Return a topology with its measured load as a file for ``GenLoad``.

    Of several streams between the same two components each gets the same part of their traffic, which is not known by
    stream. A tuple is executed for as long as the executors of its bolt execute one, without waits for a core.

    Parameters
    ----------
    problem
        Problem with the load.
    topology
        Index of the topology.
    """
    one = problem.topologies[topology]
    rates = _Rates(one, problem.loads[topology], problem.core_hz)
    config = {key: value for key, value in sorted(one.conf.items()) if key.startswith(_RECORDED)}
    inputs = [
        (grouping, bolt.id)
        for bolt in one.components
        for grouping in bolt.inputs
        if bolt.type == "bolt" and not grouping.stream.startswith("__")
    ]
    document: dict[str, Any] = {
        "name": one.name,
        "config": {**config, "topology.workers": one.num_workers},
        **{
            f"{kind}s": [
                _component(problem, topology, each, rates, inputs) for each in one.components if each.type == kind
            ]
            for kind in ("spout", "bolt")
        },
        "streams": [_input(grouping, bolt, rates) for grouping, bolt in inputs],
    }
    text: str = yaml.safe_dump(document, sort_keys=False)
    return text


def _component(
    problem: Problem, topology: int, component: Component, rates: _Rates, inputs: Sequence[tuple[Grouping, str]]
) -> dict[str, Any]:
    """Return a spout or bolt with its streams; the first bolt that subscribes to one determines its rate."""
    one, name = problem.topologies[topology], component.id
    requests = problem.workload.requested[topology][one.component_index[name]]
    subscribed = {grouping.stream: (grouping, bolt) for grouping, bolt in reversed(inputs) if grouping.source == name}
    streams = []
    for stream, (grouping, bolt) in sorted(subscribed.items()):
        emitted = rates.emitted(name, bolt, grouping)
        if component.type == "bolt" and emitted.any():
            # `LoadBolt` emits at its own rate if it receives anything, and nothing where a local shuffle sends nothing:
            # so each executor gets the rate of the executors that emit, weighted by their tuples.
            emitted = np.array([np.average(emitted, weights=emitted)])
        streams.append({"streamId": stream, "rate": _stats(emitted), "areKeysSkewed": False})
    return {
        "id": name,
        "parallelism": one.executor_counts[name],
        "cpuLoad": requests[CPU],
        "memoryLoad": requests[ON_HEAP],
        "streams": streams,
    }


def _input(grouping: Grouping, bolt: str, rates: _Rates) -> dict[str, Any]:
    took = _stats(*rates.ms_per_tuple(bolt))
    return {
        "from": grouping.source,
        "to": bolt,
        "grouping": {"streamId": grouping.stream, "type": _NAMES.get(grouping.kind, "SHUFFLE")},
        "execTime": took,
        "processTime": dict(took),
    }


class _Rates:
    """Traffic of a topology between components, by executor of the sender."""

    def __init__(self, topology: Topology, load: TopologyLoad, core_hz: float) -> None:
        self._topology, self._load, self._core_hz = topology, load, core_hz
        self._component = topology.executor_component

    def _executors(self, component: str) -> IndexArray:
        own: IndexArray = np.flatnonzero(self._component == self._topology.component_index[component])
        return own

    def _sent(self, source: str, to: str) -> FloatArray:
        """Tuples/s that each executor of a component sends to another one."""
        load, count = self._load, len(self._component)
        target = self._topology.component_index[to]
        pairs = self._component[load.pair_target] == target
        sent = np.bincount(load.pair_source[pairs], load.pair_tps[pairs], count).astype(float)
        flows = load.flow_component == target
        sent = sent + np.bincount(load.flow_source[flows], load.flow_tps[flows], count)
        of_source: FloatArray = sent[self._executors(source)]
        return of_source

    def emitted(self, source: str, to: str, grouping: Grouping) -> FloatArray:
        """Tuples/s that each executor emits on a stream."""
        inputs = self._topology.components[self._topology.component_index[to]].inputs
        alike = sum(each.source == source and not each.stream.startswith("__") for each in inputs)
        copies = len(self._executors(to)) if grouping.kind == "all" else 1
        return self._sent(source, to) / (max(alike, 1) * copies)

    @cached_property
    def _received(self) -> FloatArray:
        """Tuples/s that each executor receives."""
        load, count = self._load, len(self._component)
        received = np.bincount(load.pair_target, load.pair_tps, count).astype(float)
        of_component = np.bincount(load.flow_component, load.flow_tps, len(self._topology.components))
        executors = np.bincount(self._component, minlength=len(of_component))
        received += (of_component / np.maximum(executors, 1))[self._component]
        return received

    def ms_per_tuple(self, component: str) -> tuple[FloatArray, FloatArray]:
        """Milliseconds for which each executor of a component executes a tuple, and its tuples/s; of those with any.

        Without the time in which it had no core; where execution was not measured its CPU time.
        """
        load, executors = self._load, self._executors(component)
        own = executors[self._received[executors] > 0]
        busy = load.cpu_hz / self._core_hz
        if load.executing is not None:
            busy = load.executing if load.waited is None else np.maximum(load.executing - load.waited, 0.0)
        return 1000 * busy[own] / self._received[own], self._received[own]


def _stats(values: FloatArray, weights: FloatArray | None = None) -> dict[str, float]:
    if not len(values):
        return {"mean": 0.0, "stddev": 0.0, "min": 0.0, "max": 0.0}
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    found = {
        "mean": float(np.average(values, weights=weights)),
        "stddev": spread,
        "min": float(values.min()),
        "max": float(values.max()),
    }
    return {name: value if math.isfinite(value) else 0.0 for name, value in found.items()}
