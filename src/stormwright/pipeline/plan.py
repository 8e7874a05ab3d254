"""The plan of the pipeline, the same for a batch of a stream and for files at rest.

::

    lines ─▶ validated ─┬─▶ audited ─▶ late and duplicate records ─┐
                        └─▶ accepted ◀── without those ────────────┘─▶ panes

A stream finds late and duplicate records by its state in the driver, `LiveState`. Spark keeps none, so a batch
costs no state store, and the disk always holds the results of whole batches. Files at rest need no such state:
there Spark itself removes duplicates.

A batch of a stream goes one of two ways. Large ones are read, validated and summed by Spark. Of small ones planning
would cost most, so the driver reads and validates the lines, as the service does, and Spark executes a plan over their
records that is made once (`PreparedPanes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from stormwright.errors import StormwrightError
from stormwright.perflog.columns import RECORD_COLUMNS
from stormwright.pipeline.measurement.panes import panes
from stormwright.pipeline.measurement.windows import PANES, records_in
from stormwright.pipeline.parsing.clean import (
    LATE,
    RECORD_KEYS,
    accepted,
    audited,
    distinct,
    validated,
)
from stormwright.pipeline.parsing.source import landed_lines, read_files
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.spark.target import Location
from stormwright.pipeline.streaming.prepared import PreparedPanes
from stormwright.pipeline.streaming.progress import LiveState

#: Largest batch whose lines the driver reads: some 10,000 records, which take it less than a second.
SMALL_BYTES = 8 * 2**20


class LinesOut(NamedTuple):
    """Output for files at rest: distinct valid records, and one audit row per line."""

    records: DataFrame
    audit: DataFrame


class StreamBatch(NamedTuple):
    """Output of a batch of a stream: facts per pane as `PANES`, and one audit row per line."""

    facts: pa.Table
    audit: pa.Table


def pipeline(lines: DataFrame, settings: StreamSettings, taken: Column | None = None) -> LinesOut:
    """Return records and audit of lines as read; with `taken` only such records are used."""
    lines = validated(lines, settings.late_s)
    records = accepted(lines if taken is None else lines.where(taken))
    return LinesOut(distinct(records), audited(lines))


class BatchPlan:
    """The plan for batches of landed files.

    Parameters
    ----------
    spark
        Spark session.
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
        size = sum(path.stat().st_size for path in files)
        return (
            self._small(files, state) if size <= SMALL_BYTES else large_batch(self._spark, files, state, self._settings)
        )

    def _small(self, files: Sequence[Path], state: LiveState) -> StreamBatch:
        lines = landed_lines(files)
        audit = state.sorted_out(_audit_of(lines, self._settings.late_s), self._settings)
        return StreamBatch(self._prepared(lines.filter(audit["new"]).select(RECORD_COLUMNS)), audit)


def large_batch(
    spark: SparkSession, files: Sequence[Location], state: LiveState, settings: StreamSettings
) -> StreamBatch:
    """Return the output of a batch that Spark reads.

    Parameters
    ----------
    spark
        Spark session.
    files
        Landed files.
    state
        State of the stream before the batch.
    settings
        Settings of the stream.

    Raises
    ------
    StormwrightError
        A file was changed while it was read.
    """
    # Read once, used twice. Row numbers grow along a file.
    lines = validated(read_files(spark, files), settings.late_s)
    lines = lines.withColumn("row", F.monotonically_increasing_id()).persist()
    try:
        audit = state.sorted_out(audited(lines).toArrow(), settings)
        facts = panes(accepted(_without(lines, audit)), settings).toArrow().cast(PANES)
    finally:
        lines.unpersist()
    if records_in(facts) != (pc.sum(audit["new"]).as_py() or 0):
        raise StormwrightError("a landed file was changed while it was read")
    return StreamBatch(facts, audit)


def _audit_of(lines: pa.Table, late_s: int) -> pa.Table:
    """Return an audit row, as `audited`, for each row of `landed_lines`."""
    late = pc.less(lines["start_ms"], pc.subtract(lines["landed_ms"], late_s * 1000))
    reason = pc.coalesce(lines["reason"], pc.if_else(late, LATE, None))
    columns = {name: _part(lines, place) for name, place in RECORD_KEYS.items()}
    others = {name: lines[name] for name in ("written_ms", "landed_ms", "file", "block", "row", "line")}
    return pa.table({**columns, **others, "reason": reason})


def _part(lines: pa.Table, place: str) -> pa.ChunkedArray:
    name, _, part = place.partition(".")
    return pc.struct_field(lines[name], part) if part else lines[name]


def _without(lines: DataFrame, audit: pa.Table) -> DataFrame:
    """Return the lines without the records that are excluded."""
    left_out = audit.filter(pc.and_(pc.invert(audit["new"]), audit["record"])).select(["row"])
    if not left_out.num_rows:
        return lines
    return lines.join(F.broadcast(lines.sparkSession.createDataFrame(left_out)), "row", "left_anti")
