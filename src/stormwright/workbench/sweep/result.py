"""Results of a sweep, and its cells decided in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stormwright.base.tables import Tabular, TextTable, paragraph
from stormwright.model.humanize import counted
from stormwright.workbench.sweep.cells import Sweep, SweepCell
from stormwright.workbench.sweep.summary import Summary, own_cells, summaries
from stormwright.workbench.sweep.table import CellTable
from stormwright.workbench.sweep.work import SweepPart, decide

#: Seconds after which cells that were decided here are appended to the table.
_APPEND_S = 5.0

#: Columns by which cells are sorted.
_ORDER = ("problem", "scheduler", "parameters", "trace", "seed", "repeat")

#: Rows of the summary, and errors, that are shown.
_MAX_ROWS, _MAX_ERRORS = 50, 10

#: Columns of a summary with texts and figures for people.
_SHOWN = ("relative_cost", "relative_rate", "p95_ms", "valid_share", "seconds", "cells", "failed")


def to_do(sweep: Sweep, table: CellTable, retry_failed: bool) -> list[SweepCell]:
    """Return the cells missing in the table; with `retry_failed` also those with an error."""
    known = table.read()
    if retry_failed:
        known = known.filter(pc.is_null(known["error"]))
    done = set(known["key"].to_pylist())
    return [cell for cell in sweep.cells if cell.key not in done]


def run_here(sweep: Sweep, table: CellTable, *, retry_failed: bool = False) -> int:
    """Decide the missing cells in this process, one after the other, and append their rows; return their number.

    A scheduler that ends the process ends the sweep, unlike on Spark; the same call continues it.

    Parameters
    ----------
    sweep
        Cells to decide, with their problems and schedulers.
    table
        Table of its cells.
    retry_failed
        Whether to run failed cells again.
    """
    cells = to_do(sweep, table, retry_failed)
    left = cells
    while left:
        rows = pa.Table.from_batches([decide(part(sweep, left, _APPEND_S))])
        table.append(rows)
        left = left[rows.num_rows :]
    return len(cells)


def part(sweep: Sweep, cells: Sequence[SweepCell], seconds: float | None = None) -> SweepPart:
    """Return cells with everything that a worker needs for them, and the seconds that it has."""
    problems = {cell.problem: sweep.problems[cell.problem] for cell in cells}
    return SweepPart(problems, cells, sweep.time_limit_s, seconds, own=sweep.own)


class SweepResult(Tabular):
    """Cells of a sweep; a sequence of a summary for each scheduler and its parameters, best first.

    Parameters
    ----------
    sweep
        Sweep whose cells are selected from the table.
    table
        Table with its cells, and maybe those of others.
    decided
        Number of cells that were decided now.

    Attributes
    ----------
    cells
        A row for each cell, as `stormwright.workbench.sweep.work.ROW`.
    summaries
        Summary of each scheduler and its parameters.
    """

    def __init__(self, sweep: Sweep, table: pa.Table, decided: int) -> None:
        self.decided = decided
        self.cells = own_cells(sweep, table).sort_by([(name, "ascending") for name in _ORDER])
        self.summaries: tuple[Summary, ...] = tuple(summaries(self.cells.to_pylist()))

    def __iter__(self) -> Iterator[Summary]:
        return iter(self.summaries)

    def __len__(self) -> int:
        return len(self.summaries)

    @property
    def errors(self) -> list[str]:
        """Errors of failed cells, each with its scheduler and problem."""
        failed = self.cells.filter(pc.is_valid(self.cells["error"])).to_pylist()
        return [f"{row['scheduler']} {row['parameters']} on {row['problem']}: {row['error']}" for row in failed]

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return cells and summaries as tables; the parameters of a cell are JSON."""
        summary = [{"label": each.label, **each.as_dict()} for each in self.summaries]
        return {"cells": self.cells.to_pylist(), "summary": summary}

    def to_frame(self, kind: str = "pandas", table: str | None = None) -> Any:
        """Return a table as a frame; see `Tabular.to_frame`."""
        if kind == "arrow" and table in (None, "cells"):
            return self.cells
        return super().to_frame(kind, table)  # type: ignore[call-overload]

    def headline(self) -> str:
        """Return the first line of the text."""
        failed = f", {len(self.errors):,} failed" if self.errors else ""
        return f"{counted(self.cells.num_rows, 'cell')}, {self.decided:,} decided now{failed}"

    def __repr__(self) -> str:
        """Return the summary as text, for interactive use."""
        return "\n".join([self.headline(), TextTable.of(self._summary()).as_text(), *self.errors[:_MAX_ERRORS]])

    def _repr_html_(self) -> str:
        """Return the summary for a notebook."""
        parts = [paragraph(self.headline()), TextTable.of(self._summary(), _MAX_ROWS).as_html()]
        return "".join([*parts, *map(paragraph, self.errors[:_MAX_ERRORS])])

    def _summary(self) -> list[dict[str, Any]]:
        return [{"": each.label, **{name: getattr(each, name) for name in _SHOWN}} for each in self.summaries]
