"""Measured loads of topologies, to and from their part of a problem document."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from stormwright.formats.document.bulk import ValueColumn, list_column
from stormwright.formats.document.documents import (
    LoadDocument,
)
from stormwright.formats.document.faults import FaultList
from stormwright.model import (
    Topology,
    TopologyLoad,
)
from stormwright.model.arrays import FloatArray
from stormwright.model.topology import PLACEMENT_FOLLOWING

#: Lists that not every load has, beside `flow_limits`.
_OPTIONAL_COLUMNS = (
    *("pair_bytes_per_s", "flow_bytes_per_s"),
    *("forecast_cpu_hz", "live_heap_mb", "waited", "executing", "runs_per_s", "pending_trees"),
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

    def optional_fractions(key: str) -> FloatArray | None:
        return None if raw.get(key) is None else column(key, num_executors, "executors").fractions()

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
        waited=optional_fractions("waited"),
        executing=optional_fractions("executing"),
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
