"""The plan of the pipeline, the same for a batch of a stream and for files at rest.

::

    lines ─▶ validated ─┬─▶ audited ─▶ late and duplicate records ─┐
                        └─▶ accepted ◀── without those ────────────┘─▶ panes

A stream finds late and duplicate records by its state in the driver, `LiveState`. Spark keeps none, so a batch
costs no state store, and the disk always holds the results of whole batches. Files at rest need no such state:
there Spark itself removes duplicates.

A batch of a stream goes one of two ways. Of few records Spark does nothing but read and unfold them, by a plan that is
made once for all batches, and the driver adds up: planning is what such a batch costs. Many are added up by Spark.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from stormwright.errors import StormwrightError
from stormwright.pipeline.measurement.panes import KEYS, VALUES, facts, no_fact, panes
from stormwright.pipeline.measurement.windows import PANES, in_panes, records_in
from stormwright.pipeline.parsing.clean import accepted, audit_columns, audited, distinct, validated
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.streaming.progress import LiveState


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


def prepared(lines: DataFrame, settings: StreamSettings) -> DataFrame:
    """Return lines of a stream prepared for `batch_of`."""
    lines = validated(lines, settings.late_s)
    if settings.rate == "bulk":
        return lines
    # A line's row of audit, which is no fact, comes right before its facts.
    fact = F.explode(F.when(F.col("reason").isNull(), F.concat(no_fact(), facts())).otherwise(no_fact()))
    of_line = F.col("fact.kind").isNull()
    audit = [F.when(of_line, column).alias(name) for name, column in audit_columns().items()]
    return lines.withColumn("fact", fact).select(*audit, "fact.*")


def batch_of(rows: DataFrame, state: LiveState, settings: StreamSettings) -> StreamBatch:
    """Return the output of a batch of `prepared` lines, given the state of the stream.

    Raises
    ------
    StormwrightError
        A file was changed while it was read.
    """
    facts, audit = (_of_many if settings.rate == "bulk" else _of_few)(rows, state, settings)
    if records_in(facts) != (pc.sum(audit["new"]).as_py() or 0):
        raise StormwrightError("a landed file was changed while it was read")
    return StreamBatch(facts, audit)


def _of_few(rows: DataFrame, state: LiveState, settings: StreamSettings) -> StreamBatch:
    table = rows.toArrow()
    of_line = pc.is_null(table["kind"])
    line = np.cumsum(of_line.to_numpy()) - 1
    audit = state.sorted_out(table.filter(of_line).drop_columns([*KEYS, *VALUES]), settings)
    # Rows of one line are never apart, for nothing on their way has shuffled them.
    taken = audit["new"].to_numpy()[line] & ~of_line.to_numpy()
    start_ms = audit["start_ms"].take(pa.array(line[taken]))
    facts = table.filter(pa.array(taken)).select([*KEYS, *VALUES])
    return StreamBatch(in_panes(facts, start_ms.to_numpy(), settings), audit)


def _of_many(lines: DataFrame, state: LiveState, settings: StreamSettings) -> StreamBatch:
    # Read once, used twice. Row numbers grow along a file.
    lines = lines.withColumn("row", F.monotonically_increasing_id()).persist()
    try:
        audit = state.sorted_out(audited(lines).toArrow(), settings)
        facts = panes(accepted(_without(lines, audit)), settings).toArrow().cast(PANES)
    finally:
        lines.unpersist()
    return StreamBatch(facts, audit)


def _without(lines: DataFrame, audit: pa.Table) -> DataFrame:
    """Return the lines without the records that are excluded."""
    left_out = audit.filter(pc.and_(pc.invert(audit["new"]), audit["record"])).select(["row"])
    if not left_out.num_rows:
        return lines
    return lines.join(F.broadcast(lines.sparkSession.createDataFrame(left_out)), "row", "left_anti")
