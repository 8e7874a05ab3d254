"""Alarms for overloaded nodes: a separate stateful query beside the stream of loads.

::

    landed files ─▶ stream of loads ─▶ seconds of nodes ─▶ small files ─▶ `Watch` per node ─▶ `AlarmLog`

The files hold only what can make a difference: the seconds of nodes that are over their capacity or were lately. So the
query costs a few milliseconds a second as long as no node is.
"""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from stormwright.base.documents import Document, FileDocument, read_or_default
from stormwright.errors import MissingDependencyError
from stormwright.perflog.landing import Landing
from stormwright.pipeline.measurement.overload import NodeSeries
from stormwright.pipeline.monitoring.episodes import EPISODE, NodeEpisodes, NodeSecond, Run, final_after_s, follow
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.spark.query_supervisor import SupervisedQuery

log = logging.getLogger(__name__)

# Input --------------------------------------------------------------------------------------------
# Input of the alarm query: seconds of nodes at or near an overload, as small files.

#: A line of these files, as Spark reads it.
SECOND = "supervisor string, at long, cores double, capacity_cores double"


class SecondsFeed:
    """Writer of the seconds of nodes for the alarm query, each at least once.

    1. A node that was over its capacity in one of the last seconds is written second by second.
    2. After that its newest second is written once, which ends an episode that the query may still follow.
    3. The same happens initially for every node: an episode from before a restart may have ended meanwhile.
    4. A node that has left the cluster is written as silent.

    Parameters
    ----------
    final_s
        Seconds after which episodes are final, as for `episodes.final_after_s`.
    followed
        Nodes already followed by the query.
    """

    def __init__(self, directory: Path, final_s: int, followed: Iterable[str] = ()) -> None:
        self._landing = Landing(directory)
        self._last_s = final_s + 1
        self._end_s: int | None = None
        self._written: dict[str, dict[int, float | None]] = {node: {} for node in followed}
        self._quiet: set[str] = set()

    def write(self, series: NodeSeries, capacity_cores: Mapping[str, float]) -> None:
        """Write new seconds of nodes with known capacity."""
        if not capacity_cores:
            return
        # Seconds that were not final at the last write may have changed. After a restart all known seconds are written
        # again: final ones do not change.
        begin_s = 0 if self._end_s is None else self._end_s - self._last_s
        gone = [node for node in self._written if node not in capacity_cores]
        for node in gone:
            del self._written[node]
        # A second so late that no run of the node can go on.
        lines = [_line(node, series.end_s + self._last_s, None, None) for node in gone]  # 4
        for node, capacity in capacity_cores.items():
            cores = series.cores(node, begin_s)
            if not len(cores):
                continue
            first_s, limits = series.end_s - len(cores), series.limits(node, begin_s, capacity)
            seconds = {first_s + n: _known(used) for n, used in enumerate(cores.tolist())}
            if np.any(cores >= limits):  # 1
                before, self._written[node] = self._written.get(node, {}), seconds
                self._quiet.discard(node)
                new = [at for at, used in seconds.items() if before.get(at, -1.0) != used]
            elif node not in self._quiet:  # 2, 3
                self._written.pop(node, None)
                self._quiet.add(node)
                new = [series.end_s - 1]
            else:
                new = []
            lines += [_line(node, at, seconds[at], float(limits[at - first_s])) for at in new]
        self._landing.write(lines)
        self._end_s = series.end_s


def _line(node: str, at: int, cores: float | None, capacity_cores: float | None) -> bytes:
    return orjson.dumps({"supervisor": node, "at": at, "cores": cores, "capacity_cores": capacity_cores})


def _known(cores: float) -> float | None:
    return None if math.isnan(cores) else cores


# Log ----------------------------------------------------------------------------------------------
# Active and ended alarms, on disk.

#: Events of an episode.
RAISED, ENDED = "raised", "ended"

#: Number of ended episodes stored.
MAX_ENDED = 100


@dataclass(frozen=True)
class Alarm:
    """An episode that has an alarm.

    Parameters
    ----------
    start_s
        First second over the capacity, since 1970.
    end_s
        First second that is not over; for an active alarm, the time when it was raised.
    peak_cores, capacity_cores
        Maximum cores in use, and capacity.
    """

    supervisor: str
    start_s: int
    end_s: int
    peak_cores: float
    capacity_cores: float

    def __str__(self) -> str:
        return f"at or over its {self.capacity_cores:g} cores, up to {self.peak_cores:.2f} in use"


class AlarmLog:
    """Persistent log of alarms, so that a restart neither loses nor repeats one; takes batches of events in order.

    A batch may come again, even with other events: an alarm is known by its node and its first second.

    Parameters
    ----------
    path
        File of the log. A damaged one, as after a loss of power, is set aside, and its alarms are lost.
    on_alarm
        Called with every new alarm, from the query's thread.
    """

    def __init__(self, path: Path, on_alarm: Callable[[Alarm], None]) -> None:
        self._document: Document = FileDocument(path)
        self._on_alarm = on_alarm
        self.raised = 0
        self.up: dict[str, Alarm] = {}
        self.ended: list[Alarm] = []
        read_or_default(self._document, self._load, lambda: None, "past alarms are lost")

    def __call__(self, frame: DataFrame, batch: int) -> None:  # noqa: ARG002
        """Process one batch of `events`."""
        rows = frame.toArrow().to_pylist()
        # A node's alarm ends before its next one is raised.
        alarms = [(row.pop("event"), Alarm(**row)) for row in sorted(rows, key=_in_time)]
        up, ended = dict(self.up), list(self.ended)
        known = {(alarm.supervisor, alarm.start_s) for alarm in (*up.values(), *ended)}
        past = {(alarm.supervisor, alarm.start_s) for alarm in ended}
        new = []
        for event, alarm in alarms:
            key = alarm.supervisor, alarm.start_s
            if event == RAISED and key not in known:
                up[alarm.supervisor] = alarm
                new.append(alarm)
            elif event == ENDED and key not in past:
                up.pop(alarm.supervisor, None)
                ended.append(alarm)
        before = self.up, self.ended, self.raised
        self.up, self.ended, self.raised = up, ended[-MAX_ENDED:], self.raised + len(new)
        try:
            self._save()
        except OSError:
            # The query repeats the batch, whose alarms were not reported.
            self.up, self.ended, self.raised = before
            raise
        for alarm in new:
            try:
                self._on_alarm(alarm)
            except Exception:  # it is in the log, and others have to be reported
                log.exception("an alarm of %s was not reported", alarm.supervisor)

    def as_dict(self) -> dict[str, Any]:
        """Return active alarms, the most recent ended ones, and the total, for the status page."""
        return {
            "up": [asdict(alarm) for alarm in self.up.values()],
            "ended": [asdict(alarm) for alarm in self.ended],
            "raised": self.raised,
        }

    def _load(self, text: str) -> None:
        known = orjson.loads(text)
        up = [Alarm(**alarm) for alarm in known["up"]]
        ended = [Alarm(**alarm) for alarm in known["ended"]]
        self.raised = known["raised"]
        self.up, self.ended = {alarm.supervisor: alarm for alarm in up}, ended

    def _save(self) -> None:
        self._document.save(orjson.dumps(self.as_dict()).decode())


def _in_time(row: Mapping[str, Any]) -> tuple[int, bool]:
    return row["start_s"], row["event"] == ENDED


# Alarms -------------------------------------------------------------------------------------------

EVENT = f"event string, {EPISODE}"

#: Interval between checks for new files.
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
    """Processor of one node: its runs are the state, `stormwright.pipeline.monitoring.episodes.follow` the rule.

    Time is that of the input seconds, not of the clock or a watermark, so their distribution over batches does not
    matter.
    """

    def __init__(self, after_s: float, final_s: int) -> None:
        self._after_s, self._final_s = after_s, final_s

    def init(self, handle: Any) -> None:
        """Declare the state."""
        self._newest = handle.getValueState("newest", "at long")
        self._runs = handle.getListState("runs", _RUN)

    def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        """Process further seconds of a node and yield its events."""
        newest = self._newest.get()
        new_seconds = [NodeSecond(row.at, row.cores, row.capacity_cores) for row in rows]
        runs = [Run(*run) for run in self._runs.get()]
        after = follow(runs, newest[0] if newest else None, new_seconds, self._after_s, self._final_s)
        # The only state of a healthy node: seconds repeated after a restart raise no alarm again.
        self._newest.update((after.newest_s,))
        if after.runs:
            self._runs.put([tuple(run) for run in after.runs])
        elif runs:
            self._runs.clear()
        return _events(key[0], after)


def _events(supervisor: str, after: NodeEpisodes) -> Iterator[Row]:
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
    """Return the events (`EVENT`) of a stream of seconds of nodes (`SECOND`); the state needs RocksDB."""
    return seconds.groupBy("supervisor").transformWithState(
        statefulProcessor=Watch(after_s, final_s), outputStructType=EVENT, outputMode="Update", timeMode="None"
    )


class AlarmStream:
    """The alarm query with its files; it resumes when it is started again over the same directory.

    Parameters
    ----------
    directory
        Directory for the input seconds, the checkpoint and the log of alarms.
    after_s
        X: an alarm is raised for a node that has been at or over its capacity for longer.
    settings
        Settings of the stream of loads, which determine how late a second may still change.
    on_alarm
        Called with every new alarm.

    Raises
    ------
    MissingDependencyError
        protobuf is not installed, through which Spark and a stateful query in Python speak.
    """

    def __init__(
        self, directory: Path, after_s: float, settings: StreamSettings, on_alarm: Callable[[Alarm], None]
    ) -> None:
        if not _has_protobuf():
            raise MissingDependencyError("alarms need protobuf: pip install 'stormwright[spark]'")
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._after_s = directory, after_s
        self._final_s = final_after_s(after_s, settings.watermark_s + settings.slide_s)
        self.log = AlarmLog(directory / "alarms.json", on_alarm)
        self.feed = SecondsFeed(directory / "seconds", self._final_s, followed=self.log.up)
        self._query: SupervisedQuery | None = None

    def start(self, spark: SparkSession) -> None:
        """Start the query."""
        self._query = SupervisedQuery(lambda: self._begin(spark))

    def stop(self) -> None:
        """Stop the query; its results stay readable."""
        if self._query is not None:
            self._query.stop()
            self._query = None

    def status(self) -> dict[str, Any]:
        """Return the alarms, and whether the query runs or why it does not."""
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
    """Delete state without a recorded batch, over which Spark refuses to start.

    No batch was recorded, so all of its input still exists (SPARK-53103).
    """
    if not any((checkpoint / "offsets").glob("[0-9]*")):
        shutil.rmtree(checkpoint / "state", ignore_errors=True)


@contextmanager
def _session_for_rocksdb(spark: SparkSession) -> Iterator[None]:
    """Configure RocksDB for the queries started in the block; checkpoints keep the setting."""
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
