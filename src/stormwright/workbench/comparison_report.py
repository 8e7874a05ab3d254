"""A comparison as one self-contained HTML page: the figures, and the placements side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stormwright.explain.drawing import (
    CPU_USED,
    Drawing,
    component_colours,
    component_legend,
    draw,
    is_small,
)
from stormwright.model import CostWeights
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.model.humanize import counted
from stormwright.model.problem import assumed_text, size_of
from stormwright.workbench.comparison import Comparison, PlacementFigures, outcome_text
from stormwright.workbench.report import write_report

_BAR_HEIGHT = 100


@dataclass(frozen=True)
class NodeBars:
    """A figure of every node: outline of the bars in a field of N × 100, position of 1, and text of the maximum."""

    label: str
    path: str
    nodes: int
    height_of_one: float
    top: str


@dataclass(frozen=True)
class CostBar:
    """Parts of a cost, each with class of distance, tuples/s and percent of the highest cost."""

    name: str
    total: str
    parts: list[tuple[str, str, float]]


def write_comparison(path: Path, comparison: Comparison) -> None:
    """Write the page."""
    problem = comparison.problem
    colours = component_colours(problem)
    small = is_small(problem)
    drawings = [draw(problem, *placement, colours if small else None) for placement in _placements(comparison)]
    write_report(
        path,
        "compare.html.j2",
        title=f"Schedulers compared on {problem.name or 'a problem'}",
        lead=f"{'; '.join(filter(None, [size_of(problem), assumed_text(problem)]))}.",
        verdict=comparison.verdict,
        rate_heading=comparison.rate_heading,
        notes=[note for note in comparison.notes if note != assumed_text(problem)],
        current=comparison.current,
        rows=comparison.rows,
        costs=list(_cost_bars(comparison)),
        legend=list(component_legend(problem, colours)) if small else [],
        drawings=drawings,
        node_rows=list(zip(*(drawing.boxes for drawing in drawings), strict=True)),
        bar_rows=list(_bar_rows(drawings)),
    )


def _placements(comparison: Comparison) -> Iterator[tuple[str, str, IntArray]]:
    if comparison.current:
        yield "what runs now", _lead(comparison.current), comparison.problem.current_slot
    for row in comparison.rows:
        if row.figures and row.assignment:
            yield row.label, _lead(row.figures), row.assignment.slot_of_executor


def _lead(figures: PlacementFigures) -> str:
    return f"{outcome_text(figures)}, {counted(figures.nodes, 'node')}, {counted(figures.workers, 'worker')}"


def _cost_bars(comparison: Comparison) -> Iterator[CostBar]:
    weights = CostWeights()
    named = [("what runs now", comparison.current), *((row.label, row.figures) for row in comparison.rows)]
    known = [(name, figures) for name, figures in named if figures and figures.total is not None]
    highest = max((figures.cost.total for _, figures in known), default=0.0) or 1.0
    for name, figures in known:
        cost = figures.cost
        parts = [
            ("between workers of a node", cost.inter_worker, weights.inter_worker),
            ("between nodes of a rack", cost.inter_node, weights.inter_node),
            ("between racks", cost.inter_rack, weights.inter_rack),
        ]
        yield CostBar(
            name,
            f"{figures.mark}{cost.total:,.1f}",
            [
                (label, f"{tps:,.1f} tuples/s × {weight:g}", 100 * tps * weight / highest)
                for label, tps, weight in parts
            ],
        )


def _bar_rows(drawings: Sequence[Drawing]) -> Iterator[list[NodeBars]]:
    """Yield a row of bars for every figure, all placements on one scale."""
    for label in drawings[0].figures if drawings else ():
        of_each = [drawing.figures[label] for drawing in drawings]
        scale = max(float(values.max(initial=0.0)) for values in of_each) or 1.0
        yield [_bars(label, values, scale) for values in of_each]


def _bars(label: str, values: FloatArray, scale: float) -> NodeBars:
    path = "".join(f"V{height:.0f}h1" for height in _BAR_HEIGHT * (1 - values / scale))
    top = float(values.max(initial=0.0))
    return NodeBars(
        label,
        f"M0 {_BAR_HEIGHT}{path}V{_BAR_HEIGHT}Z",
        len(values),
        _BAR_HEIGHT * (1 - 1 / scale),
        f"{top:.0%} of its capacity" if label == CPU_USED else f"{top:.0f}",
    )
