"""Records in plain Python: one line to a record or to the reason why it is none, and back.

`stormwright.pipeline.lines.parsed` and `stormwright.pipeline.lines.clean` say the same of the same lines in Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from stormwright.perflog.schema import (
    CPU_SLACK_NS,
    EDGE_TOLERANCE,
    MAX_CPU_PER_WALL,
    RECORD,
    Constants,
    Listing,
    Row,
    Share,
    Structure,
    Text,
    Type,
    Whole,
)

Record: TypeAlias = dict[str, Any]

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


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line that is no record, and why."""

    reason: str
    line: bytes


def parse(line: bytes, landed_ms: int | None = None) -> Record | Rejected:
    """Read one line of a performance log.

    Parameters
    ----------
    landed_ms
        When the line arrived, where known: an interval cannot end later.

    Returns
    -------
    Record or Rejected
        The record, nullable fields that were left out being None, or why it is none.
    """
    if len(line.rstrip(b"\n")) > MAX_LINE_BYTES:
        return Rejected(NOT_A_RECORD, line)
    try:
        record = orjson.loads(line.removeprefix(BYTE_ORDER_MARK))
    except orjson.JSONDecodeError:
        return Rejected(NOT_A_RECORD, line)
    if not _typed(RECORD, record):
        return Rejected(NOT_A_RECORD, line)
    reason = out_of_range(record) or impossible(record, landed_ms)
    return Rejected(reason, line) if reason else record


def parse_lines(lines: Iterable[bytes], landed_ms: int | None = None) -> Iterator[Record | Rejected]:
    """Read line by line; blank lines are none."""
    return (parse(line, landed_ms) for line in lines if line.strip())


def read_file(path: Path) -> Iterator[Record | Rejected]:
    """Read a landed file, which tells by its modification time when its lines arrived."""
    with path.open("rb") as file:
        yield from parse_lines(file, landed_ms=path.stat().st_mtime_ns // 1_000_000)


def encode(record: Record) -> bytes:
    """One line, without its newline."""
    return orjson.dumps(record)


def missing(name: str) -> str:
    """The reason for a field that is absent or has a value outside its range."""
    return f"{name}: missing or out of range"


def out_of_range(record: Record) -> str | None:
    """Name the first field that is missing or out of range in a record whose types are right."""
    for field in RECORD.fields:
        value = record.get(field.name)
        if value is None or not _in_range(field.type, value):
            return missing(field.name)
    return None


def impossible(record: Record, landed_ms: int | None = None) -> str | None:
    """Say what cannot be true of a record whose fields are all right by themselves."""
    executors = record["executors"]
    if any(executor["first_task"] > executor["last_task"] for executor in executors):
        return TASKS_REVERSED
    most_cpu_ns = MAX_CPU_PER_WALL * record["length_ns"] + CPU_SLACK_NS
    if any(executor["cpu_ns"] > most_cpu_ns for executor in executors):
        return CPU_IMPOSSIBLE
    if any(stream >= len(record["streams"]) for _, _, stream, _, _ in record["pairs"]):
        return STREAM_UNKNOWN
    if landed_ms is not None and record["start_ms"] + record["length_ns"] / 1e6 > landed_ms + MAX_CLOCK_AHEAD_MS:
        return CLOCK_AHEAD
    return None


def _typed(kind: Type, value: Any) -> bool:
    """Whether a value has the right JSON type all the way down; sets nullable fields that were left out to None."""
    match kind:
        case Whole():
            return type(value) is int and -(2**63) <= value < 2**63
        case Share():
            return type(value) in (int, float)
        case Text():
            return type(value) is str
        case Constants():
            return type(value) is list and all(v is None or type(v) in (int, float) for v in value)
        case Listing(element):
            return type(value) is list and all(v is None or _typed(element, v) for v in value)
        case Row(columns):
            return type(value) is list and all(v is None or _typed(columns[0][1], v) for v in value)
        case Structure(fields):
            if type(value) is not dict:
                return False
            for field in fields:
                part = value.setdefault(field.name, None)
                if part is not None and not _typed(field.type, part):
                    return False
            return True


def _in_range(kind: Type, value: Any) -> bool:
    match kind:
        case Whole(minimum, maximum):
            return bool(minimum <= value <= maximum)
        case Share():
            return bool(0 <= value <= 1)
        case Text():
            return True
        case Constants(values):
            return len(value) == len(values) and all(
                v is not None and abs(v - w) <= EDGE_TOLERANCE * w for v, w in zip(value, values, strict=True)
            )
        case Listing(element, shortest, longest):
            fits = shortest <= len(value) and (longest is None or len(value) <= longest)
            return fits and all(v is not None and _in_range(element, v) for v in value)
        case Row(columns):
            return len(value) == len(columns) and all(
                v is not None and _in_range(number, v) for (_, number), v in zip(columns, value, strict=True)
            )
        case Structure(fields):
            return all(
                field.nullable if value[field.name] is None else _in_range(field.type, value[field.name])
                for field in fields
            )
