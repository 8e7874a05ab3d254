"""The tables in Delta format: the same promises, in a Spark of its own, which has the jars."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from pyspark.errors import AnalysisException

from stormwright.errors import MissingDependencyError, StormwrightError
from stormwright.history.tables import store
from stormwright.history.tables.definitions import FACTS
from stormwright.history.tables.store import day_at
from tests.history.samples import by_key
from tests.history.table_contract import check_contract, the_rows


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(store, "version", missing)
    with pytest.raises(MissingDependencyError, match=r"stormwright\[delta\]"):
        store.delta_packages()


@pytest.mark.parametrize(
    ("committed", "expected"), [(False, None), (True, "is there and cannot be read: the log is gone")]
)
def test_unreadable_delta_table_is_an_error_instead_of_empty(
    monkeypatch: pytest.MonkeyPatch, committed: bool, expected: str | None
) -> None:
    """Only where nothing was ever committed there is none, though an interrupted write has left files."""

    def load(_: str) -> None:
        raise AnalysisException("the log is gone")

    looked: list[str] = []
    monkeypatch.setattr(store, "keep_order", lambda _: None)
    monkeypatch.setattr(store, "exists", lambda _, path: looked.append(path) or committed)
    spark = MagicMock(**{"read.format.return_value.load": load, "createDataFrame.return_value": "empty"})
    tables = store.DeltaStore(spark, "file:///tables")
    if expected is None:
        assert tables.days(FACTS) == []
        assert tables.read(FACTS) == "empty"
    else:
        for ask in (tables.days, tables.read, tables.size_bytes):
            with pytest.raises(StormwrightError, match=expected):
                ask(FACTS)
    assert set(looked) == {
        f"file:///tables/facts/version={number}/_delta_log/*.json" for number in (1, 2)[: 2 if expected is None else 1]
    }


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables in Delta format that the contract has left."""
    try:
        version("delta-spark")
    except PackageNotFoundError:
        pytest.skip("delta-spark is not installed")
    directory = tmp_path_factory.mktemp("delta")
    check_contract("delta", directory.as_uri(), {}, {})
    return directory


@pytest.mark.spark
@pytest.mark.slow
def test_delta_rows_are_stored_exactly_once(tables: Path) -> None:
    assert [path.name for path in tables.iterdir()] == ["facts"]


@pytest.mark.spark
@pytest.mark.slow
def test_plain_spark_reads_the_delta_tables(tables: Path) -> None:
    """With the settings of Delta's own documentation, and no code of stormwright."""
    program = tables.parent / "plain_spark.py"
    program.write_text(PLAIN_SPARK, encoding="utf-8")
    jars = f"io.delta:delta-spark_4.2_2.13:{version('delta-spark')}"
    done = subprocess.run(
        [sys.executable, str(program), jars, f"{tables.as_uri()}/facts/version=2"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert by_key([dict.fromkeys(FACTS.columns) | row for row in rows], FACTS) == by_key(the_rows(), FACTS)


PLAIN_SPARK = """
import sys
from pyspark.sql import SparkSession

jars, path = sys.argv[1:]
conf = {
    "spark.jars.packages": jars,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    # As Delta's dependencies are among Spark's jars.
    "spark.jars.excludes": "org.*:*,com.*:*,io.netty:*,jakarta.*:*,javax.*:*",
}
spark = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
for row in spark.read.format("delta").load(path).toJSON().collect():
    print(row)
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.slow
def test_duckdb_reads_the_delta_tables(tables: Path) -> None:
    """By way of Delta's own reader in Rust, without Java; dictionaries have the columns in another order."""
    duckdb = pytest.importorskip("duckdb")
    deltalake = pytest.importorskip("deltalake", reason="deltalake, a reader of Delta tables, is not installed")
    rows = deltalake.DeltaTable(str(tables / "facts" / "version=2")).to_pyarrow_dataset()
    columns = ", ".join(FACTS.columns)
    with duckdb.connect() as database:
        database.register("facts", rows)
        found = database.execute(f"SELECT {columns} FROM facts").fetchall()  # noqa: S608
        days = database.execute("SELECT day, count(*) FROM facts GROUP BY day ORDER BY day").fetchall()
    assert by_key([dict(zip(FACTS.columns, row, strict=True)) for row in found], FACTS) == by_key(the_rows(), FACTS)
    of_days = Counter(day_at(row["pane_ms"]) for row in the_rows())
    assert days == sorted(of_days.items())
