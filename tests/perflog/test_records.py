"""Reading and writing of records in plain Python."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from stormwright.perflog import RejectedLine, encode, parse, parse_lines, read_file
from stormwright.perflog.records import (
    CLOCK_AHEAD,
    CPU_IMPOSSIBLE,
    NOT_A_RECORD,
    STREAM_UNKNOWN,
    TASKS_REVERSED,
    missing,
)
from tests.perflog.samples import RECORD, edited, encoded


def test_record_round_trip_preserves_content() -> None:
    assert parse(encode(RECORD)) == RECORD
    assert parse(encoded(RECORD)) == RECORD


def test_omitted_optional_fields_are_none() -> None:
    record = parse(encoded(edited(edited(RECORD, "executors.0.queue", ...), "executors.0.type", ...)))
    assert record == edited(edited(RECORD, "executors.0.queue", None), "executors.0.type", None)


def test_record_of_an_older_probe_is_accepted() -> None:
    earlier = {name: part for name, part in RECORD.items() if name not in ("threads", "gc", "node")}
    for path in ("executors.0.waited_ns", "executors.0.runs", "executors.0.inputs"):
        earlier = edited(earlier, path, ...)
    expected = {**RECORD, "threads": None, "gc": None, "node": None}
    for path in ("executors.0.waited_ns", "executors.0.runs", "executors.0.inputs"):
        expected = edited(expected, path, None)
    assert parse(encoded(earlier)) == expected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", NOT_A_RECORD),
        (b"{", NOT_A_RECORD),
        (b"\xff\xfe", NOT_A_RECORD),
        (b"[]", NOT_A_RECORD),
        (b"{}", missing("version")),
        (encoded(RECORD) + b"x", NOT_A_RECORD),
        (encoded(edited(RECORD, "seq", True)), NOT_A_RECORD),
        (encoded(edited(RECORD, "worker.host", 5)), NOT_A_RECORD),
        (encoded(edited(RECORD, "worker.pid", -1)), missing("worker")),
        (encoded(edited(RECORD, "threads.gc_ns", ...)), missing("threads")),
        (encoded(edited(RECORD, "gc.ms", "13")), NOT_A_RECORD),
        (encoded(edited(RECORD, "node.millicores", -1)), missing("node")),
        (encoded(edited(RECORD, "executors.0.last_task", 4)), TASKS_REVERSED),
        (encoded(edited(RECORD, "executors.0.cpu_ns", 4 * 10**9)), CPU_IMPOSSIBLE),
        (encoded(edited(RECORD, "pairs.0.2", 1)), STREAM_UNKNOWN),
    ],
)
def test_malformed_line_is_rejected_with_its_reason(line: bytes, reason: str) -> None:
    assert parse(line) == RejectedLine(reason, line)


@pytest.mark.parametrize(("ahead_ms", "reason"), [(4_900, None), (5_100, CLOCK_AHEAD)])
def test_record_ending_after_its_landing_time_is_rejected(tmp_path: Path, ahead_ms: int, reason: str | None) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(encoded(RECORD) + b"\n\n")
    landed_s = (RECORD["start_ms"] + RECORD["length_ns"] / 1e6 - ahead_ms) / 1000
    os.utime(path, (landed_s, landed_s))
    (item,) = read_file(path)
    assert (item.reason if isinstance(item, RejectedLine) else None) == reason


def test_blank_lines_are_nothing() -> None:
    lines: list[Any] = [b"", b"  ", encoded(RECORD), b"\n"]
    assert list(parse_lines(lines)) == [RECORD]
