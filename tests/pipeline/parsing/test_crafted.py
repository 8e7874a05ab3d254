"""Whatever a line holds it is one line: Spark and plain Python agree whether it is a record, and none is lost."""

from __future__ import annotations

import os
import re
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.sql import SparkSession

from stormwright.perflog import RejectedLine, parse, parse_lines
from stormwright.perflog.records import MAX_LINE_BYTES, NOT_A_RECORD
from stormwright.perflog.schema import IDENTITY, Fraction, ListType, Row, Structure, Type, WholeNumber
from stormwright.perflog.schema import RECORD as SCHEMA
from stormwright.pipeline.parsing.clean import audited
from stormwright.pipeline.parsing.parsed import NOT_A_TEXT
from stormwright.pipeline.parsing.source import read_files
from stormwright.pipeline.streaming.backfill import NEVER_LATE_S, backfill, measure_files
from tests.perflog.samples import RECORD, edited, encoded

pytestmark = pytest.mark.spark

#: As tokens where a text should be.
NUMBERS = (b"1e999", b"-1e999", b"-0.5E+7", b"1.5e-7", b"0.10", b"-0", b"123456789012345678901234567890", b"1e-400")

LINE = encoded(RECORD)

#: What may stand in a place of the schema, `...` for nothing; the limits of its own type are added.
VALUES: tuple[Any, ...] = (
    ..., None, True, False, 0, -1, 1.0, 1e3, 5, 2**63, 2**63 - 1, "", "5", "true", "[]", "{}", "10.0.0.1", "x", [],
    ["x"], {}, {"a": 1},
)  # fmt: skip


def places(kind: Type, path: str = "") -> Iterator[tuple[str, Type]]:
    """Every place of a record, and its type."""
    if path:
        yield path, kind
    begin = f"{path}." if path else ""
    match kind:
        case Structure(fields):
            for field in fields:
                yield from places(field.type, begin + field.name)
        case ListType(element):
            yield from places(element, f"{begin}0")
        case Row(columns):
            for number, (_, column) in enumerate(columns):
                yield from places(column, f"{begin}{number}")


def limits(kind: Type) -> tuple[Any, ...]:
    """The values at and beyond the limits of a type."""
    match kind:
        case WholeNumber(low, high):
            return low - 1, low, high, high + 1
        case Fraction():
            return -0.01, 0, 1, 1.01
    return ()


def schema_cases() -> list[bytes]:
    """The record with each value in each place of the schema."""
    return [
        encoded(edited(RECORD, place, value)) for place, kind in places(SCHEMA) for value in (*VALUES, *limits(kind))
    ]


def put(path: str, text: bytes) -> bytes:
    """The record with raw JSON at a place."""
    return encoded(edited(RECORD, path, "@")).replace(b'"@"', text)


def more(text: bytes) -> bytes:
    """The record with an unknown field, as raw JSON."""
    return LINE[:-1] + b', "later": ' + text + b"}"


CRAFTED = [
    # One object, whole.
    LINE, b" \t" + LINE + b"\t ", LINE + b"\r", LINE.replace(b", ", b",\r"), b"\xef\xbb\xbf" + LINE,
    more(b"1"), more(b'{"topology": 5}'), more(b'[[[["\\ud83d\\ude00"]]]]'), more(b"[" * 900 + b"]" * 900),
    # Not one object.
    LINE + LINE, LINE + b" " + LINE, LINE + b"," + LINE, b"[" + LINE + b"]", b"[" + LINE + b"," + LINE + b"]",
    b"[]", b"[[]]", b"{}", b"null", b"5", b"-", b'"x"', b"true", b"x", b"{", b"}", b"]", b"[", b"{}{}", b",", b'"',
    LINE + b"x", LINE + b"}", LINE + b"]", LINE + b"]}", LINE + b"],[", LINE + b'],"x":[' + LINE, LINE + b",{}",
    LINE + b',{"seq": 1}', LINE + b"//", LINE + b"/**/", LINE + b"\x00", LINE + b"\x0b", LINE + b"\xff", b"x" + LINE,
    LINE[:-1], LINE[1:], LINE[:-1] + b",}", LINE[:-1] + b'"}', LINE.replace(b'"', b"'"),
    LINE.replace(b'"seq"', b"seq"), LINE.replace(b": ", b"= "), b"\xef\xbb\xbf", b"\xff\xfe",
    LINE.decode().encode("utf-16"),
    # No text.
    put("worker.topology", b'"\xff"'), put("worker.topology", b'"\xc0\xaf"'), put("worker.topology", b'"\xed\xa0\x80"'),
    put("worker.topology", b'"\\ud800"'), put("worker.topology", b'"\\udc00"'), put("worker.topology", b'"\\ud800x"'),
    put("worker.topology", b'"\\uDC00\\uD800"'), put("worker.topology", b'"\\\\ud800"'),
    put("worker.topology", b'"\\\\\\ud800"'), put("worker.topology", b'"\\ud83d\\ude00"'),
    put("worker.topology", b'"\\x"'),
    put("worker.topology", b'"\x01"'), put("worker.topology", b'"\t"'), put("worker.topology", b'"\\u0000"'),
    put("worker.topology", '"ä€😀"'.encode()), put("worker.topology", b"1e5"), put("worker.topology", b"[1, 2]"),
    *(put("worker.topology", each) for each in NUMBERS),
    more(b'"\\ud800"'), more(b'"\xff"'),
    # No number.
    put("seq", b"01"), put("seq", b"+1"), put("seq", b"0x1"), put("seq", b"-0"), put("seq", b"1."), put("seq", b"NaN"),
    put("executors.0.queue", b"NaN"), put("executors.0.queue", b'"NaN"'), put("executors.0.queue", b"Infinity"),
    put("executors.0.queue", b".5"), put("executors.0.queue", b"1e-400"), put("executors.0.queue", b"0.5"),
    put("pairs.0.3", b"1.5"), put("pairs.0.3", b'"5"'), put("pairs.0.3", b"null"), put("pairs.0", b'{"a": 1}'),
    # A field twice.
    LINE[:-1] + b', "seq": 7}', LINE[:-1] + b', "seq": "x"}', LINE[:-1] + b', "seq": null}',
    # Very long.
    more(b'"' + b"x" * MAX_LINE_BYTES + b'"'),
]  # fmt: skip


def landed(directory: Path, lines: list[bytes]) -> Path:
    directory.mkdir()
    path = directory / "0.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    landed_s = RECORD["written_ms"] / 1000
    os.utime(path, (landed_s, landed_s))
    return path


def test_only_ambiguous_texts_are_parsed_twice():
    """Hosts are often addresses: to read every record of theirs twice would take twice the time."""
    for text in ("10.0.0.7", "172.16.254.1", "2001:db8::1", "h-7", "1-2-3", "8f3e", "7.", "", "truely", "-"):
        assert not re.search(NOT_A_TEXT, f"\x01a\x01{text}\x01b"), text
    for text in (
        "7",
        "-7",
        "0.5",
        "1E+10",
        "1.5e-7",
        "true",
        "false",
        "{}",
        "[1,2]",
        *map(bytes.decode, NUMBERS),
        "-Infinity",
    ):
        assert re.search(NOT_A_TEXT, f"\x01a\x01{text}\x01b"), text
        assert re.search(NOT_A_TEXT, f"\x01a\x01{text}"), text


def test_spark_and_python_agree_about_every_line(spark: SparkSession, tmp_path: Path) -> None:
    lines = [*CRAFTED, *schema_cases()]
    path = landed(tmp_path / "landing", lines)
    rows = audited(read_files(spark, [path], NEVER_LATE_S)).collect()
    assert len(rows) == len(lines)
    found = {line[:2000]: row["reason"] for line, row in zip(lines, rows, strict=True)}
    items = [parse(line, RECORD["written_ms"]) for line in lines]
    expected = {
        line[:2000]: item.reason if isinstance(item, RejectedLine) else None
        for line, item in zip(lines, items, strict=True)
    }
    assert found == expected
    assert len(found) > 1500
    assert 200 < list(found.values()).count(None) < len(found) - 1000


def test_python_accepts_and_spark_rejects_only_two_kinds_of_lines(spark: SparkSession, tmp_path: Path) -> None:
    """Those that `stormwright.pipeline.parsing.parsed` documents: no probe writes them, and a service lands columns."""
    lines = [LINE[:-1] + b', "seq": "x", "seq": 7}', more(b"[" * 1000 + b"]" * 1000)]
    path = landed(tmp_path / "landing", lines)
    found = [row["reason"] for row in audited(read_files(spark, [path], NEVER_LATE_S)).collect()]
    assert found == [NOT_A_RECORD, NOT_A_RECORD]
    assert not any(isinstance(parse(line), RejectedLine) for line in lines)
    assert isinstance(parse(more(b"1e400")), RejectedLine)


def test_invalid_line_is_quarantined_unchanged_with_its_number(spark: SparkSession, tmp_path: Path) -> None:
    unlike = encoded(edited(RECORD, "version", 2))[:-1] + b', "its own" :  [1]}'
    lines = [
        LINE, b"[]", b"", LINE + encoded(edited(RECORD, "seq", 1)), encoded(edited(RECORD, "seq", 2)) + b" rubbish",
        b"[" + LINE + b"," + LINE + b"]", b'{"a":1}', unlike, encoded(edited(RECORD, "seq", 3)), b" 5 \xff",
    ]  # fmt: skip
    path = landed(tmp_path / "landing", lines)
    ledger = backfill(spark, [path.parent], tmp_path / "into")
    assert asdict(ledger) == {"read": 9, "used": 2, "duplicate": 0, "quarantined": 7}
    tables = (tmp_path / "into" / "quarantine").glob("*.json")
    rows = [orjson.loads(line) for table in tables for line in table.read_bytes().splitlines()]
    found = {
        row["line_number"]: b64decode(row["line_base64"]) if row.get("line_base64") else row["line"].encode()
        for row in rows
    }
    numbered = [line for line in lines if line]
    assert found == {number: numbered[number - 1] for number in (2, 3, 4, 5, 6, 7, 9)}
    assert [row["reason"] for row in rows if row["line_number"] < 6] == [NOT_A_RECORD] * 4


def test_live_counts_and_stream_accept_the_same_records(spark: SparkSession, tmp_path: Path) -> None:
    lines = [line for line in (*CRAFTED, *schema_cases()) if len(line) < MAX_LINE_BYTES]
    path = landed(tmp_path / "landing", lines)
    _, ledger = measure_files(spark, [path])
    items = list(parse_lines(path.read_bytes().split(b"\n"), RECORD["written_ms"]))
    taken = [item for item in items if not isinstance(item, RejectedLine)]
    assert ledger.read == len(items) == len(lines)
    assert ledger.quarantined == len(items) - len(taken)
    identities = {(*(item["worker"][name] for name in IDENTITY), item["seq"], item["start_ms"]) for item in taken}
    assert ledger.used == len(identities)
