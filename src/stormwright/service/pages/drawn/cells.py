"""Nodes as cells, rack by rack, coloured by how full each is."""

from __future__ import annotations

from urllib.parse import quote

from markupsafe import Markup

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.model.cluster import Cluster
from stormwright.service.pages.drawn.svg import add, drawing, link, markup, titled, use_class

#: On a page with up to so many nodes each cell is a link of its own; of more, those of a colour are one shape.
MOST_LINKS = 400

#: Up to so many nodes each cell has its figure in it.
MOST_FIGURES = 64

_CELL, _GAP, _IN_ROW = 14, 3, 40

#: Up to so many light cells are a block, with so many in a row, of which a page has many.
_BLOCK, _BLOCK_ROW, _SMALL, _SMALL_GAP = 100, 17, 10, 2

#: Width, height and number in a row of cells with figures.
_WIDE, _HIGH, _FEW_IN_ROW = 48, 32, 5


def cells(nodes: IndexArray, part: FloatArray, cluster: Cluster, what: str, on_page: int) -> Markup:
    """The cells of some nodes.

    Parameters
    ----------
    nodes
        Which, by index.
    part
        In use of every node, shape (N,).
    cluster
        Of all nodes.
    what
        What the part is of, in words.
    on_page
        How many nodes the page has in all.
    """
    if on_page <= MOST_LINKS:
        return _linked(nodes, part, cluster, what)
    block = len(nodes) <= _BLOCK
    size, gap, in_row = (_SMALL, _SMALL_GAP, _BLOCK_ROW) if block else (_CELL, _GAP, _IN_ROW)
    step, rows = size + gap, -(-len(nodes) // in_row)
    svg = drawing(in_row * step - gap, rows * step - gap, f"{what} of {len(nodes):,} nodes", "cells many")
    shapes: dict[str, list[str]] = {}
    for number, value in enumerate(part[nodes].tolist()):
        row, column = divmod(number, in_row)
        shape = f"M{column * step} {row * step}h{size}v{size}h-{size}z"
        shapes.setdefault(use_class(value), []).append(shape)
    for kind, found in shapes.items():
        add(svg, "path", kind, d="".join(found))
    return markup(svg)


def _linked(nodes: IndexArray, part: FloatArray, cluster: Cluster, what: str) -> Markup:
    figures = len(nodes) <= MOST_FIGURES
    wide, high, in_row = (_WIDE, _HIGH, _FEW_IN_ROW) if figures else (_CELL, _CELL, _IN_ROW)
    columns, rows = min(max(len(nodes), 1), in_row), -(-max(len(nodes), 1) // in_row)
    width, height = columns * (wide + _GAP) - _GAP, rows * (high + _GAP) - _GAP
    svg = drawing(width, height, f"{what} of {len(nodes):,} nodes", "cells")
    del svg.attrib["role"], svg.attrib["aria-label"]  # it holds links, each with its own
    for number, node in enumerate(nodes.tolist()):
        row, column = divmod(number, in_row)
        x, y, kind = column * (wide + _GAP), row * (high + _GAP), use_class(part[node])
        told = "–" if kind == "unknown" else f"{part[node]:.0%}"
        label = f"{cluster.node_names[node]}: {what} {told}"
        to = link(svg, f"/cluster/nodes/{quote(cluster.supervisors[node].id, safe='')}", label)
        titled(add(to, "rect", kind, x=x, y=y, width=wide, height=high, rx=2 + 2 * figures), label)
        if figures:
            add(to, "text", f"on-{kind}", told, x=x + wide / 2, y=y + high / 2 + 4)
    return markup(svg)
