"""A topology as a graph: components from left to right, flow as width, use as colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from stormwright.service.pages.drawn.svg import add, drawing, markup, shortened, titled, use_class

_WIDTH, _HEIGHT, _ACROSS, _DOWN, _MARGIN = 178, 58, 96, 22, 16
_NAME, _THINNEST, _THICKEST = 21, 1.5, 11.0


@dataclass(frozen=True)
class Box:
    """A component as drawn.

    Parameters
    ----------
    name, executors
        Of the component.
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
    """What a component (by index) sends another; `known` is False of a stream of which nothing was measured."""

    source: int
    target: int
    tps: float
    known: bool = True


def graph(boxes: Sequence[Box], edges: Sequence[Edge], title: str) -> Markup:
    """The drawing.

    Parameters
    ----------
    boxes
        Components.
    edges
        Between them; such as lead back are drawn below.
    title
        What it shows, for who cannot see it.
    """
    layers = layered(len(boxes), [(edge.source, edge.target) for edge in edges])
    tallest = max(map(len, layers), default=0)
    width = 2 * _MARGIN + len(layers) * (_WIDTH + _ACROSS) - _ACROSS
    height = 2 * _MARGIN + tallest * (_HEIGHT + _DOWN) - _DOWN + 18
    at = {}
    for column, layer in enumerate(layers):
        top = _MARGIN + 8 + (tallest - len(layer)) * (_HEIGHT + _DOWN) / 2
        for row, box in enumerate(layer):
            at[box] = (_MARGIN + column * (_WIDTH + _ACROSS), top + row * (_HEIGHT + _DOWN))
    svg = drawing(width, height, title, "graph")
    most = max((edge.tps for edge in edges), default=0.0)
    labels = []
    for edge in sorted(edges, key=lambda each: -each.tps):
        labels.append(_draw_edge(svg, edge, at, most, (boxes[edge.source].name, boxes[edge.target].name)))
    for number, box in enumerate(boxes):
        _draw_box(svg, box, *at[number])
    for x, y, text in labels:
        add(svg, "text", "flow-label", text, x=x, y=y, text_anchor="middle")
    return markup(svg)


def layered(count: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Boxes by their distance from the sources, the longest way; edges that close a circle do not count."""
    out: dict[int, list[int]] = {}
    for source, target in edges:
        if source != target:
            out.setdefault(source, []).append(target)
    reached = {target for source, target in edges if source != target}
    order, state = [], dict.fromkeys(range(count), 0)
    forward: set[tuple[int, int]] = set()
    for first in sorted(range(count), key=lambda box: box in reached):
        stack = [(first, iter(out.get(first, ())))] if not state[first] else []
        state[first] = state[first] or 1
        while stack:
            box, following = stack[-1]
            target = next(following, None)
            if target is None:
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


def _draw_edge(svg, edge, at, most, names):  # type: ignore[no-untyped-def]
    (x1, y1), (x2, y2) = at[edge.source], at[edge.target]
    x1, y1, y2 = x1 + _WIDTH, y1 + _HEIGHT / 2, y2 + _HEIGHT / 2
    if x2 > x1:
        middle = (x1 + x2) / 2
        path = f"M{x1} {y1:.0f}C{middle:.0f} {y1:.0f} {middle:.0f} {y2:.0f} {x2} {y2:.0f}"
        where = (middle, (y1 + y2) / 2 + 4)
    else:  # back, or to itself: around below
        low = max(y1, y2) + _HEIGHT / 2 + 14
        path = f"M{x1} {y1:.0f}C{x1 + 46} {y1:.0f} {x1 + 30} {low:.0f} {(x1 + x2) / 2:.0f} {low:.0f}"
        path += f"S{x2 - 46} {y2:.0f} {x2} {y2:.0f}"
        where = ((x1 + x2) / 2, low + 4)
    width = _THINNEST + (_THICKEST - _THINNEST) * (edge.tps / most) ** 0.5 if edge.known and most > 0 else _THINNEST
    drawn = add(svg, "path", "flow" if edge.known else "flow idle", d=path, stroke_width=width)
    titled(drawn, f"{names[0]} → {names[1]}: {f'{edge.tps:,.1f} tuples/s' if edge.known else 'nothing measured'}")
    return (*where, _short(edge.tps) if edge.known else "")


def _draw_box(svg, box, x, y):  # type: ignore[no-untyped-def]
    group = add(svg, "g", "component bottleneck" if box.bottleneck else "component")
    titled(group, f"{box.name}: {box.executors} executors, the busiest takes {box.use:.0%} of a core")
    add(group, "rect", "box", x=x, y=y, width=_WIDTH, height=_HEIGHT, rx=8)
    add(group, "rect", use_class(box.use), x=x, y=y, width=8, height=_HEIGHT, rx=3)
    add(group, "text", "name", shortened(box.name, _NAME), x=x + 18, y=y + 24)
    text = f"{box.executors} × · {box.use:.0%} of a core"
    add(group, "text", "faint", text, x=x + 18, y=y + 44)
    if box.bottleneck:
        add(group, "text", "tag", "bottleneck", x=x + _WIDTH, y=y - 5, text_anchor="end")


def _short(tps: float) -> str:
    for scale, unit in ((1e6, "M"), (1e3, "k")):
        if tps >= scale:
            return f"{tps / scale:.3g} {unit}/s"
    return f"{tps:.3g}/s"
