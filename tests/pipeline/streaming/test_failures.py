"""What is done about failures and files, without Spark."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from stormwright.errors import Fault, InputError
from stormwright.perflog.records import parse
from stormwright.pipeline.parsing import quarantine as quarantine_module
from stormwright.pipeline.parsing.quarantine import Quarantine, read_quarantines
from stormwright.pipeline.parsing.source import prune
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.spark import query_supervisor
from stormwright.pipeline.streaming.batch_loop import failing_files, quarantine_failing_files
from tests.pipeline.waiting import wait

TRACEBACK = "Traceback (most recent call last):"


@pytest.mark.parametrize("bad", [set(), {0}, {7}, {3, 4}, {0, 99}, set(range(100))])
def test_failing_files_are_found_with_few_trials(bad: set[int]) -> None:
    files = [Path(str(number)) for number in range(100)]
    trials = 0

    def failure(tried: Sequence[Path]) -> str | None:
        nonlocal trials
        trials += 1
        found = [path for path in tried if int(path.name) in bad]
        return f"{found[0]} is bad" if found else None

    assert failing_files(files, failure) == {files[number]: f"{number} is bad" for number in bad}
    assert trials <= 1 + 2 * 7 * len(bad)
    assert failing_files([], failure) == {}


class FakeQuery:
    """Fails at once, or runs until it is stopped."""

    def __init__(self, failure: str | None) -> None:
        self._failure, self._ended = failure, threading.Event()
        self.lastProgress = None if failure else object()

    def awaitTermination(self) -> bool:  # noqa: N802 - Spark's name
        if self._failure:
            raise PySparkException(self._failure)
        return self._ended.wait()

    def stop(self) -> None:
        self._ended.set()


def test_failed_query_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it does not even start."""
    monkeypatch.setattr(query_supervisor, "FIRST_PAUSE_S", 0.001)
    queries = iter([FakeQuery("first"), FakeQuery("second"), PySparkException("third"), FakeQuery(None)])

    def start() -> Any:
        query = next(queries)
        if isinstance(query, PySparkException):
            raise query
        return query

    supervised = query_supervisor.SupervisedQuery(start)
    deadline = time.monotonic() + 10
    while supervised.error or supervised.restarts < 2:
        assert supervised.running
        assert time.monotonic() < deadline, supervised.error
        time.sleep(0.01)
    supervised.stop()
    assert not supervised.running
    assert list(queries) == []


def test_lost_jvm_stops_the_query_and_is_reported() -> None:
    class Gone(FakeQuery):
        def awaitTermination(self) -> bool:  # noqa: N802 - Spark's name
            raise ConnectionRefusedError("connection refused")

    supervised = query_supervisor.SupervisedQuery(lambda: Gone(None))
    wait(lambda: not supervised.running, lambda: supervised.error)
    assert supervised.error == "Spark has ended: connection refused"


def test_files_failing_only_together_are_not_blamed() -> None:
    files = [Path(str(number)) for number in range(5)]
    assert failing_files(files, lambda tried: "too many" if len(tried) > 2 else None) == {}


@pytest.mark.parametrize("of_the_machine", [True, False])
def test_file_is_set_aside_only_if_a_valid_record_can_be_processed(tmp_path: Path, of_the_machine: bool) -> None:
    """The machine is to blame if not even that works, as without a temporary directory."""
    quarantine, landing = Quarantine(tmp_path / "quarantine"), tmp_path / "landing"
    landing.mkdir()
    (landing / "1.jsonl").write_bytes(b"good")
    (landing / "2.jsonl").write_bytes(b"bad")
    valid = 0

    def take(files: Sequence[Path]) -> None:
        nonlocal valid
        for path in files:
            if isinstance(parse(path.read_bytes(), round(time.time() * 1000)), dict):
                valid += 1
                if of_the_machine:
                    raise FileNotFoundError("no temporary directory")
            elif path.name == "2.jsonl":
                raise InputError("landed file", [Fault("is damaged", path.name)])

    if of_the_machine:
        with pytest.raises(FileNotFoundError):
            quarantine_failing_files(take, landing, quarantine, StreamSettings())
    else:
        quarantine_failing_files(take, landing, quarantine, StreamSettings())
    assert valid > 0
    assert quarantine.files_set_aside() == (not of_the_machine)
    reasons = list(read_quarantines(tmp_path, newest=1).reasons)
    why = "the whole file, over which a batch fails: 2.jsonl: is damaged"
    assert reasons == [why] * (not of_the_machine)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
def test_full_disk_sets_no_file_aside(tmp_path: Path, number: int) -> None:
    """Though there is room for a single record."""
    landing = tmp_path / "landing"
    landing.mkdir()
    (landing / "1.jsonl").write_bytes(b"x" * 10_000)

    def take(files: Sequence[Path]) -> None:
        if any(path.stat().st_size >= 10_000 for path in files):
            raise OSError(number, "no more")

    quarantine = Quarantine(tmp_path / "quarantine")
    with pytest.raises(OSError, match="no more"):
        quarantine_failing_files(take, landing, quarantine, StreamSettings())
    assert quarantine.files_set_aside() == 0


def test_quarantine_of_a_state_that_is_gone_stays(tmp_path: Path) -> None:
    """Batches are numbered from 0 again."""
    quarantine = Quarantine(tmp_path / "quarantine")
    for line in ("first", "second"):
        audit = {"reason": ["late"], "file": ["f"], "block": [0], "row": [0], "landed_ms": [1], "line": [line]}
        quarantine.keep(0, pa.table(audit))
        quarantine.archive_batches()
        quarantine.keep(0, pa.table(audit).slice(0, 0))
    assert {row["line"] for row in read_quarantines(tmp_path, newest=5).newest} == {"first", "second"}


def test_old_quarantined_files_are_deleted(tmp_path: Path) -> None:
    now_s = time.time()
    ages_s = {"old.jsonl": 100, "old.parquet": 100, "new.jsonl": 20, "new.parquet": 20, "old.txt": 100}
    for name, age_s in ages_s.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (now_s - age_s, now_s - age_s))
    prune(tmp_path, keep_s=60)
    assert {path.name for path in tmp_path.iterdir()} == {"new.jsonl", "new.parquet", "old.txt"}
    prune(tmp_path / "not there", keep_s=60)


@pytest.mark.parametrize("name", ["1.jsonl", "1.parquet"])
def test_a_file_set_aside_is_noted_and_counted(tmp_path: Path, name: str) -> None:
    quarantine = Quarantine(tmp_path / "quarantine")
    landed = tmp_path / name
    landed.write_bytes(b"x")
    assert quarantine.files_set_aside() == 0
    quarantine.set_aside(landed, "why")
    assert not landed.exists()
    assert quarantine.files_set_aside() == 1
    (note,) = (tmp_path / "quarantine").glob("*.jsonl")
    assert b'"reason":"why","file":"%s","line_number":null' % name.encode() in note.read_bytes()
    assert list(read_quarantines(tmp_path, newest=1).reasons) == ["why"]


@pytest.mark.parametrize(
    ("failure", "why"),
    [
        ("[STREAM_FAILED] no such table\n=== Streaming Query ===\nIdentifier: 1", "[STREAM_FAILED] no such table"),
        (
            f"Reason: {TRACEBACK}\n  File 1\nKeyError: 1\n\n{TRACEBACK}\n  File 2\nOSError: disk full\n SQLSTATE: 1",
            "OSError: disk full",
        ),
        ("", ""),
    ],
)
def test_failure_cause_is_one_line(failure: str, why: str) -> None:
    assert query_supervisor.cause(failure) == why


@pytest.mark.slow
def test_the_quarantine_keeps_the_newest_of_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rejected_by(batch: int) -> pa.Table:
        audit = {"reason": ["late"], "file": ["f.jsonl"], "block": [0], "row": [0], "landed_ms": [batch], "line": ["x"]}
        return pa.table(audit)

    monkeypatch.setattr(quarantine_module, "MAX_FILES", 50)
    quarantine = Quarantine(tmp_path / "quarantine")
    most = 0
    for batch in range(300):
        if batch == 150:  # it is started again
            quarantine = Quarantine(tmp_path / "quarantine")
        quarantine.keep(batch, rejected_by(batch))
        os.utime(quarantine.directory / f"batch-{batch:010d}.jsonl", (batch, batch))
        most = max(most, sum(1 for path in quarantine.directory.iterdir() if path.is_file()))
    assert most == 50
    found = read_quarantines(tmp_path, newest=40)
    assert [row["landed_ms"] for row in found.newest] == list(range(260, 300))

    monkeypatch.setattr(quarantine_module, "MAX_BYTES", 10_000)
    path = tmp_path / "poison.jsonl"
    for number in range(20):
        path.write_bytes(b"x" * 3_000)
        os.utime(path, (1000 + number, 1000 + number))
        quarantine.set_aside(path.rename(tmp_path / f"poison-{number}.jsonl"), "the whole file")
    assert sorted(path.name for path in quarantine.files.iterdir()) == ["poison-18.jsonl", "poison-19.jsonl"]
