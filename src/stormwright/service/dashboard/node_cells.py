"""Nodes as cells, rack by rack, coloured by their use; and meters of one part in use."""

from __future__ import annotations

from math import isnan
from urllib.parse import quote

from markupsafe import Markup

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.model.cluster import Cluster
from stormwright.service.dashboard.svg import add, drawing, link, markup, titled, use_class

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
