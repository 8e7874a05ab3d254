"""Topologies with their components, to and from their part of a problem document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stormwright.formats.document.documents import (
    CodeDocument,
    ComponentDocument,
    InputDocument,
    TopologyDocument,
)
from stormwright.formats.document.faults import FaultList, join_path, shown
from stormwright.model import (
    Component,
    ExecutorRun,
    Grouping,
    Topology,
)
from stormwright.model.faults import ConfigFault
from stormwright.model.requests import normalised
from stormwright.model.topology import ComponentCode, runs_wrong
from stormwright.model.topology_config import MAX_NESTED, TOO_DEEP, conf_misfits, deeper


def parse_topology(
    raw: object, header: TopologyDocument | None, path: str, faults: FaultList, *, conf_is_sound: bool = False
) -> Topology | None:
    """Return the topology of a document; None if that added faults.

    Parameters
    ----------
    raw
        Value from JSON; of any type.
    header
        Outermost level of the document, already checked; None if it had faults.
    path
        JSON path of `raw`.
    faults
        List to which faults of `raw` are added.
    conf_is_sound
        Whether the configuration has been checked before, and is not checked again.
    """
    found_before = len(faults)
    known = faults.distinct(raw, "components", path)
    parsed = [
        _component(item, own, known, at, faults)
        for item, own, at in faults.parse_each(ComponentDocument, raw, "components", path)
    ]
    if header is None:
        return None
    if not conf_is_sound:
        add_misfits(conf_misfits(header.conf), path, faults)
    components = tuple(component for component in parsed if component is not None)
    runs = tuple(ExecutorRun(*run) for run in header.executor_runs)
    if len(components) == len(parsed):
        for message, steps in runs_wrong(runs, components):
            faults.add(message, join_path(path, *steps))
    if len(faults) > found_before:
        return None
    return Topology(
        id=header.id,
        name=header.name,
        num_workers=header.num_workers,
        components=components,
        executor_runs=runs,
        owner=header.owner,
        launch_time=header.launch_time,
        conf=header.conf,
    ).mark_validated()


def add_misfits(misfits: Iterable[ConfigFault], path: str, faults: FaultList) -> None:
    """Add the faults of the configuration at `path`."""
    for message, value, steps in misfits:
        faults.add(f"{message}, got {shown(value)}", join_path(path, "conf", *steps))


def _component(
    raw: object, header: ComponentDocument | None, known: dict[str, int], path: str, faults: FaultList
) -> Component | None:
    inputs = []
    for item, at in faults.items(raw, "inputs", path):
        subscription = faults.parse(InputDocument, item, at)
        if subscription is not None and subscription.source not in known:
            faults.add(f"unknown component {shown(subscription.source)}", join_path(at, "from"))
        inputs.append(subscription)
    if header is None:
        return None
    for position, region in enumerate(header.shared_memory):
        if deeper(region, MAX_NESTED):
            faults.add(TOO_DEEP, join_path(path, "shared_memory", position))
    if deeper(header.conf, MAX_NESTED):
        faults.add(TOO_DEEP, join_path(path, "conf"))
    return Component(
        id=header.id,
        type=header.type,
        parallelism=header.parallelism,
        inputs=tuple(Grouping(i.source, i.stream, i.grouping, tuple(i.fields)) for i in inputs if i is not None),
        resources=normalised(header.resources),
        shared_memory=tuple(header.shared_memory),
        tags=tuple(header.tags),
        conf=header.conf,
        code=_code(header.code),
    )


def _code(code: CodeDocument | None) -> ComponentCode | None:
    return None if code is None else ComponentCode(tuple(code.classes), code.event_time, code.guarantee)


def topology_to_dict(topology: Topology) -> dict[str, Any]:
    """Return `topology` as in a problem document."""
    return {
        "id": topology.id,
        "name": topology.name,
        "owner": topology.owner,
        "launch_time": topology.launch_time,
        "num_workers": topology.num_workers,
        "conf": dict(topology.conf),
        "components": [_component_to_dict(component) for component in topology.components],
        "executor_runs": [list(run) for run in topology.executor_runs],
    }


def _component_to_dict(component: Component) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": component.id,
        "type": component.type,
        "parallelism": component.parallelism,
        "inputs": [_input_to_dict(grouping) for grouping in component.inputs],
        "resources": dict(component.resources),
    }
    if component.shared_memory:
        document["shared_memory"] = [dict(region) for region in component.shared_memory]
    if component.tags:
        document["tags"] = list(component.tags)
    if component.conf:
        document["conf"] = dict(component.conf)
    if component.code:
        document["code"] = _code_to_dict(component.code)
    return document


def _code_to_dict(code: ComponentCode) -> dict[str, Any]:
    document: dict[str, Any] = {"classes": list(code.classes)}
    if code.event_time:
        document["event_time"] = True
    if code.guarantee:
        document["guarantee"] = code.guarantee
    return document


def _input_to_dict(grouping: Grouping) -> dict[str, Any]:
    document: dict[str, Any] = {"from": grouping.source, "stream": grouping.stream, "grouping": grouping.kind}
    if grouping.fields:
        document["fields"] = list(grouping.fields)
    return document
