"""Problems in a notebook: topologies as graphs of their components, and the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np

from stormwright.base.tables import TextTable, paragraph
from stormwright.model.arrays import FloatArray
from stormwright.model.cluster import Supervisor
from stormwright.model.humanize import counted
from stormwright.model.topology import Topology

#: Most topologies that are drawn, components of one, and rows of the table of nodes.
_MAX_TOPOLOGIES, _MAX_COMPONENTS, _MAX_ROWS = 6, 40, 20

#: Size of a box, and distances between boxes.
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 120, 40, 90, 14, 8

#: Style with colours that can be read on light and dark pages; other drawings of a notebook are not affected.
_STYLE = """
  .topology text { font: 12px system-ui, sans-serif; fill: #1c1c1c; text-anchor: middle }
  .topology text.faint { fill: #555; font-size: 11px } .topology rect { fill: #eef3f8; stroke: #4a7fb5 }
  .topology rect.spout { fill: #e5f2e5; stroke: #4a9050 } .topology rect.ground { fill: #fff; stroke: none }
  .topology path { fill: none; stroke: #777 } .topology marker path { fill: #777 }
"""


def problem_html(
    title: str,
    topologies: Sequence[Topology],
    executors: Sequence[Mapping[str, FloatArray]],
    nodes: Sequence[Supervisor],
) -> str:
    """Return a problem as HTML.

    Parameters
    ----------
    title
        Text of the first line, such as name and size of the problem.
    topologies
        Topologies to show; of many, only the first.
    executors
        For each topology ``cpu_hz`` and ``memory_mb`` of its executors.
    nodes
        Supervisors, of which adjacent ones with equal resources share a row.
    """
    parts = [paragraph(title)]
    for topology, demand in zip(topologies[:_MAX_TOPOLOGIES], executors, strict=False):
        cpu_ghz, memory_mb = float(demand["cpu_hz"].sum()) / 1e9, float(demand["memory_mb"].sum())
        size = f"{counted(topology.num_executors, 'executor')} in {counted(topology.num_workers, 'worker')}"
        parts.append(paragraph(f"{topology.id}: {size}; {cpu_ghz:,.3g} GHz, {memory_mb:,.0f} MB"))
        if len(topology.components) <= _MAX_COMPONENTS:
            parts.append(topology_svg(topology))
    if (left := len(topologies) - _MAX_TOPOLOGIES) > 0:
        parts.append(paragraph(f"and {counted(left, 'topology')} more"))
    if nodes:
        parts.append(TextTable.of(_node_rows(nodes), _MAX_ROWS).as_html())
    return "".join(parts)


def _node_rows(nodes: Sequence[Supervisor]) -> list[dict[str, Any]]:
    """Return the nodes as rows, adjacent ones of one kind together."""
    rows = []
    for (cpu_hz, memory_mb, slots, rack, link), same in groupby(
        nodes, lambda node: (node.cpu_hz, node.memory_mb, len(node.ports), node.rack, node.link_bps)
    ):
        hosts = [node.host for node in same]
        rows.append(
            {
                "nodes": hosts[0] if len(hosts) == 1 else f"{hosts[0]} … {hosts[-1]} ({len(hosts):,})",
                "GHz": cpu_hz / 1e9,
                "MB": memory_mb if np.isfinite(memory_mb) else None,
                "slots": slots,
                "rack": rack or None,
                "link, Mbit/s": link / 1e6 if link else None,
            }
        )
    return rows


def topology_svg(topology: Topology) -> str:
    """Return the components of a topology as a graph, from left to right by their distance from a spout."""
    columns = _columns(topology)
    places = {
        name: (_MARGIN + column * (_WIDTH + _GAP_X), _MARGIN + row * (_HEIGHT + _GAP_Y))
        for column, names in enumerate(columns)
        for row, name in enumerate(names)
    }
    width = 2 * _MARGIN + len(columns) * (_WIDTH + _GAP_X) - _GAP_X
    height = 2 * _MARGIN + max(map(len, columns)) * (_HEIGHT + _GAP_Y) - _GAP_Y
    size = {"width": str(width), "height": str(height), "viewBox": f"0 0 {width} {height}"}
    svg = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "topology", "role": "img", **size})
    SubElement(svg, "title").text = topology.id
    SubElement(svg, "style").text = _STYLE
    tip = {"id": "tip", "viewBox": "0 0 8 8", "refX": "8", "refY": "4", "markerWidth": "8", "orient": "auto"}
    SubElement(SubElement(SubElement(svg, "defs"), "marker", tip), "path", d="M0,0 L8,4 L0,8 z")
    SubElement(svg, "rect", {"class": "ground", "width": "100%", "height": "100%"})
    shown = [component for component in topology.components if component.id in places]
    for component in shown:
        for each in component.inputs:
            if each.source in places:
                _arrow(svg, places[each.source], places[component.id], each.kind)
    for component in shown:
        x, y = places[component.id]
        size = {"x": f"{x}", "y": f"{y}", "width": f"{_WIDTH}", "height": f"{_HEIGHT}", "rx": "5"}
        SubElement(svg, "rect", {"class": component.type, **size})
        _text(svg, x + _WIDTH / 2, y + 17, component.id, "")
        _text(svg, x + _WIDTH / 2, y + 32, counted(component.parallelism, "executor"), "faint")
    return tostring(svg, encoding="unicode")


def _columns(topology: Topology) -> list[list[str]]:
    """Return the components by their longest distance from a component without inputs; system ones are left out."""
    inputs = {
        component.id: {each.source for each in component.inputs}
        for component in topology.components
        if component.type != "system"
    }
    depth = dict.fromkeys(inputs, 0)
    for _ in range(len(inputs)):  # of a cycle, as often as there are components
        for name, sources in inputs.items():
            above = [depth[source] for source in sources if source in depth and source != name]
            depth[name] = min(max(above, default=-1) + 1, len(inputs) - 1)
    levels = sorted(set(depth.values()))
    return [[name for name in inputs if depth[name] == level] for level in levels] or [[]]


def _arrow(svg: Element, source: tuple[int, int], target: tuple[int, int], kind: str) -> None:
    x, y, to_x, to_y = source[0] + _WIDTH, source[1] + _HEIGHT / 2, target[0], target[1] + _HEIGHT / 2
    middle = (x + to_x) / 2
    path = f"M{x:g},{y:g} C{middle:g},{y:g} {middle:g},{to_y:g} {to_x:g},{to_y:g}"
    SubElement(svg, "path", {"d": path, "marker-end": "url(#tip)"})
    _text(svg, middle, (y + to_y) / 2 - 4, kind, "faint")


def _text(svg: Element, x: float, y: float, text: str, kind: str) -> None:
    SubElement(svg, "text", {"class": kind, "x": f"{x:g}", "y": f"{y:g}"}).text = text
