"""Parsing of records in plain Python: one line to a record or to the reason of its rejection, and back.

`stormwright.pipeline.parsing.parsed` and `stormwright.pipeline.parsing.clean` give the same results in Spark.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import orjson

from stormwright.perflog.schema import (
    CPU_SLACK_NS,
    EDGE_TOLERANCE,
    MAX_CPU_PER_WALL,
    RECORD,
    Constants,
    Field,
    Fraction,
    ListType,
    Row,
    Structure,
    Text,
    Type,
    WholeNumber,
)

# Validation ---------------------------------------------------------------------------------------
# Functions that check values against the types and ranges of the schema, built once and called thousands of times a
# second. A result is a number, and that of a value with parts is the worst of theirs. Lists are checked as a whole, by
# built-in functions, as long as nothing is wrong with them.

#: Results: valid; right types, but a part is missing or out of range; a wrong type somewhere.
VALID, OUT_OF_RANGE, UNTYPED = range(3)

_Validator: TypeAlias = Callable[[Any], int]

_INT, _STR, _LIST = {int}, {str}, {list}


def validator(kind: Type) -> _Validator:
    """Return the validator of a value that is not None.

    It sets nullable fields that were left out to None.
    """
    match kind:
        case WholeNumber():
            return _whole(kind)
        case Fraction():
            return _share
        case Text():
            return _text
        case Constants():
            return _constants(kind)
        case ListType():
            return _listing(kind)
        case Row():
            return _row(kind)
        case Structure(fields):
            return _structure(fields)


def _whole(kind: WholeNumber) -> _Validator:
    minimum, maximum = kind.minimum, kind.maximum

    def validate(value: Any) -> int:
        if type(value) is not int:
            return UNTYPED
        if minimum <= value <= maximum:
            return VALID
        return OUT_OF_RANGE if -(2**63) <= value < 2**63 else UNTYPED

    return validate


def _share(value: Any) -> int:
    if type(value) not in (int, float):
        return UNTYPED
    return VALID if 0 <= value <= 1 else OUT_OF_RANGE


def _text(value: Any) -> int:
    return VALID if type(value) is str else UNTYPED


def _constants(kind: Constants) -> _Validator:
    def near(value: Any, wanted: float) -> bool:
        return value is not None and abs(value - wanted) <= EDGE_TOLERANCE * wanted

    def validate(value: Any) -> int:
        if type(value) is not list or not set(map(type, value)) <= {int, float, type(None)}:
            return UNTYPED
        return VALID if len(value) == len(kind.values) and all(map(near, value, kind.values)) else OUT_OF_RANGE

    return validate


def _row(kind: Row) -> _Validator:
    validators = [validator(number) for _, number in kind.columns]

    def validate(value: Any) -> int:
        if type(value) is not list:
            return UNTYPED
        # Items beyond the last column have no range, but a type.
        of_items = chain(validators, repeat(validators[0]))
        found = max(map(_result, of_items, value), default=VALID)
        return found if len(value) == len(validators) else max(found, OUT_OF_RANGE)

    return validate


def _listing(kind: ListType) -> _Validator:
    validate_element, all_valid = validator(kind.element), _all_valid(kind.element)
    shortest, longest = kind.shortest, sys.maxsize if kind.longest is None else kind.longest

    def validate(value: Any) -> int:
        if type(value) is not list:
            return UNTYPED
        found = VALID if all_valid(value) else max(map(_result, repeat(validate_element), value), default=VALID)
        return found if shortest <= len(value) <= longest else max(found, OUT_OF_RANGE)

    return validate


def _result(validate: _Validator, value: Any) -> int:
    return OUT_OF_RANGE if value is None else validate(value)


def _structure(fields: Sequence[Field]) -> _Validator:
    parts = [(field.name, validator(field.type), field.nullable) for field in fields]

    def validate(value: Any) -> int:
        if type(value) is not dict:
            return UNTYPED
        worst = VALID
        for name, validate_part, nullable in parts:
            part = value.get(name)
            if part is not None:
                found = validate_part(part)
                if found > worst:
                    worst = found
            elif nullable:
                value[name] = None
            elif worst == VALID:
                worst = OUT_OF_RANGE
        return worst

    return validate


def _all_valid(kind: Type) -> Callable[[list[Any]], bool]:
    """Return a fast check whether all elements of a list are valid, without a look at each; False is inconclusive."""
    match kind:
        case WholeNumber(minimum, maximum):
            return lambda value: (
                not value or (set(map(type, value)) == _INT and min(value) >= minimum and max(value) <= maximum)
            )
        case Text():
            return lambda value: set(map(type, value)) <= _STR
        case Row(columns):
            return _all_rows(columns)
        case _:
            return lambda value: not value


def _all_rows(columns: Sequence[tuple[str, WholeNumber]]) -> Callable[[list[Any]], bool]:
    width = len(columns)
    limits = [(column, number.minimum, number.maximum) for column, (_, number) in enumerate(columns)]

    def all_valid(value: list[Any]) -> bool:
        if not value:
            return True
        if set(map(type, value)) != _LIST or set(map(len, value)) != {width}:
            return False
        numbers = list(chain.from_iterable(value))
        return set(map(type, numbers)) == _INT and all(
            min(each := numbers[column::width]) >= minimum and max(each) <= maximum
            for column, minimum, maximum in limits
        )

    return all_valid


# Records ------------------------------------------------------------------------------------------

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
