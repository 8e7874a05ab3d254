"""Throughput over time as lines in a picture: where everything stands in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import floor, log10

#: Of the picture, and what its axes need of it.
WIDTH, HEIGHT = 960, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 44, 26, 40

#: Labels of an axis, about.
_TICKS = 6


@dataclass(frozen=True)
class Curve:
    """Completed tuple trees per second of one topology over time.

    Parameters
    ----------
    name, colour
        What its line is called, and looks like.
    seconds, acked_tps
        Its points.
    promised
        From second, to second, and the rate that was predicted for between them.
    """

    name: str
    colour: str
    seconds: Sequence[float]
    acked_tps: Sequence[float]
    promised: Sequence[tuple[float, float, float]] = ()


@dataclass(frozen=True)
class _Line:
    """A curve as drawn: its points, and dashes (from x, to x, y) where something was predicted."""

    name: str
    colour: str
    points: str
    dashes: Sequence[tuple[float, float, float]]


@dataclass(frozen=True)
class Span:
    """A stretch of time as drawn."""

    x: float
    width: float
    label: str


@dataclass(frozen=True)
class Chart:
    """A picture; ticks are a position and a label."""

    lines: Sequence[_Line]
    spans: Sequence[Span]
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def chart_of(curves: Sequence[Curve], spans: Sequence[tuple[float, float, str]]) -> Chart:
    """Curves over stretches of time (from second, to second, label)."""
    longest = max((max(curve.seconds, default=0.0) for curve in curves), default=0.0) or 1.0
    rates = [rate for curve in curves for rate in (*curve.acked_tps, *(rate for *_, rate in curve.promised))]
    most = max(rates, default=0.0) * 1.05 or 1.0

    def x(second: float) -> float:
        return round(LEFT + min(max(second / longest, 0.0), 1.0) * (WIDTH - LEFT - RIGHT), 1)

    def y(rate: float) -> float:
        return round(HEIGHT - BOTTOM - rate / most * (HEIGHT - TOP - BOTTOM), 1)

    return Chart(
        lines=[
            _Line(
                curve.name,
                curve.colour,
                " ".join(f"{x(s)},{y(rate)}" for s, rate in zip(curve.seconds, curve.acked_tps, strict=True)),
                [(x(start), x(end), y(rate)) for start, end, rate in curve.promised],
            )
            for curve in curves
        ],
        spans=[Span(x(start), round(x(end) - x(start), 1), label) for start, end, label in spans],
        x_ticks=[(x(second), f"{second:,.0f}") for second in _ticks(longest)],
        y_ticks=[(y(rate), f"{rate:,.0f}") for rate in _ticks(most)],
    )


def _ticks(most: float) -> Iterator[float]:
    """Round numbers from 0 to `most`."""
    rough = most / _TICKS
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    yield from (number * step for number in range(int(most / step) + 1))
