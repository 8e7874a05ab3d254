"""The pipeline as queries of Structured Streaming, whose state is Spark's, on as many machines as Spark has.

::

    landed rows ─┬─▶ each record once ─▶ facts, summed per pane ─▶ a directory for each batch
                 └─▶ number of lines ────────────────────────────▶ a directory for each batch

Files are read in the order in which they landed, so the time of landing is the event time of
``dropDuplicatesWithinWatermark``: the state has the identity of each record for `StreamSettings.watermark_s`. Rejected
lines go the same way, each with an identity of its own, and come out as rows of the quarantine.

A batch replaces the directory with its number, so one that is repeated after a failure counts once. Later batches add
to the same panes, which are sums. Lines are counted by a query of their own: what Spark observes of a batch is not
stored with it, and would be lost by a crash after the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from stormwright.errors import Fault, InputError
from stormwright.pipeline.measurement.panes import KEYS, VALUES, all_facts, flat_records, sums
from stormwright.pipeline.parsing.clean import RECORD_KEYS, LineCounts
from stormwright.pipeline.parsing.parsed import LINE
from stormwright.pipeline.parsing.source import file_name, stream_landed
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.spark.file_systems import exists
from stormwright.pipeline.spark.location import Location, address, inside

#: Names of the queries, and of their directories.
LOADS, LINES = "loads", "lines"

#: Values of the column ``table``: facts of panes, and rejected lines.
PANES, QUARANTINE = "panes", "quarantine"

_REJECTED = {"reason": "string", "file": "string", "line_number": "long", "landed_ms": "long", LINE: "binary"}

#: Seconds between two looks at the queries.
_LOOK_S = 1

#: Schemas of the directories.
_STORED = {
    LOADS: {"pane_ms": "long", **KEYS, **VALUES, **_REJECTED, "batch": "long", "table": "string"},
    LINES: {"read": "long", "batch": "long"},
}


class StructuredStream:
    """The queries over directories of landed files; they resume when they are started again over the same output.

    Parameters
    ----------
    spark
        Session that reads the directories and writes the output.
    directories
        Directories of landed files, local or of any Hadoop file system.
    into
        Output directory, with the checkpoint and the batches of each query.
    settings
        Lengths of panes and of the state; None for the defaults.

    Raises
    ------
    InputError
        A directory does not exist.
    """

    def __init__(
        self,
        spark: SparkSession,
        directories: Sequence[Location],
        into: Location,
        settings: StreamSettings | None = None,
    ) -> None:
        if missing := [each for each in directories if not exists(spark, each)]:
            raise InputError("landed files", [Fault("no such directory", str(each)) for each in missing])
        self._spark, self._directories, self._into = spark, directories, into
        self._settings = settings or StreamSettings()
        self._queries: list[StreamingQuery] = []

    def start(self, *, until_empty: bool = False) -> None:
        """Start the queries.

        Parameters
        ----------
        until_empty
            Whether they end once they have read all files, instead of waiting for more.
        """
        found = (stream_landed(self._spark, each, self._settings) for each in self._directories)
        rows = reduce(DataFrame.unionByName, found)
        interval = {"processingTime": f"{self._settings.trigger_s} seconds"}
        trigger: dict[str, Any] = {"availableNow": True} if until_empty else interval

        def begun(name: str, of: DataFrame) -> StreamingQuery:
            def write(batch: DataFrame, number: int) -> None:
                stored = pane_rows(batch, self._settings) if name == LOADS else batch.agg(F.count("*").alias("read"))
                writer = stored.write.partitionBy("table") if name == LOADS else stored.write
                writer.mode("overwrite").parquet(address(inside(self._into, f"{name}/batch={number}")))

            checkpoint = address(inside(self._into, f"checkpoint/{name}"))
            writer = of.writeStream.queryName(name).foreachBatch(write).option("checkpointLocation", checkpoint)
            return writer.trigger(**trigger).start()

        self._queries = [begun(LOADS, each_once(rows, self._settings)), begun(LINES, rows.select("landed_ms"))]

    def follow(self, report: Callable[[str], None] = lambda _: None) -> None:
        """Wait until the queries end.

        Parameters
        ----------
        report
            Called each second with a line about the last batch.

        Raises
        ------
        StreamingQueryException
            One has failed; started again, it repeats its batch.
        """
        running = self._queries
        while running:
            # Each is looked at, as any may have failed.
            running = [query for query in running if not query.awaitTermination(_LOOK_S)]
            if last := self._queries[0].lastProgress:
                rate = last.processedRowsPerSecond
                report(f"batch {last.batchId}: {last.numInputRows:,} lines, {rate:,.0f} a second")

    def stop(self) -> None:
        """Stop the queries; a batch under way is repeated at the next start."""
        for query in self._queries:
            query.stop()

    def panes(self) -> DataFrame:
        """Return the sums of all batches, as `stormwright.pipeline.measurement.panes.panes`."""
        facts = self._stored(LOADS).where(F.col("table") == PANES)
        return facts.groupBy("pane_ms", *KEYS).agg(*sums())

    def quarantine(self) -> DataFrame:
        """Return the rejected lines: reason, file and line number (null in files of JSON lines), landing time, line."""
        return self._stored(LOADS).where(F.col("table") == QUARANTINE).select(*_REJECTED)

    def counts(self) -> LineCounts:
        """Return the counts of all lines; exact once both queries have read the same files.

        A record that landed before the watermark, by a clock that was set back, counts as a duplicate.
        """
        is_worker = (F.col("table") == PANES) & (F.col("kind") == "worker")
        (found,) = (
            self._stored(LOADS)
            .agg(
                F.coalesce(F.sum(F.when(is_worker, F.col("records"))), F.lit(0)).alias("used"),
                F.count_if(F.col("table") == QUARANTINE).alias("rejected"),
            )
            .collect()
        )
        (lines,) = self._stored(LINES).agg(F.coalesce(F.sum("read"), F.lit(0)).alias("read")).collect()
        used, rejected = found["used"], found["rejected"]
        return LineCounts(lines["read"], used, lines["read"] - used - rejected, rejected)

    def _stored(self, name: str) -> DataFrame:
        schema = ", ".join(f"`{column}` {kind}" for column, kind in _STORED[name].items())
        where = inside(self._into, name)
        if not exists(self._spark, where):
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(address(where))


def each_once(rows: DataFrame, settings: StreamSettings) -> DataFrame:
    """Return a stream of landed rows with each record once, and all rejected lines."""
    identity = F.struct(*(F.col(place).alias(name) for name, place in RECORD_KEYS.items()))
    is_record = F.col("reason").isNull()
    found = rows.select(
        "*",
        F.when(is_record, identity).alias("identity"),
        F.when(~is_record, F.uuid()).alias("other"),
        F.timestamp_millis("landed_ms").alias("event"),
    )
    return found.withWatermark("event", f"{settings.watermark_s} seconds").dropDuplicatesWithinWatermark(
        ["identity", "other"]
    )


def pane_rows(rows: DataFrame, settings: StreamSettings) -> DataFrame:
    """Return the rows that a batch stores: facts summed per pane, and rejected lines; told apart by ``table``.

    As one table: what is written in two parts, Spark would compute twice.
    """
    is_record = F.col("reason").isNull()
    flat = flat_records(rows, settings, "reason", "file", "row", "landed_ms", LINE)
    facts = flat.select(
        F.when(is_record, F.col("pane_ms")).alias("pane_ms"),
        F.explode_outer(F.when(is_record, all_facts())).alias("fact"),
        "reason",
        F.when(~is_record, file_name(F.col("file"))).alias("file"),
        F.when(~is_record, F.col("row") + 1).alias("line_number"),
        F.when(~is_record, F.col("landed_ms")).alias("landed_ms"),
        F.when(~is_record, F.col(LINE)).alias(LINE),
        # The same line twice in a file is two lines.
        F.when(~is_record, F.monotonically_increasing_id()).alias("place"),
    )
    keys = ("pane_ms", *KEYS, *_REJECTED, "place")
    summed = facts.select("pane_ms", "fact.*", *_REJECTED, "place").groupBy(*keys).agg(*sums()).drop("place")
    return summed.withColumn("table", F.when(F.col("reason").isNull(), PANES).otherwise(QUARANTINE))
