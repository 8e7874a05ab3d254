"""Files at rest: loads and traffic against the oracle and against what the generator put in."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from stormwright.errors import InputError
from stormwright.perflog import Landing, parse
from stormwright.perflog.records import NOT_A_RECORD
from stormwright.pipeline.measurement.measurement import Measurement, measure
from stormwright.pipeline.measurement.panes import KEYS
from stormwright.pipeline.measurement.windows import PANES, worker_records, worker_seconds
from stormwright.pipeline.parsing.clean import LATE, LineCounts
from stormwright.pipeline.plan import BatchPlan, StreamBatch, large_batch
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.streaming.backfill import NEVER_LATE_S, TimeStretch, backfill, count_reasons, measure_files
from stormwright.pipeline.streaming.progress import LiveState
from tests.pipeline.generator import (
    CORE_HZ,
    World,
    deliver,
    dice,
    encoded,
    known_profile,
    known_work,
    land_files,
    make_world,
    records,
)
from tests.pipeline.generator import land as land_columns
from tests.pipeline.oracle import (
    Line,
    assert_equal,
    assert_same_work,
    expected_missing,
    expected_outcome,
    expected_profile,
    expected_work,
    found_profile,
    found_work,
)

pytestmark = pytest.mark.spark

SETTINGS = StreamSettings()
START_MS = 1_690_000_000_000


def land(directory: Path, lines: list[bytes], per_file: int) -> list[Path]:
    landing = Landing(directory)
    for begin in range(0, len(lines), per_file):
        landing.write(lines[begin : begin + per_file])
    return landing.files()


@pytest.mark.parametrize("seed", [1, 2])
def test_profile_equals_the_oracle_and_every_line_is_accounted_for(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    rng = dice(seed)
    world = make_world(seed)
    delivery = deliver(records(world, START_MS, 40, rng), rng, spoil=0.2)
    measurement, ledger = measure_files(spark, land(tmp_path, delivery.lines, 20), SETTINGS)
    assert measurement is not None
    profile = measurement.profile(world.problem)
    expected = expected_profile(delivery.used, world.problem, SETTINGS.window_s, SETTINGS.slide_s, SETTINGS.settle_s)
    assert_equal(found_profile(profile, world.problem), expected, relative=1e-9)
    inside = [r for r in delivery.used if measurement.start_ms <= r["start_ms"]]
    for topology in world.problem.topologies:
        work = found_work(measurement.facts_of[topology.id])
        assert_same_work(work, expected_work(inside, topology.id), relative=1e-9)
    missing = {(w.topology, w.supervisor, w.port, w.start_ms): w.missing for w in worker_records(measurement.facts)}
    assert missing == expected_missing(inside)
    assert sum(missing.values()) > 3
    assert measurement.unknown_tuples(world.problem) == dict.fromkeys((t.id for t in world.problem.topologies), 0)
    assert asdict(ledger) == {
        "read": len(delivery.lines),
        "used": len(delivery.used),
        "duplicate": delivery.duplicate,
        "quarantined": len(delivery.reasons),
    }


def test_measurement_recovers_generated_load(spark: SparkSession, tmp_path: Path) -> None:
    rng = dice(3)
    world = make_world(3)
    delivery = deliver(records(world, START_MS, 30, rng), rng, spoil=0)
    measurement, _ = measure_files(spark, land(tmp_path, delivery.lines, 40), SETTINGS)
    assert_put_in(measurement, world)


def test_measurement_is_correct_despite_malformed_duplicate_and_late_records(
    spark: SparkSession, tmp_path: Path
) -> None:
    """5 % of each; the window that is evaluated lies amid them."""
    rng = dice(4)
    world = make_world(4)
    delivery = deliver(records(world, START_MS, 90, rng), rng, spoil=0.05, held=0.05)
    landed = land_files(tmp_path / "landing", delivery.in_files(40))
    outcome = expected_outcome(landed, SETTINGS.late_s)
    ledger = backfill(spark, [tmp_path / "landing"], tmp_path / "into", late_s=SETTINGS.late_s)
    assert asdict(ledger) == outcome.ledger
    reasons = Counter(reason == LATE for reason, *_ in outcome.quarantine)
    for share in (reasons[True], reasons[False], outcome.duplicate):
        assert share == pytest.approx(0.05 * len(delivery.lines), rel=0.5)
    end_ms = START_MS // 3000 * 3000 + 36_000
    table = spark.read.parquet(str(tmp_path / "into" / "panes")).where(f"pane_ms < {end_ms}").toArrow()
    panes = table.select(PANES.names).cast(PANES)
    measurement = measure(panes, worker_seconds(panes), SETTINGS)
    assert_put_in(measurement, world)
    assert measurement is not None
    assert measurement.end_ms == end_ms
    assert sum(worker.missing for worker in worker_records(measurement.facts)) >= 5


def assert_put_in(measurement: Measurement | None, world: World) -> None:
    """Every load, all traffic, service times, selectivities and shares are within 1 % of what the generator put in."""
    assert measurement is not None
    profile = measurement.profile(world.problem)
    found = found_profile(profile, world.problem)
    put_in = known_profile(world)
    for topology in world.problem.topologies:
        assert found.cpu_hz[topology.id] == pytest.approx(put_in.cpu_hz[topology.id], rel=0.01)
        assert found.pairs[topology.id] == pytest.approx(put_in.pairs[topology.id], rel=0.01)
        assert found.flows[topology.id] == pytest.approx(put_in.flows[topology.id], rel=0.01)
        assert found.pair_bytes[topology.id] == pytest.approx(put_in.pair_bytes[topology.id], rel=0.01)
        assert found.flow_bytes[topology.id] == pytest.approx(put_in.flow_bytes[topology.id], rel=0.01)
        work = found_work(measurement.facts_of[topology.id])
        assert_same_work(work, known_work(world, topology), relative=0.01)
    assert found.node_cpu_hz == pytest.approx(put_in.node_cpu_hz, rel=0.01)
    assert found.node_quota_hz == pytest.approx(put_in.node_quota_hz)
    assert found.node_overhead_hz == pytest.approx(put_in.node_overhead_hz, rel=0.05)
    capacity = {node.id: node.cpu_hz / CORE_HZ for node in world.problem.supervisors}
    for node, load in measurement.nodes(capacity).items():
        used = put_in.node_cpu_hz[node] / CORE_HZ
        has = min(capacity[node], world.quota_cores.get(node, capacity[node]))
        assert (load.capacity_cores, load.workers) == (pytest.approx(has), 2)
        assert load.headroom_cores == pytest.approx(has - used, abs=0.01 * used)


@pytest.mark.slow
def test_files_copied_without_their_times_lose_no_record(spark: SparkSession, tmp_path: Path) -> None:
    """All files seem to have landed a day after their records; rejected lines go where the records of their file are.

    One file has no record, so its line counts when it landed.
    """
    rng = dice(6)
    delivery = deliver(records(make_world(6), START_MS, 40, rng), rng, spoil=0.1)
    files = [*delivery.in_files(20), [Line(b"no record", START_MS, reason=NOT_A_RECORD)]]
    copied_ms, landing = START_MS + 86_400_000, tmp_path / "landing"
    begins: dict[str, int] = {}
    for lines in files:
        path = land(landing, [line.body for line in lines], per_file=len(lines))[-1]
        os.utime(path, ns=(copied_ms * 10**6, copied_ms * 10**6))
        begins[path.name] = min((line.record["start_ms"] for line in lines if line.record), default=copied_ms)
    whole = backfill(spark, [landing], tmp_path / "whole")
    assert (whole.used, whole.duplicate) == (len(delivery.used), delivery.duplicate)
    assert whole.quarantined == len(delivery.reasons) + 1

    middle_ms = START_MS // 3000 * 3000 + 21_000
    end_ms = START_MS // 3000 * 3000 + 60_000
    parts = {
        "first": TimeStretch(None, middle_ms),
        "second": TimeStretch(middle_ms, end_ms),
        "last": TimeStretch(end_ms),
    }
    ledgers = {name: backfill(spark, [landing], tmp_path / name, stretch) for name, stretch in parts.items()}
    early = sum(record["start_ms"] < middle_ms for record in delivery.used)
    assert {name: ledger.used for name, ledger in ledgers.items()} == {
        "first": early, "second": len(delivery.used) - early, "last": 0,
    }  # fmt: skip
    assert ledgers["first"] + ledgers["second"] + ledgers["last"] == whole
    rejected = {}
    for name, stretch in parts.items():
        rows = spark.read.json(str(tmp_path / name / "quarantine")).collect()
        assert len(rows) == ledgers[name].quarantined > 0
        for row in rows:
            assert (stretch.start_ms or 0) <= begins[row["file"]] < (stretch.end_ms or 2**63)
        rejected |= {(row["file"], row["line_number"]): row["reason"] for row in rows}
        if rows:
            assert count_reasons(spark, tmp_path / name) == Counter(row["reason"] for row in rows)
    assert rejected == {
        (path.name, number): line.reason
        for path, lines in zip(Landing(landing).files(), files, strict=True)
        for number, line in enumerate(lines, 1)
        if line.reason is not None
    }


@pytest.mark.slow
def test_backfill_rejects_missing_input_and_invalid_time_ranges(spark: SparkSession, tmp_path: Path) -> None:
    directory = tmp_path / "landing"
    land(directory, [b"{}"], per_file=1)
    missing = tmp_path / "raw"
    into = tmp_path / "into"
    day_ms = 24 * 3600 * 1000
    assert backfill(spark, [missing, directory], into, TimeStretch(START_MS // day_ms * day_ms, None)).read == 1
    assert backfill(spark, [missing, directory], into, TimeStretch(None, START_MS // day_ms * day_ms)) == LineCounts()
    assert spark.read.parquet(str(into / "panes")).count() == 0
    with pytest.raises(InputError, match=r"no directory .*raw"):
        backfill(spark, [missing], into)
    with pytest.raises(InputError, match="2 faults") as caught:
        backfill(spark, [directory], into, TimeStretch(1, 3002))
    assert [fault.path for fault in caught.value.faults] == ["$.start_ms", "$.end_ms"]


@pytest.mark.slow
def test_lines_are_numbered_across_partitions_of_one_file(spark: SparkSession, tmp_path: Path) -> None:
    good = encoded(records(make_world(4), START_MS, 2, dice(4))[0])
    bad = [1, 2, 17, 40, 59, 60]
    lines = [b"no record" if number in bad else good for number in range(1, 61)]
    land(tmp_path / "landing", lines, per_file=60)
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(10 * len(good)))
    try:
        ledger = backfill(spark, [tmp_path / "landing"], tmp_path / "into")
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert ledger == LineCounts(read=60, used=1, duplicate=53, quarantined=6)
    rows = spark.read.json(str(tmp_path / "into" / "quarantine")).collect()
    assert sorted(row["line_number"] for row in rows) == bad


def test_parquet_files_of_others_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Their records would be null in all columns."""
    (tmp_path / "landing").mkdir()
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "landing" / "00001-other.parquet")
    with pytest.raises(InputError, match=r"00001-other\.parquet: was not landed by stormwright"):
        backfill(spark, [tmp_path / "landing"], tmp_path / "into")


def test_lines_of_files_with_one_name_in_two_directories_are_numbered_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    """And a stretch has those of the file whose earliest record it has."""
    rng = dice(8)
    record = encoded(records(make_world(8), START_MS, 2, rng)[0])
    later = encoded(records(make_world(8), START_MS + 60_000, 2, rng)[0])
    for name, line in (("landing", record), ("raw", later)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00001-1.jsonl").write_bytes(b"no record\n" + line + b"\nno record\n")
    where = [tmp_path / "landing", tmp_path / "raw"]
    assert backfill(spark, where, tmp_path / "all") == LineCounts(read=6, used=2, quarantined=4)
    rows = spark.read.json(str(tmp_path / "all" / "quarantine")).collect()
    assert sorted((row["file"], row["line_number"]) for row in rows) == [("00001-1.jsonl", n) for n in (1, 1, 3, 3)]
    middle_ms = (START_MS + 30_000) // 3000 * 3000
    for stretch in (TimeStretch(None, middle_ms), TimeStretch(middle_ms, None)):
        assert backfill(spark, where, tmp_path / "part", stretch) == LineCounts(read=3, used=1, quarantined=2)


@pytest.mark.slow
def test_result_is_independent_of_batch_size(spark: SparkSession, tmp_path: Path) -> None:
    """Two batches one way and the other, some of whose records come twice: within a batch, and over the two."""
    rng = dice(5)
    delivery = deliver(records(make_world(5), START_MS, 12, rng), rng, spoil=0.2, held=0.2)
    lines = [*delivery.lines, *delivery.lines[:5]]
    files = land(tmp_path, lines, per_file=len(lines) // 2 + 1)
    found = []
    settings = StreamSettings(window_s=300, late_s=NEVER_LATE_S)
    small = BatchPlan(spark, tmp_path / "plan", settings)

    def large(files: Sequence[Path], state: LiveState) -> StreamBatch:
        return large_batch(spark, files, state, settings)

    columns = []
    for path in files:
        landed_ms = path.stat().st_mtime_ns // 10**6
        columns.append(land_columns(tmp_path / "columns", path.read_bytes().splitlines(), landed_ms, columns_late_s=30))
    for plan, landed in ((small, files), (large, files), (small, columns), (large, columns)):
        state = LiveState()
        for number, path in enumerate(landed):
            state = state.after(number, *plan([path], state)[:2], [path.name], settings)
        facts = state.facts()
        nanoseconds = pc.round(facts["cpu_ns"])
        facts = facts.set_column(facts.schema.get_field_index("cpu_ns"), "cpu_ns", nanoseconds)
        found.append((state.ledger, facts.sort_by([(name, "ascending") for name in ("pane_ms", *KEYS)])))
    ledger, facts = found[0]
    assert ledger.used == len(delivery.used)
    assert ledger.duplicate > delivery.duplicate
    for each in found[1:]:
        assert each[0] == ledger
        assert each[1].to_pylist() == facts.to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("small_rows", [0, 10_000])
def test_record_that_became_late_after_landing_is_quarantined_with_its_line(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_rows: int
) -> None:
    """It landed as columns alone, under settings by which it was not late."""
    monkeypatch.setattr("stormwright.pipeline.plan.SMALL_ROWS", small_rows)
    good = records(make_world(4), START_MS, 2, dice(4))
    late, *_ = good
    landed_ms = late["start_ms"] + 31_000
    lines = [b"no record", *(encoded(each | {"start_ms": landed_ms - 1000}) for each in good[1:]), encoded(late)]
    path = land_columns(tmp_path / "landing", lines, landed_ms, columns_late_s=3600)
    plan = BatchPlan(spark, tmp_path / "plan", StreamSettings(late_s=30))
    rejected = [row for row in plan([path], LiveState()).audit.to_pylist() if row["reason"]]
    assert [row["row"] for row in rejected] == [0, len(lines) - 1]
    assert [row["reason"] for row in rejected] == [NOT_A_RECORD, LATE]
    assert rejected[0]["line"] == b"no record"
    assert parse(rejected[1]["line"]) == late
