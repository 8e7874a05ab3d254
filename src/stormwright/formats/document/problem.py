"""`stormwright-problem/1`, alone or as the `problem` of a `stormwright-case/1`, to and from the model."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from stormwright.errors import Fault, InputError, suggestion_for
from stormwright.formats.document.assignment import parse_placement, placement_to_dict
from stormwright.formats.document.documents import (
    CASE_SCHEMA,
    PROBLEM_SCHEMA,
    ProblemDocument,
    SupervisorDocument,
    TopologyDocument,
)
from stormwright.formats.document.faults import FaultList, join_path, require_schema, shown
from stormwright.formats.document.load import LOAD_FIELDS, NODE_FIELDS, load_to_dict, parse_load
from stormwright.formats.document.topology import add_misfits, parse_topology, topology_to_dict
from stormwright.model import (
    LoadProfile,
    Problem,
    Supervisor,
    Topology,
    TopologyAssignment,
    TopologyLoad,
    WorkerSlot,
)
from stormwright.model.cluster import LINK
from stormwright.model.link_speed import link_bits_per_s
from stormwright.model.problem import CHECKED
from stormwright.model.requests import CPU, normalised
from stormwright.model.topology_config import storm_misfits

log = logging.getLogger(__name__)


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
