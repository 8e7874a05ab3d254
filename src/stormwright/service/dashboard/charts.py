"""Charts as SVG: time series, heat maps, cells and meters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil, floor, isnan, log10
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np
from markupsafe import Markup

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.model.cluster import Cluster
from stormwright.service.dashboard.scene import Heat

# Elements -----------------------------------------------------------------------------------------
# Elements of SVG: attributes are numbers and names of this code, texts are escaped.

#: Parts from which on a colour is used; the classes of the style sheet are ``u0`` to ``u4``, ``over`` and ``unknown``.
_STEPS = (0.2, 0.4, 0.6, 0.8)


def use_class(part: float) -> str:
    """The class of the style sheet that has the colour of a part in use; NaN is unknown."""
    if isnan(part):
        return "unknown"
    return "over" if part > 1 + 1e-9 else f"u{sum(part >= step for step in _STEPS)}"


def drawing(width: float, height: float, title: str, kind: str = "") -> Element:
    """Return an SVG element with an accessible title.

    Parameters
    ----------
    width, height
        Size in pixels; also the coordinate system of the drawing.
    title
        Short description of the content, for screen readers.
    kind
        CSS class besides ``drawing``; empty for none.
    """
    about = {"viewBox": f"0 0 {num(width)} {num(height)}", "width": num(width), "height": num(height), "role": "img"}
    return Element("svg", about | {"aria-label": title, "class": f"drawing {kind}".strip()})


def add(parent: Element, tag: str, kind: str = "", text: str = "", **values: float | str) -> Element:
    """A new element in another.

    Parameters
    ----------
    parent
        Element to which the new one is appended.
    tag, kind, text
        What it is, its class, and what stands in it.
    **values
        Its attributes; underscores in their names are hyphens.
    """
    attributes = {name.strip("_").replace("_", "-"): v if isinstance(v, str) else num(v) for name, v in values.items()}
    found = SubElement(parent, tag, ({"class": kind} if kind else {}) | attributes)
    if text:
        found.text = text
    return found


def titled(element: Element, text: str) -> Element:
    """Return the element with a tooltip."""
    SubElement(element, "title").text = text
    return element


def link(parent: Element, href: str, label: str) -> Element:
    """A link in a drawing; `href` is a path that this code has quoted."""
    return SubElement(parent, "a", {"href": href, "aria-label": label})


def markup(element: Element) -> Markup:
    """The drawing as a part of a page."""
    return Markup(tostring(element, encoding="unicode"))  # noqa: S704 (the tree is escaped as it is written)


def num(value: float) -> str:
    """A number in as few digits as a screen shows."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def shortened(text: str, most: int) -> str:
    """The beginning of a text that is too long."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


# Heat map -----------------------------------------------------------------------------------------
# Traffic from place to place as coloured cells.

_CELL, _HEAT_GAP, _SIDE, _HEAD, _LETTER, _MAX = 22, 2, 8, 10, 7.6, 15

#: Width of the cells together, the largest one, and the smallest one with a figure in it.
_HEAT_SIZE, _LARGEST_CELL, _WITH_FIGURES = 440, 88, 56


def heat_map(heat: Heat) -> Markup:
    """Draw traffic from rows to columns; the stronger the colour, the more. The diagonal is not coloured."""
    count = len(heat.names)
    size = min(max(_HEAT_SIZE // max(count, 1), _CELL), _LARGEST_CELL)
    step = size + _HEAT_GAP
    names = [shortened(name, _MAX) for name in without_domain(heat.names)]
    side = max(map(len, names), default=0) * _LETTER + _SIDE
    crossing = heat.tps.copy()
    np.fill_diagonal(crossing, 0)
    most = float(crossing.max()) if crossing.size else 0.0
    svg = drawing(side + count * step, side + _HEAD + count * step, f"traffic between {count} {heat.kind}s", "heat")
    for number, name in enumerate(names):
        middle = (number + 0.5) * step - 1 + 4
        add(svg, "text", "faint", name, x=side - _SIDE, y=side + _HEAD + middle, text_anchor="end")
        turned = f"rotate(-90 {side + middle:.0f} {side})"
        add(svg, "text", "faint", name, x=side + middle, y=side, transform=turned)
    for row in range(count):
        for column in range(count):
            tps = float(heat.tps[row, column])
            kind = "self" if row == column else _heat_step(tps, most)
            x, y = side + column * step, side + _HEAD + row * step
            cell = add(svg, "rect", kind, x=x, y=y, width=size, height=size, rx=2)
            if tps:
                titled(cell, f"{heat.names[row]} → {heat.names[column]}: {tps:,.0f} tuples/s")
            if tps and size >= _WITH_FIGURES:
                colour = "" if kind == "self" else f"on-u{max(int(kind[1]) - 1, 0)}"
                add(svg, "text", colour, axis_label(tps, tps), x=x + size / 2, y=y + size / 2 + 4, text_anchor="middle")
    return markup(svg)


def heat_steps(heat: Heat) -> list[tuple[str, str]]:
    """Return class and text of each colour of a heat map, for its legend."""
    crossing = heat.tps.copy()
    np.fill_diagonal(crossing, 0)
    most = float(crossing.max()) if crossing.size else 0.0
    ends = [most * ((step + 1) / 5) ** 2 for step in range(5)]
    return [(f"h{step + 1}", f"up to {axis_label(end, end)}") for step, end in enumerate(ends)] if most else []


def without_domain(hosts: Sequence[str]) -> Sequence[str]:
    """Names of hosts without the domain that all of them share."""
    domains = {name.partition(".")[2] for name in hosts if "." in name}
    if len(domains) != 1:
        return hosts
    return [name.removesuffix(f".{domain}") for domain in domains for name in hosts]


def _heat_step(tps: float, most: float) -> str:
    """By the square root: of little, too, one sees that it is there."""
    return "h0" if tps <= 0 or most <= 0 else f"h{min(int((tps / most) ** 0.5 * 5) + 1, 5)}"


# Cells --------------------------------------------------------------------------------------------
# Nodes as cells, rack by rack, coloured by how full each is.

#: On a page with up to so many nodes each cell is a link of its own; of more, those of a colour are one shape.
MAX_LINKS = 400

#: Up to so many nodes each cell has its figure in it.
MAX_FIGURES = 64

_NODE_CELL, _NODE_GAP, _IN_ROW = 14, 3, 40

#: Up to so many light cells are a block, with so many in a row, of which a page has many.
_BLOCK, _BLOCK_ROW, _SMALL, _SMALL_GAP = 100, 17, 10, 2

#: Width, height and number in a row of cells with figures.
_WIDE, _HIGH, _FEW_IN_ROW = 48, 32, 5


def cells(nodes: IndexArray, part: FloatArray, cluster: Cluster, what: str, on_page: int) -> Markup:
    """The cells of some nodes.

    Parameters
    ----------
    nodes
        Indices of the nodes to draw, in order.
    part
        In use of every node, shape (N,).
    cluster
        Cluster of all N nodes, for their names and ids.
    what
        Name of the quantity that the part is of.
    on_page
        How many nodes the page has in all.
    """
    if on_page <= MAX_LINKS:
        return _linked(nodes, part, cluster, what)
    block = len(nodes) <= _BLOCK
    size, gap, in_row = (_SMALL, _SMALL_GAP, _BLOCK_ROW) if block else (_NODE_CELL, _NODE_GAP, _IN_ROW)
    step, rows = size + gap, -(-len(nodes) // in_row)
    svg = drawing(in_row * step - gap, rows * step - gap, f"{what} of {len(nodes):,} nodes", "cells many")
    shapes: dict[str, list[str]] = {}
    for number, value in enumerate(part[nodes].tolist()):
        row, column = divmod(number, in_row)
        shape = (
            f"M{column * step} {row * step + size / 2:g}h{size}"  # a stroke as wide as a cell: half the bytes of a box
        )
        shapes.setdefault(use_class(value), []).append(shape)
    for kind, found in shapes.items():
        add(svg, "path", kind, d="".join(found), stroke_width=size)
    return markup(svg)


def _linked(nodes: IndexArray, part: FloatArray, cluster: Cluster, what: str) -> Markup:
    figures = len(nodes) <= MAX_FIGURES
    wide, high, in_row = (_WIDE, _HIGH, _FEW_IN_ROW) if figures else (_NODE_CELL, _NODE_CELL, _IN_ROW)
    columns, rows = min(max(len(nodes), 1), in_row), -(-max(len(nodes), 1) // in_row)
    width, height = columns * (wide + _NODE_GAP) - _NODE_GAP, rows * (high + _NODE_GAP) - _NODE_GAP
    svg = drawing(width, height, f"{what} of {len(nodes):,} nodes", "cells")
    del svg.attrib["role"], svg.attrib["aria-label"]  # it holds links, each with its own
    for number, node in enumerate(nodes.tolist()):
        row, column = divmod(number, in_row)
        x, y, kind = column * (wide + _NODE_GAP), row * (high + _NODE_GAP), use_class(part[node])
        figure = "–" if kind == "unknown" else f"{part[node]:.0%}"
        label = f"{cluster.node_names[node]}: {what} {figure}"
        to = link(svg, f"/cluster/nodes/{quote(cluster.supervisors[node].id, safe='')}", label)
        titled(add(to, "rect", kind, x=x, y=y, width=wide, height=high, rx=2 + 2 * figures), label)
        if figures:
            add(to, "text", f"on-{kind}", figure, x=x + wide / 2, y=y + high / 2 + 4)
    return markup(svg)


# Small multiples ----------------------------------------------------------------------------------

_SPARK_WIDE, _SPARK_HIGH = 168, 44


def spark(points: Sequence[tuple[int, float]], first_ms: int, last_ms: int, label: str) -> Markup:
    """Draw one of several small charts with equal axes, from 0 to 1 and over the same time.

    Parameters
    ----------
    points
        Times in ms since 1970, and parts in use.
    first_ms, last_ms
        Ends of the time axis.
    label
        Accessible title of the chart, such as node and current value.
    """
    span = max(last_ms - first_ms, 1)
    svg = drawing(_SPARK_WIDE, _SPARK_HIGH, label, "spark")
    svg.set("preserveAspectRatio", "xMinYMid")
    add(svg, "line", "grid", x1=0, x2=_SPARK_WIDE, y1=0.5, y2=0.5)
    add(svg, "line", "grid", x1=0, x2=_SPARK_WIDE, y1=_SPARK_HIGH - 0.5, y2=_SPARK_HIGH - 0.5)
    line = Line(label, points)

    def x(at: float) -> float:
        return (at - first_ms) / span * _SPARK_WIDE

    places = [(x(at), _SPARK_HIGH - 1 - min(part, 1.0) * (_SPARK_HIGH - 2)) for at, part in points]
    if places:
        add(svg, "path", "line l0", d=_path(places, _step(line, x)))
    return markup(svg)


# Meter --------------------------------------------------------------------------------------------
# A part in use, as a bar beside its figure.

_WIDTH, _HEIGHT = 72, 8


def meter(part: float | None, whole: str) -> Markup:
    """Return a bar that is full at 1; `whole` names the total.

    The figure stands beside it, so no reader needs the colour.
    """
    known = part is not None and not isnan(part)
    value = part if part is not None and known else 0.0
    svg = drawing(_WIDTH, _HEIGHT, f"{whole}: {value:.0%}" if known else f"{whole}: unknown", "meter")
    add(svg, "rect", "track", width=_WIDTH, height=_HEIGHT, rx=2)
    if known and value > 0:
        add(svg, "rect", use_class(value), width=max(min(value, 1.0) * _WIDTH, 2), height=_HEIGHT, rx=2)
    return markup(svg)


# Charts -------------------------------------------------------------------------------------------

_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 12, 26, 26

#: Widths and heights: beside another, and alone across a page.
BESIDE, ACROSS = (560, 200), (1100, 220)

#: From here on, marks at the side are whole numbers.
_WHOLE = 40

#: A gap of so many usual steps is none that a line bridges.
_GAP = 5


@dataclass(frozen=True)
class Line:
    """A time series (ms since 1970); `name` is its legend."""

    name: str
    points: Sequence[tuple[int, float]]


@dataclass(frozen=True)
class Mark:
    """An event on the time axis: time, short label, text, and link."""

    at_ms: int
    label: str
    text: str
    href: str = ""


def chart(lines: Sequence[Line], unit: str, marks: Sequence[Mark] = (), size: tuple[int, int] = BESIDE) -> Markup:
    """The drawing; at most six lines have a colour of their own.

    Parameters
    ----------
    lines
        At least one point in all.
    unit
        Unit of the values, written above the vertical axis.
    marks
        What happened; those out of the span that the lines show are left out.
    size
        Width and height of the drawing.
    """
    width, height = size
    moments = [at for line in lines for at, _ in line.points]
    first, last = min(moments), max(moments)
    span = max(last - first, 60_000)
    first = last - span
    top = _nice(max((value for line in lines for _, value in line.points), default=0.0))
    bottom = height - _BOTTOM

    def x(at: float) -> float:
        return _LEFT + (at - first) / span * (width - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return bottom - value / top * (bottom - _TOP)

    svg = drawing(
        width,
        height,
        f"{', '.join(line.name for line in lines)} in {unit} over time",
        "chart across" if size == ACROSS else "chart",
    )
    if marks:
        del svg.attrib["role"]  # it holds links
    for step in range(5):
        value = top * step / 4
        add(svg, "line", "grid", x1=_LEFT, x2=width - _RIGHT, y1=y(value), y2=y(value))
        label = axis_label(value, top)
        add(svg, "text", "faint", label, x=_LEFT - 8, y=y(value) + 4, text_anchor="end")
    add(svg, "text", "faint", unit, x=_LEFT - 8, y=12, text_anchor="start" if len(unit) > 9 else "end")
    for step in range(5):
        at = first + span * step / 4
        anchor = "start" if not step else "end" if step == 4 else "middle"
        add(svg, "text", "faint", _clock(at, span), x=x(at), y=height - 6, text_anchor=anchor)
    for mark in marks:
        if first <= mark.at_ms <= last:
            into = link(svg, mark.href, mark.text) if mark.href else svg
            titled(add(into, "line", "mark", x1=x(mark.at_ms), x2=x(mark.at_ms), y1=_TOP - 6, y2=bottom), mark.text)
            add(into, "text", "mark-label", mark.label, x=x(mark.at_ms) + 3, y=_TOP - 8)
    for number, line in enumerate(lines):
        add(svg, "path", f"line l{number % 6}", d=_path([(x(at), y(v)) for at, v in line.points], _step(line, x)))
    return markup(svg)


#: Least value of an axis for a prefix, the prefix, and its factor.
_PREFIXES = ((1e9, "G", 1e9), (1e6, "M", 1e6), (1e4, "k", 1e3))


def axis_label(value: float, top: float) -> str:
    """Return the label of a value on an axis up to `top`: ``2.0 M``, ``40 k``, ``1,500``, ``0.25``."""
    for least, prefix, factor in _PREFIXES:
        if top >= least:
            scaled, digits = value / factor, 1 if top / factor < _WHOLE else 0
            return f"{scaled:,.{digits}f} {prefix}" if value else "0"
    return f"{value:,.0f}" if top >= _WHOLE else f"{value:.3g}"


def _path(points: Sequence[tuple[float, float]], gap: float) -> str:
    parts, before = [], float("-inf")
    for x, y in points:
        parts.append(f"{'M' if x - before > gap else 'L'}{num(x)} {num(y)}")
        before = x
    return "".join(parts) + (f"h{1}" if len(points) == 1 else "")


def _step(line: Line, x: Callable[[float], float]) -> float:
    """Beyond which two points are not joined: nothing was measured in between."""
    apart = sorted(b - a for (a, _), (b, _) in zip(line.points, line.points[1:], strict=False))
    usual = apart[len(apart) // 2] if apart else 1
    return x(_GAP * usual) - x(0)


def _nice(most: float) -> float:
    """The next round number."""
    if most <= 0:
        return 1.0
    scale = 10.0 ** floor(log10(most))
    return next(scale * each for each in (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10) if scale * each >= most * (1 - 1e-9))


def _clock(at_ms: float, span_ms: float) -> str:
    moment = datetime.fromtimestamp(ceil(at_ms / 1000), UTC)
    return moment.strftime("%H:%M:%S" if span_ms < 600_000 else "%H:%M")
