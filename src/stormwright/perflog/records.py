"""Parsing of records in plain Python: one line to a record or to the reason of its rejection, and back.

`stormwright.pipeline.parsing.parsed` and `stormwright.pipeline.parsing.clean` give the same results in Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import orjson

from stormwright.perflog.schema import CPU_SLACK_NS, MAX_CPU_PER_WALL, RECORD, Structure
from stormwright.perflog.validation import UNTYPED, VALID, validator

#: A record, never modified after reading.
LogRecord: TypeAlias = Mapping[str, Any]

NOT_A_RECORD = "not a JSON object with fields of the right types"
TASKS_REVERSED = "executors: a first task after the last one"
CPU_IMPOSSIBLE = "executors: more CPU time than a thread can have in the interval"
STREAM_UNKNOWN = "pairs: a stream that is not listed"
CLOCK_AHEAD = "the interval ends after the record was landed: a clock is wrong"

#: Longest line: a worker with 10,000 executors writes less; a JSON parser may refuse a longer text.
MAX_LINE_BYTES = 16 * 2**20

#: Optional byte order mark at the beginning of a line, as written by some programs.
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

#: Largest difference of clocks within a cluster.
MAX_CLOCK_AHEAD_MS = 5_000

_VALIDATE = validator(RECORD)
_FIELD_VALIDATORS = {field.name: validator(Structure((field,))) for field in RECORD.fields}
_stream = itemgetter(2)  # of one of `pairs`


@dataclass(frozen=True, slots=True)
class RejectedLine:
    """A line that is not a record, and why."""

    reason: str
    line: bytes


class WorkerId(NamedTuple):
    """One life of one worker."""

    topology: str
    supervisor: str
    port: int
    pid: int
    start_ms: int


def worker_id(record: LogRecord) -> WorkerId:
    """Return the life of the worker that wrote `record`."""
    worker = record["worker"]
    return WorkerId(worker["topology"], worker["supervisor"], worker["port"], worker["pid"], worker["start_ms"])


def parse(line: bytes, landed_ms: int | None = None) -> LogRecord | RejectedLine:
    """Read one line of a performance log.

    Parameters
    ----------
    landed_ms
        When the line arrived, if known: an interval cannot end later.

    Returns
    -------
    LogRecord or RejectedLine
        The record, nullable fields that were left out being None, or why it is rejected.
    """
    if len(line) > MAX_LINE_BYTES and len(line.rstrip(b"\n")) > MAX_LINE_BYTES:
        return RejectedLine(NOT_A_RECORD, line)
    try:
        record = orjson.loads(line.removeprefix(BYTE_ORDER_MARK))
    except orjson.JSONDecodeError:
        return RejectedLine(NOT_A_RECORD, line)
    reason = _invalid(record) or impossible(record, landed_ms)
    return RejectedLine(reason, line) if reason else record


def parse_lines(lines: Iterable[bytes], landed_ms: int | None = None) -> Iterator[LogRecord | RejectedLine]:
    """Yield the result of every line, except blank ones."""
    return (parse(line, landed_ms) for line in lines if line.strip())


def read_file(path: Path) -> Iterator[LogRecord | RejectedLine]:
    """Read a landed file, whose modification time is the arrival of its lines."""
    with path.open("rb") as file:
        yield from parse_lines(file, landed_ms=path.stat().st_mtime_ns // 1_000_000)


def encode(record: LogRecord) -> bytes:
    """Return one line, without its newline."""
    return orjson.dumps(record)


def missing(name: str) -> str:
    """Return the reason for a field that is absent or has a value outside its range."""
    return f"{name}: missing or out of range"


def impossible(record: LogRecord, landed_ms: int | None = None) -> str | None:
    """Return why a record with valid fields is impossible, if it is."""
    most_cpu_ns, cpu_ns = MAX_CPU_PER_WALL * record["length_ns"] + CPU_SLACK_NS, 0
    for executor in record["executors"]:
        if executor["first_task"] > executor["last_task"]:
            return TASKS_REVERSED
        cpu_ns = max(cpu_ns, executor["cpu_ns"])
    if cpu_ns > most_cpu_ns:
        return CPU_IMPOSSIBLE
    pairs = record["pairs"]
    if pairs and max(map(_stream, pairs)) >= len(record["streams"]):
        return STREAM_UNKNOWN
    if landed_ms is not None and record["start_ms"] + record["length_ns"] / 1e6 > landed_ms + MAX_CLOCK_AHEAD_MS:
        return CLOCK_AHEAD
    return None


def _invalid(record: Any) -> str | None:
    """Return the reason for the first invalid field; nullable fields that were left out are set to None."""
    result = _VALIDATE(record)
    if result == VALID:
        return None
    if result == UNTYPED:
        return NOT_A_RECORD
    return missing(next(name for name, validate in _FIELD_VALIDATORS.items() if validate(record) != VALID))
