"""The running stream: the same profile as from files, an exact ledger, restarts that count nothing twice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stormwright.perflog import Landing
from stormwright.pipeline.batch import measure_files
from stormwright.pipeline.stream import LoadStream, StreamSettings
from tests.pipeline.generator import Delivery, World, deliver, dice, encoded, make_world, records
from tests.pipeline.oracle import assert_equal, expected_profile, found_profile

pytestmark = pytest.mark.spark

SETTINGS = StreamSettings(trigger_s=0.1, niceness=0)
START_MS = 1_690_000_000_000


def land(landing: Landing, lines: list[bytes], per_file: int = 25) -> None:
    for begin in range(0, len(lines), per_file):
        landing.write(lines[begin : begin + per_file])


def wait_for(stream: LoadStream, reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        progress = stream.progress()
        assert progress["running"], progress["error"]
        assert time.monotonic() < deadline, progress
        time.sleep(0.05)


def wait_until_read(stream: LoadStream, lines: int) -> None:
    wait_for(stream, lambda: stream.progress()["ledger"]["read"] >= lines)


def assert_profile(stream: LoadStream, world: World, delivery: Delivery) -> None:
    profile = stream.latest(world.problem)
    assert profile is not None
    expected = expected_profile(delivery.used, world.problem, SETTINGS.window_s, SETTINGS.slide_s, SETTINGS.settle_s)
    assert_equal(found_profile(profile, world.problem), expected, relative=1e-9)


def expected_ledger(delivery: Delivery) -> dict[str, int]:
    return {
        "read": len(delivery.lines),
        "used": len(delivery.used),
        "duplicate": delivery.duplicate,
        "quarantined": len(delivery.reasons),
        "late": 0,
    }


def test_stream_equals_oracle_and_batch_and_quarantines_the_rest(spark: SparkSession, tmp_path: Path) -> None:
    rng = dice(11)
    world = make_world(11)
    delivery = deliver(records(world, START_MS, 30, rng), rng)
    landing, copies = Landing(tmp_path / "landing"), Landing(tmp_path / "copies")
    land(copies, delivery.lines)
    half = len(delivery.lines) // 2
    land(landing, delivery.lines[:half])
    with LoadStream(landing.directory, tmp_path / "state", SETTINGS, spark) as stream:
        wait_until_read(stream, half)
        land(landing, delivery.lines[half:])
        wait_until_read(stream, len(delivery.lines))
        assert stream.progress()["ledger"] == expected_ledger(delivery)
        assert_profile(stream, world, delivery)
        assert stream.progress()["unknown_tuples"] == {"words-1": 0, "words-2": 0}
        assert stream.progress()["lag_ms"]["p95"] > 0
    measurement, ledger = measure_files(spark, copies.files(), SETTINGS)
    assert measurement is not None
    assert asdict(ledger) == expected_ledger(delivery)
    in_stream = stream.latest(world.problem)
    assert in_stream is not None
    assert_equal(
        found_profile(in_stream, world.problem),
        found_profile(measurement.profile(world.problem).load, world.problem),
        relative=1e-12,
    )
    files = (tmp_path / "state").glob("*/quarantine/*.jsonl")
    kept = [json.loads(line) for path in files for line in path.read_bytes().splitlines()]
    assert sorted(row["reason"] for row in kept) == sorted(delivery.reasons)
    assert all(row["line"] and row["file"].endswith(".jsonl") for row in kept)
    latest = json.loads((tmp_path / "state" / "latest.json").read_bytes())
    assert latest["ledger"] == expected_ledger(delivery)
    assert latest["topologies"].keys() == {"words-1", "words-2"}


def test_restart_after_a_crash_counts_nothing_twice(spark: SparkSession, tmp_path: Path) -> None:
    rng = dice(12)
    world = make_world(12)
    delivery = deliver(records(world, START_MS, 24, rng), rng)
    landing = Landing(tmp_path / "landing")
    half = len(delivery.lines) // 2
    with LoadStream(landing.directory, tmp_path / "state", SETTINGS, spark) as stream:
        land(landing, delivery.lines[:half], per_file=40)
        wait_until_read(stream, half)
        batch = stream.progress()["batch"]
    # As if killed after the sink had done its work and before Spark noted that the batch was done (the end of the
    # block may have come at just that moment).
    for name in (f"{batch}", f".{batch}.crc"):
        (tmp_path / "state" / SETTINGS.state_name / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    with LoadStream(landing.directory, tmp_path / "state", SETTINGS, spark) as stream:
        before = stream.latest(world.problem)
        assert before is not None, "what was known before the crash is known at once"
        land(landing, delivery.lines[half:])
        wait_until_read(stream, len(delivery.lines))
        assert stream.progress()["ledger"] == expected_ledger(delivery)
        assert_profile(stream, world, delivery)


def test_late_records_are_counted_as_late(spark: SparkSession, tmp_path: Path) -> None:
    world = make_world(13)
    written = records(world, START_MS, 100, dice(13))
    early = [r for r in written if r["start_ms"] < START_MS + 20_000]
    held_back, early = early[:10], early[10:]
    newest = [r for r in written if r["start_ms"] > START_MS + 90_000]
    landing = Landing(tmp_path / "landing")
    with LoadStream(landing.directory, tmp_path / "state", SETTINGS, spark) as stream:
        read = 0
        # Records are late from the second batch on after the one that moved the watermark.
        for part in (early, newest[:-6], newest[-6:-3], newest[-3:], held_back):
            landing.write(encoded(record) for record in part)
            read += len(part)
            wait_until_read(stream, read)
        used = [*early, *newest]
        assert stream.progress()["ledger"] == {
            "read": read, "used": len(used), "duplicate": 0, "quarantined": 0, "late": len(held_back),
        }  # fmt: skip
        assert_profile(stream, world, Delivery(used=used))


def test_processed_files_are_deleted(spark: SparkSession, tmp_path: Path) -> None:
    world = make_world(14)
    written = records(world, START_MS, 6, dice(14))[:6]
    landing = Landing(tmp_path / "landing")
    with LoadStream(landing.directory, tmp_path / "state", SETTINGS, spark) as stream:
        for read, record in enumerate(written, 1):
            landing.write([encoded(record)])
            wait_until_read(stream, read)
        wait_for(stream, lambda: len(landing.files()) <= 3)
