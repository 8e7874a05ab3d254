"""Elements of SVG: attributes are numbers and names of this code, texts are escaped."""

from __future__ import annotations

from math import isnan
from xml.etree.ElementTree import Element, SubElement, tostring

from markupsafe import Markup

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
