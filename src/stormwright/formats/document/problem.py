"""`stormwright-problem/1`, alone or as the `problem` of a `stormwright-case/1`, to and from the model."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import isfinite
from typing import Any

import numpy as np

from stormwright.errors import Fault, InputError, suggestion_for
from stormwright.formats.document.assignment import parse_placement, placement_to_dict
from stormwright.formats.document.bulk import ValueColumn, list_column
from stormwright.formats.document.documents import (
    CASE_SCHEMA,
    PROBLEM_SCHEMA,
    CodeDocument,
    ComponentDocument,
    InputDocument,
    LoadDocument,
    ProblemDocument,
    SupervisorDocument,
    TopologyDocument,
)
from stormwright.formats.document.faults import FaultList, join_path, require_schema, shown
from stormwright.model import (
    Component,
    ExecutorRun,
    Grouping,
    LoadProfile,
    Problem,
    Supervisor,
    Topology,
    TopologyAssignment,
    TopologyLoad,
    WorkerSlot,
)
from stormwright.model.arrays import FloatArray
from stormwright.model.cluster import LINK
from stormwright.model.faults import ConfigFault
from stormwright.model.link_speed import link_bits_per_s
from stormwright.model.problem import CHECKED
from stormwright.model.requests import CPU, normalised
from stormwright.model.topology import PLACEMENT_FOLLOWING, ComponentCode, runs_wrong
from stormwright.model.topology_config import MAX_NESTED, TOO_DEEP, conf_misfits, deeper, storm_misfits

log = logging.getLogger(__name__)

# Loads --------------------------------------------------------------------------------------------

#: Lists that not every load has, beside `flow_limits`.
_OPTIONAL_COLUMNS = (
    *("pair_bytes_per_s", "flow_bytes_per_s"),
    *("forecast_cpu_hz", "live_heap_mb", "waited", "runs_per_s", "pending_trees"),
)

#: Measurements of nodes in a problem document, by the id of their supervisor.
NODE_FIELDS = ("node_cpu_hz", "node_quota_hz", "node_overhead_hz")

#: Parts of a problem document that belong to its load.
LOAD_FIELDS = ("load", "costs", *NODE_FIELDS)

#: Groupings of flows in the order of their positions in arrays.
FLOW_GROUPINGS = sorted(PLACEMENT_FOLLOWING)
_GROUPING_POSITION = {kind: position for position, kind in enumerate(FLOW_GROUPINGS)}
_GROUPING_WANTED = f"one of {', '.join(FLOW_GROUPINGS)} (the traffic of other groupings is given as pairs)"


def parse_load(raw: object, topology: Topology | None, path: str, faults: FaultList) -> TopologyLoad | None:
    """Return the load of `raw`, or None if that added faults or `topology` itself is faulty.

    Parameters
    ----------
    raw
        Value from JSON; of any type.
    topology
        Topology of the load; None if it is faulty, and then only the outermost level is checked.
    path
        JSON path of `raw`.
    faults
        List to which faults of `raw` are added.
    """
    found_before = len(faults)
    header = faults.parse(LoadDocument, raw, path)
    if header is None or topology is None or not isinstance(raw, dict):
        return None
    num_executors = topology.num_executors
    an_executor = f"the index of one of {num_executors} executors"
    cpu_hz = list_column(raw, "cpu_hz", path, faults, length=num_executors).amounts()
    memory_mb = list_column(raw, "memory_mb", path, faults, length=num_executors).amounts()
    source, target, tps = list_column(raw, "pairs", path, faults).rows(3)
    flow_source, component, grouping, flow_tps = list_column(raw, "flows", path, faults).rows(4)

    def column(key: str, length: int, unit: str) -> ValueColumn:
        return list_column(raw, key, path, faults, length=length, unit=unit)

    def optional_amounts(key: str, length: int, unit: str) -> FloatArray | None:
        if raw.get(key) is None:
            return None
        return column(key, length, unit).amounts()

    load = TopologyLoad(
        cpu_hz=cpu_hz,
        memory_mb=memory_mb,
        pair_source=source.indices(0, num_executors, an_executor),
        pair_target=target.indices(0, num_executors, an_executor),
        pair_tps=tps.amounts(),
        flow_source=flow_source.indices(0, num_executors, an_executor),
        flow_component=component.names(topology.component_index, "a component of the topology"),
        flow_grouping=tuple(FLOW_GROUPINGS[g] for g in grouping.names(_GROUPING_POSITION, _GROUPING_WANTED).clip(0)),
        flow_tps=flow_tps.amounts(),
        bytes_per_tuple=header.bytes_per_tuple,
        flow_limit_tps=_parse_limits(header.flow_limits, topology, f"{path}.flow_limits", faults),
        pair_bytes_per_s=optional_amounts("pair_bytes_per_s", len(tps.values), "pairs"),
        flow_bytes_per_s=optional_amounts("flow_bytes_per_s", len(flow_tps.values), "flows"),
        forecast_cpu_hz=optional_amounts("forecast_cpu_hz", num_executors, "executors"),
        live_heap_mb=optional_amounts("live_heap_mb", num_executors, "executors"),
        waited=None if raw.get("waited") is None else column("waited", num_executors, "executors").fractions(),
        runs_per_s=optional_amounts("runs_per_s", num_executors, "executors"),
        pending_trees=optional_amounts("pending_trees", num_executors, "executors"),
    )
    return load if len(faults) == found_before else None


def _parse_limits(limits: dict[str, float], topology: Topology, path: str, faults: FaultList) -> FloatArray | None:
    if not limits:
        return None
    found = np.full(len(topology.components), np.inf)
    for component, tps in limits.items():
        if component in topology.component_index:
            found[topology.component_index[component]] = tps
        else:
            faults.add(f"no component of {topology.id} is called {component!r}", path)
    return found


def load_to_dict(load: TopologyLoad, topology: Topology) -> dict[str, Any]:
    """Return `load` as in a problem document."""
    components = [topology.components[c].id for c in load.flow_component]
    pairs = zip(load.pair_source.tolist(), load.pair_target.tolist(), load.pair_tps.tolist(), strict=True)
    flows = zip(load.flow_source.tolist(), components, load.flow_grouping, load.flow_tps.tolist(), strict=True)
    document: dict[str, Any] = {
        "cpu_hz": load.cpu_hz.tolist(),
        "memory_mb": load.memory_mb.tolist(),
        "pairs": [list(pair) for pair in pairs],
        "flows": [list(flow) for flow in flows],
    }
    if load.flow_limit_tps is not None:
        limits = zip(topology.components, load.flow_limit_tps.tolist(), strict=True)
        document["flow_limits"] = {component.id: tps for component, tps in limits if isfinite(tps)}
    if load.bytes_per_tuple is not None:
        document["bytes_per_tuple"] = load.bytes_per_tuple
    for key in _OPTIONAL_COLUMNS:
        amounts = getattr(load, key)
        if amounts is not None:
            document[key] = amounts.tolist()
    return document


# Topologies ---------------------------------------------------------------------------------------


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


# Problem ------------------------------------------------------------------------------------------

#: Most executors of a problem, a hundred times as many as clusters have: each takes memory, which a short document
#: could otherwise exhaust.
MAX_EXECUTORS = 10_000_000


def problem_from_dict(document: object, source: str = "problem") -> Problem:
    """Return the problem of `document` (parsed JSON); `source` names it in errors.

    Raises
    ------
    InputError
        It is not a problem; all its faults.
    """
    require_schema(document, source, PROBLEM_SCHEMA, CASE_SCHEMA)
    path = "$"
    if isinstance(document, Mapping) and document.get("schema") == CASE_SCHEMA:
        document, path = document.get("problem"), "$.problem"
    faults = FaultList()
    header = faults.parse(ProblemDocument, document, path)
    nodes = faults.distinct(document, "supervisors", path)
    faults.distinct(document, "topologies", path)
    if header is not None:
        add_misfits(storm_misfits(header.conf), path, faults)
    core_hz = header.core_hz if header else math.nan
    supervisors = [
        None if node is None else parse_supervisor(node, core_hz, at, faults)
        for _, node, at in faults.parse_each(SupervisorDocument, document, "supervisors", path)
    ]
    topologies = [
        parse_topology(item, outermost, at, faults)
        for item, outermost, at in faults.parse_each(TopologyDocument, document, "topologies", path)
    ]
    executors = sum(topology.num_executors for topology in topologies if topology is not None)
    if executors > MAX_EXECUTORS:
        message = f"asks for {executors:,} executors; at most {MAX_EXECUTORS:,} are taken"
        raise InputError(source, [Fault(message, join_path(path, "topologies"))])
    named = _named(document, topologies)
    current = _current(document, named, path, faults)
    load = _load(document, named, path, faults)
    if header is not None:
        _check_nodes(header, nodes, path, faults)
    if header is None or faults.faults:
        raise faults.error(source)
    return Problem(
        supervisors=tuple(supervisor for supervisor in supervisors if supervisor is not None),
        topologies=tuple(topology for topology in topologies if topology is not None),
        name=header.name,
        conf=header.conf,
        blacklisted_hosts=frozenset(header.blacklisted_hosts),
        greylisted_supervisors=tuple(header.greylisted_supervisors),
        drained=header.drained,
        current=current,
        load=_profile(load, header),
        core_hz=header.core_hz,
        parts=CHECKED,
    )


def parse_supervisor(header: SupervisorDocument, core_hz: float, path: str, faults: FaultList) -> Supervisor:
    """Return the supervisor of `header`; a link without a speed has the one that its scheduler meta declares.

    Parameters
    ----------
    header
        As in the document.
    core_hz
        Speed of a core in Hz if the supervisor does not give one.
    path
        JSON path of the supervisor.
    faults
        Collects the faults: duplicate ports.
    """
    if len(set(header.ports)) < len(header.ports):
        for position, port in enumerate(header.ports):
            if port in header.ports[:position]:
                faults.add(f"port {port} is there twice", join_path(path, "ports", position))
    # A resource that a supervisor does not report is unlimited.
    resources = normalised(header.resources)
    cores = resources.get(CPU, math.inf) / 100
    return Supervisor(
        id=header.id,
        host=header.host,
        ports=tuple(header.ports),
        cpu_hz=cores * (header.core_hz or core_hz) if header.cpu_hz is None else header.cpu_hz,
        rack=header.rack,
        scheduler_meta=header.scheduler_meta,
        resources=resources,
        link_bps=_declared_bps(header) if header.link_bps is None else header.link_bps,
    )


def _declared_bps(header: SupervisorDocument) -> float | None:
    """Return the speed of the link that a supervisor declares under `LINK`; None for a malformed one, or without it."""
    text = (header.scheduler_meta or {}).get(LINK)
    return None if text is None else _link_bps(header.id, text)


@lru_cache(maxsize=10_000)
def _link_bps(node: str, text: str) -> float | None:
    """Return bits per second; a malformed value is logged, once as the result is remembered."""
    bps = link_bits_per_s(text.strip())
    if not bps:
        log.warning(
            "supervisor %s: %s in supervisor.scheduler.meta should be a speed such as 40mbit, got %s; it is ignored",
            node, LINK, shown(text),
        )  # fmt: skip
    return bps or None


def _named(document: object, topologies: list[Topology | None]) -> dict[str, Topology | None]:
    """Return topology id → the topology, or None for one that has faults."""
    raw = document.get("topologies") if isinstance(document, Mapping) else None
    ids = [item.get("id") if isinstance(item, Mapping) else None for item in raw] if isinstance(raw, list) else []
    return {name: topology for name, topology in zip(ids, topologies, strict=True) if isinstance(name, str)}


def _current(
    document: object, named: Mapping[str, Topology | None], path: str, faults: FaultList
) -> dict[str, TopologyAssignment]:
    current = {}
    owner: dict[WorkerSlot, str] = {}
    for name, raw, at in faults.entries(document, "assignments", path):
        if name not in named:
            faults.add("unknown topology", at)
        placement = parse_placement(raw, named.get(name), at, faults)
        if placement is None:
            continue
        current[name] = placement
        for position, slot in enumerate(placement.slots):
            if owner.setdefault(slot, name) != name:
                faults.add(f"{slot} belongs to {owner[slot]} already", join_path(at, "slots", position))
    return current


def _load(
    document: object, named: Mapping[str, Topology | None], path: str, faults: FaultList
) -> dict[str, TopologyLoad]:
    loads = {}
    for name, raw, at in faults.entries(document, "load", path):
        if name not in named:
            faults.add("unknown topology", at)
        load = parse_load(raw, named.get(name), at, faults)
        if load is not None:
            loads[name] = load
    return loads


def _check_nodes(header: ProblemDocument, known: Mapping[str, int], path: str, faults: FaultList) -> None:
    """Add a fault for each measurement of a node that the problem does not have."""
    for key in NODE_FIELDS:
        for node in sorted(getattr(header, key).keys() - known.keys()):
            faults.add(f"unknown supervisor{suggestion_for(node, known)}", join_path(path, key, node))


def _profile(load: dict[str, TopologyLoad], header: ProblemDocument) -> LoadProfile | None:
    if header.model_fields_set.isdisjoint(LOAD_FIELDS):
        return None
    nodes = {key: getattr(header, key) for key in NODE_FIELDS}
    costs = header.costs.model_dump(mode="json", by_alias=True, exclude_unset=True) if header.costs else {}
    return LoadProfile(load, **nodes, costs=costs)


def problem_to_dict(problem: Problem) -> dict[str, Any]:
    """Return `problem` as a `stormwright-problem/1` document of plain Python values."""
    document: dict[str, Any] = {
        "schema": PROBLEM_SCHEMA,
        "name": problem.name,
        "conf": dict(problem.conf),
        "core_hz": problem.core_hz,
        "supervisors": [_supervisor_to_dict(supervisor) for supervisor in problem.supervisors],
        "blacklisted_hosts": sorted(problem.blacklisted_hosts),
        "greylisted_supervisors": list(problem.greylisted_supervisors),
        "topologies": [topology_to_dict(topology) for topology in problem.topologies],
        "assignments": {name: placement_to_dict(placement) for name, placement in problem.current.items()},
    }
    if problem.drained:
        document["drained"] = dict(problem.drained)
    if problem.load is not None:
        document["load"] = {
            topology.id: load_to_dict(problem.load.topologies[topology.id], topology)
            for topology in problem.topologies
            if topology.id in problem.load.topologies
        }
        document |= nodes_and_costs_to_dict(problem)
    return document


def nodes_and_costs_to_dict(problem: Problem) -> dict[str, Any]:
    """Return the measurements of nodes and the costs in the load of `problem`, as in a problem document."""
    if problem.load is None:
        return {}
    measured = {key: getattr(problem.load, key) for key in NODE_FIELDS}
    # A load may be older than the removal of a node.
    parts = {key: {node: hz for node, hz in of.items() if node in problem.node_index} for key, of in measured.items()}
    return {key: part for key, part in {**parts, "costs": dict(problem.load.costs)}.items() if part}


def _supervisor_to_dict(supervisor: Supervisor) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": supervisor.id,
        "host": supervisor.host,
        "rack": supervisor.rack,
        "ports": list(supervisor.ports),
        "scheduler_meta": None if supervisor.scheduler_meta is None else dict(supervisor.scheduler_meta),
        "resources": dict(supervisor.resources),
    }
    if math.isfinite(supervisor.cpu_hz):  # JSON knows no infinity; left out, it means the same
        document["cpu_hz"] = supervisor.cpu_hz
    if supervisor.link_bps is not None:
        document["link_bps"] = supervisor.link_bps
    return document
