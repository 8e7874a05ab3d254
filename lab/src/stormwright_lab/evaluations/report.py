"""An HTML page for each paper: its rows beside the measurements, with charts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from stormwright import __version__
from stormwright.explain.drawing import COLOURS
from stormwright.model.humanize import counted
from stormwright.workbench.report import blank_figure, svg_of, write_report
from stormwright_lab.evaluations.cell_store import CellStore
from stormwright_lab.evaluations.cells import QUICK, Cell
from stormwright_lab.evaluations.definitions import FIGURES, OrderClaim, Paper, ReportedFigure
from stormwright_lab.evaluations.intervals import MIN_STARTS, FigureInterval, mean_of, samples_of
from stormwright_lab.evaluations.run import measurements
from stormwright_lab.evaluations.verdict import (
    IN_DIRECTION,
    IN_MAGNITUDE,
    NOTHING,
    OTHERWISE,
    REPORTED,
    UNDECIDED,
    UNMEASURED,
    Measurements,
    RowVerdict,
    judge,
    ratio_between,
)

#: Verdict → class in the page.
_CLASSES = {
    IN_MAGNITUDE: "good",
    IN_DIRECTION: "good",
    OTHERWISE: "bad",
    UNDECIDED: "open",
    UNMEASURED: "open",
    REPORTED: "",
    NOTHING: "open",
}

#: Inches of a line in a picture, and of what is around it.
_LINE, _AROUND = 0.27, 1.0


def write_page(
    path: Path, paper: Paper, cells: Sequence[Cell], store: CellStore, *, simulated: bool = False
) -> list[RowVerdict]:
    """Write the page of a paper and return its rows with their verdicts.

    Parameters
    ----------
    path
        HTML file to write; an existing one is replaced.
    paper
        Paper of the page.
    cells
        Cells of this paper that the run includes.
    store
        Results of the cells.
    simulated
        Whether they were simulated.
    """
    measured = measurements(paper, cells, store)
    rows = [judge(row, measured) for row in paper.rows]
    done = sum(cell.key in store.found for cell in cells)
    cores = {
        found.details["cores"] for cell in cells if (found := store.found.get(cell.key)) and "cores" in found.details
    }
    held = f", nodes held to {' or '.join(f'{each:g}' for each in sorted(cores))} cores each" if cores else ""
    machine = f"stormwright {__version__}, {counted(len(os.sched_getaffinity(0)), 'core')}{held}"
    how = "simulated in virtual time, without Storm" if simulated else "measured"
    write_report(
        path,
        "experiment.html.j2",
        package="stormwright_lab",
        paper=paper,
        lead=f"{done} of {counted(len(cells), 'cell')} {how}; {machine}." if cells else f"Computed; {machine}.",
        quick=bool(cells) and all(cell.times == QUICK for cell in cells),
        least_starts=MIN_STARTS,
        rows=rows,
        colours=_CLASSES,
        pictures=list(_pictures(paper, measured)),
        cells=[(cell, store.found.get(cell.key), store.errors.get(cell.key)) for cell in cells],
    )
    return rows


def as_dict(paper: Paper, rows: Sequence[RowVerdict], cells: Sequence[Cell], store: CellStore) -> dict[str, Any]:
    """Return the page's content as JSON.

    Parameters
    ----------
    paper, cells, store
        Paper of the page, its cells in this run, and their results.
    rows
        Rows with verdicts, as returned by it.
    """
    return {
        "experiment": paper.name,
        "title": paper.title,
        "cells": len(cells),
        "measured": sum(cell.key in store.found for cell in cells),
        "failed": {cell.name: store.errors[cell.key] for cell in cells if cell.key in store.errors},
        "rows": [
            {
                "where": verdict_row.row.where,
                "says": verdict_row.row.says,
                "verdict": verdict_row.verdict,
                "why_not": verdict_row.row.why_not or None,
                "claims": [
                    {"what": c.what, "published": c.published, "ours": c.ours, "verdict": c.verdict}
                    for c in verdict_row.claims
                ],
            }
            for verdict_row in rows
        ],
    }


def _pictures(paper: Paper, measured: Measurements) -> Iterator[tuple[str, str]]:
    orders = [claim for row in paper.rows for claim in row.claims if isinstance(claim, OrderClaim)]
    points = [(claim, ratio) for claim in orders if (ratio := _ratio(claim, measured)) is not None]
    if points:
        yield "Measured and published ratios", _ratios_svg(points)
    reported = dict.fromkeys(
        claim.figure for row in paper.rows for claim in row.claims if isinstance(claim, ReportedFigure)
    )
    for figure in reported:
        wanted = {
            c.block for row in paper.rows for c in row.claims if isinstance(c, ReportedFigure) and c.figure == figure
        }
        lines = [
            (block, variant, mean_of(samples))
            for (block, variant), starts in measured.items()
            if block in wanted and (samples := samples_of(starts.get(figure, ())))
        ]
        if lines:
            yield FIGURES[figure].capitalize(), _figure_svg(FIGURES[figure], lines)


def _ratio(claim: OrderClaim, measured: Measurements) -> FigureInterval | None:
    first, second = (
        samples_of(measured.get((claim.block, variant), {}).get(claim.figure, ()))
        for variant in (claim.first, claim.second)
    )
    return ratio_between(claim.figure, first, second) if first and second else None


def _ratios_svg(points: Sequence[tuple[OrderClaim, FigureInterval]]) -> str:
    """Return a plot of ratios with intervals; published numbers as crosses, directions as arrows from 1."""
    figure = blank_figure(10, _AROUND + _LINE * len(points))
    axes = figure.add_subplot()
    for line, (claim, ratio) in enumerate(points):
        axes.plot([ratio.low, ratio.high], [line, line], "-", color=COLOURS[0], linewidth=2)
        axes.plot([ratio.value], [line], "o", color=COLOURS[0], markersize=6, label="measured" if line == 0 else None)
        if claim.published is not None:
            ends = claim.published if isinstance(claim.published, tuple) else (claim.published,)
            axes.plot(ends, [line] * len(ends), "x:", color=COLOURS[5], markersize=8, markeredgewidth=2)
        else:
            axes.plot([1], [line], ">" if claim.more else "<", color=COLOURS[5], markersize=7)
    axes.axvline(1, color="#999", linewidth=1)
    axes.set(xlabel="ratio; dots are measured, crosses published, arrows a published direction")
    names = [f"{c.block}: {FIGURES[c.figure].split(',')[0]}, {c.first} / {c.second}" for c, _ in points]
    axes.set_yticks(range(len(points)), names)
    axes.set_ylim(len(points) - 0.5, -0.5)
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return svg_of(figure)


def _figure_svg(name: str, lines: Sequence[tuple[str, str, FigureInterval]]) -> str:
    """Return a plot with a line for each block and variant, a colour per variant."""
    figure = blank_figure(10, _AROUND + _LINE * len(lines))
    axes = figure.add_subplot()
    variants = list(dict.fromkeys(variant for _, variant, _ in lines))
    for line, (_, variant, found) in enumerate(lines):
        colour = COLOURS[variants.index(variant) % len(COLOURS)]
        axes.plot([found.low, found.high], [line, line], "-", color=colour, linewidth=2)
        axes.plot([found.value], [line], "o", color=colour, markersize=6)
    axes.set(xlabel=name)
    axes.set_yticks(range(len(lines)), [f"{block}, {variant}" for block, variant, _ in lines])
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return svg_of(figure)
