"""Curves of cost against moves and restarts as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stormwright.experiments.report import write_report
from stormwright.experiments.tradeoff.run import Tradeoff, TradeoffPoint
from stormwright.model.humanize import size_of

#: The drawing, and what is left free for the words beside it.
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 900.0, 320.0, 90.0, 40.0


def write_tradeoff(path: Path, found: Tradeoff) -> None:
    """Write the page."""
    problem = found.problem
    write_report(
        path,
        "tradeoff.html.j2",
        title=f"Cost against moves and restarts of {problem.name or 'a problem'}",
        lead=f"{size_of(problem)}.",
        found=found,
        curves=[(what, _marks(found, points)) for what, points in found.curves()],
        staying_y=_y(found, found.staying),
        width=_WIDTH,
        height=_HEIGHT,
        left=_LEFT,
        bottom=_BOTTOM,
    )


def _marks(
    found: Tradeoff, points: Sequence[tuple[int | None, TradeoffPoint]]
) -> list[tuple[float, float, int | None, TradeoffPoint]]:
    """Where every point is drawn. Numbers stand at equal distances, since each is several times the one before."""
    step = (_WIDTH - _LEFT) / len(points)
    return [
        (_LEFT + step * (number + 0.5), _y(found, point.cost), most, point)
        for number, (most, point) in enumerate(points)
    ]


def _y(found: Tradeoff, cost: float) -> float:
    highest = max([found.staying, *(point.cost for point in found.points)]) or 1.0
    return (_HEIGHT - _BOTTOM) * (1 - cost / highest / 1.08)
