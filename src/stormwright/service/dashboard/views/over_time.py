"""View of the traffic between nodes, and of measurements over time."""

from __future__ import annotations

from statistics import median

from markupsafe import Markup

from stormwright.model.humanize import readable
from stormwright.service.dashboard.charts import ACROSS, Line, Mark, chart, spark
from stormwright.service.dashboard.heat_map import heat_map, heat_steps
from stormwright.service.dashboard.scene import Scene
from stormwright.service.dashboard.state import DashboardState, Point
from stormwright.service.dashboard.views.page import Page, waiting

#: Pairs of places that are told by name; topologies with a line of their own.
_PAIRS, _LINES = 10, 5

#: Nodes with a small chart.
_MULTIPLES = 24


def traffic(known: DashboardState) -> Page:
    """Return the page of the traffic between nodes."""
    scene = known.scene()
    if scene is None:
        return waiting("/traffic", "Traffic", known.error, known.sources.status is not None)
    heat, pairs = scene.heat, []
    for row, source in enumerate(heat.names):
        for column, target in enumerate(heat.names):
            if row != column and heat.tps[row, column] > 0:
                pairs.append((source, target, float(heat.tps[row, column])))
    pairs.sort(key=lambda pair: -pair[2])
    everything = float(heat.tps.sum())
    shows = {
        "heat": heat,
        "drawn": heat_map(heat),
        "steps": heat_steps(heat),
        "pairs": pairs[:_PAIRS],
        "within": everything - heat.total_tps,
        "everything": everything,
    }
    return Page("traffic", "Traffic", "stormwright compare problem.json --schedulers even", shows, "/traffic")


def timeline(known: DashboardState) -> Page:
    """Measured throughput, latency, traffic, moves and alarms since the service started."""
    points, scene = known.trace.points(), known.scene()
    names = {each.id: each.name for each in scene.problem.topologies} if scene else {}
    marks = _marks(known)
    charts = []
    rates = [(each.at_ms, sum(each.rate_tps.values())) for each in points if each.rate_tps]
    if len(rates) > 1:
        most = _most(points)
        lines = [Line("all topologies", rates)] if len(most) != 1 else []
        lines += [
            Line(names.get(t, t), [(each.at_ms, each.rate_tps[t]) for each in points if t in each.rate_tps])
            for t in most
        ]
        charts.append(("Measured throughput", lines, chart(lines, "trees/s", marks, ACROSS)))
    known_ms = [each for each in points if each.latency_ms]
    if len(known_ms) > 1:
        lines = [
            Line("median topology", [(each.at_ms, median(each.latency_ms.values())) for each in known_ms]),
            Line("slowest topology", [(each.at_ms, max(each.latency_ms.values())) for each in known_ms]),
        ]
        charts.append(("Complete latency", lines, chart(lines, "ms", marks, ACROSS)))
    if len(points) > 1:
        lines = [Line("between nodes", [(each.at_ms, each.inter_node_tps) for each in points])]
        charts.append(("Traffic between nodes", lines, chart(lines, "tuples/s", marks, ACROSS)))
        if any(each.alarms for each in points):
            lines = [Line("overloaded nodes", [(each.at_ms, float(len(each.alarms))) for each in points])]
            charts.append(("Alarms", lines, chart(lines, "nodes", marks, ACROSS)))
    shows_nodes = _node_charts(points, scene) if scene else []
    events = known.history(20)
    status = known.status()
    alarms = (status.pipeline.get("alarms") or {}) if status else {}
    shows = {"charts": charts, "done": events.entries, "alarms": alarms, "served": status is not None}
    shows["nodes"] = shows_nodes
    shows["there"] = scene.problem.node_index if scene else ()
    return Page("timeline", "Timeline", "stormwright history", shows, "/timeline")


def _node_charts(points: list[Point], scene: Scene) -> list[tuple[str, str, str, Markup]]:
    """Return name, key, use as text, and chart of the fullest nodes."""
    if len(points) < 2:
        return []
    nodes, found = scene.nodes, []
    for node, use in nodes.by_use(_MULTIPLES):
        name, key = scene.problem.cluster.node_names[node], scene.problem.supervisors[node].id
        series = [(each.at_ms, each.node_use[key]) for each in points if key in each.node_use]
        text = f"{readable(use * float(nodes.cores[node]))} of {readable(float(nodes.cores[node]))}"
        svg = spark(series, points[0].at_ms, points[-1].at_ms, f"CPU of {name} over time, now {text} cores")
        found.append((name, key, text, svg))
    return found


def _marks(known: DashboardState) -> list[Mark]:
    return [
        Mark(
            each.at_ms, str(each.n), f"entry {each.n}: {each.kind} by {each.who}: {each.reason}", f"/history#n{each.n}"
        )
        for each in known.history(50).entries
        if each.moves
    ]


def _most(points: list[Point]) -> list[str]:
    """Topologies with the highest rates at last."""
    rates = points[-1].rate_tps
    return sorted(rates, key=lambda topology: -rates[topology])[:_LINES]
