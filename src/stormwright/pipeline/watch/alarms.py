"""Alarms for nodes over their capacity, while it lasts: a stateful query of its own beside the stream of loads.

::

    landed files ─▶ stream of loads ─▶ seconds of nodes ─▶ small files ─▶ `Watch` per node ─▶ `AlarmLog`

The files hold only what can make a difference: the seconds of nodes that are over their capacity or were lately. So the
query costs a few milliseconds a second as long as no node is.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from stormwright.errors import MissingDependencyError
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.spark.keeper import KeptQuery
from stormwright.pipeline.watch.alarm_feed import SECOND, SecondsFeed
from stormwright.pipeline.watch.alarm_log import ENDED, RAISED, Alarm, AlarmLog
from stormwright.pipeline.watch.episodes import EPISODE, Followed, Run, Second, final_after_s, follow

EVENT = f"event string, {EPISODE}"

#: From one look for new files to the next.
TRIGGER_S = 1.0

_RUN = "start_s long, end_s long, peak_cores double, capacity_cores double, alarmed boolean"

#: Such a query keeps its state in RocksDB, which would cost the stream of loads twice its CPU; and RocksDB needs
#: Hadoop's own local file system, which the session does without because of what it costs.
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_SESSION = {
    "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    "fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


def _has_protobuf() -> bool:
    return find_spec("google") is not None and find_spec("google.protobuf") is not None


class Watch(StatefulProcessor):
    """Follows one node: its runs are the state, `stormwright.pipeline.watch.episodes.follow` the rule.

    Time is that of the seconds told, not of the clock or a watermark, so it does not matter how they fall into batches.
    """

    def __init__(self, after_s: float, final_s: int) -> None:
        self._after_s, self._final_s = after_s, final_s

    def init(self, handle: Any) -> None:
        """Declare the state."""
        self._newest = handle.getValueState("newest", "at long")
        self._runs = handle.getListState("runs", _RUN)

    def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        """Take further seconds of a node; give what has begun and ended."""
        newest = self._newest.get()
        told = [Second(row.at, row.cores, row.capacity_cores) for row in rows]
        runs = [Run(*run) for run in self._runs.get()]
        after = follow(runs, newest[0] if newest else None, told, self._after_s, self._final_s)
        # Of a node that is well only this is kept: what is told again after a restart raises no alarm again.
        self._newest.update((after.newest_s,))
        if after.runs:
            self._runs.put([tuple(run) for run in after.runs])
        elif runs:
            self._runs.clear()
        return _events(key[0], after)


def _events(supervisor: str, after: Followed) -> Iterator[Row]:
    for event, runs in ((RAISED, after.raised), (ENDED, after.ended)):
        for run in runs:
            yield Row(
                event=event,
                supervisor=supervisor,
                start_s=run.start_s,
                end_s=run.end_s,
                peak_cores=run.peak_cores,
                capacity_cores=run.capacity_cores,
            )


def events(seconds: DataFrame, after_s: float, final_s: int) -> DataFrame:
    """Seconds of nodes (`SECOND`, a stream) → what has begun and ended, as `EVENT`; needs RocksDB for its state."""
    return seconds.groupBy("supervisor").transformWithState(
        statefulProcessor=Watch(after_s, final_s), outputStructType=EVENT, outputMode="Update", timeMode="None"
    )


class AlarmStream:
    """The query with its files; goes on where it ended when it is started again over the same directory.

    Parameters
    ----------
    directory
        For the seconds on their way, the checkpoint and the log of alarms.
    after_s
        X: an alarm is raised for a node that has been at or over its capacity for longer.
    settings
        Of the stream of loads: they tell how late a second may still change.
    tell
        Called with every alarm that is raised.

    Raises
    ------
    MissingDependencyError
        protobuf is not installed, through which Spark and a stateful query in Python speak.
    """

    def __init__(
        self, directory: Path, after_s: float, settings: StreamSettings, tell: Callable[[Alarm], None]
    ) -> None:
        if not _has_protobuf():
            raise MissingDependencyError("alarms need protobuf: pip install 'stormwright[spark]'")
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._after_s = directory, after_s
        self._final_s = final_after_s(after_s, settings.watermark_s + settings.slide_s)
        self.log = AlarmLog(directory / "alarms.json", tell)
        self.feed = SecondsFeed(directory / "seconds", self._final_s, followed=self.log.up)
        self._query: KeptQuery | None = None

    def start(self, spark: SparkSession) -> None:
        """Start the query."""
        self._query = KeptQuery(lambda: self._begin(spark), examine=lambda: None, tidy=lambda: False)

    def stop(self) -> None:
        """Stop the query; what it has found can still be read."""
        if self._query is not None:
            self._query.stop()
            self._query = None

    def status(self) -> dict[str, Any]:
        """The alarms, and whether the query runs or why it does not."""
        query = self._query
        return {
            **self.log.as_dict(),
            "after_s": self._after_s,
            "running": query is not None and query.running,
            "error": query.error if query else None,
        }

    def _begin(self, spark: SparkSession) -> StreamingQuery:
        checkpoint = self._directory / "checkpoint"
        _drop_state_of_no_batch(checkpoint)
        seconds = (
            spark.readStream.schema(SECOND)
            .option("pathGlobFilter", "*.jsonl")
            .option("cleanSource", "delete")
            .option("maxFileAge", "1d")
            .json(str(self._directory / "seconds"))
        )
        writer = (
            events(seconds.where(F.col("at").isNotNull()), self._after_s, self._final_s)
            .writeStream.outputMode("update")
            .queryName("alarms")
            .option("checkpointLocation", str(checkpoint))
            .trigger(processingTime=f"{TRIGGER_S} seconds")
            .foreachBatch(self.log)
        )
        with _session_for_rocksdb(spark):
            return writer.start()


def _drop_state_of_no_batch(checkpoint: Path) -> None:
    """Spark writes about the state before it notes the first batch, and refuses to start where it was ended between.

    No batch counted, so what it was to read is all there still (SPARK-53103).
    """
    if not any((checkpoint / "offsets").glob("[0-9]*")):
        shutil.rmtree(checkpoint / "state", ignore_errors=True)


@contextmanager
def _session_for_rocksdb(spark: SparkSession) -> Iterator[None]:
    """A query takes over the settings of the session when it starts, and those of its state from its checkpoint."""
    before = {key: spark.conf.get(key, None) for key in _SESSION}
    for key, value in _SESSION.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, earlier in before.items():
            if earlier is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, earlier)
