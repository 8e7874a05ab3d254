"""Views of topologies: rates, graph, workers, and explanations."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stormwright.controller.safety.move_kinds import move_safety
from stormwright.errors import NotFoundError
from stormwright.model import UNPLACED, Topology
from stormwright.model.arrays import IntArray
from stormwright.model.problem import topologies_called
from stormwright.plans.modes import mode_of
from stormwright.predict.prediction import TopologyPrediction
from stormwright.service.dashboard.charts import Line, chart
from stormwright.service.dashboard.scene import Scene
from stormwright.service.dashboard.state import DashboardState
from stormwright.service.dashboard.topology_graph import Box, Edge, graph
from stormwright.service.dashboard.views.page import Column, Listing, Page, Query, waiting
from stormwright.service.plans.explanations import explained

_HERE, _COMMAND = "/topologies", "stormwright predict problem.json"

#: Components of Storm itself begin so; of their traffic there is more than a graph can show.
_STORMS = "__"


def why(known: DashboardState, name: str, query: Query) -> Page:
    """Of one executor; by default of all without a slot, or where there are none of the busiest."""
    scene, here = known.scene(), "/topologies"
    if scene is None:
        return waiting(here, "Topologies", known.error, known.sources.status is not None)
    index = _found(scene, name)
    of = scene.problem.topologies[index]
    unplaced = scene.unplaced.get(of.id, 0)
    given = query.get("executor", "")
    executor = int(given) if given.isascii() and given.isdigit() and len(given) < 10 else None
    if executor is None and not unplaced and of.num_executors:
        executor = int(np.argmax(scene.problem.executor_cpu_hz[scene.problem.executors_of(index)]))
    planner = known.sources.plan_service
    shows = {
        "topology": of,
        "unplaced": unplaced,
        "executor": executor,
        "explained": explained(scene.problem, of.id, executor, planner.safety_of if planner else move_safety),
        "components": [component.id for component in of.components],
        "ranges": _ranges(of.executor_component),
    }
    arguments = ["--topology", of.id, *(["--executor", str(executor)] if executor is not None else [])]
    command = shlex.join(["stormwright", "explain", "problem.json", *arguments])
    return Page("why", f"Why {of.name} is where it is", command, shows, here)


def _found(scene: Scene, name: str) -> int:
    """Return the index of a topology by its id, or by its name if no other has it."""
    named = topologies_called(scene.problem, name)
    if not named:
        raise NotFoundError(f"no topology {name} runs: it may have ended")
    if len(named) > 1:
        ids = ", ".join(scene.problem.topologies[index].id for index in named)
        raise NotFoundError(f"several topologies are called {name}; by id {ids}")
    return named[0]


def _ranges(component: IntArray) -> list[tuple[int, int, int]]:
    """First and last executor and component, where executors of a component follow each other."""
    if not len(component):
        return []
    starts = [0, *(np.flatnonzero(np.diff(component)) + 1).tolist()]
    ends = [*starts[1:], len(component)]
    return [(start, end - 1, int(component[start])) for start, end in zip(starts, ends, strict=True)]


@dataclass(frozen=True)
class _Row:
    """A topology in a list."""

    topology: Topology
    predicted: TopologyPrediction | None
    unplaced: int
    workers: int


def _of_prediction(value: Callable[[TopologyPrediction], float | str | None]) -> Callable[[_Row], float | str | None]:
    return lambda row: None if row.predicted is None else value(row.predicted)


def _latency(predicted: TopologyPrediction) -> float | None:
    return predicted.latency_ms.value if predicted.latency_ms else None


#: Columns of the list of topologies. Those with executors without a slot have no headroom.
_COLUMNS = (
    Column("name", "topology", lambda row: row.topology.name, is_text=True),
    Column("rate", "measured, trees/s", _of_prediction(lambda predicted: predicted.rate_tps)),
    Column("reachable", "reachable", _of_prediction(lambda predicted: predicted.reachable_tps.value)),
    Column(
        "headroom",
        "headroom",
        lambda row: -1.0 if row.unplaced else row.predicted.headroom if row.predicted else None,
        ascending=True,
    ),
    Column("latency", "latency", _of_prediction(_latency)),
    Column("executors", "executors", lambda row: row.topology.num_executors),
    Column("workers", "workers", lambda row: row.workers),
    Column("limit", "limited by", _of_prediction(lambda predicted: str(predicted.bottleneck)), is_text=True),
)


def topologies(known: DashboardState, query: Query) -> Page:
    """Return the page of all topologies; by default those with the least headroom are first."""
    scene = known.scene()
    if scene is None:
        return waiting(_HERE, "Topologies", known.error, known.sources.status is not None)
    workers = _worker_counts(scene)
    rows = [
        _Row(each, scene.by_topology.get(each.id), scene.unplaced.get(each.id, 0), workers.get(each.id, 0))
        for each in scene.problem.topologies
    ]
    listing = Listing.of(rows, _COLUMNS, query, "headroom", lambda row: f"{row.topology.name} {row.topology.id}")
    shows = {"listing": listing, "scene": scene}
    return Page("topologies", "Topologies", _COMMAND, shows, _HERE)


def topology(known: DashboardState, name: str) -> Page:
    """Return the page of a topology."""
    scene = known.scene()
    if scene is None:
        return waiting(_HERE, "Topologies", known.error, known.sources.status is not None)
    index = _found(scene, name)
    of = scene.problem.topologies[index]
    predicted = scene.by_topology.get(of.id)
    use = _core_parts(scene, index)
    kinds = [each for each in range(len(of.components)) if not of.components[each].id.startswith(_STORMS)]
    shows = {
        "topology": of,
        "core_hz": scene.problem.core_hz,
        "predicted": predicted,
        "unpredicted": scene.unpredicted,
        "unplaced": scene.unplaced.get(of.id, 0),
        "stays": _stays(known, of.id, is_measured=scene.problem.demand.measured[index] is not None),
        "mode": mode_of(modes, of.id, of.name) if (modes := known.modes()) else None,
        "graph": _graph(scene, index, kinds, use),
        "components": [_component(scene, index, each, use) for each in range(len(of.components))],
        "workers": _workers(scene, index, predicted),
        "charts": _charts(known, of.id),
        "tuning": known.tuning(of.id),
        "can_tune": known.sources.plan_service is not None and known.status() is not None,
    }
    return Page("topology", of.name, _COMMAND, shows, _HERE)


def _stays(known: DashboardState, name: str, *, is_measured: bool) -> list[str]:
    """Return why a topology is not moved, or cannot be placed."""
    status = known.status()
    if status is None:
        return []
    unmeasured = "" if is_measured else "its load is not measured: only topologies whose workers all report are moved"
    refused = "; ".join(status.refused.get(name, ()))
    reasons = [known.sources.unfit().get(name), unmeasured, status.staying.get(name), refused, status.hold_why]
    return [why for why in dict.fromkeys(reasons) if why]


def _core_parts(scene: Scene, index: int) -> Any:
    """Part of a core that every executor of a topology takes; of one without a slot, of the cluster's usual core."""
    problem = scene.problem
    own = problem.executors_of(index)
    slots = problem.current_slot[own]
    nodes = (
        problem.slot_node[np.where(slots == UNPLACED, 0, slots)] if len(problem.slots) else np.zeros(len(slots), int)
    )
    speeds = scene.problem.node_core_hz[nodes] if len(problem.supervisors) else problem.core_hz
    return problem.executor_cpu_hz[own] / np.where(slots == UNPLACED, problem.core_hz, speeds)


def _graph(scene: Scene, index: int, kinds: list[int], use: Any) -> Any:
    of, at = scene.problem.topologies[index], {component: number for number, component in enumerate(kinds)}
    predicted = scene.by_topology.get(of.id)
    limit = str(predicted.bottleneck) if predicted and predicted.bottleneck.kind == "thread" else ""
    boxes = []
    for component in kinds:
        own = use[of.executor_component == component]
        name = of.components[component].id
        boxes.append(Box(name, len(own), float(own.max()) if len(own) else 0.0, f"(component {name})" in limit))
    flows = {(flow.source, flow.target): flow.tps for flow in scene.flows(index)}
    declared = [
        (of.component_index[grouping.source], component)
        for component in kinds
        for grouping in of.components[component].inputs
        if grouping.source in of.component_index
    ]
    pairs = [pair for pair in dict.fromkeys([*flows, *declared]) if pair[0] in at and pair[1] in at]
    edges = [Edge(at[s], at[t], flows.get((s, t), 0.0), (s, t) in flows) for s, t in pairs]
    return graph(boxes, edges, f"components of {of.name} and what they send each other")


def _component(scene: Scene, index: int, component: int, use: Any) -> dict[str, Any]:
    problem, of = scene.problem, scene.problem.topologies[index]
    mine = of.executor_component == component
    own = problem.executors_of(index)
    sent = [flow.tps for flow in scene.flows(index) if flow.source == component]
    taken = [flow.tps for flow in scene.flows(index) if flow.target == component]
    return {
        "id": of.components[component].id,
        "type": of.components[component].type,
        "executors": int(mine.sum()),
        "busiest": float(use[mine].max()) if mine.any() else 0.0,
        "cpu_hz": float(problem.executor_cpu_hz[own][mine].sum()),
        "requested_hz": float(scene.requests.cpu_hz[own][mine].sum()),
        "memory_mb": float(problem.executor_memory_mb[own][mine].sum()),
        "received_tps": sum(taken),
        "sent_tps": sum(sent),
    }


def _workers(scene: Scene, index: int, predicted: TopologyPrediction | None) -> list[dict[str, Any]]:
    problem, of = scene.problem, scene.problem.topologies[index]
    own = problem.executors_of(index)
    slots = problem.current_slot[own]
    limit = predicted.bottleneck.node if predicted else ""
    found = []
    for slot in np.unique(slots[slots != UNPLACED]).tolist():
        mine = slots == slot
        names, counts = np.unique(of.executor_component[mine], return_counts=True)
        node = int(problem.slot_node[slot])
        name = problem.cluster.node_names[node]
        found.append(
            {
                "node": name,
                "key": problem.supervisors[node].id,
                "rack": problem.supervisors[node].rack,
                "port": problem.slots[slot].port,
                "executors": int(mine.sum()),
                "cpu_hz": float(problem.executor_cpu_hz[own][mine].sum()),
                "components": [(of.components[int(c)].id, int(n)) for c, n in zip(names, counts, strict=True)],
                "limits": name == limit,
            }
        )
    return found


def _worker_counts(scene: Scene) -> dict[str, int]:
    counts: dict[str, int] = {}
    for executors in scene.workers.values():
        for index in {int(scene.problem.executor_topology[executor]) for executor in executors}:
            name = scene.problem.topologies[index].id
            counts[name] = counts.get(name, 0) + 1
    return counts


def _charts(known: DashboardState, name: str) -> list[tuple[str, Any]]:
    """Return title and drawing of the charts of a topology."""
    points = known.trace.points()
    rates = [(each.at_ms, each.rate_tps[name]) for each in points if name in each.rate_tps]
    latencies = [(each.at_ms, each.latency_ms[name]) for each in points if name in each.latency_ms]
    charts = []
    if len(rates) > 1:
        charts.append(("Measured throughput", chart([Line("measured throughput", rates)], "trees/s")))
    if len(latencies) > 1:
        charts.append(("Median complete latency", chart([Line("median complete latency", latencies)], "ms")))
    return charts
