"""The history of a running service: recorded, ingested into tables, evaluated; its errors stop nothing."""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from typing import TYPE_CHECKING, Any

import orjson

from stormwright.base.clock import WALL, Clock
from stormwright.base.documents import Document, read_or_default
from stormwright.controller.objectives.outlook import inter_node_tps
from stormwright.controller.objectives.placements import without_assumed_traffic
from stormwright.controller.planning.valid_moves import planned_slots
from stormwright.controller.reports import MoveReport
from stormwright.controller.requests import NoPlan
from stormwright.errors import StormwrightError
from stormwright.formats import problem_to_dict
from stormwright.formats.document.problem import load_to_dict
from stormwright.history.evaluation.measured import MeasuredTopologies, MeasurementWait
from stormwright.history.evaluation.moves import EvaluatedMove, MovedTopology, MoveEvaluator, Worse
from stormwright.history.evaluation.window import ObservedTraffic
from stormwright.history.tables.definitions import DECISIONS, EVALUATIONS, MOVES, PROFILES, SNAPSHOTS, Table
from stormwright.history.tables.ingest import ingest as ingest_staged
from stormwright.history.tables.staging import Staging
from stormwright.history.tables.store import as_uri, check_format, open_store, tables_below
from stormwright.model import LoadProfile, Problem, cost_of
from stormwright.model.assignment import where
from stormwright.perflog.records import LogRecord
from stormwright.pipeline.spark.file_systems import renames_at_once
from stormwright.pipeline.spark.target import CONF_VARIABLE, MASTER_VARIABLE
from stormwright.plans.plan import Plan, Promise, TopologyMove
from stormwright.service.storage.database import State

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


# Recorder -----------------------------------------------------------------------------------------
# Rows of the history: snapshots, load profiles, decisions, moves, evaluations.

#: Seconds between two profiles if no decision needs one in between.
PROFILE_EVERY_S = 60.0

_DAY_MS = 86_400_000


class Recorder:
    """Stages rows of the history, each once; their timestamps are strictly increasing.

    Parameters
    ----------
    staging
        Staging directory for the tables; None if there are no tables.
    scheduler
        Name of the scheduler that decides.
    clock
        Clock of the cluster.
    """

    def __init__(self, staging: Staging | None, scheduler: str, clock: Clock = WALL) -> None:
        self._clock = clock
        self._staging = staging
        self._scheduler = scheduler
        self._snapshot: tuple[str, int] = ("", -1)
        self._last_problem: Problem | None = None
        self._last_ms = 0
        self._profile_ms = 0
        self._profile_end_ms = 0

    def observe(self, problem: Problem) -> None:
        """Record the cluster if it has changed, and its load if that is due."""
        if self._staging is None:
            return
        snapshot = self._note_snapshot(problem)
        if problem.load is None or problem.load.end_ms == self._profile_end_ms:
            return
        if self._clock.time() * 1000 - self._profile_ms >= PROFILE_EVERY_S * 1000:
            self._note_profile(problem, problem.load, snapshot)

    def record_decision(self, problem: Problem, decision: Plan | NoPlan, dry_run: bool) -> int:
        """Record a decision with its inputs; return its timestamp, which is its key."""
        if self._staging is None:
            return self._now_ms()
        snapshot = self._note_snapshot(problem)
        if problem.load is not None and problem.load.end_ms != self._profile_end_ms:
            self._note_profile(problem, problem.load, snapshot)
        known = without_assumed_traffic(problem)
        search, moves = decision.search, decision.moves if isinstance(decision, Plan) else ()
        after = cost_of(known, planned_slots(problem, moves))
        before, wanted = (search.before, search.wanted) if search else (cost_of(known, known.current_slot), after)
        parameters = dict(search.parameters) if search else {}
        parameters.pop("predicted", None)  # large in a large cluster; promises are recorded with the moves
        at_ms = self._now_ms()
        row = {
            "at_ms": at_ms,
            "scheduler": self._scheduler,
            "parameters": orjson.dumps(parameters, default=str).decode(),
            "reason": decision.reason,
            "dry_run": dry_run,
            "moves": orjson.dumps(_moved_executors(moves)).decode(),
            "cost_before": before.total,
            "cost_wanted": wanted.total,
            "cost_after": after.total,
            "inter_node_before_tps": inter_node_tps(before),
            "inter_node_wanted_tps": inter_node_tps(wanted),
            "inter_node_after_tps": inter_node_tps(after),
            "snapshot": snapshot,
            "profile_ms": self._profile_ms,
        }
        self._write(DECISIONS, at_ms, row)
        return at_ms

    def record_move(self, decision_ms: int, topology: str, report: MoveReport | None, failure: str | None) -> None:
        """Record a move, made or failed.

        Parameters
        ----------
        decision_ms
            Key of its decision, from `record_decision`.
        topology
            Id of the topology that moved or should have.
        report
            Steps and durations; None for a failed move.
        failure
            Error of a failed move; else None.
        """
        at_ms = self._now_ms()
        row = {"at_ms": at_ms, "decision_ms": decision_ms, "topology": topology, "failure": failure}
        self._write(MOVES, at_ms, row | (asdict(report) if report else {}))

    def record_evaluation(self, evaluated: EvaluatedMove) -> None:
        """Record the evaluation of a move."""
        at_ms = self._now_ms()
        row = {"at_ms": at_ms, "decision_ms": evaluated.decision_ms, "topology": evaluated.topology}
        self._write(EVALUATIONS, at_ms, row | asdict(evaluated.evaluation))

    def _note_snapshot(self, problem: Problem) -> str:
        """Record the cluster, at least once a day so that old days can be deleted; return the snapshot's id."""
        at_ms = self._now_ms()
        name, day = self._snapshot
        if _is_same_snapshot(self._last_problem, problem) and day == at_ms // _DAY_MS:
            return name
        text = orjson.dumps(problem_to_dict(replace(problem, load=None)), option=orjson.OPT_SORT_KEYS)
        name = hashlib.sha256(text).hexdigest()[:16]
        if self._snapshot != (name, at_ms // _DAY_MS):
            self._write(SNAPSHOTS, at_ms, {"at_ms": at_ms, "id": name, "document": text.decode()})
            self._snapshot = (name, at_ms // _DAY_MS)
        self._last_problem = problem
        return name

    def _note_profile(self, problem: Problem, load: LoadProfile, snapshot: str) -> None:
        document = {
            "topologies": {
                topology.id: load_to_dict(load.topologies[topology.id], topology)
                for topology in problem.topologies
                if topology.id in load.topologies
            },
            "node_cpu_hz": dict(load.node_cpu_hz),
            "node_quota_hz": dict(load.node_quota_hz),
            "node_overhead_hz": dict(load.node_overhead_hz),
            "overload_s": dict(load.overload_s),
        }
        at_ms = self._now_ms()
        row = {"at_ms": at_ms, "snapshot": snapshot, "start_ms": load.start_ms, "end_ms": load.end_ms}
        self._write(PROFILES, at_ms, row | {"document": orjson.dumps(document).decode()})
        self._profile_ms, self._profile_end_ms = at_ms, load.end_ms

    def _write(self, table: Table, at_ms: int, row: Mapping[str, Any]) -> None:
        if self._staging is not None:
            self._staging.write(table, f"{at_ms:013d}", [row])

    def _now_ms(self) -> int:
        """Return the time of day, later than any returned before."""
        self._last_ms = max(round(self._clock.time() * 1000), self._last_ms + 1)
        return self._last_ms


def _moved_executors(moves: tuple[TopologyMove, ...]) -> dict[str, list[int]]:
    """Topology id → executors that move in each of its moves."""
    found: dict[str, list[int]] = {}
    for move in moves:
        found.setdefault(move.topology, []).append(move.moved_executors)
    return found


def _is_same_snapshot(one: Problem | None, other: Problem) -> bool:
    """Return whether two problems are the same snapshot of Nimbus, perhaps under different loads."""
    return one is not None and all(
        getattr(one, part) is getattr(other, part) for part in ("supervisors", "topologies", "current", "conf")
    )


# Evaluations --------------------------------------------------------------------------------------
# Measured time of topologies and evaluations of moves, stored over restarts of the service.

#: Seconds per window of observation, and between two saves of the measured time.
WINDOW_S, SAVE_EVERY_S = 5.0, 10.0

#: Milliseconds after a move within which Nimbus has certainly reported the new placement.
SETTLED_MS = 60_000


class EvaluationStore:
    """Stores the measured time of topologies and the evaluations of their moves.

    Parameters
    ----------
    moves, measured
        Documents with pending and evaluated moves, and with the measured time of topologies.
    clock
        Clock of the cluster.
    """

    def __init__(self, moves: Document, measured: Document, clock: Clock = WALL) -> None:
        self._clock = clock
        self._moves_document, self._measured_document = moves, measured
        self.observed = ObservedTraffic(WINDOW_S, clock)
        self._evaluation: MoveEvaluator | None = None
        self._measured = MeasuredTopologies(self.observed)
        self._saved_s = float("-inf")
        self._saved: dict[str, Any] = {}

    def load(self) -> None:
        """Load the stored state of an earlier service; damaged state is replaced by an empty one."""
        lost = "moves before now are not evaluated"
        self._evaluation = read_or_default(self._moves_document, lambda _: self._restored(), self._empty, lost)
        lost = "all topologies are measured for long enough again before they move"

        def measured(text: str | None = None) -> MeasuredTopologies:
            return MeasuredTopologies(self.observed, orjson.loads(text) if text else None)

        self._measured = read_or_default(self._measured_document, measured, measured, lost)

    def count(self, records: Iterable[LogRecord]) -> None:
        """Count new records."""
        self.observed.add(records)

    def update(self, problem: Problem) -> list[EvaluatedMove]:
        """Count the time measured since the last call; return the moves that can be evaluated now, each once."""
        self.observed.forget(topology.id for topology in problem.topologies)
        self._measured.update(problem)
        self._save()
        return self._evaluation.due() if self._evaluation else []

    def reset_resumed(self, names: Iterable[str], problem: Problem) -> None:
        """Restart the measured time of topologies (names) that were paused."""
        paused = set(names)
        for topology in problem.topologies:
            if topology.name in paused:
                self._measured.reset_topology(topology.id, self._now_ms())

    def waits(self, problem: Problem, least_s: float) -> dict[str, MeasurementWait]:
        """Return topologies measured for less than `least_s` seconds (`MeasuredTopologies.waits`)."""
        return self._measured.waits(problem, least_s)

    def moved(self, moved: MovedTopology) -> list[EvaluatedMove]:
        """Record a move; return the evaluation of the previous one."""
        return self._evaluation.moved(moved) if self._evaluation else []

    def forget(self, topology: str) -> list[EvaluatedMove]:
        """Stop the evaluation of a topology that was moved by others; return its result."""
        return self._evaluation.forget(topology) if self._evaluation else []

    def worse(self, problem: Problem) -> tuple[list[Worse], list[EvaluatedMove]]:
        """Return topologies that do measurably worse since their move, and the evaluation of moves undone by others."""
        found, gone = [], []
        for each in self._evaluation.worse() if self._evaluation else []:
            if where(problem.current.get(each.moved.topology)) == where(each.moved.after):
                found.append(each)
            elif self._now_ms() > each.moved.ended_ms + SETTLED_MS:
                gone += self.forget(each.moved.topology)
        return found, gone

    def status(self) -> dict[str, Any]:
        """Return the evaluations of moves for the status endpoint (`MoveEvaluator.status`)."""
        return self._evaluation.status() if self._evaluation else {}

    def _empty(self) -> MoveEvaluator:
        return MoveEvaluator(self._moves_document, self.observed, self._now_ms, restore=False)

    def _restored(self) -> MoveEvaluator:
        return MoveEvaluator(self._moves_document, self.observed, self._now_ms)

    def _now_ms(self) -> int:
        return round(self._clock.time() * 1000)

    def _save(self) -> None:
        now_s = self._clock.monotonic()
        if now_s - self._saved_s < SAVE_EVERY_S:
            return
        self._saved_s, state = now_s, self._measured.state()
        if state != self._saved:
            # A full disk is reported by rows of the history.
            with suppress(OSError, sqlite3.Error):
                self._measured_document.save(orjson.dumps(state).decode())
                self._saved = state


# History ------------------------------------------------------------------------------------------

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
