"""A topology as a graph: components from left to right, flow as width, use as colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from markupsafe import Markup

from stormwright.model.humanize import counted
from stormwright.service.dashboard.svg import add, drawing, markup, num, shortened, titled, use_class

_WIDTH, _HEIGHT, _ACROSS, _DOWN, _MARGIN = 150, 58, 84, 26, 16
_NAME, _THINNEST, _THICKEST = 17, 1.5, 11.0

#: Height that an edge takes which passes a layer, and times that layers are put into a better order.
_PASSING, _ROUNDS = 26, 4

#: An item of a layer: a box by its index, or the number of an edge that passes there.
Item = tuple[str, int]


@dataclass(frozen=True)
class Box:
    """A component in the drawing.

    Parameters
    ----------
    name, executors
        Id of the component, and its number of executors.
    use
        The part of a core that its busiest executor takes.
    bottleneck
        Whether it limits its topology.
    """

    name: str
    executors: int
    use: float
    bottleneck: bool


@dataclass(frozen=True)
class Edge:
    """A stream between components (by index); `known` is False if it was not measured."""

    source: int
    target: int
    tps: float
    known: bool = True


def graph(boxes: Sequence[Box], edges: Sequence[Edge], title: str) -> Markup:
    """The drawing.

    Parameters
    ----------
    boxes
        Components; edges refer to them by index.
    edges
        Between them; such as lead back are shown below.
    title
        What it shows, for who cannot see it.
    """
    layers = layered(len(boxes), [(edge.source, edge.target) for edge in edges])
    column = {box: number for number, layer in enumerate(layers) for box in layer}
    items: list[list[Item]] = [[("box", box) for box in layer] for layer in layers]
    for number, edge in enumerate(edges):
        for passing in items[column[edge.source] + 1 : column[edge.target]]:
            passing.append(("edge", number))
    _order(items, edges, column)
    heights = [
        sum(_HEIGHT if kind == "box" else _PASSING for kind, _ in each) + _DOWN * (len(each) - 1) for each in items
    ]
    tallest = max(heights, default=0)
    at: dict[tuple[int, Item], tuple[float, float]] = {}
    for number, layer in enumerate(items):
        y = _MARGIN + 12 + (tallest - heights[number]) / 2
        for item in layer:
            high = _HEIGHT if item[0] == "box" else _PASSING
            at[number, item] = (_MARGIN + number * (_WIDTH + _ACROSS), y + high / 2)
            y += high + _DOWN
    back = any(column[edge.source] >= column[edge.target] for edge in edges)
    width = 2 * _MARGIN + len(layers) * (_WIDTH + _ACROSS) - _ACROSS
    svg = drawing(max(width, 1), 2 * _MARGIN + tallest + 12 + 30 * back, title, "graph")
    most, widest = (
        max((edge.tps for edge in edges), default=0.0),
        sorted(range(len(edges)), key=lambda n: -edges[n].tps),
    )
    labels = [_draw_edge(svg, number, edges[number], column, at, most, boxes) for number in widest]
    for number, box in enumerate(boxes):
        _draw_box(svg, box, *at[column[number], ("box", number)])
    for x, y, text in labels:
        add(svg, "text", "flow-label", text, x=x, y=y)
    return markup(svg)


def _order(items: list[list[Item]], edges: Sequence[Edge], column: dict[int, int]) -> None:
    """Sort each layer by the mean position of its sources, to reduce crossings."""
    for _ in range(_ROUNDS):
        for number in range(1, len(items)):
            place = {item: position for position, item in enumerate(items[number - 1])}

            def middle(item: Item, number: int = number, place: dict[Item, int] = place) -> float:
                own = [item[1]] if item[0] == "edge" else [n for n, e in enumerate(edges) if e.target == item[1]]
                from_box = [("box", edges[n].source) for n in own if column[edges[n].source] == number - 1]
                found = [place[each] for each in [*from_box, *(("edge", n) for n in own)] if each in place]
                return sum(found) / len(found) if found else 0.0

            items[number].sort(key=middle)


def layered(count: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Boxes by their distance from the sources, the longest way; edges that close a circle do not count."""
    out: dict[int, list[int]] = {}
    for source, target in edges:
        if source != target:
            out.setdefault(source, []).append(target)
    reached = {target for source, target in edges if source != target}
    order: list[int] = []
    state = dict.fromkeys(range(count), 0)
    forward: set[tuple[int, int]] = set()
    for first in sorted(range(count), key=lambda box: box in reached):
        stack = [(first, iter(out.get(first, ())))] if not state[first] else []
        state[first] = state[first] or 1
        while stack:
            box, following = stack[-1]
            target = next(following, -1)
            if target < 0:
                state[box] = 2
                order.append(box)
                stack.pop()
            elif state[target] != 1:
                forward.add((box, target))
                if not state[target]:
                    state[target] = 1
                    stack.append((target, iter(out.get(target, ()))))
    depth = [0] * count
    for box in reversed(order):
        for target in out.get(box, ()):
            if (box, target) in forward:
                depth[target] = max(depth[target], depth[box] + 1)
    layers: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for box in range(count):
        layers[depth[box]].append(box)
    return layers


def _draw_edge(
    svg: Element,
    number: int,
    edge: Edge,
    column: dict[int, int],
    at: dict[tuple[int, Item], tuple[float, float]],
    most: float,
    boxes: Sequence[Box],
) -> tuple[float, float, str]:
    """Draw an edge; return the position of its label, and its text."""
    first, last = column[edge.source], column[edge.target]
    (left, y), (_, y2) = at[first, ("box", edge.source)], at[last, ("box", edge.target)]
    x, x2 = left + _WIDTH, at[last, ("box", edge.target)][0]
    thick = _THINNEST + (_THICKEST - _THINNEST) * (edge.tps / most) ** 0.5 if edge.known and most > 0 else _THINNEST
    path = f"M{num(x)} {num(y)}"
    if last > first:
        stops = [at[passed, ("edge", number)] for passed in range(first + 1, last)]
        for stop_x, stop_y in stops:
            path += f"{_bend(x, y, stop_x, stop_y)}H{num(stop_x + _WIDTH)}"
            x, y = stop_x + _WIDTH, stop_y
        path += _bend(x, y, x2, y2)
        label = (stops[0][0] + _WIDTH / 2, stops[0][1]) if stops else ((x + x2) / 2, (y + y2) / 2)
    else:  # back, or to itself: around below
        low = max(y, y2) + _HEIGHT / 2 + 16
        path += f"C{num(x + 40)} {num(y)} {num(x + 30)} {num(low)} {num((x + x2) / 2)} {num(low)}"
        path += f"S{num(x2 - 40)} {num(y2)} {num(x2)} {num(y2)}"
        label = ((x + x2) / 2, low)
    curve = add(svg, "path", "flow" if edge.known else "flow idle", d=path, stroke_width=thick)
    tooltip = f"{edge.tps:,.1f} tuples/s" if edge.known else "nothing measured"
    titled(curve, f"{boxes[edge.source].name} → {boxes[edge.target].name}: {tooltip}")
    return label[0], label[1] - thick / 2 - 5, _short(edge.tps) if edge.known else ""


def _bend(x: float, y: float, x2: float, y2: float) -> str:
    middle = num((x + x2) / 2)
    return f"C{middle} {num(y)} {middle} {num(y2)} {num(x2)} {num(y2)}"


def _draw_box(svg: Element, box: Box, x: float, middle: float) -> None:
    y = middle - _HEIGHT / 2
    group = add(svg, "g", "component bottleneck" if box.bottleneck else "component")
    titled(group, f"{box.name}: {counted(box.executors, 'executor')}, the busiest takes {box.use:.0%} of a core")
    add(group, "rect", "box", x=x, y=y, width=_WIDTH, height=_HEIGHT, rx=8)
    add(group, "rect", use_class(box.use), x=x, y=y, width=8, height=_HEIGHT, rx=3)
    add(group, "text", "name", shortened(box.name, _NAME), x=x + 18, y=y + 24)
    add(group, "text", "faint", f"{box.executors} × · {box.use:.0%} of a core", x=x + 18, y=y + 44)
    if box.bottleneck:
        add(group, "text", "tag", "bottleneck", x=x + _WIDTH, y=y - 6, text_anchor="end")


def _short(tps: float) -> str:
    for scale, unit in ((1e6, "M"), (1e3, "k")):
        if tps >= scale:
            return f"{tps / scale:.3g} {unit}/s"
    return f"{tps:.3g}/s"
