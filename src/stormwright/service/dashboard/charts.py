"""Charts of time series as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil, floor, log10

from markupsafe import Markup

from stormwright.service.dashboard.svg import add, drawing, link, markup, num, titled

_SPARK_WIDE, _SPARK_HIGH = 168, 44

_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 12, 26, 26

#: Widths and heights: beside another, and alone across a page.
BESIDE, ACROSS = (560, 200), (1100, 220)

#: From here on, marks at the side are whole numbers.
_WHOLE = 40

#: A gap of so many usual steps is none that a line bridges.
_GAP = 5

#: Least value of an axis for a prefix, the prefix, and its factor.
_PREFIXES = ((1e9, "G", 1e9), (1e6, "M", 1e6), (1e4, "k", 1e3))


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
