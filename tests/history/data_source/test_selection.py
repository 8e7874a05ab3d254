"""Which rows, columns and files are read; where rows are on their way into a table does not matter."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.testing import assertDataFrameEqual

from stormwright.errors import InputError
from stormwright.history.tables import staging as staging_module
from stormwright.history.tables.definitions import FACTS, SNAPSHOTS
from stormwright.history.tables.store import ParquetStore
from tests.history.data_source.states import State, partitions, read, source
from tests.history.killing import each_kill
from tests.history.samples import DAY_MS, START_MS, Row, by_key, facts

pytestmark = pytest.mark.spark

#: Begin of the first day of `facts`.
FIRST_MS = START_MS // DAY_MS * DAY_MS
FIRST_DAY = "2023-07-22"


def store_day(
    state: State,
    day: int,
    rows: list[Row],
    row_group_size: int = 1000,
    schema: pa.Schema = FACTS.arrow,
    version: int = 2,
) -> Path:
    """Write a compacted day, as Spark does."""
    name = date.fromordinal(date.fromisoformat(FIRST_DAY).toordinal() + day)
    path = state.directory / "history/tables/facts/days" / f"day={name}"
    path = path / f"version={version}" / "through=0/part-0.parquet"
    path.parent.mkdir(parents=True)
    table = pa.Table.from_pylist(rows, schema)
    pq.write_table(table.sort_by([(name, "ascending") for name in FACTS.order]), path, row_group_size=row_group_size)
    return path


def damage(path: Path, wanted: Any) -> None:
    """Overwrite the values of some columns of a file, without its footer."""
    with pq.ParquetFile(path) as file:
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        columns = [
            group.column(index) for group in groups for index in range(group.num_columns) if wanted(group, index)
        ]
    assert columns
    with path.open("r+b") as bytes_of_file:
        for column in columns:
            bytes_of_file.seek(min(filter(None, (column.dictionary_page_offset, column.data_page_offset))))
            bytes_of_file.write(b"\xff" * column.total_compressed_size)


def three_days(state: State) -> list[list[Row]]:
    """Rows of three compacted days, and their files."""
    rows = facts(3, 4, seed=1, start_ms=FIRST_MS)
    days = [[row for row in rows if row["pane_ms"] // DAY_MS - FIRST_MS // DAY_MS == day] for day in range(3)]
    for number, of_day in enumerate(days):
        store_day(state, number, of_day)
    return days


def test_files_of_other_days_are_not_opened(tmp_path: Path, spark: SparkSession) -> None:
    state = State(tmp_path / "state", spark)
    days = three_days(state)
    for path in state.directory.rglob("*.parquet"):
        if f"day={FIRST_DAY}" not in str(path):
            path.write_bytes(b"no Parquet")
    until = {"end": "2023-07-23"}
    assertDataFrameEqual(
        state.load("panes", columns=",".join(FACTS.columns), **until),
        spark.createDataFrame([tuple(row[name] for name in FACTS.columns) for row in days[0]], FACTS.ddl),
    )
    # A task for the day, and one for days that are recorded later.
    assert len(partitions(table="panes", path=str(state.directory), **until)) == 2
    assert len(partitions(table="panes", path=str(state.directory))) == 4
    with pytest.raises(InputError):
        read(table="panes", path=str(state.directory))


def test_rows_of_a_version_that_lacks_columns_are_read(tmp_path: Path) -> None:
    """A day of the first version, and one of the newest: what was not recorded is unknown."""
    state = State(tmp_path / "state")
    rows = facts(2, 4, seed=1, start_ms=FIRST_MS)
    for row in rows:
        row["waited_ns"], row["runs"] = (7, 8) if row["kind"] == "executor" else (None, None)
    days = [[row for row in rows if row["pane_ms"] // DAY_MS - FIRST_MS // DAY_MS == day] for day in range(2)]
    names = FACTS.arrow.names[: FACTS.arrow.get_field_index("waited_ns")]
    older = pa.schema([FACTS.arrow.field(name) for name in (*names, "lowest_seq", "highest_seq", "heap_bytes")])
    store_day(state, 0, days[0], schema=older, version=1)
    store_day(state, 1, days[1])
    expected = [row | {"waited_ns": None, "runs": None} for row in days[0]] + days[1]
    assert by_key(read(table="panes", path=str(state.directory)), FACTS) == by_key(expected, FACTS)


def test_other_columns_are_not_read(tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    rows = facts(1, 4, seed=2, start_ms=FIRST_MS)
    path = store_day(state, 0, rows)
    damage(path, lambda group, index: group.column(index).path_in_schema == "tuples")
    options = {"table": "panes", "path": str(state.directory)}
    found = read(**options, columns="topology,bytes")
    assert sorted(map(str, found)) == sorted(str({"topology": row["topology"], "bytes": row["bytes"]}) for row in rows)
    with pytest.raises(InputError):
        read(**options, columns="tuples")


def test_other_row_groups_are_not_read(tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    rows = facts(1, 4, seed=3, start_ms=FIRST_MS)
    executors = [row for row in rows if row["kind"] == "executor" and row["topology"] == "clicks"]
    path = store_day(state, 0, rows, row_group_size=len(executors))

    def of_others(group: Any, _: int) -> bool:
        kinds, topologies = (
            group.column(FACTS.arrow.get_field_index(name)).statistics for name in ("kind", "topology")
        )
        return kinds.min > "executor" or topologies.min > "clicks"

    damage(path, of_others)
    options = {"table": "panes", "path": str(state.directory), "kind": "executor", "topology": "clicks,another"}
    found = read(**options)
    assert by_key(found, FACTS) == by_key(executors, FACTS)
    assert {row["day"] for row in found} == {date.fromisoformat(FIRST_DAY)}
    with pytest.raises(InputError):
        read(**options | {"topology": "words"})


def test_start_and_end_select_panes(tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    rows = [row for day in three_days(state) for row in day]
    later = [row | {"pane_ms": row["pane_ms"] + 12_000} for row in rows]
    state.stage(FACTS, later)
    limits = FIRST_MS + DAY_MS + 3000, FIRST_MS + 2 * DAY_MS + 15_000
    expected = [row for row in [*rows, *later] if limits[0] <= row["pane_ms"] < limits[1]]
    for start, end in ((str(limits[0]), str(limits[1])), ("2023-07-23T00:00:03", "2023-07-24T02:00:15+02:00")):
        found = read(table="panes", path=str(state.directory), start=start, end=end)
        assert by_key(found, FACTS) == by_key(expected, FACTS)


def test_schema_selects_columns(spark: SparkSession, tmp_path: Path) -> None:
    state = State(tmp_path / "state", spark)
    state.stage(SNAPSHOTS, [{"at_ms": 5, "id": "a", "document": "{}"}])
    found = spark.read.format("stormwright").schema("id string, at_ms long").option("table", "snapshots")
    assertDataFrameEqual(found.load(str(state.directory)), spark.createDataFrame([("a", 5)], "id string, at_ms long"))


@pytest.mark.slow
def test_view_has_rows_that_came_later_under_each_condition(spark: SparkSession, tmp_path: Path) -> None:
    """Spark plans a DataFrame once: it must not restrict what another query of it gets."""
    state, rows = State(tmp_path / "state", spark), facts(2, 2, seed=4, start_ms=FIRST_MS)
    state.stage(FACTS, rows)
    frame = state.load("panes", columns="kind,day")
    assert frame.where("kind = 'pair'").count() == sum(row["kind"] == "pair" for row in rows)
    state.ingest()
    more = [row | {"pane_ms": row["pane_ms"] + 2 * DAY_MS} for row in rows]
    state.stage(FACTS, more)
    state.compact()
    both = frame.where("kind = 'node'").union(frame.where("kind = 'flow'")).groupBy("kind").agg(F.count("*"))
    of_kind = {kind: 2 * sum(row["kind"] == kind for row in rows) for kind in ("node", "flow")}
    assert {row[0]: row[1] for row in both.collect()} == of_kind
    assert frame.count() == len(rows) + len(more)


@pytest.mark.slow
def test_rows_are_read_once_wherever_ingestion_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    state, expected = State(tmp_path / "state", spark), []
    points = [(Path, "rename"), (ParquetStore, "write"), (staging_module.shutil, "rmtree")]

    def run() -> None:
        rows = facts(1, 1, seed=len(expected), start_ms=FIRST_MS + 3000 * len(expected))
        expected.extend(rows)
        state.stage(FACTS, rows)
        state.ingest()

    def assert_whole() -> None:
        found = read(table="panes", path=str(state.directory))
        assert by_key(found, FACTS) == by_key(expected, FACTS)

    for _ in each_kill(points, run):
        assert_whole()
    state.compact()
    assert_whole()


def test_day_that_is_replaced_while_it_is_read_is_read_as_it_was(tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    rows = facts(1, 4, seed=5, start_ms=FIRST_MS)
    store_day(state, 0, rows)
    found = source(table="panes", path=str(state.directory))
    reader = found.reader(found.schema())
    first, *others = reader.partitions()
    batches = reader.read(first)
    begun = [next(batches)]
    shutil.rmtree(state.directory / "history" / "tables")
    left = [batch for partition in others for batch in reader.read(partition)]
    assert by_key([row for batch in [*begun, *batches, *left] for row in batch.to_pylist()], FACTS) == by_key(
        rows, FACTS
    )
