"""A placement arranged for drawing: every node as a box, or, of a large problem, some figures of every node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.model.constraints.constraint import node_sum
from stormwright.model.humanize import amount, counted

# SVG ----------------------------------------------------------------------------------------------

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


# Drawing ------------------------------------------------------------------------------------------

#: Distinct on screen and in print, also for most colour-blind readers (Okabe and Ito's palette).
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")

#: Most executors drawn one by one; beyond, every node has a bar.
MAX_EXECUTORS_SHOWN, MAX_NODES_SHOWN = 1500, 60

#: Most components in the legend; the others are named in the title of an executor.
_MAX_IN_LEGEND = 60

#: Figure of a node that is a fraction of its capacity.
CPU_USED = "CPU used"


@dataclass(frozen=True)
class ExecutorMark:
    """An executor in the picture."""

    colour: str
    title: str


@dataclass(frozen=True)
class WorkerBox:
    """A worker in the picture."""

    title: str
    executors: list[ExecutorMark]


@dataclass(frozen=True)
class NodeBox:
    """A node in the picture; free slots are only counted."""

    host: str
    use: str
    over: bool
    workers: list[WorkerBox]
    free_slots: int


@dataclass(frozen=True)
class Drawing:
    """A placement: every node as a box, or, of a large problem, some figures of every node."""

    name: str
    lead: str
    boxes: list[NodeBox]
    figures: dict[str, FloatArray]


# Colours -----------------------------------------------------------------------------------------


def is_small(problem: Problem) -> bool:
    """Return whether the picture can show every executor."""
    return problem.num_executors <= MAX_EXECUTORS_SHOWN and len(problem.supervisors) <= MAX_NODES_SHOWN


def component_colours(problem: Problem) -> list[list[str]]:
    """Return a colour for every component of every topology, by index."""
    number = 0
    colours = []
    for topology in problem.topologies:
        colours.append([_colour(number + c) for c in range(len(topology.components))])
        number += len(topology.components)
    return colours


def _colour(number: int) -> str:
    """Return a colour: the palette's first, then hues a golden angle apart, so that neighbours differ."""
    return (
        COLOURS[number] if number < len(COLOURS) else f"hsl({number * 137.508 % 360:.0f} 55% {45 + number % 3 * 12}%)"
    )


def component_legend(problem: Problem, colours: list[list[str]]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield topology → its components with their colours."""
    left = _MAX_IN_LEGEND
    for topology, own in zip(problem.topologies, colours, strict=True):
        shown = [(component.id, colour) for component, colour in zip(topology.components, own, strict=True)][:left]
        left -= len(shown)
        if shown:
            yield topology.name, shown


# Placements --------------------------------------------------------------------------------------


def draw(problem: Problem, name: str, lead: str, slots: IntArray, colours: list[list[str]] | None = None) -> Drawing:
    """Arrange a placement for drawing.

    Parameters
    ----------
    problem
        Problem whose nodes and executors are shown.
    name, lead
        Heading, and the line below it.
    slots
        Slot of every executor, shape (E,); `UNPLACED` of those without, which are not shown.
    colours
        Of every component of every topology (`component_colours`), for executors as boxes; None for a bar for every
        node, of a problem that is not small (`is_small`).
    """
    cpu_hz = node_sum(problem, slots, problem.executor_cpu_hz)
    share = np.divide(cpu_hz, problem.node_cpu_hz, out=np.zeros_like(cpu_hz), where=problem.node_cpu_hz > 0)
    if colours is not None:
        return Drawing(name, lead, list(_boxes(problem, slots, share, colours)), {})
    placed = slots[slots != UNPLACED]
    figures = {
        CPU_USED: share,
        "executors": np.bincount(problem.slot_node[placed], minlength=len(share)).astype(np.float64),
        "workers": np.bincount(problem.slot_node[np.unique(placed)], minlength=len(share)).astype(np.float64),
    }
    return Drawing(name, lead, [], figures)


def _boxes(problem: Problem, slots: IntArray, share: FloatArray, colours: list[list[str]]) -> Iterator[NodeBox]:
    """Yield nodes in the problem's order, workers by port, executors in theirs."""
    in_slot: dict[int, list[int]] = {}
    for executor, slot in enumerate(slots.tolist()):
        if slot != UNPLACED:
            in_slot.setdefault(slot, []).append(executor)
    several_racks = len(set(problem.node_rack.tolist())) > 1
    first = 0
    for node, supervisor in enumerate(problem.supervisors):
        own = [first + position for position in range(len(supervisor.ports)) if first + position in in_slot]
        first += len(supervisor.ports)
        yield NodeBox(
            host=problem.cluster.node_names[node],
            use=f"{f'{supervisor.rack}, ' if several_racks else ''}{share[node]:.0%} CPU",
            over=bool(share[node] > 1 + 1e-9),
            workers=[_worker(problem, slot, in_slot[slot], colours) for slot in own],
            free_slots=len(supervisor.ports) - len(own),
        )


def _worker(problem: Problem, slot: int, executors: list[int], colours: list[list[str]]) -> WorkerBox:
    marks = []
    names: dict[str, None] = {}
    for executor in executors:
        index = int(problem.executor_topology[executor])
        topology = problem.topologies[index]
        number = executor - int(problem.executor_offset[index])
        component = int(topology.executor_component[number])
        names[topology.name] = None
        cpu = amount(problem.executor_cpu_hz[executor], "Hz")
        title = f"{topology.components[component].id}, executor {number}, {cpu}"
        marks.append(ExecutorMark(colours[index][component], title))
    # More than one name only where a scheduler broke the rule that a slot has one topology.
    return WorkerBox(f"{' + '.join(names)} :{problem.slots[slot].port}", marks)
