"""Structured Streaming over landed files, against files at rest and plain Python: restarts, repeated batches."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrameWriter, SparkSession
from pyspark.testing import assertDataFrameEqual

from stormwright.errors import InputError
from stormwright.pipeline.parsing.source import stream_landed
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.streaming.backfill import backfill
from stormwright.pipeline.streaming.structured import StructuredStream
from tests.pipeline.generator import Delivery, deliver, dice, land, make_world, records
from tests.pipeline.oracle import Line, expected_outcome

pytestmark = pytest.mark.spark

Files = dict[str, tuple[int, list[Line]]]

SETTINGS = StreamSettings(max_files_per_batch=6)
START_MS = 1_690_000_000_000


def landed(directory: Path, delivery: Delivery, per_file: int = 25, *, json_lines: bool = False) -> Files:
    """When each file landed, and its lines."""
    files = {}
    for begin in range(0, len(delivery.arriving), per_file):
        lines = delivery.arriving[begin : begin + per_file]
        late_s = None if json_lines else SETTINGS.late_s
        path = land(directory, (line.body for line in lines), lines[-1].arrived_ms, columns_late_s=late_s)
        files[path.name] = (lines[-1].arrived_ms, lines)
    return files


def made(seed: int, seconds: int = 30) -> Delivery:
    rng = dice(seed)
    return deliver(records(make_world(seed), START_MS, seconds, rng), rng, spoil=0.2, held=0.02)


def run(spark: SparkSession, landing: Path, into: Path, *, json_lines: bool = False) -> StructuredStream:
    stream = StructuredStream(stream_landed(spark, landing, SETTINGS, json_lines=json_lines), into, SETTINGS)
    stream.start(until_empty=True)
    try:
        stream.follow()
    finally:
        stream.stop()
    return stream


def assert_exact(stream: StructuredStream, spark: SparkSession, landing: Path, files: Files) -> None:
    outcome = expected_outcome(files, SETTINGS.late_s)
    assert asdict(stream.counts()) == outcome.ledger
    at_rest = landing.with_name("at-rest")
    backfill(spark, [landing], at_rest, settings=SETTINGS, late_s=SETTINGS.late_s)
    # Times are sums of fractions, in another order.
    assertDataFrameEqual(stream.panes(), spark.read.parquet(str(at_rest / "panes")), rtol=1e-12)
    found = stream.quarantine().collect()
    places = Counter((row["reason"], row["file"], row["landed_ms"]) for row in found)
    assert places == Counter((reason, file, landed_ms) for reason, file, _, landed_ms in outcome.quarantine)
    numbers = {(row["file"], row["line_number"]) for row in found if row["line_number"]}
    of_columns = {(file, number) for _, file, number, _ in outcome.quarantine if file.endswith(".parquet")}
    assert numbers == of_columns
    assert all(row["line"] is not None for row in found if row["file"].endswith(".jsonl"))


@pytest.mark.parametrize("json_lines", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_stream_over_two_starts_equals_files_at_rest(spark: SparkSession, tmp_path: Path, json_lines: bool) -> None:
    delivery, landing, into = made(1), tmp_path / "landing", tmp_path / "into"
    half = len(delivery.arriving) // 50 * 25
    files = landed(landing, replace(delivery, arriving=delivery.arriving[:half]), json_lines=json_lines)
    run(spark, landing, into, json_lines=json_lines)
    files |= landed(landing, replace(delivery, arriving=delivery.arriving[half:]), json_lines=json_lines)
    stream = run(spark, landing, into, json_lines=json_lines)
    assert_exact(stream, spark, landing, files)


@pytest.mark.parametrize("fails_after", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_batch_that_is_repeated_counts_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_after: bool
) -> None:
    landing, into = tmp_path / "landing", tmp_path / "into"
    files = landed(landing, made(2))
    parquet, written = DataFrameWriter.parquet, list[str]()

    def failing(writer: DataFrameWriter, path: str) -> None:
        written.append(path)
        fails = len(written) == 2
        if not fails or fails_after:
            parquet(writer, path)
        if fails:
            raise ZeroDivisionError("the machine fails")

    monkeypatch.setattr(DataFrameWriter, "parquet", failing)
    with pytest.raises(StreamingQueryException, match="the machine fails"):
        run(spark, landing, into)
    monkeypatch.undo()
    assert_exact(run(spark, landing, into), spark, landing, files)


def test_parquet_of_another_origin_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    spark.range(3).coalesce(1).write.parquet(str(tmp_path / "foreign"))
    (file,) = (tmp_path / "foreign").glob("part-*.parquet")
    file.rename(landing / "foreign.parquet")
    stream = run(spark, landing, tmp_path / "into")
    assert asdict(stream.counts()) == {"read": 3, "used": 0, "duplicate": 0, "quarantined": 3}
    assert {row["reason"] for row in stream.quarantine().collect()} == {
        "was not landed by stormwright: move it to another directory"
    }


def test_missing_directory_and_nothing_landed(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such directory"):
        stream_landed(spark, tmp_path / "none", SETTINGS)
    (tmp_path / "landing").mkdir()
    stream = run(spark, tmp_path / "landing", tmp_path / "into")
    assert stream.counts().read == 0
    assert not stream.panes().collect()


def test_block_of_the_page_runs(spark: SparkSession, tmp_path: Path) -> None:
    landed(tmp_path / "landing", made(4, seconds=3))
    page = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")
    (block,) = (each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "StructuredStream" in each)
    names: dict[str, Any] = {"spark": spark}
    exec(block.replace("hdfs:///", f"{tmp_path}/"), names)  # noqa: S102 - the page is ours
    names["stream"].stop()
    assert names["stream"].counts().read >= 0


@pytest.mark.slow
@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_command_resumes_and_prints_the_ledger(tmp_path: Path, table_format: str) -> None:
    if table_format == "delta":
        pytest.importorskip("delta", reason="delta-spark is not installed")
    delivery, landing = made(3), tmp_path / "landing"
    half = len(delivery.arriving) // 50 * 25
    files: Files = {}
    for part in (slice(half), slice(half, None)):
        files |= landed(landing, replace(delivery, arriving=delivery.arriving[part]))
        command = [sys.executable, "-m", "stormwright", "pipeline", "stream", str(landing)]
        command += ["--into", str(tmp_path / "into"), "--format", table_format, "--once", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout) == expected_outcome(files, SETTINGS.late_s).ledger
