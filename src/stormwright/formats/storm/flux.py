"""Conversion of Flux files to topologies, as a cluster would run them.

Information in Java classes is not in them, and so not in the result: the streams that a component declares, and the
configuration that its code adds. Whether a bolt is stateful, so that Storm adds a checkpoint spout, is a parameter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stormwright.errors import Fault, InputError
from stormwright.formats.document.faults import join_path, shown
from stormwright.formats.storm.conf import Layer, StormConf
from stormwright.formats.storm.flux_files import (
    FluxReader,
    FluxTopology,
    GroupingDocument,
    SourceSection,
    StreamDocument,
    Substitution,
    VertexDocument,
)
from stormwright.formats.storm.submission import TASKS, UserComponent, check_submitted, submitted, with_checkpoints
from stormwright.model.requests import RESOURCES
from stormwright.model.topology import Grouping, Topology

_NO_SUBSTITUTION = Substitution()

_ON_HEAP = "topology.component.resources.onheap.memory.mb"
_OFF_HEAP = "topology.component.resources.offheap.memory.mb"
_CPU = "topology.component.cpu.pcore.percent"


def read_flux(
    paths: Sequence[Path],
    cluster: StormConf,
    substitution: Substitution = _NO_SUBSTITUTION,
    class_path: Sequence[Path] = (),
    stateful: Collection[str] = (),
) -> tuple[tuple[Topology, ...], list[InputError]]:
    """Read topologies as submitted in this order to a cluster.

    Faults of the cluster's configuration go to its layers; those of the files are returned, all of them.

    Parameters
    ----------
    paths
        Flux files of the topologies.
    cluster
        Configuration of the cluster.
    substitution
        Values for what stands in braces.
    class_path
        Directories and jars with the resources that files include.
    stateful
        Names of topologies with stateful bolts.
    """
    topologies, errors = [], []
    first_with: dict[str, Path] = {}
    for number, path in enumerate(paths, 1):
        reader = FluxReader(substitution, class_path)
        flux = reader.read(path)
        if flux is not None:
            conf, components = cluster.over(*flux.config), list(_components(flux))
            if flux.name in stateful:
                components = with_checkpoints(components)
            topologies.append(submitted(flux.name, components, conf, cluster, number))
            check_submitted(StormConf(flux.config))
        errors += reader.errors
        if flux is not None and not reader.errors and first_with.setdefault(flux.name, path) is not path:
            message = f"{shown(flux.name)} is the name of the topology in {first_with[flux.name]} already"
            errors.append(InputError(str(path), [Fault(message, "$.name")]))
    return tuple(topologies), errors


def _components(flux: FluxTopology) -> Iterator[UserComponent]:
    """Yield spouts, and the bolts that a stream goes to: Flux makes no other."""
    inputs = _inputs(flux)
    for name in flux.spouts.keys() & flux.bolts.keys() & inputs.keys():
        flux.bolts[name].fault(f"{shown(name)} is the id of a spout already", "id")
    for name, spout in flux.spouts.items():
        yield _component(name, "spout", spout, {})
    for name, bolt in flux.bolts.items():
        if name in inputs and name not in flux.spouts:
            yield _component(name, "bolt", bolt, inputs[name])


def _inputs(flux: FluxTopology) -> dict[str, dict[tuple[str, str], Grouping]]:
    """Return bolt → its subscriptions; of two to the same stream the later one counts, as in Storm."""
    inputs: dict[str, dict[tuple[str, str], Grouping]] = {}
    for stream in flux.streams:
        source, to = stream.content.source, stream.content.to
        if to not in flux.bolts and to not in flux.broken:
            stream.fault(f"{shown(to)} is a spout" if to in flux.spouts else f"unknown bolt {shown(to)}", "to")
        if source in flux.broken:
            pass  # reported already
        elif source not in flux.spouts and source not in flux.bolts:
            stream.fault(f"unknown spout or bolt {shown(source)}", "from")
        elif source not in flux.spouts and source not in flux.fed:
            stream.fault(f"no stream goes to {shown(source)}, so Flux leaves it out", "from")
        grouping = _grouping(stream)
        inputs.setdefault(to, {})[grouping.source, grouping.stream] = grouping
    return inputs


def _grouping(stream: SourceSection[StreamDocument]) -> Grouping:
    grouping: GroupingDocument = stream.content.grouping
    kind, fields = grouping.type.lower(), tuple(grouping.args or ())
    match grouping.type:
        case "FIELDS":
            if grouping.args is None:
                stream.fault("required field missing", "grouping", "args")
            if not fields:  # so Storm writes it, and so it acts
                kind = "global"
        case "CUSTOM":
            if grouping.custom_class is None:
                stream.fault("required field missing", "grouping", "customClass")
            kind = "custom_serialized"
    return Grouping(
        source=stream.content.source,
        stream=grouping.stream_id or "default",
        kind=kind,
        fields=fields if kind == "fields" else (),
    )


def _component(
    name: str, kind: str, located: SourceSection[VertexDocument], inputs: Mapping[tuple[str, str], Grouping]
) -> UserComponent:
    vertex = located.content
    loads: dict[str, Any] = {}
    if vertex.cpu_load > -1:
        loads[_CPU] = vertex.cpu_load
    if vertex.on_heap_memory_load > -1:
        loads[_ON_HEAP] = vertex.on_heap_memory_load
        if vertex.off_heap_memory_load > -1:  # Flux looks at it only beside the other
            loads[_OFF_HEAP] = vertex.off_heap_memory_load
    called = StormConf(list(_called(located)))
    in_code = called.get(RESOURCES)
    if loads and isinstance(in_code, Mapping):  # Storm writes loads into this too
        loads[RESOURCES] = {**in_code, **loads}
    if vertex.num_tasks > -1:
        loads[TASKS] = vertex.num_tasks
    conf = called.over(Layer(loads, located.faults, located.path))
    return UserComponent(name, kind, vertex.parallelism, conf, tuple(inputs.values()))


def _called(located: SourceSection[VertexDocument]) -> Iterator[Layer]:
    """Yield the configuration of a shell component by calls of ``addComponentConfig``, the last one first."""
    for position, call in reversed(list(enumerate(located.content.config_methods or []))):
        args = call.get("args")
        if call.get("name") == "addComponentConfig" and isinstance(args, list) and len(args) == 2:
            key, value = args
            if isinstance(key, str):
                yield Layer({key: value}, located.faults, join_path(located.path, "configMethods", position))
