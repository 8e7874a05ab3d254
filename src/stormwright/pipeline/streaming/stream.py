"""The running stream: landed files in, the newest `LoadProfile` out, inside another process."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from stormwright.base.file_lock import exclusive_lock
from stormwright.errors import StormwrightError
from stormwright.model import LoadProfile, Problem
from stormwright.perflog.columns import ParsedRows
from stormwright.pipeline.measurement.measurement import Measurement
from stormwright.pipeline.measurement.node_loads import capacity_cores
from stormwright.pipeline.monitoring.alarm_log import Alarm
from stormwright.pipeline.monitoring.alarms import AlarmStream
from stormwright.pipeline.parsing.source import prune, rows_in, waiting_files
from stormwright.pipeline.plan import BatchPlan
from stormwright.pipeline.settings import RecordRate, StreamSettings
from stormwright.pipeline.spark.location import local_path
from stormwright.pipeline.spark.query_supervisor import GONE, QueryFigures
from stormwright.pipeline.spark.session import temporary
from stormwright.pipeline.spark.target import SPARK_ERRORS
from stormwright.pipeline.streaming.batch_loop import BatchLoop, quarantine_failing_files
from stormwright.pipeline.streaming.kafka import QUERY, KafkaStream
from stormwright.pipeline.streaming.kafka_connector import connected_session
from stormwright.pipeline.streaming.progress import LiveState, StreamProgress
from stormwright.pipeline.streaming.sink import ClosedPaneKeeper, ProfileSink, take_over

__all__ = ["LoadStream", "StreamSettings"]

#: Landed rows from which a stream begins at the high rate: about a minute of 1,600 workers.
BACKLOG_ROWS = 100_000


class LoadStream:
    """A stream that provides the newest `LoadProfile` while records land; a context manager.

    Every method may be called from any thread; `start` and `stop` take seconds.

    Parameters
    ----------
    landing
        Directory of landed files, as of `stormwright.perflog.columns.RecordLanding`. They are deleted once they are
        processed.
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
    on_landed
        Called with what has landed from `StreamSettings.kafka`, from a thread of the stream.
    """

    def __init__(
        self,
        landing: Path,
        state_dir: Path,
        settings: StreamSettings | None = None,
        spark: SparkSession | None = None,
        history: ClosedPaneKeeper | None = None,
        on_alarm: Callable[[Alarm], None] = lambda _: None,
        on_landed: Callable[[ParsedRows], None] = lambda _: None,
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
        self._on_landed = on_landed
        self._kafka: KafkaStream | None = None
        self._loop: BatchLoop | None = None
        self._sink: ProfileSink | None = None
        self._problem: Problem | None = None
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
            except SPARK_ERRORS as error:
                raise StormwrightError(f"the stream over {self._landing} did not start: {error}") from error
            self._closing = starting.pop_all()

    def _begin(self, ending: ExitStack) -> None:
        """Start everything and register with `ending` how each part ends."""
        message = f"another process measures loads in {self._state_dir}; two would read each other's records"
        ending.enter_context(exclusive_lock(self._state_dir, message))
        self._landing.mkdir(parents=True, exist_ok=True)
        directory = self._state_dir / self.settings.state_name
        take_over(self._state_dir / self.settings.previous_state_name, directory)
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
        plan = BatchPlan(spark, temporary(self._state_dir / "spark"), self.settings)
        self._rebuild(plan, sink)
        self._loop = loop = self._batch_loop(plan, sink)
        ending.callback(self._stop_loop, loop)
        loop.start()
        if self._alarms:
            ending.callback(self._alarms.stop)
            self._alarms.start(spark)
        if self.settings.kafka:
            self._kafka = KafkaStream(
                self.settings.kafka, self._landing, self._state_dir / "kafka", self.settings, self._on_landed
            )
            ending.callback(self._kafka.stop)
            self._kafka.start(spark)

    def _batch_loop(self, plan: BatchPlan, sink: ProfileSink) -> BatchLoop:
        def examine() -> None:
            quarantine_failing_files(
                lambda files: plan(files, LiveState()), self._landing, sink.quarantine, self.settings
            )

        return BatchLoop(
            sink.waiting,
            take=lambda files: sink.take(plan(files, sink.state)),
            examine=examine,
            tidy=lambda: prune(self.raw, self.settings.keep_raw_s),
            settings=self.settings,
        )

    def stop(self) -> None:
        """Stop the stream, and Spark if the stream owns it; the last measurement stays readable.

        Every part is stopped, even if another part fails to stop.
        """
        self._closing.close()

    def _stop_loop(self, loop: BatchLoop) -> None:
        self._loop = None
        loop.stop()

    def measure_promptly(self) -> None:
        """Measure every `StreamSettings.prompt_trigger_s` for the next seconds, as somebody watches."""
        if loop := self._loop:
            loop.run_promptly()

    def require_running(self) -> None:
        """Raise unless the started stream still runs.

        Raises
        ------
        StormwrightError
            Its Spark has ended.
        """
        if self._loop is not None and not self._loop.running:
            raise StormwrightError(f"{self._loop.error}; restart the service; it resumes where it stopped")

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
        self._problem = problem
        if self._sink:
            self._sink.capacity_cores = capacity_cores(problem, self.settings)

    def age_s(self) -> float | None:
        """Return the seconds since the newest load was measured; None if there is none yet."""
        measured_s = self._sink.measured_s if self._sink else None
        return None if measured_s is None else time.monotonic() - measured_s

    def progress(self) -> StreamProgress:
        """Return the progress; a stream that was not started has neither batches nor loads."""
        sink, loop, kafka = self._sink, self._loop, self._kafka
        if sink is None:
            return {"running": False, "error": None, "batch": -1}
        queries = self._figures.as_dict()
        return {
            "running": loop is not None and loop.running,
            "error": (loop.error if loop else None) or (kafka.error if kafka else None),
            "restarts": loop.restarts if loop else 0,
            "files_set_aside": sink.quarantine.files_set_aside(),
            "batch": sink.state.batch,
            "batch_ms": loop.batch_ms if loop else None,
            "profile_age_s": self.age_s(),
            "lag_ms": sink.lag_ms(),
            "ledger": asdict(sink.state.ledger),
            "unknown_tuples": self._unknown_tuples(),
            "nodes": _nodes(sink),
            "complete_latency_ms": sink.measurement.complete_latency_ms if sink.measurement else {},
            "queries": {"loads": _figures(sink, loop), **queries},
            "alarms": self._alarms.status() if self._alarms else None,
            "kafka": kafka.status(queries.get(QUERY, {})) if kafka else None,
        }

    def _unknown_tuples(self) -> dict[str, int]:
        measurement = self.measurement()
        return measurement.unknown_tuples(self._problem) if measurement and self._problem else {}

    def _rebuild(self, plan: BatchPlan, sink: ProfileSink) -> None:
        """Rebuild the state of the last measurement from retained files, if there are any."""
        if sink.state.batch >= 0 or not (retained := waiting_files(self.raw)):
            return
        recent_ns = (self.settings.window_s + self.settings.watermark_s) * 10**9
        oldest_ns = retained[-1].stat().st_mtime_ns - recent_ns
        # If they cannot be read the state is empty: old files must not prevent a start.
        with suppress(PySparkException, Py4JJavaError, StormwrightError, OverflowError):
            sink.take(plan([path for path in retained if path.stat().st_mtime_ns > oldest_ns], sink.state), again=True)

    def _rate(self) -> RecordRate:
        """Return "high" if a backlog has landed."""
        first_batch = waiting_files(self._landing, self.settings.max_files_per_batch)
        return "high" if rows_in(first_batch) > BACKLOG_ROWS else "low"

    def _start_spark(self, ending: ExitStack) -> SparkSession:
        # Memory and compilers of a JVM are chosen when it starts.
        settings = replace(self.settings, rate=self.settings.rate or self._rate())
        self._own_spark = spark = connected_session(self._state_dir / "spark", settings)
        ending.callback(self._stop_spark, spark)
        return spark

    def _stop_spark(self, spark: SparkSession) -> None:
        self._own_spark = None
        _stop_ended(spark.stop)


def _stop_ended(stop: Callable[[], Any]) -> None:
    with suppress(*GONE):
        stop()


def _figures(sink: ProfileSink, loop: BatchLoop | None) -> dict[str, Any]:
    """Return the figures of the batches as those of a query of Spark, as `BatchFigures`."""
    panes = sink.state.panes.values()
    return {
        "batch": sink.state.batch,
        "phases_ms": {"triggerExecution": loop.batch_ms} if loop and loop.batch_ms is not None else {},
        "state_rows": sum(pane.source_records.num_rows for pane in panes),
        "state_bytes": sum(pane.source_records.nbytes + pane.facts.nbytes for pane in panes),
        "offsets_behind": None,
        "restarts": loop.restarts if loop else 0,
    }


def _nodes(sink: ProfileSink) -> dict[str, Any]:
    loads = sink.measurement.nodes(sink.capacity_cores) if sink.measurement else {}
    return {node: load.as_dict() for node, load in loads.items()}
