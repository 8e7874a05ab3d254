"""Records in plain Python: one line to a record or to the reason why it is none, and back.

`stormwright.pipeline.parsing.parsed` and `stormwright.pipeline.parsing.clean` say the same of the same lines in Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import orjson

from stormwright.perflog.schema import CPU_SLACK_NS, MAX_CPU_PER_WALL, RECORD, Structure
from stormwright.perflog.verdicts import RIGHT, UNTYPED, judge

#: A record, as it is read and counted everywhere; nobody changes one.
LogRecord: TypeAlias = Mapping[str, Any]

NOT_A_RECORD = "not a JSON object with fields of the right types"
TASKS_REVERSED = "executors: a first task after the last one"
CPU_IMPOSSIBLE = "executors: more CPU time than a thread can have in the interval"
STREAM_UNKNOWN = "pairs: a stream that is not listed"
CLOCK_AHEAD = "the interval ends after the record was landed: a clock is wrong"

#: A worker with 10,000 executors writes less; a JSON parser may refuse a text that is longer.
MAX_LINE_BYTES = 16 * 2**20

#: May stand before a line, as it does at the beginning of files that some programs write.
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

#: Clocks of one cluster differ by less.
MAX_CLOCK_AHEAD_MS = 5_000

_JUDGE = judge(RECORD)
_JUDGES = {field.name: judge(Structure((field,))) for field in RECORD.fields}
_stream = itemgetter(2)  # of one of `pairs`


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line that is no record, and why."""

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
    """The life of the worker that wrote `record`."""
    worker = record["worker"]
    return WorkerId(worker["topology"], worker["supervisor"], worker["port"], worker["pid"], worker["start_ms"])


def parse(line: bytes, landed_ms: int | None = None) -> LogRecord | Rejected:
    """Read one line of a performance log.

    Parameters
    ----------
    landed_ms
        When the line arrived, where known: an interval cannot end later.

    Returns
    -------
    LogRecord or Rejected
        The record, nullable fields that were left out being None, or why it is none.
    """
    if len(line) > MAX_LINE_BYTES and len(line.rstrip(b"\n")) > MAX_LINE_BYTES:
        return Rejected(NOT_A_RECORD, line)
    try:
        record = orjson.loads(line.removeprefix(BYTE_ORDER_MARK))
    except orjson.JSONDecodeError:
        return Rejected(NOT_A_RECORD, line)
    reason = _wrong(record) or impossible(record, landed_ms)
    return Rejected(reason, line) if reason else record


def parse_lines(lines: Iterable[bytes], landed_ms: int | None = None) -> Iterator[LogRecord | Rejected]:
    """Read line by line; blank lines are none."""
    return (parse(line, landed_ms) for line in lines if line.strip())


def read_file(path: Path) -> Iterator[LogRecord | Rejected]:
    """Read a landed file, which tells by its modification time when its lines arrived."""
    with path.open("rb") as file:
        yield from parse_lines(file, landed_ms=path.stat().st_mtime_ns // 1_000_000)


def encode(record: LogRecord) -> bytes:
    """One line, without its newline."""
    return orjson.dumps(record)


def missing(name: str) -> str:
    """The reason for a field that is absent or has a value outside its range."""
    return f"{name}: missing or out of range"


def impossible(record: LogRecord, landed_ms: int | None = None) -> str | None:
    """Say what cannot be true of a record whose fields are all right by themselves."""
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


def _wrong(record: Any) -> str | None:
    """The reason for the first field that is wrong; nullable fields that were left out are None from now on."""
    verdict = _JUDGE(record)
    if verdict == RIGHT:
        return None
    if verdict == UNTYPED:
        return NOT_A_RECORD
    return missing(next(name for name, judged in _JUDGES.items() if judged(record) != RIGHT))
