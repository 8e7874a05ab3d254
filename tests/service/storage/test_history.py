"""The history of a running service: complete as long as it can be, and never in the way."""

from __future__ import annotations

import errno
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pyarrow.parquet as pq
import pytest

from stormwright.cli.progress import shown
from stormwright.controller.planning.order import MoveBudget
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.propose import plan_of
from stormwright.controller.reports import MoveReport
from stormwright.errors import InputError, StormwrightError
from stormwright.history.tables.store import as_uri, tables_below
from stormwright.model import Assignment
from stormwright.pipeline.spark.target import SparkTarget
from stormwright.service.storage import history as history_module
from stormwright.service.storage.database import FILE, State
from stormwright.service.storage.history import HistorySettings, ServiceHistory
from tests.controller.builders import on, problem, topology
from tests.history.evaluation.test_evaluation import seconds
from tests.history.recorded import START_MS, cluster, look

TOPOLOGY = "measured-1-0"


@pytest.fixture
def log_lines() -> Iterator[list[str]]:
    lines: list[str] = []
    with shown(write=lines.append):
        yield lines


@pytest.fixture
def history(tmp_path: Path, log_lines: list[str]) -> ServiceHistory:
    return ServiceHistory(HistorySettings(ingest_every_s=0.02), tmp_path, State(tmp_path / FILE), "online")


def staged(directory: Path, table: str) -> list[dict[str, Any]]:
    files = sorted((directory / "history" / "staging" / table).rglob("*.parquet"))
    return [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]


def report(start_s: int, complete: bool = True) -> MoveReport:
    return MoveReport(TOPOLOGY, 2, 1, 1, 1, 1.0, 2.0, 0.5, start_s * 1000, (start_s + 4) * 1000, complete)


def wait_for(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.long
def test_decision_move_and_outcome_are_staged(history: ServiceHistory, tmp_path: Path, log_lines: list[str]) -> None:
    observed = cluster(1, START_MS)
    decision = look(observed)
    (move,) = decision.moves
    assert move.topology == TOPOLOGY
    there = [(slot.supervisor, slot.port) for slot in move.after.slots]
    assert len({node for node, _ in there}) == 1
    history.start(lambda: None)
    try:
        begin_s = 1000
        of_topology = lambda records: [r | {"worker": r["worker"] | {"topology": TOPOLOGY}} for r in records]  # noqa: E731
        history.count(of_topology(seconds(begin_s, begin_s + 300, 400, 6)))
        history.observe(observed)
        history.record_decision(observed, decision, dry_run=False)
        history.record_move(TOPOLOGY, report(begin_s + 300))
        history.record_move("silent-1-0", None, "it did not drain")
        assert history.evaluation_status()["pending"] == [TOPOLOGY]
        history.count(of_topology(seconds(begin_s + 330, begin_s + 500, 400, 3, there)))
        history.observe(observed)
    finally:
        history.stop()
    (row,) = staged(tmp_path, "decisions")
    moves = staged(tmp_path, "moves")
    assert [(move["topology"], move["decision_ms"], move["failure"]) for move in moves] == [
        (TOPOLOGY, row["at_ms"], None),
        ("silent-1-0", row["at_ms"], "it did not drain"),
    ]
    assert (moves[0]["swap_s"], moves[1]["swap_s"]) == (2.0, None)
    evaluations = staged(tmp_path, "evaluations")
    assert {evaluation["quantity"]: evaluation["verdict"] for evaluation in evaluations}["throughput"] == "as predicted"
    assert {evaluation["decision_ms"] for evaluation in evaluations} == {row["at_ms"]}
    measured = {evaluation["quantity"]: evaluation["measured"] for evaluation in evaluations}
    assert measured["inter-node tuples per tree"] == 0
    assert history.evaluation_status()["calibration"] is not None
    assert len(log_lines) == 2
    assert len(staged(tmp_path, "snapshots")) == len(staged(tmp_path, "profiles")) == 1
    assert history.status()["staged_files"] == 7
    assert history.status()["errors"] == {}


@pytest.mark.long
def test_full_disk_is_reported_once_and_does_not_stop_placement(
    history: ServiceHistory, log_lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("stormwright.base.files.os.fsync", full)
    observed = cluster(1, START_MS)
    for _ in range(3):
        history.observe(observed)
        history.record_decision(observed, look(observed), dry_run=False)
        history.record_move(TOPOLOGY, report(5))
    assert len(log_lines) == 1
    assert "No space left" in log_lines[0]
    assert "No space left" in history.status()["errors"]["records"]["error"]
    monkeypatch.undo()
    history.record_decision(observed, look(observed), dry_run=False)
    assert history.status()["staged_files"] > 0


def test_unreachable_history_tables_are_reported_once(
    history: ServiceHistory, log_lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    monkeypatch.setattr(history, "maintain", lambda: None)

    class Gone:
        """A session whose JVM has ended."""

        @property
        def conf(self) -> None:
            calls.append(1)
            raise ConnectionRefusedError("Spark has ended")

    history.start(lambda: Gone())  # type: ignore[arg-type,return-value]
    try:
        wait_for(lambda: len(calls) > 2)
    finally:
        history.stop()
    assert log_lines == ["history: tables: ConnectionRefusedError: Spark has ended; the placement goes on without"]
    assert history.status()["errors"].keys() == {"tables"}


def test_old_days_are_tidied_once_a_day_in_another_process(
    history: ServiceHistory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    # Where other verbs run is not where the service's own do.
    monkeypatch.setenv("STORMWRIGHT_SPARK_MASTER", "sc://elsewhere:15002")
    program.write_text(f"#!/bin/sh\necho $* $STORMWRIGHT_SPARK_MASTER >> {tmp_path}/called\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(history_module.sys, "executable", str(program))
    history.maintain()
    history.maintain()
    place = f"--state {tmp_path} --history {tables_below(tmp_path)} --history-format parquet"
    assert (tmp_path / "called").read_text(encoding="utf-8").splitlines() == [
        f"-m stormwright history compact {place}",
        f"-m stormwright history retain 90 {place}",
    ]


@pytest.mark.parametrize(
    ("settings", "separate"),
    [
        (HistorySettings(), False),
        (HistorySettings("/data"), False),
        (HistorySettings("hdfs://name/x"), False),
        (HistorySettings(format="delta"), True),
        (HistorySettings("s3a://bucket/x"), True),
        (HistorySettings("hdfs://name/x", conf={"spark.hadoop.a": "b"}), True),
    ],
)
def test_spark_of_the_stream_ingests_only_without_further_jars_and_settings(
    settings: HistorySettings, separate: bool
) -> None:
    assert settings.separate is separate


def test_settings_of_the_tables_are_not_on_a_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    called = f'echo "$*" > {tmp_path}/arguments; echo "$STORMWRIGHT_SPARK_CONF" > {tmp_path}/conf'
    program.write_text(f"#!/bin/sh\n{called}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(history_module.sys, "executable", str(program))
    conf = {"spark.hadoop.fs.s3a.secret.key": "the secret", "spark.hadoop.a": "b=c"}
    settings = HistorySettings("s3a://bucket/x", conf=conf)
    ServiceHistory(settings, tmp_path, State(tmp_path / FILE), "online").ingest(MagicMock())
    arguments = (tmp_path / "arguments").read_text(encoding="utf-8")
    assert arguments.split()[:4] == ["-m", "stormwright", "history", "ingest"]
    assert "secret" not in arguments
    passed = (tmp_path / "conf").read_text(encoding="utf-8").splitlines()
    assert SparkTarget.parsed(None, passed).conf == conf


def test_maintenance_process_failure_is_propagated(
    history: ServiceHistory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho some lines >&2; echo the reason >&2; exit 2\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(history_module.sys, "executable", str(program))
    with pytest.raises(StormwrightError, match="history compact: the reason"):
        history.maintain()


def test_damaged_state_of_moves_is_replaced(history: ServiceHistory, tmp_path: Path, log_lines: list[str]) -> None:
    State(tmp_path / FILE).document("moves", replicated=False).save(json.dumps({"pending": [{"no": "move"}]}))
    history.start(lambda: None)
    history.stop()
    assert history.evaluation_status() == {"calibration": None, "pending": [], "evaluations": []}


def test_history_tables_use_configured_location(tmp_path: Path) -> None:
    assert tables_below(tmp_path) == f"file://{tmp_path}/history/tables"
    assert as_uri("hdfs://nimbus/stormwright") == "hdfs://nimbus/stormwright"
    assert as_uri(str(tmp_path)) == f"file://{tmp_path}"
    with pytest.raises(InputError, match="no place"):
        as_uri("")
    with pytest.raises(InputError, match="iceberg"):
        HistorySettings(format="iceberg")


def test_every_move_through_spare_slots_is_recorded(history: ServiceHistory, tmp_path: Path) -> None:
    a, b = (topology(name, workers=1) for name in "ab")
    now = problem([a, b], nodes=3, slots=1, current={a.id: on("n0"), b.id: on("n1")})
    plan = plan_moves(now, Assignment(np.repeat([1, 0], 4).astype(np.int32)), MoveBudget())
    history.record_decision(now, plan_of(now, plan), dry_run=True)
    (row,) = staged(tmp_path, "decisions")
    assert sorted(json.loads(row["moves"]).values()) == [[4], [4, 4]]


def test_endless_ingestion_does_not_block_service_shutdown(
    history: ServiceHistory, log_lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, over = threading.Event(), threading.Event()

    def hang(_: object) -> None:
        begun.set()
        over.wait(20)

    monkeypatch.setattr(history_module, "STOP_TIMEOUT_S", 0.1)
    monkeypatch.setattr(history, "ingest", hang)
    history.start(object)
    assert begun.wait(20)
    started = time.monotonic()
    history.stop()
    over.set()
    assert time.monotonic() - started < 10
    (line,) = log_lines
    assert "rows are still being ingested into" in line
    assert "after 0.1 s: aborted; they wait for the next start" in line
