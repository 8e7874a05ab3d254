"""Rows on their way into the tables; no Spark."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stormwright.errors import StormwrightError
from stormwright.history.tables import staging as staging_module
from stormwright.history.tables.definitions import DECISIONS, FACTS, SNAPSHOTS
from stormwright.history.tables.ingest import ClosedPanes, ingest
from stormwright.history.tables.staging import Staging
from tests.history.samples import START_MS, facts


def snapshot(number: int) -> dict[str, Any]:
    return {"at_ms": START_MS + number, "id": str(number), "document": "{}"}


def panes(first: int) -> pa.Table:
    rows = [row for row in facts(1, 2, first, START_MS + first * 6000) if row["kind"] == "pair"]
    return pa.Table.from_pylist(rows, FACTS.arrow)


def opened(staging: Staging, batch: int) -> ClosedPanes:
    closed = ClosedPanes(staging)
    closed.begin(batch)
    return closed


def taken(staging: Staging) -> list[int]:
    """What a complete run takes in of the facts: the moments of its rows."""
    found = []
    for chunk in staging.chunks(FACTS):
        found += chunk.rows()["pane_ms"].to_pylist()
        chunk.remove()
    return sorted(found)


def test_all_staged_rows_of_a_table_form_one_chunk_until_its_removal(tmp_path: Path) -> None:
    staging = Staging(tmp_path)
    for number in range(3):
        staging.write(SNAPSHOTS, f"snapshot-{number}", [snapshot(number)])
    staging.write(DECISIONS, "another-table", [{"at_ms": 1, "scheduler": "online"}])
    (chunk,) = staging.chunks(SNAPSHOTS)
    assert chunk.rows().to_pylist() == [snapshot(number) for number in range(3)]
    staging.write(SNAPSHOTS, "snapshot-3", [snapshot(3)])
    again, new = staging.chunks(SNAPSHOTS)
    assert (again.number, again.rows()) == (chunk.number, chunk.rows())
    assert new.number > chunk.number
    assert new.rows().to_pylist() == [snapshot(3)]
    again.remove()
    new.remove()
    assert not list(staging.chunks(SNAPSHOTS))
    assert staging.waiting()[0] == 1


def test_batch_repeated_with_other_panes_replaces_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when files land between a failed batch and its repetition; also while panes cannot be written."""
    staging = Staging(tmp_path)
    closed = opened(staging, -1)
    closed.close(0, panes(0))
    with monkeypatch.context() as patch:
        patch.setattr(Staging, "publish", full)
        closed.saved()
    closed.close(1, panes(2))
    closed.close(1, panes(1))
    with monkeypatch.context() as patch:
        patch.setattr(Staging, "write", full)
        closed.saved()
        closed.close(2, panes(4))
        closed.close(2, panes(3))
    closed.close(2, panes(5))
    closed.saved()
    due = [moment for first in (0, 1, 5) for moment in panes(first)["pane_ms"].to_pylist()]
    assert taken(staging) == sorted(due)
    closed.close(3, panes(6))
    closed.close(3, panes(6).slice(0, 0))
    closed.saved()
    assert taken(staging) == []


def full(*_: Any, **__: Any) -> None:
    raise OSError("no space left on device")


def test_a_chunk_is_no_larger_than_memory_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging_module, "MAX_CHUNK_ROWS", 5)
    staging = Staging(tmp_path)
    for number, rows in enumerate((2, 2, 2, 9, 1)):
        staging.write(SNAPSHOTS, f"{number}", [snapshot(10 * number + row) for row in range(rows)])
    assert [chunk.rows().num_rows for chunk in staging.chunks(SNAPSHOTS)] == [4, 2, 9, 1]


def test_numbers_of_chunks_grow_though_the_clock_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staging, numbers = Staging(tmp_path), []
    for now_ns in (5_000_000_000, 5_000_000_000, 1_000_000_000, 6_000_000_000):
        monkeypatch.setattr(staging_module.time, "time_ns", lambda now_ns=now_ns: now_ns)
        staging.write(SNAPSHOTS, "snapshot", [snapshot(1)])
        (chunk,) = staging.chunks(SNAPSHOTS)
        numbers.append(chunk.number)
        chunk.remove()
    assert numbers == [5000, 5001, 5002, 6000]


def test_a_damaged_file_is_set_aside(tmp_path: Path) -> None:
    staging = Staging(tmp_path)
    staging.write(SNAPSHOTS, "good", [snapshot(1)])
    (tmp_path / "staging" / "snapshots" / "v1" / "bad.parquet").write_bytes(b"PAR1")
    (chunk,) = staging.chunks(SNAPSHOTS)
    assert chunk.rows().to_pylist() == [snapshot(1)]
    assert [path.read_bytes() for path in (tmp_path / "damaged").iterdir()] == [b"PAR1"]


def test_closed_panes_are_staged_exactly_once_after_a_kill(tmp_path: Path) -> None:
    """The stream repeats a batch whose state was not saved, and no other."""
    staging = Staging(tmp_path)
    opened(staging, -1).close(0, panes(0))
    # Killed before the state was saved: not to be had, and written again.
    assert taken(staging) == []
    closed = opened(staging, -1)
    closed.close(0, panes(0))
    closed.saved()
    closed.close(1, panes(1))
    # Killed after the state was saved.
    closed = opened(staging, 1)
    closed.close(2, panes(1).slice(0, 0))
    closed.saved()
    closed.close(3, panes(3))
    closed.saved()
    expected = sorted(moment for first in (0, 1, 3) for moment in panes(first)["pane_ms"].to_pylist())
    assert taken(staging) == expected
    assert taken(staging) == []


def test_a_disk_without_room_loses_nothing_and_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staging = Staging(tmp_path)
    closed = opened(staging, -1)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        for batch in (0, 1):
            closed.close(batch, panes(batch))
            closed.saved()
        assert closed.error is not None
        assert "No space left" in closed.error
    assert taken(staging) == []
    closed.close(2, panes(2))
    closed.saved()
    assert (closed.error, closed.lost) == (None, 0)
    assert taken(staging) == sorted(moment for n in range(3) for moment in panes(n)["pane_ms"].to_pylist())


@pytest.mark.long
def test_staged_rows_are_ingested_by_one_process_at_a_time(tmp_path: Path) -> None:
    staging = Staging(tmp_path / "history")
    other = (
        "import sys, time; from pathlib import Path; from stormwright.history.tables.staging import Staging\n"
        "with Staging(Path(sys.argv[1])).exclusive_lock(): print('alone', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", other, str(tmp_path / "history")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"alone\n"
            with pytest.raises(StormwrightError, match="another process is working on the tables"):
                ingest(None, None, staging)  # type: ignore[arg-type]
        finally:
            process.kill()
    assert ingest(None, None, staging) == {}  # type: ignore[arg-type]


def test_staging_tolerates_leftovers_of_crashes_and_foreign_files(tmp_path: Path) -> None:
    """A number that is not there any more, a directory that is no chunk, and rows of somebody else."""
    staging = Staging(tmp_path)
    for number, content in enumerate((b"", b"\xff\xfe", b"x", str(10**15).encode())):
        staging.write(SNAPSHOTS, f"snapshot-{number}", [snapshot(number)])
        (tmp_path / "last-chunk").write_bytes(content)
        *_, newest = staging.chunks(SNAPSHOTS)
    assert newest.number == 10**15 + 1
    begun = newest.number
    (tmp_path / "last-chunk").unlink()
    (newest.directory.parent / "lost+found").mkdir()
    (newest.directory.parents[1] / "vx" / "5").mkdir(parents=True)
    foreign = tmp_path / "staging" / "snapshots" / "v1" / "foreign.parquet"
    foreign.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"somebody": ["else"]}), foreign)
    staging.write(SNAPSHOTS, "snapshot-9", [snapshot(9)])
    chunks = list(staging.chunks(SNAPSHOTS))
    assert chunks[-1].number > begun
    assert chunks[-1].rows().to_pylist() == [snapshot(9)]
    assert [path.name for path in (tmp_path / "damaged").iterdir()] == [f"{chunks[-1].number}-foreign.parquet"]
    assert (newest.directory.parent / "lost+found").is_dir()
