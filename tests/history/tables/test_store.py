"""The tables: each row once, whatever is killed where; old versions read as new ones; days compacted and deleted."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from stormwright.cli.progress import shown
from stormwright.errors import InputError
from stormwright.history.tables import staging as staging_module
from stormwright.history.tables import store as store_module
from stormwright.history.tables.definitions import FACTS, SNAPSHOTS, Table
from stormwright.history.tables.ingest import compact, ingest, retain
from stormwright.history.tables.staging import Staging
from stormwright.history.tables.store import DayRange, ParquetStore
from tests.history.killing import each_kill
from tests.history.samples import Row, by_key, days_of, facts, frame, stored

pytestmark = pytest.mark.spark

LATER = date(2100, 1, 1)


def store_at(spark: SparkSession, directory: Path) -> ParquetStore:
    return ParquetStore(spark, directory.as_uri())


def stage(staging: Staging, rows: list[Row], files: int) -> None:
    size = -(-len(rows) // files)
    for number, begin in enumerate(range(0, len(rows), size)):
        staging.write(FACTS, f"{rows[0]['pane_ms']}-{number}", rows[begin : begin + size])


def test_every_staged_row_is_in_its_table_once_wherever_ingest_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    staging, expected, kills = Staging(tmp_path / "state"), [], []
    store = store_at(spark, tmp_path / "tables")
    points = [(Path, "rename"), (ParquetStore, "write"), (staging_module.shutil, "rmtree")]

    def more() -> None:
        rows = facts(2, 1, seed=len(expected))
        rows = [row | {"pane_ms": row["pane_ms"] + 3000 * len(expected)} for row in rows]
        expected.extend(rows)
        stage(staging, rows, files=2)

    def run() -> None:
        more()
        ingest(spark, store, staging)

    for where in each_kill(points, run):
        kills.append(where)
        more()
        ingest(spark, store, staging)
    assert {"before rename", "after rename", "before write", "after write", "before rmtree", "after rmtree"} == {*kills}
    assert stored(store, FACTS) == by_key(expected, FACTS)
    assert staging.waiting() == (0, 0)


def test_interrupted_chunk_write_is_completed_on_retry(spark: SparkSession, tmp_path: Path) -> None:
    """Spark deletes what is to be replaced before it renames what replaces it, day by day."""
    rows = facts(2, 1, seed=1)
    store = store_at(spark, tmp_path)
    store.write(FACTS, frame(spark, rows, FACTS), 7)
    (gone, *_) = sorted((tmp_path / "facts" / "chunks").glob("day=*"))
    shutil.rmtree(gone)
    (tmp_path / "facts" / "chunks" / ".spark-staging-1" / "day=2023-07-22").mkdir(parents=True)
    assert len(stored(store, FACTS)) < len(rows)
    store.write(FACTS, frame(spark, rows, FACTS), 7)
    assert stored(store, FACTS) == by_key(rows, FACTS)


def test_compaction_killed_at_any_step_preserves_rows(spark: SparkSession, tmp_path: Path) -> None:
    store, rows = store_at(spark, tmp_path), facts(1, 2, seed=2)
    store.write(FACTS, frame(spark, rows[::2], FACTS), 1)
    later = [row | {"pane_ms": row["pane_ms"] + 6000} for row in rows]
    expected = by_key(rows + later, FACTS)
    (day,) = days_of(rows, FACTS)
    store.compact(FACTS, day)
    # What comes after the first time makes it necessary once more.
    store.write(FACTS, frame(spark, rows[1::2], FACTS), 2)
    store.write(FACTS, frame(spark, later, FACTS), 3)
    for where in each_kill([(ParquetStore, "_write"), (ParquetStore, "_clear")], lambda: compact(store, LATER)):
        assert stored(store, FACTS) == expected, where
    assert stored(store, FACTS) == expected
    assert store.fragmented(FACTS) == []
    assert compact(store, LATER) == 0
    (file,) = tmp_path.rglob("*.parquet")
    in_file = [row.asDict() for row in spark.read.parquet(str(file)).collect()]
    order = [tuple((row[name] is not None, row[name]) for name in FACTS.order) for row in in_file]
    assert order == sorted(order)


def test_days_are_read_compacted_and_deleted_individually(spark: SparkSession, tmp_path: Path) -> None:
    store, rows = store_at(spark, tmp_path), facts(3, 1, seed=3)
    days = days_of(rows, FACTS)
    assert store.days(FACTS) == []
    assert stored(store, FACTS) == []
    assert store.size_bytes(FACTS) == 0
    store.write(FACTS, frame(spark, rows, FACTS), 1)
    assert store.days(FACTS) == days
    of_day = {day: [row for row in rows if days_of([row], FACTS) == [day]] for day in days}
    assert by_key([row.asDict() for row in store.read(FACTS, DayRange(days[1], days[1])).collect()], FACTS) == by_key(
        of_day[days[1]], FACTS
    )
    assert compact(store, days[2]) == 2
    assert store.fragmented(FACTS) == [days[2]]
    lines: list[str] = []
    with shown(write=lines.append):
        assert retain(store, {"facts": 1, "moves": 9}, days[2]) == 1
    assert lines == [f"facts of {days[0]}: deleted"]
    assert stored(store, FACTS) == by_key(of_day[days[1]] + of_day[days[2]], FACTS)
    assert retain(store, {"facts": 1}, days[2] + timedelta(days=9)) == 2
    assert (store.days(FACTS), stored(store, FACTS), store.size_bytes(FACTS)) == ([], [], 0)
    # A day that comes back is a day as any other.
    store.write(FACTS, frame(spark, rows, FACTS), 2)
    assert stored(store, FACTS) == by_key(rows, FACTS)


def test_retention_of_unknown_tables_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="2 faults") as caught:
        retain(store_at(spark, tmp_path), {"fact": 3, "moves": 0})
    assert [fault.path for fault in caught.value.faults] == ["fact", "moves"]


def test_rows_of_older_versions_are_read_as_the_newest(spark: SparkSession, tmp_path: Path) -> None:
    """Version 1 stored seconds, version 2 had no document."""
    oldest = Table("snapshots", {"at_ms": "long", "at_s": "long", "id": "string"}, key=("at_ms",))
    middle = Table("snapshots", {"at_ms": "long", "id": "string"}, key=("at_ms",), migrations=(in_milliseconds,))
    newest = replace(SNAPSHOTS, migrations=(in_milliseconds, with_document))
    store = store_at(spark, tmp_path)
    at_ms = 1_690_000_000_000
    store.write(oldest, frame(spark, [{"at_ms": at_ms, "at_s": at_ms // 1000, "id": "a"}], oldest), 1)
    store.write(middle, frame(spark, [{"at_ms": at_ms + 2000, "id": "b"}], middle), 2)
    row = {"at_ms": at_ms + 3000, "id": "c", "document": '{"new": 1}'}
    store.write(newest, frame(spark, [row], newest), 3)
    expected = [
        {"at_ms": at_ms + 1, "id": "a", "document": "{}"},
        {"at_ms": at_ms + 2000, "id": "b", "document": "{}"},
        row,
    ]
    assert stored(store, newest) == expected
    # A chunk whose writing was interrupted by the upgrade is written again, as the newest version.
    again = newest.migrated(frame(spark, [{"at_ms": at_ms + 2000, "id": "b"}], middle), 2)
    store.write(newest, again, 2)
    assert stored(store, newest) == expected
    (day,) = store.days(newest)
    store.compact(newest, day)
    assert stored(store, newest) == expected
    assert len({path.parent for path in tmp_path.rglob("*.parquet")}) == 1


def in_milliseconds(rows: DataFrame) -> DataFrame:
    return rows.withColumn("at_ms", F.col("at_s") * 1000 + 1).drop("at_s")


def with_document(rows: DataFrame) -> DataFrame:
    return rows.withColumn("document", F.lit("{}"))


def test_compacted_day_is_one_file_where_a_rename_is_not_atomic(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash could not leave a part of it."""
    rows = facts(1, 4, seed=5)
    monkeypatch.setattr(store_module, "ROWS_A_FILE", 20)
    for atomic in (True, False):
        monkeypatch.setattr(store_module, "renames_at_once", lambda _, atomic=atomic: atomic)
        store = store_at(spark, tmp_path / str(atomic))
        store.write(FACTS, frame(spark, rows, FACTS), 1)
        assert compact(store, LATER) == 1
        assert stored(store, FACTS) == by_key(rows, FACTS)
    counts = {atomic: len([*(tmp_path / atomic).rglob("*.parquet")]) for atomic in ("True", "False")}
    assert counts["True"] > 1
    assert counts["False"] == 1
