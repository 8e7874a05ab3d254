"""Kafka as a source of records: a query that lands the messages of a topic as files, each exactly once.

::

    topic ─▶ query ─▶ staged file ─▶ mark ─▶ landing directory ─▶ stream of loads

`stormwright.pipeline.streaming.kafka_landing` has the steps of a batch, `kafka_connector` the jars of the source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyspark
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from stormwright.errors import MissingDependencyError
from stormwright.perflog.columns import ParsedRows
from stormwright.pipeline.parsing.source import rows_of
from stormwright.pipeline.settings import KafkaTopic, StreamSettings
from stormwright.pipeline.spark.query_supervisor import SupervisedQuery
from stormwright.pipeline.streaming.kafka_connector import CONNECTOR
from stormwright.pipeline.streaming.kafka_landing import MessageLanding

#: Name of the query.
QUERY = "kafka"

#: Messages of a batch, and where a query without a checkpoint begins; options of the topic override them.
_DEFAULTS = {
    "maxOffsetsPerTrigger": "10000",
    "startingOffsets": "earliest",
    # Without a broker Kafka's client waits for a minute by default, three times, before there is an error to report.
    "fetchOffset.numRetries": "1",
    "kafka.request.timeout.ms": "10000",
    "kafka.default.api.timeout.ms": "10000",
}

#: Parts of Spark's and Kafka's messages → what is wrong, and what to do.
_CAUSES = {
    "UnknownTopicOrPartition": "the topic {topic.name} is not at {topic.brokers}: create it, or correct --kafka-topic",
    "data may have been lost": "messages of {topic.name} expired before they were read: pass --kafka-conf "
    "failOnDataLoss=false to skip them; if the topic was created again, delete {directory} instead",
    **dict.fromkeys(
        ("TimeoutException", "Failed to create new KafkaAdminClient"),
        "no Kafka broker answers at {topic.brokers}: start it, or correct --kafka and --kafka-conf",
    ),
}


class KafkaStream:
    """The query that lands the messages of a topic; it resumes when it is started again over the same directory.

    Parameters
    ----------
    topic
        Kafka topic to read, with brokers and options.
    landing
        Landing directory, which gets the messages as files.
    directory
        Directory for the checkpoint, staged file and mark of any topic; each has its own below.
    settings
        Settings of the stream of loads.
    on_landed
        Called with the rows of messages that have landed, from a thread of the query.
    """

    def __init__(
        self,
        topic: KafkaTopic,
        landing: Path,
        directory: Path,
        settings: StreamSettings,
        on_landed: Callable[[ParsedRows], None] = lambda _: None,
    ) -> None:
        self._topic, self._directory, self._trigger_s = topic, directory / topic.name, settings.trigger_s
        self._messages = MessageLanding(landing, self._directory, settings.late_s, on_landed)
        self._query: SupervisedQuery | None = None

    def start(self, spark: SparkSession) -> None:
        """Start the query.

        Raises
        ------
        MissingDependencyError
            The session lacks the connector.
        """
        self._query = SupervisedQuery(lambda: self._begin(spark))

    def stop(self) -> None:
        """Stop the query."""
        self._messages.stop()
        if self._query is not None:
            self._query.stop()
            self._query = None

    @property
    def error(self) -> str | None:
        """Why messages do not land; None while they do."""
        error = self._query.error if self._query else None
        if error is None:
            return None
        known = next((text for mark, text in _CAUSES.items() if mark in error), None)
        return known.format(topic=self._topic, directory=self._directory) if known else error

    def status(self, figures: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
        """Return topic, whether the query runs, why it does not, and how many messages it has not read.

        Parameters
        ----------
        figures
            Figures of the query's last batch.
        """
        return {
            "brokers": self._topic.brokers,
            "topic": self._topic.name,
            "running": self._query is not None and self._query.running,
            "error": self.error,
            "messages_behind": figures.get("offsets_behind"),
        }

    def _begin(self, spark: SparkSession) -> StreamingQuery:
        writer = (
            _messages(spark, self._topic)
            .writeStream.queryName(QUERY)
            .option("checkpointLocation", str((self._directory / "checkpoint").absolute()))
            .trigger(processingTime=f"{self._trigger_s} seconds")
            .foreachBatch(self._messages)
        )
        return writer.start()


def stream_topic(spark: SparkSession, topic: KafkaTopic, settings: StreamSettings) -> DataFrame:
    """Return the rows of a topic's lines, as a stream, parsed by Spark's executors.

    As `stormwright.pipeline.parsing.source.stream_landed`, with topic and partition as the `file`. `row` is the offset
    minus one, so that line numbers are offsets. The event time is that of the batch, since one partition or producer
    may be hours behind another.

    Parameters
    ----------
    spark
        Session with the connector's jars.
    topic
        Topic to read, with its brokers and options.
    settings
        Settings of the stream.

    Raises
    ------
    MissingDependencyError
        The session lacks the connector.
    """
    value = F.col("value")
    # To split a text, Spark decodes it; of other messages each byte stays as it is.
    texts = F.when(F.contains(value, F.lit(b"\n")), F.split(value.cast("string"), "\n"))
    found = _messages(spark, topic).select(
        F.concat_ws("/", "topic", F.col("partition").cast("string")).alias("file"),
        F.col("partition").cast("long").alias("block"),
        (F.col("offset") - 1).alias("row"),
        # The clock of its writer may be ahead.
        F.unix_millis(F.least("timestamp", F.current_timestamp())).alias("landed_ms"),
        F.explode(F.coalesce(texts, F.array(value.cast("string")))).alias("value"),
    )
    rows = rows_of(found, *(F.col(name) for name in ("file", "block", "row", "landed_ms")), late_s=settings.late_s)
    return rows.withColumn("event", F.current_timestamp())


def _messages(spark: SparkSession, topic: KafkaTopic) -> DataFrame:
    try:
        return (
            spark.readStream.format("kafka")
            .options(**{**_DEFAULTS, **topic.options})
            .option("kafka.bootstrap.servers", topic.brokers)
            .option("subscribe", topic.name)
            .load()
        )
    except AnalysisException as error:
        if "data source: kafka" not in str(error):
            raise
        raise MissingDependencyError(
            f"this Spark has no Kafka connector: add {CONNECTOR} {pyspark.__version__} to its jars"
        ) from error
