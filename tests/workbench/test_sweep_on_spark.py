"""Sweeps on a local Spark: waves, progress, and the table of a sweep that was interrupted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

import stormwright as sw
from stormwright.workbench.sweep import run
from stormwright.workbench.sweep.cells import Sweep, read_cells
from stormwright.workbench.sweep.run import run_cells, to_do
from stormwright.workbench.sweep.table import LocalTable
from stormwright.workbench.sweep.work import SweepPart
from tests.spark.programs import write_spec

pytestmark = pytest.mark.spark

#: Columns that depend on the cell alone.
SAME = ["key", "scheduler", "seed", "repeat", "error", "cost", "valid", "nodes", "workers", "moved_executors"]


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    return read_cells(
        write_spec(tmp_path / "sweep.json", {"even": None, "random": None}, seeds=[*range(10)], repeats=2)
    )


@pytest.fixture
def _waves_of_one_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WAVE_S", "FIRST_WAVE_S", "_LAST_WAVE_S"):
        monkeypatch.setattr(run, name, 0.0)


def cells_of(spark: SparkSession, directory: Path) -> DataFrame:
    return spark.read.parquet(*sorted(map(str, directory.glob("*.parquet")))).select(SAME)


@pytest.mark.usefixtures("_waves_of_one_cell")
def test_each_wave_is_in_the_table_when_it_is_reported(spark: SparkSession, sweep: Sweep, tmp_path: Path) -> None:
    table, reported = LocalTable(tmp_path / "cells"), 0
    for rows in run_cells(spark, sweep, sweep.cells, table):
        reported += rows.num_rows
        assert table.read().num_rows == reported
        assert rows.num_rows == 1, "one task has time for one cell"
    assert reported == len(sweep.cells)


def test_waves_have_more_tasks_than_cores_where_spark_adds_executors(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It adds them for tasks that wait, so later waves find more cores."""
    cores, tasks = iter([1, 2, *[10] * len(sweep.cells)]), []

    def spread(
        _: object, function: Callable[[SweepPart], pa.RecordBatch], parts: list[SweepPart], __: object
    ) -> pa.Table:
        tasks.append(len(parts))
        return pa.Table.from_batches([function(part) for part in parts])

    monkeypatch.setattr(run, "_FIRST_CELLS", 1)
    monkeypatch.setattr("stormwright.pipeline.spark.spread.cores", lambda _: next(cores))
    monkeypatch.setattr("stormwright.pipeline.spark.spread.spread", spread)
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda name, _: str("dynamicAllocation" in name).lower()))
    rows = list(run_cells(session, sweep, sweep.cells, LocalTable(tmp_path / "cells")))  # type: ignore[arg-type]
    assert sum(each.num_rows for each in rows) == len(sweep.cells)
    assert tasks[0] == 4
    assert max(tasks) > 4


def test_interrupted_sweep_resumes_to_the_same_table(
    spark: SparkSession, sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, parts = LocalTable(tmp_path / "whole"), LocalTable(tmp_path / "parts")
    assert sum(rows.num_rows for rows in run_cells(spark, sweep, sweep.cells, whole)) == len(sweep.cells)
    with monkeypatch.context() as short:
        short.setattr(run, "FIRST_WAVE_S", 0.0)
        interrupted = run_cells(spark, sweep, sweep.cells, parts)
        done = next(interrupted).num_rows
        interrupted.close()
    missing = to_do(sweep, parts, retry_failed=False)
    assert 0 < done == len(sweep.cells) - len(missing)
    assert sum(rows.num_rows for rows in run_cells(spark, sweep, missing, parts)) == len(missing)
    assertDataFrameEqual(cells_of(spark, tmp_path / "parts"), cells_of(spark, tmp_path / "whole"))


@pytest.mark.slow
def test_sweep_in_python_equals_that_of_the_command_on_spark(tmp_path: Path) -> None:
    spec, table = tmp_path / "sweep.json", tmp_path / "cells"
    write_spec(spec, {"even": None, "random": None, "online": {"alpha": [0, 1]}}, seeds=[1, 2])
    program = [sys.executable, "-m", "stormwright", "sweep", str(spec), "--table", str(table), "--master", "local[2]"]
    subprocess.run(program, check=True, capture_output=True)
    on_spark, here = sw.sweep(spec, table=table), sw.sweep(spec)
    assert (on_spark.decided, here.decided) == (0, here.cells.num_rows), "the command's table has all"
    assert on_spark.cells.select(SAME).equals(here.cells.select(SAME))
