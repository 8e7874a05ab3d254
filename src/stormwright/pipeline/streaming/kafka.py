"""Kafka as a source of records: a query that lands the messages of a topic as files, each exactly once.

::

    topic ─▶ query ─▶ staged file ─▶ mark ─▶ landing directory ─▶ stream of loads

A batch lands in three steps, each on disk before the next begins:

1. Its messages are staged as one file.
2. The mark is replaced: it names the file, and for each partition the offset after the file's messages.
3. The file is renamed into the landing directory.

Spark repeats an interrupted batch. So the file that the mark names is renamed first if it is still staged, and messages
before the mark's offsets have landed and are left out. Unlike the number of a batch, offsets also hold if Spark's
checkpoint lost its newest files in a power failure and the repeated batch has other limits.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson
import pyarrow as pa
import pyspark
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from stormwright.base.files import sync_directory, write_whole
from stormwright.errors import Fault, InputError, MissingDependencyError, StormwrightError
from stormwright.perflog.columns import ParsedRows, as_file, parsed_rows
from stormwright.perflog.landing import COLUMNS_SUFFIX
from stormwright.pipeline.settings import KafkaTopic, StreamSettings
from stormwright.pipeline.spark.file_systems import could_not_fetch, fetching
from stormwright.pipeline.spark.query_supervisor import SupervisedQuery
from stormwright.pipeline.spark.session import spark_session

# Connector ----------------------------------------------------------------------------------------
# The jars of Spark's Kafka connector, which are no part of Spark.

#: Has the version of Spark.
_CONNECTOR = "spark-sql-kafka-0-10_2.13"


def connector_conf(topic: KafkaTopic, directory: Path) -> Mapping[str, str]:
    """Return the settings of a Spark session that give it the connector.

    Parameters
    ----------
    topic
        Topic to read, with the directory of the jars, if they are there.
    directory
        Directory in which fetched jars are stored for the next start.

    Raises
    ------
    MissingDependencyError
        The directory of jars has no connector of this version of Spark.
    """
    if topic.jars is None:
        package = f"org.apache.spark:{_CONNECTOR}:{pyspark.__version__}"
        return {**fetching([package]), "spark.jars.ivy": str(directory.absolute())}
    connector = topic.jars / f"{_CONNECTOR}-{pyspark.__version__}.jar"
    if not connector.is_file():
        raise MissingDependencyError(
            f"{connector} is missing: copy it there with the jars that it depends on, or leave out --kafka-jars to "
            "fetch them from a Maven repository"
        )
    return {"spark.jars": ",".join(str(jar.absolute()) for jar in sorted(topic.jars.glob("*.jar")))}


def connected_session(directory: Path, settings: StreamSettings) -> SparkSession:
    """Start the Spark of a stream, as `spark_session`, with the connector if the settings name a topic.

    Raises
    ------
    MissingDependencyError
        There is no Java, or it is too old; or the connector's jars are neither there nor available.
    StormwrightError
        The JVM did not come up.
    """
    if settings.kafka is None:
        return spark_session(directory, settings)
    conf, log = connector_conf(settings.kafka, directory / "ivy"), directory / "spark.log"
    begin = log.stat().st_size if log.exists() else 0
    try:
        return spark_session(directory, settings, conf)
    except StormwrightError as error:
        # Of earlier starts the log may say the same.
        printed = log.read_bytes()[begin:].decode("utf-8", "replace") if log.exists() else ""
        if settings.kafka.jars is None and could_not_fetch(printed):
            raise MissingDependencyError(
                f"{conf['spark.jars.packages']} could not be fetched from any Maven repository of Spark: copy its jars "
                f"to a directory and pass --kafka-jars; {log} says more"
            ) from error
        raise


# Landing ------------------------------------------------------------------------------------------
# From messages to a landed file.

#: Columns of Spark's Kafka source that are used.
_COLUMNS = ("partition", "offset", "timestamp", "value")

#: How the names of files end that hold messages.
_LANDED = f"-kafka{COLUMNS_SUFFIX}"

#: Files that may wait in the landing directory before the next batch: one is processed meanwhile. All others wait in
#: Kafka, as the stream of loads may take many files at once.
_MAX_WAITING = 2

_POLL_S = 0.1


@dataclass(frozen=True)
class _Mark:
    """The newest file: its name, the batch that staged it, and the offset after its messages by partition."""

    batch: int = -1
    file: str = ""
    ends: Mapping[int, int] = field(default_factory=dict)


class MessageLanding:
    """Lands the messages of batches, each once; the function of a ``foreachBatch``.

    Parameters
    ----------
    landing
        Landing directory, to which finished files are renamed; created if it does not exist.
    directory
        Directory of staged file and mark, on the same file system.
    late_s
        Seconds after which a record is late, so that its line is stored as well.
    on_landed
        Called with the rows of messages that have landed.

    Raises
    ------
    InputError
        The directories are on different file systems, between which no file can be renamed.
    """

    def __init__(self, landing: Path, directory: Path, late_s: float, on_landed: Callable[[ParsedRows], None]) -> None:
        self._landing, self._staging = landing, directory / "staged"
        self._path, self._late_s, self._on_landed = directory / "mark.json", late_s, on_landed
        self._stopping = threading.Event()
        landing.mkdir(parents=True, exist_ok=True)
        self._staging.mkdir(parents=True, exist_ok=True)
        if landing.stat().st_dev != self._staging.stat().st_dev:
            what = f"is on another file system than {self._staging}: files of Kafka cannot be renamed into it"
            raise InputError("landing directory", [Fault(what, str(landing))])

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Land one batch of the query as soon as there is room for another file."""
        while len(list(self._landing.glob(f"*{_LANDED}"))) >= _MAX_WAITING:
            if self._stopping.wait(_POLL_S):
                raise StormwrightError("stopped before the batch")
        self.land(batch, frame.select(*_COLUMNS).toArrow())

    def stop(self) -> None:
        """Wait for no more room; the batch that waits for it fails, and is repeated by the next query."""
        self._stopping.set()

    def land(self, batch: int, messages: pa.Table) -> None:
        """Land messages that have not landed.

        Parameters
        ----------
        batch
            Number of the batch.
        messages
            Messages as the columns ``partition``, ``offset``, ``timestamp`` and ``value``.

        Raises
        ------
        StormwrightError
            Offsets of a new batch are not new.
        """
        mark = self._mark()
        self._rename(mark.file)
        messages = messages.sort_by([("partition", "ascending"), ("offset", "ascending")])
        messages, ends = self._new(messages, batch, mark)
        parsed = _parsed(messages, self._late_s)
        if not parsed.table.num_rows:
            return
        # Names sort in the order of landing, as those of deliveries.
        content = as_file(parsed.table)
        name = f"{time.time_ns():020d}-{os.getpid()}{_LANDED}"
        write_whole(self._staging / name, content)
        self._set_mark(_Mark(max(batch, mark.batch), name, {**mark.ends, **ends}))
        self._rename(name)
        self._on_landed(parsed)

    def _rename(self, name: str) -> None:
        """Let a staged file land, unless it has, and delete those that no mark names."""
        staged = self._staging / name
        if name and staged.exists():
            staged.rename(self._landing / name)
            for directory in (self._landing, self._staging):
                sync_directory(directory)
        for path in self._staging.iterdir():
            path.unlink()

    def _new(self, messages: pa.Table, batch: int, mark: _Mark) -> tuple[pa.Table, Mapping[int, int]]:
        """Return the messages that have not landed, and the offset after them by partition."""
        places = list(zip(messages["partition"].to_pylist(), messages["offset"].to_pylist(), strict=True))
        is_new = [offset >= mark.ends.get(partition, 0) for partition, offset in places]
        if batch > mark.batch and not all(is_new):
            raise StormwrightError(
                f"offsets of the topic begin again: if it was deleted and created again, delete {self._staging.parent} "
                "and restart the service"
            )
        # In the order of offsets: the last one of a partition remains.
        ends = {partition: offset + 1 for (partition, offset), new in zip(places, is_new, strict=True) if new}
        return messages.filter(pa.array(is_new, pa.bool_())), ends

    def _mark(self) -> _Mark:
        try:
            found = orjson.loads(self._path.read_bytes())
            return _Mark(found["batch"], found["file"], {int(key): end for key, end in found["ends"].items()})
        except FileNotFoundError:
            return _Mark()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"is damaged: delete {self._path.parent} to read the topic again, and restart the service"
            raise InputError("mark of Kafka", [Fault(what, str(self._path))]) from error

    def _set_mark(self, mark: _Mark) -> None:
        document = {"batch": mark.batch, "file": mark.file, "ends": mark.ends}
        write_whole(self._path, orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS))


def _parsed(messages: pa.Table, late_s: float) -> ParsedRows:
    """Return the lines of messages; a message landed at its timestamp, unless the clock of its writer is ahead."""
    moments = messages["timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()).to_pylist()
    now_ms = round(time.time() * 1000)
    lines, landed_ms = [], []
    for moment_ms, value in zip(moments, messages["value"].to_pylist(), strict=True):
        for line in (value or b"").split(b"\n"):
            if line.strip():
                lines.append(line)
                landed_ms.append(min(moment_ms, now_ms))
    return parsed_rows(lines, landed_ms, late_s)


# Query --------------------------------------------------------------------------------------------

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
        try:
            self._query = SupervisedQuery(lambda: self._begin(spark))
        except AnalysisException as error:
            if "data source: kafka" not in str(error):
                raise
            raise MissingDependencyError(
                f"this Spark has no Kafka connector: add {_CONNECTOR} {pyspark.__version__} to its jars"
            ) from error

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
        messages = (
            spark.readStream.format("kafka")
            .options(**{**_DEFAULTS, **self._topic.options})
            .option("kafka.bootstrap.servers", self._topic.brokers)
            .option("subscribe", self._topic.name)
            .load()
        )
        writer = (
            messages.writeStream.queryName(QUERY)
            .option("checkpointLocation", str((self._directory / "checkpoint").absolute()))
            .trigger(processingTime=f"{self._trigger_s} seconds")
            .foreachBatch(self._messages)
        )
        return writer.start()
