"""``stormwright sweep``: run many scheduling decisions on Spark, into a table."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from stormwright.base.files import name_of_output
from stormwright.cli import options
from stormwright.cli.lines import say, say_lines
from stormwright.cli.output import cut_short, numbers_table, prepare_output, print_json, print_table
from stormwright.formats.files.json_files import write_bytes
from stormwright.model.humanize import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stormwright.pipeline.spark.target import SparkTarget
    from stormwright.workbench.sweep.cells import Sweep
    from stormwright.workbench.sweep.summary import CellRow, Summary
    from stormwright.workbench.sweep.table import CellTable

_SOME_FAILED = 1

_MAX_ERRORS = 10

#: Seconds between two lines of progress, other than on a terminal, where a bar is shown.
_LINE_EVERY_S = 2.0


@click.command()
@click.argument("spec", type=options.PATH)
@click.option(
    "--table",
    metavar="DIRECTORY|URI",
    help="Parquet table of the cells.  [default: SPEC's name with -cells, in the current directory]",
)
@click.option(
    "--state",
    "state_dir",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="State directory of a service; the cells are also added to its history, as `experiments`.",
)
@options.from_scratch("keep")
@click.option("--retry-failed", is_flag=True, help="Repeat cells that failed before.")
@click.option("--csv", "csv_file", type=options.OUTPUT_PATH, help="Also write the cells as CSV.")
@options.output("Write an HTML report here.")
@options.spark
@options.as_json("Print the summary as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    spec: Path,
    table: str | None,
    state_dir: Path | None,
    from_scratch: bool | None,
    retry_failed: bool,
    csv_file: Path | None,
    output: Path | None,
    master: str | None,
    spark_conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """SPEC (stormwright-sweep/1, YAML or JSON) lists the cells: problem × scheduler × parameters × seed × repeat. With
    `simulate` each placement also runs in virtual time, without a trace and with each of the given ones.

    Cells that are in the table already are skipped, so that an interrupted sweep resumes. A failed cell is a row with
    its error.

    Exits with 1 if cells failed, 2 if the input is bad.
    """
    from stormwright.pipeline.spark.target import SparkTarget
    from stormwright.workbench.sweep.cells import read_cells
    from stormwright.workbench.sweep.summary import own_cells, summaries

    target = SparkTarget.parsed(master, spark_conf)
    sweep = read_cells(spec, bool(from_scratch))
    prepare_output(output, spec)
    prepare_output(csv_file, spec, given_as="--csv")
    if output:
        from stormwright.workbench.report import blank_figure, check_report

        check_report()
        blank_figure(1, 1)
    where = table or f"{spec.stem}-cells"
    try:
        decided, cells = _run(
            sweep, lambda spark: _table(where, spark, state_dir, spec.stem), retry_failed, target, where
        )
    except KeyboardInterrupt:
        say(f"stopped; decided cells are stored in {where}; the same command continues from there", err=True)
        raise
    cells = own_cells(sweep, cells)
    rows: list[CellRow] = cells.to_pylist()
    found = summaries(rows)
    if csv_file:
        from pyarrow import csv

        text = io.BytesIO()
        csv.write_csv(cells, text)
        write_bytes(csv_file, text.getvalue())
    if output:
        from stormwright.workbench.sweep.report import write_sweep_report

        write_sweep_report(output, spec.stem, rows, found)
    failed = [row for row in rows if row["error"] is not None]
    if as_json:
        print_json(_document(where, decided, rows, found, failed))
    else:
        _print(found, failed)
        say(f"{counted(len(rows), 'cell')}, {decided:,} of them computed now: {where}")
        if output:
            say(f"report: {name_of_output(output)}")
    if failed:
        ctx.exit(_SOME_FAILED)


def _table(where: str, spark: SparkSession, state_dir: Path | None, name: str) -> CellTable:
    from stormwright.workbench.sweep.table import open_table

    table = open_table(where, spark)
    if state_dir is None:
        return table
    from stormwright.history.tables.staging import Staging
    from stormwright.service.storage.history import DIRECTORY
    from stormwright.workbench.sweep.run import StagedTable

    return StagedTable(table, Staging(state_dir / DIRECTORY), where, name)


def _run(
    sweep: Sweep, opened: Callable[[SparkSession], CellTable], retry_failed: bool, target: SparkTarget, where: str
) -> tuple[int, Any]:
    """Run the missing cells of a `sweep` on a `target` with progress; return their number and the whole table.

    Parameters
    ----------
    opened
        Returns the table of cells, given the Spark session.
    retry_failed
        Whether to run failed cells again.
    where
        Location of the table.
    """
    from stormwright.workbench.sweep.run import run_on_spark

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    shown, due_s = Progress(*columns, console=Console(stderr=True), transient=True), time.monotonic() + _LINE_EVERY_S
    with shown as progress:
        bar = progress.add_task("starting Spark", total=None)

        def update(done: int, cells: int, failed: int) -> None:
            nonlocal due_s
            description = f"cells, {failed:,} failed" if failed else "cells"
            progress.update(bar, description=description, total=cells, completed=done)
            if not sys.stderr.isatty() and time.monotonic() >= due_s:
                due_s = time.monotonic() + _LINE_EVERY_S
                say(f"{done:,} of {cells:,} {description}", err=True)

        return run_on_spark(sweep, where, target, retry_failed=retry_failed, opened=opened, progress=update)


def _document(
    where: str, decided: int, rows: Sequence[CellRow], found: Sequence[Summary], failed: Sequence[CellRow]
) -> dict[str, Any]:
    named = ("problem", "scheduler", "parameters", "seed", "repeat", "error")
    return {
        "table": where,
        "cells": len(rows),
        "decided": decided,
        "failed": [{name: row[name] for name in named} for row in failed],
        "summary": [summary.as_dict() for summary in found],
    }


def _described(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _print(found: Sequence[Summary], failed: Sequence[CellRow]) -> None:
    simulated = any(one.relative_rate is not None for one in found)
    came = ("relative rate", "p95, ms") if simulated else ()
    table = numbers_table("", "relative cost", *came, "valid", "s", "cells", "failed")
    for one in found:
        rates = (_described(one.relative_rate, 3), _described(one.p95_ms, 1)) if simulated else ()
        figures = (f"{one.valid_share:.0%}", _described(one.seconds, 4), f"{one.cells:,}", f"{one.failed:,}")
        table.add_row(one.label, _described(one.relative_cost, 3), *rates, *figures)
    print_table(table)
    lines = [f"{row['scheduler']} {row['parameters']} on {row['problem']} failed: {row['error']}" for row in failed]
    for line in cut_short(lines, _MAX_ERRORS, "; the table has all"):
        say_lines(line)
