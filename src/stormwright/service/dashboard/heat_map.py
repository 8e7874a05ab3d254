"""Heat maps: traffic from place to place as coloured cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from stormwright.service.dashboard.charts import axis_label
from stormwright.service.dashboard.flows import Heat
from stormwright.service.dashboard.svg import add, drawing, markup, shortened, titled

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
