"""The pipeline as a query of Structured Streaming, whose state is Spark's, on as many machines as Spark has.

::

    landed rows ─┬─▶ each record once ─┬─▶ a directory for each batch ─▶ panes, when they are read
                 └─▶ one row per line ─┘

The state of ``dropDuplicatesWithinWatermark`` has the identity of each record for `StreamSettings.watermark_s` of event
time; sources deliver their rows in the order of that time. Rejected lines go the same way, each with an identity of its
own, and come out as rows of the quarantine.

A batch replaces the directory with its number, or is one transaction of a Delta table, which has the number; so one
that is repeated after a failure counts once. Lines are counted in the same rows: what Spark observes of a batch is not
stored with it, and would be lost by a crash after the batch.

Records are stored, not their facts, of which each has a dozen; facts are summed per pane by the reader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from stormwright.perflog.columns import RECORD_COLUMNS
from stormwright.pipeline.measurement.panes import panes
from stormwright.pipeline.parsing.clean import RECORD_KEYS, LineCounts
from stormwright.pipeline.parsing.parsed import LINE, record_type
from stormwright.pipeline.parsing.source import file_name
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.spark.file_systems import exists
from stormwright.pipeline.spark.location import Location, address, inside

#: Name of the query, and of the directory of its output.
ROWS = "rows"

#: Values of the column ``table``: records, rejected lines, and a row for each line that was read.
RECORDS, QUARANTINE, LINES = "records", "quarantine", "lines"

_REJECTED = {"reason": "string", "file": "string", "line_number": "long", "landed_ms": "long", LINE: "binary"}

#: Seconds between two looks at the query.
_LOOK_S = 1


class StructuredStream:
    """The query over rows as they land; it resumes when it is started again over the same output.

    Parameters
    ----------
    rows
        Stream of rows, as `stormwright.pipeline.parsing.source.stream_landed` or
        `stormwright.pipeline.streaming.kafka.stream_topic`.
    into
        Output directory, with the checkpoint and the batches, local or of any Hadoop file system. To begin again,
        delete it as a whole.
    settings
        Lengths of panes and of the state; None for the defaults.
    delta
        Whether the output is one Delta table instead of a directory for each batch; the session has Delta's jars.
    """

    def __init__(
        self, rows: DataFrame, into: Location, settings: StreamSettings | None = None, *, delta: bool = False
    ) -> None:
        self._rows, self._spark, self._into, self._delta = rows, rows.sparkSession, into, delta
        self._settings = settings or StreamSettings()
        self._query: StreamingQuery | None = None

    def start(self, *, until_empty: bool = False) -> None:
        """Start the query.

        Parameters
        ----------
        until_empty
            Whether it ends once it has read all files, instead of waiting for more.
        """
        settings, into, delta = self._settings, self._into, self._delta

        def write(batch: DataFrame, number: int) -> None:
            writer = batch.write.partitionBy("table")
            if delta:
                writer = writer.options(txnAppId=address(into), txnVersion=number)
                writer.format("delta").mode("append").save(address(inside(into, ROWS)))
            else:
                writer.mode("overwrite").parquet(address(inside(into, f"{ROWS}/batch={number}")))

        interval = {"processingTime": f"{settings.trigger_s} seconds"}
        trigger: dict[str, Any] = {"availableNow": True} if until_empty else interval
        writer = each_once(self._rows, settings).writeStream.queryName(ROWS).foreachBatch(write).trigger(**trigger)
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
                report(f"batch {last.batchId} took {last.batchDuration / 1000:.1f} s")

    def stop(self) -> None:
        """Stop the query; a batch under way is repeated at the next start."""
        if self._query:
            self._query.stop()

    def records(self) -> DataFrame:
        """Return the records of all batches, each once (`stormwright.perflog.schema`)."""
        return self._stored(RECORDS).select(*RECORD_COLUMNS)

    def panes(self) -> DataFrame:
        """Return loads and traffic of all batches, as `stormwright.pipeline.measurement.panes.panes`."""
        return panes(self.records(), self._settings)

    def quarantine(self) -> DataFrame:
        """Return the rejected lines: reason, file, line number, landing time, line.

        The line number is null in files of JSON lines, and the offset of a Kafka message.
        """
        return self._stored(QUARANTINE).select(*_REJECTED)

    def counts(self) -> LineCounts:
        """Return the counts of all lines.

        A record before the watermark, in a file that appeared with an older modification time than those that were
        read, counts as a duplicate.
        """
        found = self._stored(RECORDS, QUARANTINE, LINES).groupBy("table").count().collect()
        rows = {row["table"]: row["count"] for row in found}
        rejected = rows.get(QUARANTINE, 0)
        return LineCounts.of(rows.get(LINES, 0) - rejected, rows.get(RECORDS, 0), rejected)

    def _stored(self, *tables: str) -> DataFrame:
        schema = record_type()
        for column, kind in {**_REJECTED, "batch": "long", "table": "string"}.items():
            schema = schema.add(column, kind)
        where = inside(self._into, ROWS)
        if not exists(self._spark, where):
            return self._spark.createDataFrame([], schema)
        reader = self._spark.read.format("delta") if self._delta else self._spark.read.schema(schema)
        return reader.load(address(where)).where(F.col("table").isin(*tables))


def each_once(rows: DataFrame, settings: StreamSettings) -> DataFrame:
    """Return a stream of landed rows by ``table``: each record once, all rejected lines, and one row per line."""
    identity = F.struct(*(F.col(place).alias(name) for name, place in RECORD_KEYS.items()))
    is_record = F.col("reason").isNull()
    found = rows.select(
        *RECORD_COLUMNS,
        "reason",
        file_name(F.col("file")).alias("file"),
        (F.col("row") + 1).alias("line_number"),
        "landed_ms",
        LINE,
        "event",
        F.when(is_record, RECORDS).otherwise(QUARANTINE).alias("table"),
        F.when(is_record, identity).alias("identity"),
        # Not `F.uuid`: its seed is part of the generated code, so Spark would compile the plan again for each batch.
        F.when(~is_record, F.java_method(F.lit("java.util.UUID"), F.lit("randomUUID"))).alias("other"),
    )
    found = found.withWatermark("event", f"{settings.watermark_s} seconds")
    distinct = found.dropDuplicatesWithinWatermark(["identity", "other"]).drop("identity", "other", "event")
    return distinct.unionByName(rows.select(F.lit(LINES).alias("table")), allowMissingColumns=True)
