"""The history of a running service: recorded, ingested into tables, evaluated; its errors stop nothing."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from typing import TYPE_CHECKING, Any

from stormwright.base.clock import WALL, Clock
from stormwright.controller.reports import MoveReport
from stormwright.controller.requests import NoPlan
from stormwright.errors import StormwrightError
from stormwright.history.evaluation.measured import MeasurementWait
from stormwright.history.evaluation.moves import EvaluatedMove, MovedTopology, Worse
from stormwright.history.evaluation.window import Sample
from stormwright.history.tables.ingest import ingest as ingest_staged
from stormwright.history.tables.staging import Staging
from stormwright.history.tables.store import as_uri, check_format, open_store, tables_below
from stormwright.model import Problem
from stormwright.perflog.records import LogRecord
from stormwright.pipeline.spark.file_systems import renames_at_once
from stormwright.pipeline.spark.target import CONF_VARIABLE, MASTER_VARIABLE
from stormwright.plans.plan import Plan, Promise
from stormwright.service.storage.database import State
from stormwright.service.storage.evaluations import EvaluationStore
from stormwright.service.storage.recorder import Recorder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

#: Directory below the state directory for staged rows, and by default for the tables.
DIRECTORY = "history"

#: Seconds between two checks whether the service stops, and for which the ingestion under way may then go on.
_POLL_S = 1.0
STOP_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class HistorySettings:
    """Settings of the history.

    Parameters
    ----------
    uri
        Directory of the tables, on any Hadoop file system; below the state directory by default.
    format
        Format of the tables, ``parquet`` or ``delta``; checked on creation.
    keep_days
        Retention of each table, in days.
    ingest_every_s, tables
        Seconds between two ingestions, and whether there are tables: not without Spark.
    conf
        Settings of Spark for the tables, such as credentials of an object store.
    """

    uri: str | None = None
    format: str = "parquet"
    keep_days: int = 90
    ingest_every_s: float = 600.0
    tables: bool = True
    conf: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_format(self.format)

    @property
    def separate(self) -> bool:
        """Whether another process ingests the rows: the stream's Spark lacks these settings, or jars."""
        is_object_store = self.uri is not None and not renames_at_once(as_uri(self.uri))
        return self.format != "parquet" or bool(self.conf) or is_object_store


class ServiceHistory:
    """The history of a running service.

    Nothing here raises: an error is logged once, shown in `status`, and retried where possible. Rows wait on disk until
    Spark has ingested them into the tables.

    Parameters
    ----------
    settings
        Location, format and retention of the tables.
    state_dir, state
        State directory and database of the service.
    scheduler
        Name of the scheduler.
    on_evaluation
        Called with the evaluation of each move.
    clock
        Clock of the cluster.

    Attributes
    ----------
    decision_ms
        Time of the last decision, its key in the tables; 0 if unknown.
    """

    def __init__(
        self,
        settings: HistorySettings,
        state_dir: Path,
        state: State,
        scheduler: str,
        on_evaluation: Callable[[EvaluatedMove], None] = lambda _: None,
        clock: Clock = WALL,
    ) -> None:
        self._on_evaluation, self._settings, self._clock = on_evaluation, settings, clock
        self._state_dir, directory = state_dir, state_dir / DIRECTORY
        self._uri = settings.uri or tables_below(state_dir)
        self.staging = Staging(directory)
        self._evaluations = EvaluationStore(
            state.document("moves", replicated=False), state.document("measured", replicated=False), clock
        )
        self._recorder = Recorder(self.staging if settings.tables else None, scheduler, clock)
        self._errors: dict[str, dict[str, Any]] = {}
        self._last_errors: dict[str, tuple[type[Exception], str | None]] = {}
        self.decision_ms = 0
        self._decision: Plan | NoPlan | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._ingested: dict[str, Any] = {}
        self._maintained_on: date | None = None

    def start(self, spark: Callable[[], SparkSession | None]) -> None:
        """Start ingesting staged rows in a thread; `spark` returns the session while there is one."""
        self._run_safely("evaluation", self._evaluations.load)
        self._thread = threading.Thread(
            target=self._run_ingestion, args=(spark,), name="stormwright-history", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, waiting `STOP_TIMEOUT_S` seconds at most; staged rows wait for the next start."""
        self._stop.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(STOP_TIMEOUT_S)
        if thread is not None and thread.is_alive():
            text = "history: rows are still being ingested into %s after %g s: aborted; they wait for the next start"
            log.warning(text, self._uri, STOP_TIMEOUT_S)

    def count(self, records: Iterable[LogRecord]) -> None:
        """Count new records."""
        self._run_safely("evaluation", lambda: self._evaluations.count(records))

    def observe(self, problem: Problem) -> None:
        """Record cluster and load, and evaluate moves that are due."""
        self._run_safely("records", lambda: self._recorder.observe(problem))
        self._run_safely("evaluation", lambda: self._record_evaluations(self._evaluations.update(problem)))

    def record_decision(self, problem: Problem, decision: Plan | NoPlan, dry_run: bool) -> None:
        """Record a decision."""

        def note() -> None:
            self.decision_ms, self._decision = 0, decision
            self.decision_ms = self._recorder.record_decision(problem, decision, dry_run)

        self._run_safely("records", note)

    def record_move(self, topology: str, report: MoveReport | None, failure: str | None = None) -> None:
        """Record a move of the last decision."""
        self._run_safely("records", lambda: self._recorder.record_move(self.decision_ms, topology, report, failure))
        if report is not None:
            self._run_safely("evaluation", lambda: self._start_evaluation(topology, report))

    def status(self) -> dict[str, Any]:
        """Return the state of the history for the status endpoint.

        ``uri`` of the tables, ``staged_files`` and ``staged_bytes`` that wait, ``taken`` (time of the last ingestion,
        and rows by table if known), ``errors`` (the last one of each part, with its time).
        """
        files, size = self.staging.waiting()
        return {
            "uri": self._uri,
            "staged_files": files,
            "staged_bytes": size,
            "taken": dict(self._ingested),
            "errors": dict(self._errors),
        }

    def reset_resumed(self, names: Iterable[str], problem: Problem) -> None:
        """Restart the measured time of topologies (names) that were paused."""
        self._run_safely("evaluation", lambda: self._evaluations.reset_resumed(names, problem))

    def waits(self, problem: Problem, least_s: float) -> dict[str, MeasurementWait]:
        """Return topologies measured for less than `least_s` seconds."""
        return self._evaluations.waits(problem, least_s)

    def worse(self, problem: Problem) -> list[Worse]:
        """Topologies that do measurably worse since they were moved."""
        found: list[Worse] = []

        def update() -> None:
            worse, gone = self._evaluations.worse(problem)
            found.extend(worse)
            self._record_evaluations(gone)

        self._run_safely("evaluation", update)
        return found

    def recent(self, topology: str, since_ms: float) -> list[Sample]:
        """Return windows of a topology, as `MoveEvaluator.recent`."""
        return self._evaluations.recent(topology, since_ms)

    def evaluation_status(self) -> dict[str, Any]:
        """Return the evaluations of moves for the status endpoint (`MoveEvaluator.status`)."""
        return self._evaluations.status()

    def ingest(self, spark: SparkSession) -> None:
        """Ingest staged rows into the tables.

        Raises
        ------
        StormwrightError
            The separate process failed.
        """
        if self._settings.separate:
            self._run_verb(["ingest"])
            rows = None
        else:
            rows = ingest_staged(spark, open_store(spark, self._uri, self._settings.format), self.staging)
        self._ingested = {"at_ms": round(self._clock.time() * 1000), "rows": rows}

    def maintain(self) -> None:
        """Once a day, compact past days and delete old ones.

        This runs in a process of its own: in the stream's Spark, which has one core, its batches would wait for
        minutes.

        Raises
        ------
        StormwrightError
            That process failed.
        """
        today = datetime.now(UTC).date()
        if self._maintained_on == today:
            return
        for work in (["compact"], ["retain", str(self._settings.keep_days)]):
            self._run_verb(work)
        self._maintained_on = today

    def _run_verb(self, arguments: list[str]) -> None:
        place = ["--state", str(self._state_dir), "--history", self._uri, "--history-format", self._settings.format]
        command = [sys.executable, "-m", "stormwright", "history", *arguments, *place]
        # On this machine, as the stream does, whatever cluster other verbs use: the tables may be local.
        environment = {name: value for name, value in os.environ.items() if name != MASTER_VARIABLE}
        if self._settings.conf:
            environment[CONF_VARIABLE] = "\n".join(f"{key}={value}" for key, value in self._settings.conf.items())
        with Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, text=True, env=environment) as process:
            while True:
                try:
                    _, output = process.communicate(timeout=_POLL_S)
                    break
                except TimeoutExpired:
                    if self._stop.is_set():
                        process.terminate()
        if process.returncode and not self._stop.is_set():
            last = (output.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
            raise StormwrightError(f"history {arguments[0]}: {last}")

    def _run_ingestion(self, spark: Callable[[], SparkSession | None]) -> None:
        while not self._stop.wait(self._settings.ingest_every_s):
            session = spark()
            if session is not None:
                self._run_safely("tables", partial(self.ingest, session))
                self._run_safely("old days", self.maintain)

    def _start_evaluation(self, topology: str, report: MoveReport) -> None:
        if not report.complete or not isinstance(self._decision, Plan):
            self._record_evaluations(self._evaluations.forget(topology))
            return
        whole = [move for move in self._decision.moves if move.topology == topology]
        self._record_evaluations(
            self._evaluations.moved(
                MovedTopology(
                    self.decision_ms,
                    topology,
                    self._decision.promises.get(topology, Promise()),
                    report.started_ms,
                    report.resumed_ms,
                    whole[0].before if whole else None,
                    whole[-1].after if whole else None,
                    rolls_back=self._decision.origin == "rollback",
                    executors=whole[0].executors_before if whole else {},
                    conf=whole[0].conf_before if whole else {},
                    trial=self._decision.trial,
                    aim=self._decision.aim,
                )
            )
        )

    def _record_evaluations(self, found: Iterable[EvaluatedMove]) -> None:
        for evaluated in found:
            self._recorder.record_evaluation(evaluated)
            self._on_evaluation(evaluated)
            evaluation = evaluated.evaluation
            measured = "unknown" if evaluation.measured is None else f"{evaluation.measured:.2f}"
            log.info(
                "%s: %s %s of what it was before the move, %.2f predicted: %s",
                evaluated.topology,
                evaluation.quantity,
                measured,
                evaluation.predicted,
                evaluation.verdict,
            )

    def _run_safely(self, part: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # a full disk, unreachable tables, or a bug: the service goes on deciding
            self._record_error(part, error)

    def _record_error(self, part: str, error: Exception) -> None:
        # Every row has its own file: a full disk is the same error for all of them.
        fault = (type(error), error.strerror if isinstance(error, OSError) else str(error))
        # Spark appends the JVM's stack to its messages.
        message = "; ".join(str(error).splitlines()[: None if isinstance(error, StormwrightError) else 1])
        text = f"{type(error).__name__}: {message}"
        if self._last_errors.get(part) != fault:
            log.warning("history: %s: %s; the placement goes on without", part, text)
        self._last_errors[part] = fault
        self._errors[part] = {"error": text, "at_ms": round(self._clock.time() * 1000)}
