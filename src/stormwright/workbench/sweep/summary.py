"""Summary of a sweep per scheduler and parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from stormwright.workbench.sweep.cells import Sweep

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
