"""A sweep as one self-contained HTML page: the summary, and every cell in two plots."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path

import orjson

from stormwright.explain.drawing import COLOURS
from stormwright.model.humanize import counted
from stormwright.workbench.report import blank_figure, svg_of, write_report
from stormwright.workbench.sweep.summary import CellRow, Summary, label, relative_costs

#: Rows of the first plot; the table has all.
_MAX_SHOWN = 40

_MAX_ERRORS = 50


def write_sweep_report(path: Path, title: str, rows: Sequence[CellRow], found: Sequence[Summary]) -> None:
    """Write the page.

    Parameters
    ----------
    path
        HTML file to write; replaced if it exists.
    title
        Title of the report.
    rows
        Rows of the sweep's table.
    found
        Summary of the cells of each scheduler, in the order of the page.
    """
    problems = {row["problem_digest"] for row in rows}
    machines = {(row["host"], row["cores"]) for row in rows}
    loads = [row["load_1min"] for row in rows]
    write_report(
        path,
        "sweep.html.j2",
        title=f"Sweep {title}",
        lead=f"{counted(len(rows), 'cell')} on {counted(len(problems), 'problem')}.",
        summaries=found,
        simulated=any(one.relative_rate is not None for one in found),
        costs=_relative_costs_svg(rows, found),
        times=_times_svg(rows, found),
        machines=[f"{host} ({counted(cores, 'core')})" for host, cores in sorted(machines)],
        load=f"{min(loads):.1f} to {max(loads):.1f}" if loads else "",
        errors=[row for row in rows if row["error"] is not None][:_MAX_ERRORS],
        failed=sum(row["error"] is not None for row in rows),
    )


def _relative_costs_svg(rows: Sequence[CellRow], found: Sequence[Summary]) -> str:
    """Return a plot: a row per scheduler and parameters, a point per valid cell, medians marked; best on top."""
    shown = found[:_MAX_SHOWN]
    points = _by_rule(rows)
    figure = blank_figure(10, 1 + 0.32 * len(shown))
    axes = figure.add_subplot()
    for position, summary in enumerate(shown):
        costs = [cost for cost, _ in points.get((summary.scheduler, summary.label), ())]
        axes.plot(costs, [position] * len(costs), "o", color=COLOURS[0], alpha=0.35, markersize=5, markeredgewidth=0)
        if summary.relative_cost is not None and isfinite(summary.relative_cost):
            axes.plot([summary.relative_cost], [position], "|", color=COLOURS[5], markersize=16, markeredgewidth=2.5)
    axes.set(xlabel="cost, lowest of its problem = 1", ylim=(len(shown) - 0.5, -0.5))
    axes.set_yticks(range(len(shown)), [summary.label for summary in shown])
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return svg_of(figure)


def _times_svg(rows: Sequence[CellRow], found: Sequence[Summary]) -> str:
    """Return a plot of cost against time of every valid cell, a colour per scheduler."""
    points = _by_rule(rows)
    figure = blank_figure(10, 4.5)
    axes = figure.add_subplot()
    for number, scheduler in enumerate(dict.fromkeys(summary.scheduler for summary in found)):
        own = [point for (name, _), several in points.items() if name == scheduler for point in several]
        if own:
            colour, shape = COLOURS[number % len(COLOURS)], "os^Dv"[number // len(COLOURS) % 5]
            costs, seconds = zip(*own, strict=True)
            axes.plot(seconds, costs, shape, color=colour, alpha=0.6, markersize=5, markeredgewidth=0, label=scheduler)
    if points:
        axes.set_xscale("log")
        axes.legend(frameon=False, ncols=2)
    axes.set(xlabel="seconds", ylabel="cost, lowest of its problem = 1")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return svg_of(figure)


def _by_rule(rows: Sequence[CellRow]) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Return relative cost and seconds of valid cells with a ratio, by scheduler and label."""
    relative = relative_costs(rows)
    points: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        cost = relative.get(row["key"], float("inf"))
        if isfinite(cost):
            rule = row["scheduler"], label(row["scheduler"], orjson.loads(row["parameters"]))
            points.setdefault(rule, []).append((cost, max(row["seconds"], 1e-6)))
    return points
