"""Execution of cells on Spark in waves, with rows appended to the table after each wave."""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from stormwright.errors import StormwrightError
from stormwright.history.tables.definitions import EXPERIMENTS
from stormwright.history.tables.staging import Staging
from stormwright.workbench.sweep.cells import Sweep, SweepCell
from stormwright.workbench.sweep.result import part, to_do
from stormwright.workbench.sweep.table import CellTable, open_table
from stormwright.workbench.sweep.work import ROW, decide, row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stormwright.pipeline.spark.target import SparkTarget

#: Seconds that each task of a wave has; it returns the rows of the cells that it has decided by then, and the others
#: wait for the next wave. A killed sweep loses no more than these seconds, or than its longest cell takes. A wave has
#: one task a core, or `_TASKS_PER_CORE`: each costs tenths of a second of CPU in Spark and Python, however many cells
#: it has.
WAVE_S = 5.0

#: The same for waves that begin before any other has ended, of cells that may take any time.
FIRST_WAVE_S = 0.5

#: While one wave runs, the next one waits for cores: none is idle while a wave waits for its slowest task.
WAVES_AT_ONCE = 2

#: Tasks of a wave for each core with dynamic allocation, where tasks that wait make Spark add executors.
_TASKS_PER_CORE = 4

#: Maximum number of cells a core before it is known how long they take.
_FIRST_CELLS = 100

#: Seconds that the last waves should take at least. Each takes half of the cells that are left, so that all cores end
#: at about the same time, however different cells are.
_LAST_WAVE_S = 2.5

#: Options of Spark for waves: small jobs, planned one by one, with a row a task. Generated code and the JVM's second
#: compiler cost more than they save: on two cores 0.47 s of CPU a wave with Spark's defaults, 0.11 s with these.
#: Options of the JVM only apply to one that is started here.
_PLANNING = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_JVM = {"spark.driver.defaultJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}


class StagedTable:
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


class CellBatch(NamedTuple):
    """Cells sent to Spark together, and the time."""

    cells: Sequence[SweepCell]
    begin_s: float


class SweepProgress(Protocol):
    """Receives progress: numbers of cells that are done, of all, and of failed ones."""

    def __call__(self, done: int, cells: int, failed: int) -> None:
        """Take the numbers."""
        ...


def run_on_spark(
    sweep: Sweep,
    where: str,
    target: SparkTarget,
    *,
    retry_failed: bool = False,
    opened: Callable[[SparkSession], CellTable] | None = None,
    progress: SweepProgress | None = None,
) -> tuple[int, pa.Table]:
    """Run the missing cells of a sweep on Spark; return their number and the whole table.

    Parameters
    ----------
    sweep
        Cells to decide, with their problems and schedulers.
    where
        Location of the table: a directory or a URI.
    target
        Spark to run on.
    retry_failed
        Whether to run failed cells again.
    opened
        Opens the table; by default that at `where`.
    progress
        Is called after each wave.

    Raises
    ------
    StormwrightError
        Spark cannot run any cell, or the table cannot be used.
    """
    from stormwright.pipeline.spark.session import working_session

    with working_session(small_jobs(target), [where]) as spark:
        table = opened(spark) if opened else open_table(where, spark)
        cells = to_do(sweep, table, retry_failed)
        done, failed = len(sweep.cells) - len(cells), 0
        if progress:
            progress(done, len(sweep.cells), failed)
        for rows in run_cells(spark, sweep, cells, table):
            done, failed = done + rows.num_rows, failed + rows.num_rows - rows["error"].null_count
            if progress:
                progress(done, len(sweep.cells), failed)
        return len(cells), table.read()


def small_jobs(target: SparkTarget) -> SparkTarget:
    """Return the target with options for waves, which its own settings override."""
    return replace(target, conf={**_PLANNING, **(_JVM if target.local else {}), **target.conf})


def run_cells(spark: SparkSession, sweep: Sweep, cells: Sequence[SweepCell], table: CellTable) -> Iterator[pa.Table]:
    """Decide cells and append their rows to the table; yields the rows of each wave once the table has them.

    1. A wave that fails is halved until the cell that makes it fail stands alone: a scheduler may take the process that
       it runs in with it. That cell gets a row with the error.
    2. No wave is halved if not even an empty one succeeds: then the cause is Spark, or its workers' installation.
    3. Cells that a wave had no time for are the first of the next one.

    Parameters
    ----------
    spark
        Session whose workers decide the cells.
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

    def decided(part_cells: Sequence[SweepCell], seconds: float) -> pa.Table:
        count = min(tasks, len(part_cells)) or 1  # read once: the main thread changes `tasks`
        parts = [part(sweep, part_cells[n::count], seconds) for n in range(count)]
        return spread(spark, decide, parts, ROW)

    def examined(wave: CellBatch, error: Exception) -> pa.Table | None:
        """Return the row of a cell that makes waves fail; None if it is not identified yet."""
        try:
            decided([], WAVE_S)  # (2)
        except GONE as again:
            raise StormwrightError(f"the sweep cannot run on this Spark: {cause(str(again))}") from again
        if len(wave.cells) == 1:
            (cell,) = wave.cells
            why = f"the worker that decided it failed: {cause(str(error))}"
            return pa.Table.from_pylist([row(cell, sweep.problems[cell.problem], error=why)], ROW)
        middle = len(wave.cells) // 2
        halves.extend([wave.cells[:middle], wave.cells[middle:]])  # (1)
        return None

    def begin_waves() -> None:
        while (waiting or halves) and len(running) < WAVES_AT_ONCE:
            size = wave_size(len(waiting), rate, tasks)
            chosen = halves.popleft() if halves else [waiting.popleft() for _ in range(size)]
            seconds = FIRST_WAVE_S if rate is None else WAVE_S
            running[pool.submit(decided, chosen, seconds)] = CellBatch(chosen, time.monotonic())

    waiting = deque(cells)
    halves: deque[Sequence[SweepCell]] = deque()
    grows = spark.conf.get("spark.dynamicAllocation.enabled", "false") == "true"

    def tasks_of_a_wave() -> int:
        try:
            return cores(spark) * (_TASKS_PER_CORE if grows else 1)
        except GONE as error:
            raise StormwrightError(f"the sweep cannot run on this Spark: {cause(str(error))}") from error

    tasks = tasks_of_a_wave()
    pool = ThreadPoolExecutor(WAVES_AT_ONCE, thread_name_prefix="stormwright-wave")
    running: dict[Future[pa.Table], CellBatch] = {}
    rate: float | None = None
    ended_s = time.monotonic()
    try:
        begin_waves()
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                wave = running.pop(future)
                try:
                    rows: pa.Table | None = future.result()
                except GONE as error:
                    rows = examined(wave, error)
                # Its tasks had the cores since the wave before it ended.
                begun_s, ended_s = max(wave.begin_s, ended_s), time.monotonic()
                if rows is not None:
                    rate = rows.num_rows / max(ended_s - begun_s, 1e-3)
                    decided_keys = set(rows["key"].to_pylist())
                    waiting.extendleft(cell for cell in reversed(wave.cells) if cell.key not in decided_keys)  # (3)
                if rows is not None:
                    table.append(rows)
                    yield rows
                if grows:
                    tasks = tasks_of_a_wave()
                begin_waves()
    finally:
        # What still runs ends with the session.
        pool.shutdown(wait=False, cancel_futures=True)


def wave_size(waiting: int, rate: float | None, tasks: int) -> int:
    """Return the number of cells of the next wave.

    Parameters
    ----------
    waiting
        Number of cells that no wave has.
    rate
        Cells/s of the last wave on all cores; None before one has ended.
    tasks
        Number of tasks of a wave.
    """
    half = -(-waiting // 2)
    if rate is None:
        return min(half, _FIRST_CELLS * tasks)
    wanted = max(min(half, round(rate * WAVE_S)), round(rate * _LAST_WAVE_S), tasks)
    return min(waiting, wanted)
