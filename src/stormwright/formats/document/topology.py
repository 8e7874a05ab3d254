"""A topology of a problem document, to and from the model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stormwright.formats.document.documents import ComponentDocument, InputDocument, TopologyDocument
from stormwright.formats.document.faults import FaultList, join_path, shown
from stormwright.model import Component, ExecutorRun, Grouping, Topology
from stormwright.model.config.keys import MOST_NESTED, TOO_DEEP, conf_misfits, deeper
from stormwright.model.config.misfit import Misfit
from stormwright.model.config.requests import normalised
from stormwright.model.validation.topology import runs_wrong


def parse_topology(
    raw: object, header: TopologyDocument | None, path: str, faults: FaultList, *, conf_is_sound: bool = False
) -> Topology | None:
    """The topology that a document describes; None if that added faults.

    Parameters
    ----------
    raw
        What came out of JSON; of any type.
    header
        Its outermost level, checked already; None where that had faults.
    path
        JSON path of `raw`.
    faults
        Takes what is wrong.
    conf_is_sound
        Whether the configuration has been looked at before, and is not again.
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
    ).found_sound()


def add_misfits(misfits: Iterable[Misfit], path: str, faults: FaultList) -> None:
    """Note what is wrong with the configuration of what is at `path`."""
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
        if deeper(region, MOST_NESTED):
            faults.add(TOO_DEEP, join_path(path, "shared_memory", position))
    return Component(
        id=header.id,
        type=header.type,
        parallelism=header.parallelism,
        inputs=tuple(Grouping(i.source, i.stream, i.grouping, tuple(i.fields)) for i in inputs if i is not None),
        resources=normalised(header.resources),
        shared_memory=tuple(header.shared_memory),
        tags=tuple(header.tags),
    )


def topology_to_dict(topology: Topology) -> dict[str, Any]:
    """`topology` as a problem document has it."""
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
    return document


def _input_to_dict(grouping: Grouping) -> dict[str, Any]:
    document: dict[str, Any] = {"from": grouping.source, "stream": grouping.stream, "grouping": grouping.kind}
    if grouping.fields:
        document["fields"] = list(grouping.fields)
    return document
