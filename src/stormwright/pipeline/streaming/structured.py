"""The pipeline as a query of Structured Streaming, whose state is Spark's, on as many machines as Spark has.

::

    landed rows ─┬─▶ each record once ─┬─▶ facts, summed per pane ─▶ a directory for each batch
                 └─▶ number of lines ──┘

The state of ``dropDuplicatesWithinWatermark`` has the identity of each record for `StreamSettings.watermark_s` of event
time, in which the sources are in order. Rejected lines go the same way, each with an identity of its own, and come out
as rows of the quarantine.

A batch replaces the directory with its number, so one that is repeated after a failure counts once. Later batches add
to the same panes, which are sums. Lines are counted in the same rows: what Spark observes of a batch is not stored with
it, and would be lost by a crash after the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from stormwright.pipeline.measurement.panes import KEYS, VALUES, all_facts, flat_records, sums
from stormwright.pipeline.parsing.clean import RECORD_KEYS, LineCounts
from stormwright.pipeline.parsing.parsed import LINE
from stormwright.pipeline.parsing.source import file_name
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.spark.file_systems import exists
from stormwright.pipeline.spark.location import Location, address, inside

#: Name of the query, and of the directory of its batches.
LOADS = "loads"

#: Values of the column ``table``: facts of panes, rejected lines, and the number of lines.
PANES, QUARANTINE, LINES = "panes", "quarantine", "lines"

_REJECTED = {"reason": "string", "file": "string", "line_number": "long", "landed_ms": "long", LINE: "binary"}

#: Seconds between two looks at the queries.
_LOOK_S = 1

#: Columns of the batches.
_STORED = {"pane_ms": "long", **KEYS, **VALUES, **_REJECTED, "read": "long", "batch": "long", "table": "string"}


class StructuredStream:
    """The query over rows as they land; it resumes when it is started again over the same output.

    Parameters
    ----------
    rows
        Stream of rows, as `stormwright.pipeline.parsing.source.stream_landed` or
        `stormwright.pipeline.streaming.kafka.stream_topic`.
    into
        Output directory, with the checkpoint and the batches, local or of any Hadoop file system.
    settings
        Lengths of panes and of the state; None for the defaults.
    """

    def __init__(self, rows: DataFrame, into: Location, settings: StreamSettings | None = None) -> None:
        self._rows, self._spark, self._into = rows, rows.sparkSession, into
        self._settings = settings or StreamSettings()
        self._query: StreamingQuery | None = None

    def start(self, *, until_empty: bool = False) -> None:
        """Start the query.

        Parameters
        ----------
        until_empty
            Whether it ends once it has read all files, instead of waiting for more.
        """
        settings, into = self._settings, self._into

        def write(batch: DataFrame, number: int) -> None:
            writer = pane_rows(batch, settings).write.partitionBy("table").mode("overwrite")
            writer.parquet(address(inside(into, f"{LOADS}/batch={number}")))

        interval = {"processingTime": f"{settings.trigger_s} seconds"}
        trigger: dict[str, Any] = {"availableNow": True} if until_empty else interval
        writer = each_once(self._rows, settings).writeStream.queryName(LOADS).foreachBatch(write).trigger(**trigger)
        self._query = writer.option("checkpointLocation", address(inside(into, "checkpoint"))).start()

    def follow(self, report: Callable[[str], None] = lambda _: None) -> None:
        """Wait until the query ends.

        Parameters
        ----------
        report
            Called each second with a line about the last batch.

        Raises
        ------
        StreamingQueryException
            It has failed; started again, it repeats its batch.
        """
        query = self._query
        while query and not query.awaitTermination(_LOOK_S):
            if last := query.lastProgress:
                report(f"batch {last.batchId}: {last.processedRowsPerSecond:,.0f} lines a second")

    def stop(self) -> None:
        """Stop the query; a batch under way is repeated at the next start."""
        if self._query:
            self._query.stop()

    def panes(self) -> DataFrame:
        """Return the sums of all batches, as `stormwright.pipeline.measurement.panes.panes`."""
        return self._stored(PANES).groupBy("pane_ms", *KEYS).agg(*sums())

    def quarantine(self) -> DataFrame:
        """Return the rejected lines: reason, file, line number, landing time, line.

        The line number is null in files of JSON lines, and the offset of a Kafka message.
        """
        return self._stored(QUARANTINE).select(*_REJECTED)

    def counts(self) -> LineCounts:
        """Return the counts of all lines.

        A record that landed before the watermark, by a clock that was set back, counts as a duplicate.
        """
        (found,) = (
            self._stored(PANES, QUARANTINE, LINES)
            .agg(
                F.coalesce(F.sum("read"), F.lit(0)).alias("read"),
                F.coalesce(F.sum("records"), F.lit(0)).alias("used"),
                F.count("reason").alias("rejected"),
            )
            .collect()
        )
        return LineCounts.of(
            accepted=found["read"] - found["rejected"], used=found["used"], quarantined=found["rejected"]
        )

    def _stored(self, *tables: str) -> DataFrame:
        schema = ", ".join(f"`{column}` {kind}" for column, kind in _STORED.items())
        where = inside(self._into, LOADS)
        if not exists(self._spark, where):
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(address(where)).where(F.col("table").isin(*tables))


def each_once(rows: DataFrame, settings: StreamSettings) -> DataFrame:
    """Return a stream of landed rows: each record once, all rejected lines, and one row that ``is_line`` per line."""
    identity = F.struct(*(F.col(place).alias(name) for name, place in RECORD_KEYS.items()))
    is_record = F.col("reason").isNull()
    found = rows.select(
        "*",
        F.when(is_record, identity).alias("identity"),
        F.when(~is_record, F.uuid()).alias("other"),
    )
    found = found.withWatermark("event", f"{settings.watermark_s} seconds")
    distinct = found.dropDuplicatesWithinWatermark(["identity", "other"]).drop("identity", "other", "event")
    lines = rows.select(F.lit(True).alias("is_line"))
    return distinct.withColumn("is_line", F.lit(False)).unionByName(lines, allowMissingColumns=True)


def pane_rows(rows: DataFrame, settings: StreamSettings) -> DataFrame:
    """Return the rows that a batch stores: facts summed per pane, rejected lines, a count of lines; by ``table``.

    As one table: what is written in parts, Spark would compute once for each.
    """
    is_line = F.col("is_line")
    is_record = F.col("reason").isNull() & ~is_line
    is_rejected = F.col("reason").isNotNull()
    flat = flat_records(rows, settings, "is_line", "reason", "file", "row", "landed_ms", LINE)
    facts = flat.select(
        F.when(is_record, F.col("pane_ms")).alias("pane_ms"),
        F.explode_outer(F.when(is_record, all_facts())).alias("fact"),
        "reason",
        F.when(is_rejected, file_name(F.col("file"))).alias("file"),
        F.when(is_rejected, F.col("row") + 1).alias("line_number"),
        F.when(is_rejected, F.col("landed_ms")).alias("landed_ms"),
        F.when(is_rejected, F.col(LINE)).alias(LINE),
        # The same line twice in a file is two lines.
        F.when(is_rejected, F.monotonically_increasing_id()).alias("place"),
        "is_line",
    )
    keys = ("pane_ms", *KEYS, *_REJECTED, "place")
    summed = facts.select("pane_ms", "fact.*", *_REJECTED, "place", "is_line").groupBy(*keys)
    found = summed.agg(*sums(), F.count_if("is_line").alias("read")).drop("place")
    table = F.when(F.col("reason").isNotNull(), QUARANTINE).when(F.col("pane_ms").isNull(), LINES).otherwise(PANES)
    return found.withColumn("table", table)
