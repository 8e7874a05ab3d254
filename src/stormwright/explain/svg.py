"""Picture of a placement as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from stormwright.explain.drawing import Drawing, NodeBox, WorkerBox
from stormwright.model.humanize import counted

#: Component → colour, under the name of their topology.
Legend = Sequence[tuple[str, Sequence[tuple[str, str]]]]

_COLUMNS = 3
_MARGIN, _NODE_WIDTH, _GAP = 12, 250, 12
_HEADER, _PADDING = 44, 8
_TITLE, _MARK, _STEP = 18, 14, 17
_MARKS_IN_ROW = (_NODE_WIDTH - 4 * _PADDING) // _STEP
_LINE = 22

#: Mean width of a character of the legend's text, independent of the font.
_CHARACTER = 7.2

#: Style with a background of its own, so that it can be read on any page; it is dark if the reader's system is.
_STYLE = """
  text { font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1c1c1c }
  .host { font-weight: 600; font-size: 13px } .faint { fill: #555 } .over { fill: #a02c00; font-weight: 600 }
  .ground { fill: #ffffff } .node { fill: #f4f4f4; stroke: #bbb } .worker { fill: #ffffff; stroke: #ccc }
  @media (prefers-color-scheme: dark) {
    text { fill: #ececec } .faint { fill: #aaa } .over { fill: #ff9b73 }
    .ground { fill: #16181c } .node { fill: #22252b; stroke: #555 } .worker { fill: #2d3139; stroke: #5a5f69 }
  }
"""


def placement_svg(drawing: Drawing, legend: Legend) -> str:
    """Return the picture of a placement with nodes as boxes; the same placement gives the same text."""
    rows = [drawing.boxes[first : first + _COLUMNS] for first in range(0, len(drawing.boxes), _COLUMNS)]
    width = 2 * _MARGIN + _COLUMNS * _NODE_WIDTH + (_COLUMNS - 1) * _GAP
    svg = Element("svg", xmlns="http://www.w3.org/2000/svg", role="img")
    SubElement(svg, "title").text = f"{drawing.name}: {drawing.lead}"
    SubElement(svg, "style").text = _STYLE
    SubElement(svg, "rect", {"class": "ground", "width": "100%", "height": "100%", "rx": "8"})
    y = _MARGIN
    for nodes in rows:
        height = max(map(_node_height, nodes))
        for column, node in enumerate(nodes):
            _draw_node(svg, node, _MARGIN + column * (_NODE_WIDTH + _GAP), y, height)
        y += height + _GAP
    y = _draw_legend(svg, legend, y, width) + _MARGIN
    svg.set("viewBox", f"0 0 {width} {y}")
    svg.set("width", str(width))
    svg.set("height", str(y))
    indent(svg, " ")
    return tostring(svg, encoding="unicode") + "\n"


def _draw_node(svg: Element, node: NodeBox, x: int, y: int, height: int) -> None:
    group = SubElement(svg, "g")
    _rect(group, "node", x, y, _NODE_WIDTH, height, 8)
    _text(group, "host", x + _PADDING, y + 18, node.host)
    use = f"{node.use}, {counted(node.free_slots, 'free slot')}"
    _text(group, "over" if node.over else "faint", x + _PADDING, y + 35, use)
    y += _HEADER
    for worker in node.workers:
        _draw_worker(group, worker, x + _PADDING, y)
        y += _worker_height(worker) + _PADDING


def _draw_worker(group: Element, worker: WorkerBox, x: int, y: int) -> None:
    _rect(group, "worker", x, y, _NODE_WIDTH - 2 * _PADDING, _worker_height(worker), 4)
    _text(group, "faint", x + _PADDING, y + 14, worker.title)
    for number, executor in enumerate(worker.executors):
        row, column = divmod(number, _MARKS_IN_ROW)
        mark = _chip(group, executor.colour, x + _PADDING + column * _STEP, y + _TITLE + 2 + row * _STEP)
        SubElement(mark, "title").text = executor.title


def _draw_legend(svg: Element, legend: Legend, y: int, width: int) -> int:
    """Draw the legend below `y`; return where it ends."""
    for topology, components in legend:
        x = float(_MARGIN)
        for colour, name in (("", topology), *((colour, name) for name, colour in components)):
            needs = len(name) * _CHARACTER + (_STEP if colour else 0) + _GAP
            if x + needs > width - _MARGIN:
                x, y = float(_MARGIN), y + _LINE
            if colour:
                _chip(svg, colour, round(x), y + 2)
            _text(svg, "" if colour else "host", round(x + (_STEP + 2 if colour else 0)), y + 14, name)
            x += needs
        y += _LINE
    return y


def _node_height(node: NodeBox) -> int:
    return _HEADER + sum(_worker_height(worker) + _PADDING for worker in node.workers)


def _worker_height(worker: WorkerBox) -> int:
    rows = -(-len(worker.executors) // _MARKS_IN_ROW)
    return _TITLE + rows * _STEP + _PADDING // 2


def _rect(parent: Element, kind: str, x: int, y: int, width: int, height: int, radius: int) -> None:
    SubElement(parent, "rect", {"class": kind, **_numbers(x=x, y=y, width=width, height=height, rx=radius)})


def _chip(parent: Element, colour: str, x: int, y: int) -> Element:
    return SubElement(parent, "rect", {"fill": colour, **_numbers(x=x, y=y, width=_MARK, height=_MARK, rx=2)})


def _text(parent: Element, kind: str, x: int, y: int, text: str) -> None:
    attributes = {"class": kind} if kind else {}
    SubElement(parent, "text", {**attributes, **_numbers(x=x, y=y)}).text = text


def _numbers(**values: int) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}
