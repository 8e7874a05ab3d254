"""The running stream: what the oracle and the batch say, an exact ledger, restarts that count nothing twice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from stormwright.errors import StormwrightError
from stormwright.perflog import Landing
from stormwright.perflog.columns import RecordLanding, landed_table
from stormwright.perflog.schema import sample_record
from stormwright.pipeline.measurement.windows import PANES
from stormwright.pipeline.monitoring.alarms import SecondsFeed
from stormwright.pipeline.parsing.clean import LATE
from stormwright.pipeline.parsing.quarantine import QUARANTINE
from stormwright.pipeline.settings import RecordRate
from stormwright.pipeline.streaming import sink
from stormwright.pipeline.streaming.backfill import TimeStretch, backfill
from stormwright.pipeline.streaming.progress import OVERTAKEN
from stormwright.pipeline.streaming.stream import BACKLOG_ROWS, LoadStream, StreamSettings
from tests.perflog.samples import RECORD
from tests.pipeline.generator import World, deliver, dice, encoded, land, land_files, make_world, records
from tests.pipeline.oracle import Record, assert_equal, expected_outcome, expected_profile, found_profile
from tests.pipeline.waiting import wait_for, wait_until_read

pytestmark = pytest.mark.spark

SETTINGS = StreamSettings(trigger_s=0.1, niceness=0)
START_MS = 1_690_000_000_000


def assert_profile(stream: LoadStream, world: World, used: list[Record]) -> None:
    profile = stream.latest(world.problem)
    assert profile is not None
    settings = stream.settings
    expected = expected_profile(used, world.problem, settings.window_s, settings.slide_s, settings.settle_s)
    assert_equal(found_profile(profile, world.problem), expected, relative=1e-9)


def rows_in(paths: Iterable[Path]) -> list[dict[str, Any]]:
    return [json.loads(line) for path in paths for line in path.read_bytes().splitlines()]


def quarantined(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows of a quarantine table in a known order; null fields may be left out."""
    return sorted(tuple(row.get(name) for name in QUARANTINE.names) for row in rows)


#: Columns of panes that are no whole numbers.
FLOATS = [field.name for field in PANES if field.type == pa.float64()]


def sorted_panes(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.select(PANES.names).to_pylist()
    return sorted(rows, key=lambda row: [str(row[name]) for name in PANES.names if name not in FLOATS])


def test_stream_and_batch_make_the_same_of_the_same_files(spark: SparkSession, tmp_path: Path) -> None:
    """Lines of every kind, twice, out of order and late; the oracle says what must become of them."""
    rng = dice(11)
    world = make_world(11)
    delivery = deliver(records(world, START_MS, 66, rng), rng, spoil=0.15, held=0.05)
    # All panes stay in the window.
    settings = replace(SETTINGS, window_s=300, max_files_per_batch=6, keep_raw_s=86400 * 10000)
    files = delivery.in_files(12)
    landing, state = tmp_path / "landing", tmp_path / "state"
    landed = land_files(landing, files[: len(files) // 2])
    with LoadStream(landing, state, settings, spark) as stream:
        wait_until_read(stream, sum(len(lines) for _, lines in landed.values()))
        landed |= land_files(landing, files[len(files) // 2 :])
        wait_until_read(stream, len(delivery.lines))
        outcome = expected_outcome(landed, settings.late_s)
        assert_profile(stream, world, outcome.used)
        unnoted = stream.progress()
        stream.note(world.problem)
        progress = stream.progress()
        figures = stream.progress()["queries"]["loads"]
    assert figures["phases_ms"]["triggerExecution"] == progress["batch_ms"] > 0
    assert (figures["batch"], figures["restarts"]) == (progress["batch"], 0)
    assert figures["state_rows"] == outcome.ledger["used"]
    assert figures["state_bytes"] > 0
    assert progress["nodes"].keys() == {node.id for node in world.problem.supervisors}
    assert all(load["headroom_cores"] is not None for load in progress["nodes"].values())
    assert progress["complete_latency_ms"]["words-1"]["p99"] > progress["complete_latency_ms"]["words-1"]["p50"] > 0
    assert progress["alarms"] is None
    assert {reason for reason, *_ in outcome.quarantine} > {LATE}
    assert outcome.duplicate > 10
    assert progress["batch"] > 4
    assert progress["ledger"] == outcome.ledger
    assert unnoted["unknown_tuples"] == {}, "who asks for loads leaves nothing behind"
    assert {node: load["capacity_cores"] for node, load in unnoted["nodes"].items()} == {
        node.id: world.quota_cores.get(node.id) for node in world.problem.supervisors
    }
    assert progress["unknown_tuples"] == {"words-1": 0, "words-2": 0}
    assert progress["lag_ms"]["p95"] > 0
    of_stream = rows_in(state.glob("*/quarantine/*.jsonl"))
    assert sorted((r["reason"], r["file"], r["line_number"], r["landed_ms"]) for r in of_stream) == sorted(
        outcome.quarantine
    )
    latest = json.loads((state / "latest.json").read_bytes())
    assert latest["ledger"] == outcome.ledger
    assert latest["topologies"].keys() == {"words-1", "words-2"}

    assert {path.name for path in stream.raw.iterdir()} == landed.keys()
    assert not list(landing.iterdir())
    # Two stretches that touch hold everything once.
    middle_ms = START_MS // 3000 * 3000 + 33_000
    parts = {tmp_path / "first": TimeStretch(end_ms=middle_ms), tmp_path / "second": TimeStretch(start_ms=middle_ms)}
    ledgers = [
        backfill(spark, [landing, stream.raw], into, stretch, late_s=settings.late_s) for into, stretch in parts.items()
    ]
    assert min(ledger.used for ledger in ledgers) > 100
    assert asdict(ledgers[0] + ledgers[1]) == outcome.ledger
    in_batch = rows_in(file for into in parts for file in (into / "quarantine").glob("*.json"))
    assert quarantined(in_batch) == quarantined(of_stream)
    panes = sorted_panes(spark.read.parquet(*(str(into / "panes") for into in parts)).toArrow())
    in_stream = sorted_panes(sink.load(state / settings.state_name / "panes").facts())
    # Sums of floats may come out otherwise in another order.
    assert [row | dict.fromkeys(FLOATS) for row in panes] == [row | dict.fromkeys(FLOATS) for row in in_stream]
    for name in FLOATS:
        sums = [row[name] or 0 for row in in_stream]
        assert [row[name] or 0 for row in panes] == pytest.approx(sums, rel=1e-12), name
        assert any(sums)


def test_second_stream_on_same_state_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    with LoadStream(tmp_path / "landing", tmp_path / "state", SETTINGS, spark) as first:
        second = LoadStream(tmp_path / "landing", tmp_path / "state", SETTINGS, spark)
        with pytest.raises(StormwrightError, match=r"another process measures loads in .*state"):
            second.start()
        second.stop()
        assert first.progress()["running"]
    with second:
        assert second.progress()["running"]


class FakeSpark:
    """A session that records the requests to it."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.streams = self

    def addListener(self, _: object) -> None:  # noqa: N802 - Spark's name, and below
        self.calls.append("listened to")

    def removeListener(self, _: object) -> None:  # noqa: N802
        self.calls.append("left alone")
        raise RuntimeError("a listener nobody knows")

    def stop(self) -> None:
        self.calls.append("stopped")


@pytest.mark.parametrize(("fails", "expected"), [
    ("BatchPlan", ["listened to", "left alone", "stopped"]),
    ("LoadStream._rebuild", ["listened to", "left alone", "stopped"]),
])  # fmt: skip
def test_failed_stream_start_stops_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, expected: list[str]
) -> None:
    def failing(*_: object) -> None:
        raise MemoryError(fails)

    found, run = FakeSpark(), "stormwright.pipeline.streaming.stream"
    monkeypatch.setattr(f"{run}.connected_session", lambda *_: found)
    monkeypatch.setattr(f"{run}.BatchPlan", lambda *_: None)
    monkeypatch.setattr(f"{run}.{fails}", failing)
    stream = LoadStream(tmp_path / "landing", tmp_path / "state", SETTINGS)
    with pytest.raises((MemoryError, RuntimeError)):
        stream.start()
    assert found.calls == expected
    assert not stream.progress()["running"]
    assert stream.spark is None


@pytest.mark.parametrize(("rows", "given", "rate"), [
    (10, None, "low"), (BACKLOG_ROWS + 1, None, "high"), (BACKLOG_ROWS + 1, "low", "low"),
])  # fmt: skip
def test_stream_starts_at_high_rate_if_backlog_has_landed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, given: RecordRate | None, rate: RecordRate
) -> None:
    rates: list[RecordRate | None] = []

    def start(_: Path, settings: StreamSettings) -> None:
        rates.append(settings.rate)
        raise StormwrightError("no Spark in this test")

    monkeypatch.setattr("stormwright.pipeline.streaming.stream.connected_session", start)
    RecordLanding(tmp_path / "landing").write(landed_table([b"rejected"] * rows, START_MS))
    with pytest.raises(StormwrightError, match="no Spark"):
        LoadStream(tmp_path / "landing", tmp_path / "state", replace(SETTINGS, rate=given)).start()
    assert rates == [rate]


def test_stream_stop_completes_despite_partial_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Loop:
        """Runs, and does not stop."""

        running, error, restarts, batch_ms = True, None, 0, None

        def start(self) -> None:
            pass

        def stop(self) -> None:
            raise OSError("no space left on device")

    found, run = FakeSpark(), "stormwright.pipeline.streaming.stream"
    monkeypatch.setattr(f"{run}.connected_session", lambda *_: found)
    monkeypatch.setattr(f"{run}.BatchPlan", lambda *_: None)
    monkeypatch.setattr(f"{run}.BatchLoop", lambda *_, **__: Loop())
    stream = LoadStream(tmp_path / "landing", tmp_path / "state", SETTINGS)
    stream.start()
    assert stream.progress()["running"]
    with pytest.raises((OSError, RuntimeError)):
        stream.stop()
    assert found.calls == ["listened to", "left alone", "stopped"]
    assert stream.spark is None


@pytest.mark.slow
@pytest.mark.parametrize("small_rows", [0, 10_000])
def test_records_landing_far_out_of_order_are_quarantined(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_rows: int
) -> None:
    monkeypatch.setattr("stormwright.pipeline.plan.SMALL_ROWS", small_rows)
    world = make_world(13)
    written = records(world, START_MS, 100, dice(13))
    early = [r for r in written if r["start_ms"] < START_MS + 20_000]
    held_back, early = early[:10], early[10:]
    newest = [r for r in written if r["start_ms"] > START_MS + 90_000]
    landing = tmp_path / "landing"
    with LoadStream(landing, tmp_path / "state", SETTINGS, spark) as stream:
        read = 0
        # Records are late from the second batch on after the one that moved the watermark.
        for part in (early, newest[:-6], newest[-6:-3], newest[-3:], held_back):
            land(landing, map(encoded, part), max(record["written_ms"] for record in part))
            read += len(part)
            wait_until_read(stream, read)
        used = [*early, *newest]
        assert stream.progress()["ledger"] == {
            "read": read, "used": len(used), "duplicate": 0, "quarantined": len(held_back),
        }  # fmt: skip
        assert_profile(stream, world, used)
    rejected = rows_in((tmp_path / "state").glob("*/quarantine/*.jsonl"))
    assert [(row["reason"], row["line_number"]) for row in rejected] == [(OVERTAKEN, n) for n in range(1, 11)]
    assert [row["line"] for row in rejected] == [encoded(record).decode() for record in held_back]


@pytest.mark.parametrize("name", ["1-blank.jsonl", "_hidden.jsonl"])
def test_file_without_records_does_not_stay(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Of blank lines; a file whose name Spark ignores is left alone."""
    landing = tmp_path / "landing"
    landing.mkdir()
    (landing / name).write_bytes(b"\n \n")
    with LoadStream(landing, tmp_path / "state", SETTINGS, spark) as stream:
        land(landing, [encoded(RECORD)], RECORD["written_ms"])
        wait_until_read(stream, 1)
        wait_for(stream, lambda: [path.name for path in landing.iterdir()] == [name] * name.startswith("_"))
        batch = stream.progress()["batch"]
        time.sleep(0.5)
        assert stream.progress()["batch"] == batch


def test_what_fails_after_a_batch_counts_does_not_repeat_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that cannot be deleted at first, then a full disk below the alarms."""
    landing, due = tmp_path / "landing", ["remove", "feed"]

    def failing(name: str, do: Callable[..., Any]) -> Callable[..., Any]:
        def once(*args: Any) -> Any:
            if name in due:
                due.remove(name)
                raise PermissionError(name)
            return do(*args)

        return once

    monkeypatch.setattr(sink, "remove_files", failing("remove", sink.remove_files))
    monkeypatch.setattr(SecondsFeed, "write", failing("feed", SecondsFeed.write))
    settings = replace(SETTINGS, alarm_after_s=6)
    with LoadStream(landing, tmp_path / "state", settings, spark) as stream:
        for seq in range(4):
            land(landing, [encoded(RECORD | {"seq": seq}), b"no record"], RECORD["written_ms"])
            wait_until_read(stream, 2 * seq + 2)
        wait_for(stream, lambda: not list(landing.iterdir()))
        assert stream.progress()["ledger"] == {"read": 8, "used": 4, "duplicate": 0, "quarantined": 4}
        assert due == []


def test_state_of_a_clock_that_was_ahead_does_not_make_all_records_late(spark: SparkSession, tmp_path: Path) -> None:
    landing, hour_ms = tmp_path / "landing", 3_600_000
    now_ms = round(time.time() * 1000)
    for newest_ms in (now_ms + hour_ms, now_ms - 2000):
        with LoadStream(landing, tmp_path / "state", SETTINGS, spark) as stream:
            land(landing, [encoded(sample_record(newest_ms - 1000))], newest_ms)
            wait_for(stream, lambda: not list(landing.iterdir()))
            ledger = stream.progress()["ledger"]
    assert ledger == {"read": 2, "used": 2, "duplicate": 0, "quarantined": 0}


def test_processed_files_are_deleted(spark: SparkSession, tmp_path: Path) -> None:
    world = make_world(14)
    written = records(world, START_MS, 6, dice(14))[:6]
    landing = Landing(tmp_path / "landing")
    with LoadStream(landing.directory, tmp_path / "state", SETTINGS, spark) as stream:
        for read, record in enumerate(written, 1):
            land(landing.directory, [encoded(record)], record["written_ms"])
            wait_until_read(stream, read)
        wait_for(stream, lambda: not landing.files())


@pytest.mark.slow
def test_file_causing_batch_failures_is_quarantined_whole(spark: SparkSession, tmp_path: Path) -> None:
    """Every number is in its range, their sum is not; the files that landed with it are used."""
    world = make_world(15)
    written = records(world, START_MS, 12, dice(15))
    poison = written[9] | {"pairs": [[1, 2, 0, 10**15, 0]] * 10_000}
    landing, state = tmp_path / "landing", tmp_path / "state"
    parts = [written[:8], [written[8], poison], written[10:]]
    paths = [land(landing, map(encoded, part), max(r["written_ms"] for r in part)) for part in parts[:2]]
    used = [*written[:8], *written[10:]]
    with LoadStream(landing, state, SETTINGS, spark) as stream:
        wait_until_read(stream, 8)
        land(landing, map(encoded, parts[2]), max(r["written_ms"] for r in parts[2]))
        wait_until_read(stream, len(used))
        progress = stream.progress()
        assert progress["ledger"] == {"read": len(used), "used": len(used), "duplicate": 0, "quarantined": 0}
        assert (progress["files_set_aside"], progress["error"]) == (1, None)
        assert progress["restarts"] >= 2
        assert progress["queries"]["loads"]["restarts"] == progress["restarts"]
        assert_profile(stream, world, used)
    (row,) = rows_in(state.glob("*/quarantine/*.jsonl"))
    assert "overflow" in row["reason"]
    assert (row["file"], row["line_number"], row["line"]) == (paths[1].name, None, None)
    (aside,) = state.glob("*/quarantine/files/*")
    assert aside.read_bytes().splitlines() == [encoded(written[8]), encoded(poison)]


@pytest.mark.slow
def test_failed_batch_is_retried_until_its_cause_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    """Good files stay: alone each of them passes."""
    world = make_world(16)
    written = records(world, START_MS, 6, dice(16))
    landing, state = tmp_path / "landing", tmp_path / "state"
    obstacle = state / SETTINGS.state_name / "panes" / "state.json" / "in the way"
    with LoadStream(landing, state, SETTINGS, spark) as stream:
        obstacle.mkdir(parents=True)
        land(landing, map(encoded, written), max(r["written_ms"] for r in written))
        wait_for(stream, lambda: stream.progress()["restarts"] >= 2)
        assert stream.progress()["error"].startswith("IsADirectoryError: ")
        obstacle.rmdir()
        obstacle.parent.rmdir()
        wait_for(stream, lambda: stream.progress()["error"] is None)
        progress = stream.progress()
        assert progress["files_set_aside"] == 0
        assert progress["ledger"] == {"read": len(written), "used": len(written), "duplicate": 0, "quarantined": 0}
        assert_profile(stream, world, written)
