"""Execution of cells on Spark in waves, with rows appended to the table after each wave."""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from stormwright.errors import StormwrightError
from stormwright.history.tables.definitions import EXPERIMENTS
from stormwright.history.tables.staging import Staging
from stormwright.workbench.sweep.cells import Sweep, SweepCell
from stormwright.workbench.sweep.table import CellTable
from stormwright.workbench.sweep.work import ROW, SweepPart, decide, row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# History ------------------------------------------------------------------------------------------
# A sweep's cells in the history of a service, beside the sweep's own table.


class HistoryTable:
    """A table of cells whose rows are also staged for the history, exactly once.

    1. Rows are staged hidden before the table has them, and may be taken once it has. Rows are appended atomically, so
    the first row shows whether all are present.
    2. Rows that an interrupted sweep has left hidden are found by the next one over the same table.

    Parameters
    ----------
    table
        Table of the sweep.
    staging
        Staging area of the history.
    location
        Location of the history.
    name
        Name of the sweep in the history.
    """

    def __init__(self, table: CellTable, staging: Staging, location: str, name: str) -> None:
        self._table, self._staging, self._name = table, staging, name
        self._sweep = hashlib.sha256(f"{location} {name}".encode()).hexdigest()[:16]
        left = [hidden for hidden in staging.hidden(EXPERIMENTS) if hidden.startswith(self._sweep)]
        known = {self._staged_as(row) for row in table.read().select(["key", "ended_ms"]).to_pylist()} if left else {}
        for hidden in left:  # (2)
            if hidden in known:
                staging.publish(EXPERIMENTS, hidden)
            else:
                staging.discard(EXPERIMENTS, hidden)

    def append(self, rows: pa.Table) -> None:
        """Append rows (see `CellTable`) and stage them (1)."""
        (first,) = rows.slice(length=1).select(["key", "ended_ms"]).to_pylist()
        staged = self._staged_as(first)
        columns = {"at_ms": rows["ended_ms"], "name": pa.repeat(self._name, rows.num_rows), "cell": rows["key"]}
        columns |= {name: rows[name] for name in EXPERIMENTS.columns if name not in columns}
        self._staging.write(EXPERIMENTS, staged, pa.table(columns), hidden=True)
        self._table.append(rows)
        self._staging.publish(EXPERIMENTS, staged)

    def read(self) -> pa.Table:
        """Return all rows; see `CellTable`."""
        return self._table.read()

    def _staged_as(self, row: dict[str, object]) -> str:
        return f"{self._sweep}-{row['key']}-{row['ended_ms']}"


# Run ----------------------------------------------------------------------------------------------

#: How long a wave should take on all cores. What is killed in the middle has lost no more than the waves that ran; each
#: wave costs some tenths of a second of planning and scheduling, and so does each of its tasks. So waves of long sweeps
#: are longer: they take a part of the time that has passed, up to a limit, as rows and progress come once a wave.
WAVE_S, WAVE_PART, LONGEST_WAVE_S = 5.0, 0.1, 30.0

#: While a wave waits for its slowest cell, another one has the other cores.
WAVES_AT_ONCE = 2

#: Tasks a core of a wave: the more, the more evenly cells of different lengths fill the cores; each costs milliseconds.
_TASKS_A_CORE = 4

#: How many times as many cells as the one before a wave may have: cells may become slower.
_GROWTH = 8


class CellBatch(NamedTuple):
    """Cells sent to Spark together, and the time."""

    cells: Sequence[SweepCell]
    begin_s: float


def to_do(sweep: Sweep, table: CellTable, retry_failed: bool) -> list[SweepCell]:
    """Return the cells missing in the table; with `retry_failed` also those with an error."""
    known = table.read()
    if retry_failed:
        known = known.filter(pc.is_null(known["error"]))
    done = set(known["key"].to_pylist())
    return [cell for cell in sweep.cells if cell.key not in done]


def run_cells(spark: SparkSession, sweep: Sweep, cells: Sequence[SweepCell], table: CellTable) -> Iterator[pa.Table]:
    """Decide cells and append their rows to the table; yields the rows of each wave once the table has them.

    1. A wave that fails is halved until the cell that makes it fail stands alone: a scheduler may take the process that
       it runs in with it. That cell gets a row with the error.
    2. No wave is halved if not even an empty one succeeds: then the cause is Spark, or its workers' installation.

    Parameters
    ----------
    spark
        Spark session.
    sweep
        The sweep that they belong to, with its problems.
    cells
        Cells to decide (`to_do`).
    table
        Table for the rows, `ROW`, including failed cells.

    Raises
    ------
    StormwrightError
        Spark cannot run any cell.
    """
    from stormwright.pipeline.spark.query_supervisor import GONE, cause
    from stormwright.pipeline.spark.spread import cores, spread

    def decided(part_cells: Sequence[SweepCell]) -> pa.Table:
        parts = [part(sweep, part_cells[n::tasks]) for n in range(min(tasks, len(part_cells)) or 1)]
        return spread(spark, decide, parts, ROW)

    def examined(wave: CellBatch, error: Exception) -> pa.Table | None:
        """Return the row of a cell that makes waves fail; None if it is not identified yet."""
        try:
            decided([])  # (2)
        except GONE as again:
            raise StormwrightError(f"the sweep cannot run on this Spark: {cause(str(again))}") from again
        if len(wave.cells) == 1:
            (cell,) = wave.cells
            why = f"the worker that decided it failed: {cause(str(error))}"
            return pa.Table.from_pylist([row(cell, sweep.problems[cell.problem], error=why)], ROW)
        middle = len(wave.cells) // 2
        halves.extend([wave.cells[:middle], wave.cells[middle:]])  # (1)
        return None

    waiting = deque(cells)
    halves: deque[Sequence[SweepCell]] = deque()
    try:
        tasks = _TASKS_A_CORE * cores(spark)
    except GONE as error:
        raise StormwrightError(f"the sweep cannot run on this Spark: {cause(str(error))}") from error
    size = tasks
    pool = ThreadPoolExecutor(WAVES_AT_ONCE, thread_name_prefix="stormwright-wave")
    running: dict[Future[pa.Table], CellBatch] = {}
    begun_s = time.monotonic()
    try:
        while waiting or halves or running:
            while (waiting or halves) and len(running) < WAVES_AT_ONCE:
                chosen = halves.popleft() if halves else [waiting.popleft() for _ in range(min(size, len(waiting)))]
                running[pool.submit(decided, chosen)] = CellBatch(chosen, time.monotonic())
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                wave = running.pop(future)
                try:
                    rows: pa.Table | None = future.result()
                except GONE as error:
                    rows = examined(wave, error)
                if rows is not None:
                    now_s = time.monotonic()
                    size = next_size(len(wave.cells), now_s - wave.begin_s, tasks, now_s - begun_s)
                    table.append(rows)
                    yield rows
    finally:
        # What still runs ends with the session.
        pool.shutdown(wait=False, cancel_futures=True)


def next_size(cells: int, seconds: float, tasks: int, passed_s: float) -> int:
    """Return the number of cells of the next wave.

    Parameters
    ----------
    cells, seconds
        Cells of the completed batch, and its duration beside others.
    tasks
        Number of tasks of a batch, which has at least as many cells.
    passed_s
        Since the sweep began.
    """
    on_all_cores_s = max(seconds, 1e-3) / WAVES_AT_ONCE
    wave_s = min(max(WAVE_S, WAVE_PART * passed_s), LONGEST_WAVE_S)
    return max(tasks, min(round(cells * wave_s / on_all_cores_s), _GROWTH * cells))


def part(sweep: Sweep, cells: Sequence[SweepCell]) -> SweepPart:
    """Return cells with everything that a worker needs for them."""
    return SweepPart({cell.problem: sweep.problems[cell.problem] for cell in cells}, cells, sweep.time_limit_s)
