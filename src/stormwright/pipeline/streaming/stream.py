"""The running stream: landed files in, the newest `LoadProfile` out, inside another process."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from stormwright.errors import StormwrightError
from stormwright.file_lock import alone
from stormwright.model import LoadProfile, Problem
from stormwright.perflog import encode
from stormwright.perflog.landing import SUFFIX, Landing
from stormwright.perflog.schema import sample_record
from stormwright.pipeline.measurement.measurement import Measurement, capacity_cores
from stormwright.pipeline.monitoring.alarms import Alarm, AlarmStream
from stormwright.pipeline.parsing.quarantine import Quarantine
from stormwright.pipeline.parsing.source import prune, read_files, read_stream
from stormwright.pipeline.plan import batch_of, prepared
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.spark.query_supervisor import GONE, QueryFigures, SupervisedQuery
from stormwright.pipeline.spark.scratch import scratch
from stormwright.pipeline.spark.session import spark_session
from stormwright.pipeline.spark.target import local_path
from stormwright.pipeline.streaming.progress import LiveState, Progress
from stormwright.pipeline.streaming.sink import ClosedPaneKeeper, ProfileSink

# Files that fail ----------------------------------------------------------------------------------
# Detection of files over which a batch fails; they are set aside whole so that the stream continues.

#: Returns why files cannot be processed, None if they can.
_Failure = Callable[[Sequence[Path]], str | None]


def set_poison_aside(spark: SparkSession, landing: Path, quarantine: Quarantine, settings: StreamSettings) -> None:
    """Move landed files that cannot be processed to the quarantine.

    1. Each is tried as the only file of a batch, so that failures with other causes move no file.
    2. Nothing is moved if not even a valid file can be processed: then the cause is the machine.

    Parameters
    ----------
    spark
        Spark session for the attempts, while no query of the stream runs.
    landing
        Directory of the stream's files.
    quarantine
        Quarantine that receives the files, with the reason.
    settings
        Settings of the stream; only as many of the oldest files as its last batch can have had are tried.
    """
    landed = sorted(landing.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime_ns)
    # A batch takes the oldest; before them may be those of the last one, which are not deleted yet.
    files = landed[: 2 * settings.max_files_per_batch]
    with scratch("poison") as directory:

        def failure(tried: Sequence[Path]) -> str | None:
            try:
                LiveState().after(
                    0, *batch_of(prepared(read_files(spark, tried), settings), LiveState(), settings), settings
                )
            except Exception as error:  # whatever a batch may fail with
                return f"{type(error).__name__}: {error}".splitlines()[0]
            return None

        found = poisonous(files, failure)
        harmless = Landing(directory / "landing").write([b"{}"])
        if harmless is None or failure([harmless]):  # (2)
            return
    for path, reason in found.items():
        if path.exists():
            quarantine.set_aside(path, f"the whole file, over which a batch fails: {reason}")


def poisonous(files: Sequence[Path], failure: _Failure) -> dict[Path, str]:
    """Return the files that fail alone, with the reason; found by bisection."""
    reason = failure(files) if files else None
    if reason is None:
        return {}
    if len(files) == 1:
        return {files[0]: reason}
    middle = len(files) // 2
    return poisonous(files[:middle], failure) | poisonous(files[middle:], failure)


# Warm-up ------------------------------------------------------------------------------------------
# A record through a separate stream, before the first real ones.


def loads_writer(
    spark: SparkSession, landing: Path, checkpoint: Path, sink: ProfileSink, settings: StreamSettings
) -> DataStreamWriter:
    """Return the query of loads over a landing directory, not started.

    Parameters
    ----------
    spark
        Spark session of the query.
    landing
        Directory of landed files.
    checkpoint
        Directory for Spark's checkpoint; it is cleared first.
    sink
        Sink of the batches; it rejects batches of earlier queries.
    settings
        Settings of the stream.
    """
    # Spark's checkpoint is only needed while a query runs; its list of files read grows without limit.
    shutil.rmtree(checkpoint, ignore_errors=True)
    take = sink.begin()
    rows = prepared(read_stream(spark, landing, settings), settings)
    return rows.writeStream.queryName("loads").option("checkpointLocation", str(checkpoint)).foreachBatch(take)


def warm_up(spark: SparkSession, settings: StreamSettings) -> None:
    """Process one record in a separate stream.

    A JVM's first batch costs some ten times as much CPU as a later one; this way not when the first records come.
    """
    with scratch("warm-up") as directory:
        landing = Landing(directory / "landing")
        landing.write([encode(sample_record(round(time.time() * 1000) - 1000))])
        sink = ProfileSink(
            landing.directory, directory / "raw", directory / "state", directory / "latest.json", settings
        )
        writer = loads_writer(spark, landing.directory, directory / "checkpoint", sink, settings)
        writer.trigger(availableNow=True).start().awaitTermination()


__all__ = ["LoadStream", "StreamSettings"]

# Stream -------------------------------------------------------------------------------------------

#: Number of batches after which the query, and Spark's record of files read, is restarted.
BATCHES_A_QUERY = 10_000


class LoadStream:
    """A stream that provides the newest `LoadProfile` while records land; a context manager.

    Every method may be called from any thread; `start` and `stop` take seconds.

    Parameters
    ----------
    landing
        Directory that `stormwright.perflog.Landing` writes to. Files are deleted once they are processed.
    state_dir
        Directory of checkpoint, panes, ledger, quarantine, ``latest.json`` and Spark's log. A stream over the
        same directory resumes where the last one ended, even if that one was killed.
    settings
        Settings of the measurement; None for the defaults.
    spark
        Session to use; None to start and stop a private one.
    history
        Receives complete panes; None to drop them.
    on_alarm
        Called with every new alarm, from a thread of the stream.
    """

    def __init__(
        self,
        landing: Path,
        state_dir: Path,
        settings: StreamSettings | None = None,
        spark: SparkSession | None = None,
        history: ClosedPaneKeeper | None = None,
        on_alarm: Callable[[Alarm], None] = lambda _: None,
    ) -> None:
        self.settings = settings or StreamSettings()
        self._landing = local_path(landing, "landing directory")
        self._state_dir = local_path(state_dir, "state directory")
        self._given_spark = spark
        self._history = history
        self._own_spark: SparkSession | None = None
        self._figures = QueryFigures()
        self._on_alarm = on_alarm
        self._alarms: AlarmStream | None = None
        self._query: SupervisedQuery | None = None
        self._sink: ProfileSink | None = None
        self._noted: Problem | None = None
        self._latest: tuple[Measurement, Problem, LoadProfile] | None = None
        self._closing = ExitStack()

    @property
    def raw(self) -> Path:
        """Directory of processed files retained for `StreamSettings.keep_raw_s`."""
        return self._state_dir / "raw"

    @property
    def spark(self) -> SparkSession | None:
        """The session of the stream; None before the start and after the end."""
        return self._given_spark or self._own_spark

    def closed_panes_error(self) -> str | None:
        """Why complete panes have not reached the history."""
        return self._sink.closed.error if self._sink and self._sink.closed else None

    def start(self) -> None:
        """Start Spark and the stream; profiles follow as records land.

        Raises
        ------
        MissingDependencyError
            There is no Java, or it is too old.
        StormwrightError
            Spark did not come up, or another stream is at work in the state directory.
        """
        with ExitStack() as starting:
            try:
                self._begin(starting)
            except (PySparkException, Py4JError) as error:
                raise StormwrightError(f"the stream over {self._landing} did not start: {error}") from error
            self._closing = starting.pop_all()

    def _begin(self, ending: ExitStack) -> None:
        """Start everything and register with `ending` how each part ends."""
        message = f"another process measures loads in {self._state_dir}; two would read each other's records"
        ending.enter_context(alone(self._state_dir, message))
        self._landing.mkdir(parents=True, exist_ok=True)
        directory = self._state_dir / self.settings.state_name
        if self.settings.alarm_after_s is not None:
            self._alarms = AlarmStream(directory / "alarms", self.settings.alarm_after_s, self.settings, self._on_alarm)
        self._sink = sink = ProfileSink(
            self._landing,
            self.raw,
            directory,
            self._state_dir / "latest.json",
            self.settings,
            history=self._history,
            feed=self._alarms.feed if self._alarms else None,
        )
        spark = self._given_spark or self._start_spark(ending)
        spark.streams.addListener(self._figures)
        ending.callback(_stop_ended, lambda: spark.streams.removeListener(self._figures))
        ending.callback(sink.write_latest)
        ending.callback(sink.end)
        self._rebuild(spark, sink)
        self._query = query = self._started_query(spark, sink, directory / "checkpoint")
        ending.callback(self._stop_query, query)
        if self._alarms:
            ending.callback(self._alarms.stop)
            self._alarms.start(spark)

    def _started_query(self, spark: SparkSession, sink: ProfileSink, checkpoint: Path) -> SupervisedQuery:
        begun = 0

        def begin() -> StreamingQuery:
            nonlocal begun
            begun = sink.state.batch
            writer = loads_writer(spark, self._landing, checkpoint, sink, self.settings)
            return writer.trigger(processingTime=f"{self.settings.trigger_s} seconds").start()

        def tidy() -> bool:
            prune(self.raw, self.settings.keep_raw_s)
            due = sink.state.batch - begun >= BATCHES_A_QUERY
            if due:
                sink.end()
            return due

        def examine() -> None:
            set_poison_aside(spark, self._landing, sink.quarantine, self.settings)

        return SupervisedQuery(begin, examine, tidy)

    def stop(self) -> None:
        """Stop the stream, and Spark if the stream owns it; the last measurement stays readable.

        Every part is stopped, even if another part fails to stop.
        """
        self._closing.close()

    def _stop_query(self, query: SupervisedQuery) -> None:
        self._query = None
        query.stop()

    def require_running(self) -> None:
        """Raise unless the started stream still runs.

        Raises
        ------
        StormwrightError
            Its Spark has ended, so the query cannot be restarted.
        """
        if self._query is not None and not self._query.running:
            raise StormwrightError(f"{self._query.error}; restart the service; it resumes where it stopped")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def measurement(self) -> Measurement | None:
        """Return the last measurement by name; None before the first record."""
        return self._sink.measurement if self._sink else None

    def latest(self, problem: Problem) -> LoadProfile | None:
        """Return the last measurement in the problem's numbering; None before the first record.

        Of the same problem it is the same one until more was measured.
        """
        measurement, known = self.measurement(), self._latest
        if measurement is None:
            return None
        if known is None or known[0] is not measurement or known[1] is not problem:
            self._latest = known = (measurement, problem, measurement.profile(problem))
        return known[2]

    def note(self, problem: Problem) -> None:
        """Register the nodes (for headroom and alarms) and tasks (for unknown tuples) of a problem."""
        self._noted = problem
        if self._sink:
            self._sink.capacity_cores = capacity_cores(problem, self.settings)

    def age_s(self) -> float | None:
        """Return the seconds since the newest load was measured; None if there is none yet."""
        measured_s = self._sink.measured_s if self._sink else None
        return None if measured_s is None else time.monotonic() - measured_s

    def progress(self) -> Progress:
        """Return the progress; a stream that was not started has neither batches nor loads."""
        sink, query = self._sink, self._query
        if sink is None:
            return {"running": False, "error": None, "batch": -1}
        return {
            "running": query is not None and query.running,
            "error": query.error if query else None,
            "restarts": query.restarts if query else 0,
            "files_set_aside": sink.quarantine.files_set_aside(),
            "batch": sink.state.batch,
            "batch_ms": query.batch_ms() if query else None,
            "profile_age_s": self.age_s(),
            "lag_ms": sink.lag_ms(),
            "ledger": asdict(sink.state.ledger),
            "unknown_tuples": self._unknown_tuples(),
            "nodes": _nodes(sink),
            "complete_latency_ms": sink.measurement.complete_latency_ms if sink.measurement else {},
            "queries": self._figures.as_dict(),
            "alarms": self._alarms.status() if self._alarms else None,
        }

    def _unknown_tuples(self) -> dict[str, int]:
        measurement = self.measurement()
        return measurement.unknown_tuples(self._noted) if measurement and self._noted else {}

    def _rebuild(self, spark: SparkSession, sink: ProfileSink) -> None:
        """Rebuild the state of the last measurement from retained files, if there are any."""
        if sink.state.batch >= 0:
            return
        retained = sorted(self.raw.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime_ns)
        recent_ns = (self.settings.window_s + self.settings.watermark_s) * 10**9
        recent = [path for path in retained if path.stat().st_mtime_ns > retained[-1].stat().st_mtime_ns - recent_ns]
        if recent:
            # If they cannot be read the state is empty: old files must not prevent a start.
            with suppress(PySparkException, StormwrightError, OverflowError):
                sink.take(prepared(read_files(spark, recent), self.settings), again=True)

    def _start_spark(self, ending: ExitStack) -> SparkSession:
        self._own_spark = spark = spark_session(self._state_dir / "spark", self.settings)
        ending.callback(self._stop_spark, spark)
        # Where records wait already, a batch of them costs as much as the one that it would spare them.
        if not any(self._landing.glob(f"*{SUFFIX}")):
            warm_up(spark, self.settings)
        return spark

    def _stop_spark(self, spark: SparkSession) -> None:
        self._own_spark = None
        _stop_ended(spark.stop)


def _stop_ended(stop: Callable[[], Any]) -> None:
    with suppress(*GONE):
        stop()


def _nodes(sink: ProfileSink) -> dict[str, Any]:
    loads = sink.measurement.nodes(sink.capacity_cores) if sink.measurement else {}
    return {node: load.as_dict() for node, load in loads.items()}
