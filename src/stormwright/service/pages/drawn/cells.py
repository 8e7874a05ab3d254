"""Nodes as cells, rack by rack, coloured by how full each is."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from markupsafe import Markup

from stormwright.model.arrays import FloatArray, IntArray
from stormwright.service.pages.drawn.svg import add, drawing, link, markup, titled, use_class

#: Up to so many nodes each cell is a link of its own; more are drawn as a shape a colour, which is light.
MOST_LINKS = 400

_CELL, _GAP, _IN_ROW = 14, 3, 40


def cells(nodes: IntArray, part: FloatArray, hosts: Sequence[str], ids: Sequence[str], what: str) -> Markup:
    """The cells of some nodes.

    Parameters
    ----------
    nodes
        Which, by index.
    part
        In use of every node, shape (N,).
    hosts, ids
        Of every node.
    what
        What the part is of, in words.
    """
    step, rows = _CELL + _GAP, -(-max(len(nodes), 1) // _IN_ROW)
    width = min(len(nodes), _IN_ROW) * step - _GAP if len(nodes) else _CELL
    svg = drawing(width, rows * step - _GAP, f"{what} of {len(nodes):,} nodes", "cells")
    if len(nodes) > MOST_LINKS:
        svg.attrib["class"] += " many"
        shapes: dict[str, list[str]] = {}
        for number, node in enumerate(nodes.tolist()):
            row, column = divmod(number, _IN_ROW)
            shape = f"M{column * step} {row * step}h{_CELL}v{_CELL}h-{_CELL}z"
            shapes.setdefault(use_class(part[node]), []).append(shape)
        for kind, found in shapes.items():
            add(svg, "path", kind, d="".join(found))
        return markup(svg)
    del svg.attrib["role"]  # it holds links
    for number, node in enumerate(nodes.tolist()):
        row, column = divmod(number, _IN_ROW)
        told = "unknown" if part[node] != part[node] else f"{part[node]:.0%}"
        label = f"{hosts[node]}: {what} {told}"
        to = link(svg, f"/cluster/nodes/{quote(ids[node], safe='')}", label)
        shape = add(to, "rect", use_class(part[node]), x=column * step, y=row * step, width=_CELL, height=_CELL, rx=2)
        titled(shape, label)
    return markup(svg)
