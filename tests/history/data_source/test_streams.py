"""Streams over tables and records: each row once, over restarts, a failed batch, ingestion and compaction."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from stormwright.errors import InputError
from stormwright.history.tables.definitions import FACTS
from stormwright.perflog.columns import as_file, landed_table
from tests.history.data_source.states import State, finish, read, source
from tests.history.samples import DAY_MS, START_MS, by_key, facts
from tests.pipeline.generator import Delivery, deliver, dice, encoded, make_world, records

pytestmark = pytest.mark.spark

FIRST_MS = START_MS // DAY_MS * DAY_MS


def process(frame: DataFrame, checkpoint: Path, take: Callable[[DataFrame, int], None]) -> None:
    """Process the rows that are there, from where the last query ended."""
    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    finish(lambda: writer.trigger(availableNow=True).start(), StreamingQuery.awaitTermination)


def test_stream_has_each_row_once_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    state, found = State(tmp_path / "state", spark), []
    rows = facts(1, 3, seed=1, start_ms=FIRST_MS)
    parts = [[row for row in rows if row["pane_ms"] in set(panes)] for panes in pane_groups(rows)]

    def take(frame: DataFrame, _: int) -> None:
        found.extend(row.asDict() for row in frame.collect())

    def fail(frame: DataFrame, _: int) -> None:
        assert frame.count()
        raise OSError("the disk is full")

    def stream() -> DataFrame:
        reader = spark.readStream.format("stormwright").option("table", "panes")
        return reader.load(str(state.directory))

    checkpoint = tmp_path / "checkpoint"
    state.stage(FACTS, parts[0])
    process(stream(), checkpoint, take)
    assert len(found) == len(parts[0])
    state.ingest()
    state.stage(FACTS, parts[1])
    with pytest.raises(StreamingQueryException):
        process(stream(), checkpoint, fail)
    # Its rows are in another file by now, those of the first part as well, and there are more.
    state.ingest()
    state.compact()
    state.stage(FACTS, parts[2])
    process(stream(), checkpoint, take)
    assert by_key(found, FACTS) == by_key(rows, FACTS)


def pane_groups(rows: list[dict[str, int]]) -> list[list[int]]:
    """The panes in three groups, in order."""
    panes = sorted({row["pane_ms"] for row in rows})
    return [panes[:1], panes[1:2], panes[2:]]


def test_offset_never_goes_back_nor_to_the_last_second(tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    reader = stream_reader(state, "panes")
    assert reader.latestOffset(reader.initialOffset(), None) == reader.initialOffset()
    now_ms = round(time.time() * 1000)
    (row, *_) = facts(1, 1, seed=1)
    state.stage(FACTS, [row | {"pane_ms": now_ms}])
    offset = reader.latestOffset(reader.initialOffset(), None)
    assert offset["through"] < now_ms
    later = {"through": now_ms + 5}
    assert reader.latestOffset(later, None) == later
    assert reader.partitions(later, later) == []


def stream_reader(state: State, table: str):
    found = source(table=table, path=str(state.directory))
    return found.streamReader(found.schema())


def landed(state: State, delivery: Delivery, files: int) -> list[Path]:
    """Land lines in files of both formats, named as those of a service a minute ago."""
    landing = state.directory / "landing"
    landing.mkdir(exist_ok=True)
    paths, size = [], -(-len(delivery.lines) // files)
    for number in range(files):
        lines, landed_ms = delivery.lines[number * size : (number + 1) * size], START_MS + 30_000
        name = f"{time.time_ns() - (60 - number) * 10**9:020d}-1"
        if number % 2:
            path = landing / f"{name}.parquet"
            path.write_bytes(as_file(landed_table(lines, landed_ms)))
        else:
            path = landing / f"{name}.jsonl"
            path.write_bytes(b"".join(line + b"\n" for line in lines))
        paths.append(path)
    return paths


def retain(path: Path) -> None:
    """Move a file to where the service retains it."""
    raw = path.parents[1] / "stream" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    path.rename(raw / path.name)


@pytest.fixture
def delivery() -> Delivery:
    rng = dice(5)
    return deliver(records(make_world(5), START_MS, 6, rng), rng, spoil=0.2)


def arrived(delivery: Delivery) -> Counter[tuple[str, str, int, int]]:
    """How often each record arrived."""
    bodies = Counter(line.body for line in delivery.arriving)
    keys: Counter[tuple[str, str, int, int]] = Counter()
    for record in delivery.used:
        worker = record["worker"]
        keys[worker["topology"], worker["supervisor"], worker["port"], record["seq"]] = bodies[encoded(record)]
    assert sum(keys.values()) > len(delivery.used)
    return keys


def test_records_are_read_as_they_landed(spark: SparkSession, tmp_path: Path, delivery: Delivery) -> None:
    state = State(tmp_path / "state", spark)
    for path in landed(state, delivery, 4)[:2]:
        retain(path)
    rows = state.load("records").select("worker", "seq", "executors", "pairs").collect()
    assert keys_of(rows) == arrived(delivery)
    written = {(r["worker"]["topology"], r["worker"]["supervisor"], r["seq"]): r for r in delivery.used}
    for row in rows:
        record = written[row["worker"]["topology"], row["worker"]["supervisor"], row["seq"]]
        assert [each["cpu_ns"] for each in row["executors"]] == [each["cpu_ns"] for each in record["executors"]]
        assert row["pairs"] == record["pairs"]


def test_records_are_selected_by_topology_and_time(tmp_path: Path, delivery: Delivery) -> None:
    state = State(tmp_path / "state")
    landed(state, delivery, 4)
    limits = START_MS + 2000, START_MS + 4000
    topology = sorted({record["worker"]["topology"] for record in delivery.used})[1]
    options = {"start": str(limits[0]), "end": str(limits[1]), "topology": topology, "columns": "worker,seq"}
    found = read(table="records", path=str(state.directory), **options)
    expected = {
        (record["worker"]["supervisor"], record["seq"])
        for record in delivery.used
        if limits[0] <= record["start_ms"] < limits[1] and record["worker"]["topology"] == topology
    }
    assert {(row["worker"]["supervisor"], row["seq"]) for row in found} == expected != set()


def test_stream_of_records_has_each_once_over_restarts(tmp_path: Path, delivery: Delivery) -> None:
    state, found = State(tmp_path / "state"), []
    paths = landed(state, delivery, 3)
    aside = [path.rename(tmp_path / path.name) for path in paths[1:]]

    def process(start: dict[str, int]) -> dict[str, int]:
        reader = stream_reader(state, "records")
        end = reader.latestOffset(start, None)
        rows = [
            row
            for partition in reader.partitions(start, end)
            for batch in reader.read(partition)
            for row in batch.to_pylist()
        ]
        found.extend(rows)
        return end

    offset = process(stream_reader(state, "records").initialOffset())
    assert 0 < len(found) < len(delivery.lines)
    assert process(offset) == offset
    retain(paths[0])
    for path in aside:
        path.rename(paths[0].with_name(path.name))
    process(offset)
    assert keys_of(found) == arrived(delivery)


def keys_of(rows) -> Counter[tuple[str, str, int, int]]:
    workers = ((row["worker"], row["seq"]) for row in rows)
    return Counter((worker["topology"], worker["supervisor"], worker["port"], seq) for worker, seq in workers)


def test_stream_reports_records_that_are_deleted(tmp_path: Path, delivery: Delivery) -> None:
    state = State(tmp_path / "state")
    (path,) = landed(state, delivery, 1)
    reader = stream_reader(state, "records")
    (partition,) = reader.partitions(reader.initialOffset(), reader.latestOffset(reader.initialOffset(), None))
    path.unlink()
    with pytest.raises(InputError):
        list(reader.read(partition))
