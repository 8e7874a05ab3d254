"""Traffic from place to place as coloured cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from stormwright.service.pages.drawn.svg import add, drawing, markup, shortened, titled
from stormwright.service.pages.seen.flows import Heat

_CELL, _GAP, _SIDE, _HEAD, _LETTER, _MOST = 22, 2, 8, 10, 7.6, 15


def heat_map(heat: Heat) -> Markup:
    """Rows send, columns receive; the stronger a colour, the more. What stays in a place is not coloured."""
    step, count = _CELL + _GAP, len(heat.names)
    names = [shortened(name, _MOST) for name in without_domain(heat.names)]
    side = max(map(len, names), default=0) * _LETTER + _SIDE
    crossing = heat.tps.copy()
    np.fill_diagonal(crossing, 0)
    most = float(crossing.max()) if crossing.size else 0.0
    svg = drawing(side + count * step, side + _HEAD + count * step, f"traffic between {count} {heat.kind}s", "heat")
    for number, name in enumerate(names):
        middle = (number + 0.5) * step + 4
        add(svg, "text", "faint", name, x=side - _SIDE, y=side + _HEAD + middle, text_anchor="end")
        turned = f"rotate(-90 {side + middle:.0f} {side})"
        add(svg, "text", "faint", name, x=side + middle, y=side, transform=turned)
    for row in range(count):
        for column in range(count):
            tps = float(heat.tps[row, column])
            kind = "self" if row == column else _step(tps, most)
            x, y = side + column * step, side + _HEAD + row * step
            cell = add(svg, "rect", kind, x=x, y=y, width=_CELL, height=_CELL, rx=2)
            if tps:
                titled(cell, f"{heat.names[row]} → {heat.names[column]}: {tps:,.0f} tuples/s")
    return markup(svg)


def without_domain(hosts: Sequence[str]) -> Sequence[str]:
    """Names of hosts without the domain that all of them share."""
    domains = {name.partition(".")[2] for name in hosts if "." in name}
    if len(domains) != 1:
        return hosts
    return [name.removesuffix(f".{domain}") for domain in domains for name in hosts]


def _step(tps: float, most: float) -> str:
    """By the square root: of little, too, one sees that it is there."""
    return "h0" if tps <= 0 or most <= 0 else f"h{min(int((tps / most) ** 0.5 * 5) + 1, 5)}"
