"""The cluster: racks, nodes, workers, executors, and how full each is."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from stormwright.errors import NotFoundError
from stormwright.service.dashboard.node_cells import MAX_LINKS, cells
from stormwright.service.dashboard.node_figures import USES, slots_of
from stormwright.service.dashboard.scene import Scene
from stormwright.service.dashboard.state import DashboardState
from stormwright.service.dashboard.views.page import Column, Listing, Page, Query, waiting

_HERE, _COMMAND = "/cluster", "stormwright predict problem.json"

#: Racks that are drawn.
_MAX_RACKS = 250


@dataclass(frozen=True)
class _Row:
    """A node, or a rack as the mean and the most of its nodes.

    Parameters
    ----------
    name, key
        As people call it, and what its page is found by.
    nodes, executors, workers, slots
        Numbers of nodes (1 for a node), placed executors, running workers, and slots.
    use, most
        Key of `USES` → part in use: the mean, and the most.
    cpu_cores, cores
        Cores in use, NaN if that is unknown, and in all.
    usable
        Whether it takes anything new.
    """

    name: str
    key: str
    nodes: int
    executors: int
    workers: int
    slots: int
    use: dict[str, float]
    most: dict[str, float]
    cpu_cores: float
    cores: float
    usable: bool = True


def cluster(known: DashboardState, query: Query) -> Page:
    """All racks, each with its nodes as cells."""
    scene = known.scene()
    if scene is None:
        return waiting(_HERE, "Cluster", known.error, known.sources.status is not None)
    by, nodes = _by(query), scene.nodes
    count, racks = len(scene.problem.supervisors), []
    for number, name in enumerate(nodes.racks[:_MAX_RACKS]):
        own = nodes.of_rack(number)
        racks.append((_row(scene, own, name, str(number)), _cells(scene, own, by, count)))
    listing = _listing(scene, range(count), query)
    shows = {"scene": scene, "racks": racks, "by": by, "uses": USES, "listing": listing}
    shows |= {"rows": [_node_row(scene, node) for node in listing.rows]}
    shows |= {"left": len(nodes.racks) - len(racks), "many": count > MAX_LINKS}
    return Page("cluster", "Cluster", _COMMAND, shows, _HERE)


def rack(known: DashboardState, number: str, query: Query) -> Page:
    """A rack's nodes, fullest first."""
    scene = known.scene()
    if scene is None:
        return waiting(_HERE, "Cluster", known.error, known.sources.status is not None)
    if not (number.isascii() and number.isdigit() and len(number) < 7 and int(number) < len(scene.nodes.racks)):
        raise NotFoundError(f"there is no rack number {number}: racks may have come and gone")
    by, own = _by(query), scene.nodes.of_rack(int(number))
    listing = _listing(scene, own.tolist(), query)
    name = scene.nodes.racks[int(number)]
    shows = {
        "name": name,
        "listing": listing,
        "rows": [_node_row(scene, node) for node in listing.rows],
        "by": by,
        "uses": USES,
        "drawn": _cells(scene, own, by, len(own)),
    }
    return Page("rack", f"Rack {name}", _COMMAND, shows, _HERE)


def node(known: DashboardState, name: str) -> Page:
    """Return the page of a node with its workers and executors."""
    scene = known.scene()
    if scene is None:
        return waiting(_HERE, "Cluster", known.error, known.sources.status is not None)
    index = scene.problem.cluster.find_node(name)
    if index is None:
        raise NotFoundError(f"the cluster has no node {name}: it may be gone")
    supervisor, status = scene.problem.supervisors[index], known.status()
    shows = {
        "scene": scene,
        "row": _node_row(scene, index),
        "core_hz": float(scene.problem.node_core_hz[index]),
        "uses": USES,
        "supervisor": supervisor,
        "name": scene.problem.cluster.node_names[index],
        "rack_number": int(scene.nodes.rack[index]),
        "predicted": scene.predicted.nodes[index] if scene.predicted else None,
        "executor_cores": float(scene.nodes.executor_cores[index]),
        "drained": known.drained().get(supervisor.host),
        "can_plan": known.sources.plan_service is not None and status is not None,
        "workers": [_worker(scene, slot) for slot in slots_of(scene.problem, index)],
    }
    command = shlex.join(["stormwright", "drain", supervisor.host])
    return Page("node", scene.problem.cluster.node_names[index], command, shows, _HERE)


def _by(query: Query) -> str:
    return by if (by := query.get("by", "cpu")) in USES else "cpu"


def _cells(scene: Scene, own: Any, by: str, on_page: int) -> Any:
    return cells(own, scene.nodes.use[by], scene.problem.cluster, USES[by], on_page)


def _listing(scene: Scene, nodes: Iterable[int], query: Query) -> Listing[int]:
    """Return the page of a table of nodes (indices) that a query requests, sorted by use unless it says otherwise."""
    figures, names, supervisors = scene.nodes, scene.problem.cluster.node_names, scene.problem.supervisors
    columns = [
        Column("node", "node", lambda node: names[node], is_text=True),
        Column("workers", "workers of slots", lambda node: int(figures.workers[node])),
        Column("executors", "executors", lambda node: int(figures.executors[node])),
        *(Column(key, text, partial(_use, figures.use[key])) for key, text in USES.items()),
    ]
    return Listing.of(nodes, columns, query, _by(query), lambda node: f"{names[node]} {supervisors[node].id}")


def _use(use: Any, node: int) -> float:
    return float(use[node])


def fullest_node(scene: Scene) -> _Row | None:
    """Return the node that uses most of its CPU; None if none is known."""
    use = scene.nodes.use["cpu"]
    return None if np.isnan(use).all() else _node_row(scene, int(np.nanargmax(use)))


def _node_row(scene: Scene, node: int) -> _Row:
    name = scene.problem.cluster.node_names[node]
    return _row(scene, np.array([node]), name, scene.problem.supervisors[node].id)


def _row(scene: Scene, own: Any, name: str, key: str) -> _Row:
    nodes, use, most = scene.nodes, {}, {}
    for each in USES:
        parts = nodes.use[each][own]
        parts = parts[~np.isnan(parts)]
        use[each] = float(parts.mean()) if len(parts) else float("nan")
        most[each] = float(parts.max()) if len(parts) else float("nan")
    executors, workers, slots = (int(each[own].sum()) for each in (nodes.executors, nodes.workers, nodes.slots))
    used, cores = nodes.cpu_cores[own], float(np.nansum(nodes.cores[own]))
    cpu_cores = float("nan") if np.isnan(used).all() else float(np.nansum(used))
    usable = bool(nodes.usable[own].all())
    return _Row(name, key, len(own), executors, workers, slots, use, most, cpu_cores, cores, usable)


def _worker(scene: Scene, slot: int) -> dict[str, Any]:
    problem, own = scene.problem, scene.workers.get(slot, [])
    speed = float(scene.problem.node_core_hz[problem.slot_node[slot]])
    executors = []
    for executor in own:
        topology = problem.topologies[int(problem.executor_topology[executor])]
        number = executor - int(problem.executor_offset[int(problem.executor_topology[executor])])
        executors.append(
            {
                "component": topology.components[int(topology.executor_component[number])].id,
                "number": number,
                "cpu_hz": float(problem.executor_cpu_hz[executor]),
                "core": float(problem.executor_cpu_hz[executor]) / speed,
                "requested_hz": float(scene.requests.cpu_hz[executor]),
                "memory_mb": float(problem.executor_memory_mb[executor]),
                "requested_mb": float(scene.requests.memory_mb[executor]),
            }
        )
    topologies = dict.fromkeys(int(problem.executor_topology[executor]) for executor in own)
    return {
        "port": problem.slots[slot].port,
        "topologies": [problem.topologies[index] for index in topologies],
        "executors": sorted(executors, key=lambda each: -each["cpu_hz"]),
        "cpu_hz": sum(each["cpu_hz"] for each in executors),
        "memory_mb": sum(each["memory_mb"] for each in executors),
    }
