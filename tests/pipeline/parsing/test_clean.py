"""Spark and plain Python say the same of every line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stormwright.perflog import Landing, RejectedLine, parse, read_file
from stormwright.perflog.records import CLOCK_AHEAD
from stormwright.pipeline.parsing.clean import LATE, audited
from stormwright.pipeline.parsing.parsed import record_type
from stormwright.pipeline.parsing.source import read_files
from stormwright.pipeline.streaming.backfill import NEVER_LATE_S
from tests.pipeline.generator import SPOILERS, dice, encoded, land, make_world, records

pytestmark = pytest.mark.spark

START_MS = 1_690_000_000_000


def test_the_same_lines_are_rejected_for_the_same_reasons(spark: SparkSession, tmp_path: Path) -> None:
    world = make_world(5)
    good = records(world, START_MS, 10, dice(5))
    spoilt = [spoil(record) for spoil in SPOILERS for record in good[:3]]
    path = Landing(tmp_path).write([*(encoded(record) for record in good), *(line for line, _ in spoilt)])
    assert path is not None
    rows = audited(read_files(spark, [path], NEVER_LATE_S)).collect()
    in_python = [item.reason if isinstance(item, RejectedLine) else None for item in read_file(path)]
    assert [row["reason"] for row in rows] == in_python == [None] * len(good) + [reason for _, reason in spoilt]
    assert {row["file"] for row in rows} == {path.name}
    assert all((row["line"] is None) == (row["reason"] is None) for row in rows)


def test_clock_ahead_is_detected_if_record_ends_after_landing(spark: SparkSession, tmp_path: Path) -> None:
    record = records(make_world(6), START_MS, 2, dice(6))[0]
    path = Landing(tmp_path).write([encoded(record)])
    assert path is not None
    end_s = record["start_ms"] / 1000 + record["length_ns"] / 1e9
    for landed_s, reason in ((end_s - 4, None), (end_s - 6, CLOCK_AHEAD)):
        os.utime(path, (landed_s, landed_s))
        (row,) = audited(read_files(spark, [path], NEVER_LATE_S)).collect()
        (item,) = read_file(path)
        assert row["reason"] == reason
        assert (item.reason if isinstance(item, RejectedLine) else None) == reason


def test_record_is_late_if_landed_too_long_after_its_start(spark: SparkSession, tmp_path: Path) -> None:
    record = records(make_world(6), START_MS, 2, dice(6))[0]
    for after_ms, reason in ((30_000, None), (30_001, LATE)):
        path = land(tmp_path / f"{after_ms}", [encoded(record)], record["start_ms"] + after_ms)
        (row,) = audited(read_files(spark, [path], late_s=30)).collect()
        assert row["reason"] == reason
        assert (parse(bytes(row["line"])) if reason else row["line"]) == (record if reason else None)


def test_a_record_survives_the_way_through_spark(spark: SparkSession, tmp_path: Path) -> None:
    world = make_world(7)
    good = records(world, START_MS, 2, dice(7))
    path = Landing(tmp_path).write(encoded(record) for record in good)
    assert path is not None
    frame = read_files(spark, [path], NEVER_LATE_S).select(*(field.name for field in record_type().fields))
    assert [row.asDict(recursive=True) for row in frame.collect()] == good
