"""A sweep as one self-contained HTML page: the summary, and every cell in two plots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from stormwright.explain.drawing import COLOURS
from stormwright.model.humanize import counted
from stormwright.workbench.report import blank_figure, svg_of, write_report
from stormwright.workbench.sweep.cells import Sweep

# Summary ------------------------------------------------------------------------------------------
# Summary of a sweep per scheduler and parameters.

CellRow = Mapping[str, Any]


@dataclass(frozen=True)
class Summary:
    """A scheduler with certain parameters, over all problems, seeds and repeats.

    Parameters
    ----------
    valid_share
        Fraction of all its cells, including failed ones, that placed everything within all limits.
    relative_cost
        Median over its valid cells of the cost in parts of the lowest that any valid cell of the same problem has; None
        without a valid cell.
    seconds
        Median over the cells that did not fail; None without one.
    relative_rate, p95_ms
        Medians over cells that were simulated, of trees/s in parts of the most that any cell of the same problem under
        the same trace has, and of the latency that 95 % of trees are below; None without one.
    """

    scheduler: str
    parameters: Mapping[str, Any]
    cells: int
    failed: int
    valid_share: float
    relative_cost: float | None
    seconds: float | None
    relative_rate: float | None = None
    p95_ms: float | None = None

    @property
    def label(self) -> str:
        """Label such as ``online alpha=0.5, beta=1``."""
        return label(self.scheduler, self.parameters)

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as JSON."""
        return asdict(self)


def label(scheduler: str, parameters: Mapping[str, Any]) -> str:
    """Return a display label of a scheduler and its parameters."""
    return f"{scheduler} {', '.join(f'{key}={value}' for key, value in parameters.items())}".strip()


def own_cells(sweep: Sweep, table: pa.Table) -> pa.Table:
    """Return the sweep's own rows of a table that may hold rows of other sweeps."""
    return table.filter(pc.is_in(table["key"], pa.array([cell.key for cell in sweep.cells], pa.string())))


def summaries(rows: Sequence[CellRow]) -> list[Summary]:
    """Return a summary per scheduler and parameters: by relative cost, time, name; without valid cells last."""
    relative, rates = relative_costs(rows), relative_rates(rows)
    groups: dict[tuple[str, str], list[CellRow]] = {}
    for row in rows:
        groups.setdefault((row["scheduler"], row["parameters"]), []).append(row)
    found = [_summary(*key, group, relative, rates) for key, group in groups.items()]
    return sorted(found, key=_rank)


def relative_costs(rows: Sequence[CellRow]) -> dict[str, float]:
    """Return the cost of each valid cell (by key) relative to the lowest of its problem; 0 only relates to 0."""
    valid = [row for row in rows if row["valid"]]
    best: dict[str, float] = {}
    for row in valid:
        best[row["problem_digest"]] = min(row["cost"], best.get(row["problem_digest"], float("inf")))
    pairs = ((row["key"], row["cost"], best[row["problem_digest"]]) for row in valid)
    return {key: cost / lowest if lowest else 1.0 if not cost else float("inf") for key, cost, lowest in pairs}


def relative_rates(rows: Sequence[CellRow]) -> dict[str, float]:
    """Return trees/s of each simulated cell (by key) relative to the highest of its problem and trace."""
    simulated = [row for row in rows if row.get("trees_per_s") is not None]
    best: dict[tuple[str, str], float] = {}
    for row in simulated:
        case = row["problem_digest"], row["trace"]
        best[case] = max(row["trees_per_s"], best.get(case, 0.0))
    pairs = ((row, best[row["problem_digest"], row["trace"]]) for row in simulated)
    return {row["key"]: row["trees_per_s"] / most if most else 1.0 for row, most in pairs}


def _summary(
    scheduler: str, parameters: str, rows: Sequence[CellRow], relative: Mapping[str, float], rates: Mapping[str, float]
) -> Summary:
    done = [row for row in rows if row["error"] is None]
    return Summary(
        scheduler=scheduler,
        parameters=orjson.loads(parameters),
        cells=len(rows),
        failed=len(rows) - len(done),
        valid_share=sum(bool(row["valid"]) for row in rows) / len(rows),
        relative_cost=_median(relative[row["key"]] for row in rows if row["key"] in relative),
        seconds=_median(row["seconds"] for row in done),
        relative_rate=_median(rates[row["key"]] for row in rows if row["key"] in rates),
        p95_ms=_median(row["p95_ms"] for row in rows if row.get("p95_ms") is not None),
    )


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return median(found) if found else None


def _rank(summary: Summary) -> tuple[float, float, str]:
    cost = float("inf") if summary.relative_cost is None else summary.relative_cost
    return cost, summary.seconds or 0.0, summary.label


# Report -------------------------------------------------------------------------------------------

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
