"""The plan of the pipeline, the same for a batch of a stream and for files at rest.

::

    landed rows ─┬─▶ audited ─▶ late and duplicate records ─┐
                 └─▶ accepted ◀── without those ────────────┘─▶ panes

Rows are a line each, valid or not: landed as columns, or parsed and validated from JSON lines as they are read.

A stream finds late and duplicate records by its state in the driver, `LiveState`. Spark keeps none, so a batch
costs no state store, and the disk always holds the results of whole batches. Files at rest need no such state:
there Spark itself removes duplicates.

A batch of a stream goes one of two ways. Large ones are read and summed by Spark. Of small ones planning would cost
most, so the driver reads the rows, and Spark executes a plan over their records that is made once (`PreparedPanes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from stormwright.errors import StormwrightError
from stormwright.perflog.columns import RECORD_COLUMNS, read_landed_file
from stormwright.perflog.records import encode
from stormwright.pipeline.measurement.panes import panes
from stormwright.pipeline.measurement.windows import PANES, records_in
from stormwright.pipeline.parsing.clean import (
    LATE,
    RECORD_KEYS,
    accepted,
    audited,
)
from stormwright.pipeline.parsing.source import is_columnar, read_files, read_rows, rows_in
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.spark.target import Location
from stormwright.pipeline.streaming.prepared import PreparedPanes
from stormwright.pipeline.streaming.progress import LiveState

#: Largest batch whose rows the driver reads. Of a larger one, Spark's reading saves more CPU time than planning costs.
SMALL_ROWS = 10_000


class StreamBatch(NamedTuple):
    """Output of a batch of a stream: facts per pane as `PANES`, one audit row per line, and the names of its files."""

    facts: pa.Table
    audit: pa.Table
    files: Sequence[str]


class BatchPlan:
    """The plan for batches of landed files.

    Parameters
    ----------
    spark
        Session that adds up panes, and reads the files of large batches.
    directory
        Directory for temporary files.
    settings
        Settings of the stream.
    """

    def __init__(self, spark: SparkSession, directory: Path, settings: StreamSettings) -> None:
        self._spark, self._settings = spark, settings
        self._prepared = PreparedPanes(spark, directory, settings)

    def __call__(self, files: Sequence[Path], state: LiveState) -> StreamBatch:
        """Return the output of a batch, given the state of the stream.

        Raises
        ------
        StormwrightError
            A file was changed while it was read.
        InputError
            One is not a landed file.
        """
        if rows_in(files) <= SMALL_ROWS:
            facts, audit = self._small(files, state)
        else:
            facts, audit = large_batch(self._spark, files, state, self._settings)
        return StreamBatch(facts, _with_lines(audit, files), [path.name for path in files])

    def _small(self, files: Sequence[Path], state: LiveState) -> tuple[pa.Table, pa.Table]:
        rows = read_rows(files)
        audit = state.deduplicated(_audit_of(rows, self._settings.late_s), self._settings)
        return self._prepared(rows.filter(audit["new"]).select(RECORD_COLUMNS)), audit


def large_batch(
    spark: SparkSession, files: Sequence[Location], state: LiveState, settings: StreamSettings
) -> tuple[pa.Table, pa.Table]:
    """Return facts and audit of a batch that Spark reads, as in `StreamBatch`.

    Parameters
    ----------
    spark
        Session that reads the files and adds up their panes.
    files
        Landed files of the batch, as lines or columns.
    state
        State of the stream before the batch.
    settings
        Settings of the stream.

    Raises
    ------
    StormwrightError
        A file was changed while it was read.
    """
    rows = read_files(spark, files, settings.late_s)
    # Lines are parsed once and used twice; columns are read again faster than they are stored.
    if not all(map(is_columnar, files)):
        rows.persist()
    try:
        audit = state.deduplicated(audited(rows).toArrow(), settings)
        facts = panes(accepted(_without(rows, audit)), settings).toArrow().cast(PANES)
    finally:
        rows.unpersist()
    if records_in(facts) != (pc.sum(audit["new"]).as_py() or 0):
        raise StormwrightError("a landed file was changed while it was read")
    return facts, audit


def _audit_of(rows: pa.Table, late_s: int) -> pa.Table:
    """Return an audit row, as `audited`, for each row of `read_rows`."""
    is_late = pc.less(rows["start_ms"], pc.subtract(rows["landed_ms"], late_s * 1000))
    reason = pc.coalesce(rows["reason"], pc.if_else(is_late, LATE, None))
    columns = {name: _part(rows, place) for name, place in RECORD_KEYS.items()}
    others = {name: rows[name] for name in ("written_ms", "landed_ms", "file", "block", "row", "line")}
    return pa.table({**columns, **others, "reason": reason})


def _with_lines(audit: pa.Table, files: Sequence[Path]) -> pa.Table:
    """Add the lines of rejected records whose text was not read, as nothing is wrong with them but the time."""
    is_missing = pc.and_(pc.is_valid(audit["reason"]), pc.is_null(audit["line"]))
    if not pc.any(is_missing).as_py():
        return audit
    lines, places = audit["line"].to_pylist(), np.flatnonzero(is_missing.to_numpy())
    paths = {path.name: path for path in files}
    for name in set(audit["file"].take(places).to_pylist()):
        of_file = np.flatnonzero(pc.equal(audit["file"], name).to_numpy())
        # Rows of Spark are numbered along a block, not along the file.
        in_order = of_file[np.lexsort([audit[key].take(of_file).to_numpy() for key in ("row", "block")])]
        missing = np.flatnonzero(np.isin(in_order, places))
        for place, line in zip(in_order[missing], _lines_of(paths[name], missing), strict=True):
            lines[place] = line
    return audit.set_column(audit.schema.get_field_index("line"), "line", pa.array(lines, pa.binary()))


def _lines_of(path: Path, numbers: np.ndarray) -> list[bytes]:
    """Return lines of a landed file by number, without blank ones; records of columns are encoded again."""
    if is_columnar(path):
        return [encode(record) for record in read_landed_file(path).select(RECORD_COLUMNS).take(numbers).to_pylist()]
    lines = [line for line in path.read_bytes().split(b"\n") if line.strip()]
    return [lines[number] for number in numbers]


def _part(rows: pa.Table, place: str) -> pa.ChunkedArray:
    name, _, part = place.partition(".")
    return pc.struct_field(rows[name], part) if part else rows[name]


def _without(rows: DataFrame, audit: pa.Table) -> DataFrame:
    """Return the rows without the records that are excluded."""
    place = ["file", "row"]
    left_out = audit.filter(pc.and_(pc.invert(audit["new"]), audit["record"])).select(place)
    if not left_out.num_rows:
        return rows
    return rows.join(F.broadcast(rows.sparkSession.createDataFrame(left_out)), place, "left_anti")
