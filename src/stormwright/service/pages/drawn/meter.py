"""A part in use, as a bar beside its figure."""

from __future__ import annotations

from math import isnan

from markupsafe import Markup

from stormwright.service.pages.drawn.svg import add, drawing, markup, use_class

_WIDTH, _HEIGHT = 72, 8


def meter(part: float | None, what: str) -> Markup:
    """A bar that is full at 1; `what` says of what it is the part.

    The figure stands beside it, so nobody needs the colour.
    """
    known = part is not None and not isnan(part)
    value = part if part is not None and known else 0.0
    svg = drawing(_WIDTH, _HEIGHT, f"{what}: {value:.0%}" if known else f"{what}: unknown", "meter")
    add(svg, "rect", "track", width=_WIDTH, height=_HEIGHT, rx=2)
    if known and value > 0:
        add(svg, "rect", use_class(value), width=max(min(value, 1.0) * _WIDTH, 2), height=_HEIGHT, rx=2)
    return markup(svg)
