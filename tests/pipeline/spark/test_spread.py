"""Functions over explicit partitions, and a sweep's table where only Spark can write."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from stormwright.errors import InputError
from stormwright.pipeline.spark.spread import cores, spread
from stormwright.workbench.sweep.table import open_table
from stormwright.workbench.sweep.work import ROW

pytestmark = pytest.mark.spark

SQUARES = pa.schema([("number", pa.int64()), ("square", pa.int64()), ("process", pa.int64())])


def test_every_part_is_taken_once(spark: SparkSession) -> None:
    parts = [[1, 2, 3], [], [4], list(range(5, 50))]
    schema = SQUARES

    # Inside a function, so that it travels itself: Python's workers do not have this module.
    def squares(numbers: list[int]) -> pa.RecordBatch:
        rows = [{"number": n, "square": n * n, "process": os.getpid()} for n in numbers]
        return pa.RecordBatch.from_pylist(rows, schema)

    found = spread(spark, squares, parts, SQUARES)
    assert found.schema == SQUARES
    assert sorted(zip(found["number"].to_pylist(), found["square"].to_pylist(), strict=True)) == [
        (n, n * n) for n in range(1, 50)
    ]
    assert os.getpid() not in found["process"].to_pylist()


def test_function_errors_propagate_from_spark_tasks(spark: SparkSession) -> None:
    def fails(_: object) -> pa.RecordBatch:
        raise ValueError("no more squares")

    with pytest.raises(PySparkException, match="no more squares"):
        spread(spark, fails, [1], SQUARES)


def test_available_cores_match_spark_session(spark: SparkSession) -> None:
    assert cores(spark) == 1


def test_a_table_at_a_uri(spark: SparkSession, tmp_path: Path) -> None:
    uri = f"{tmp_path.as_uri()}/deep/cells"
    assert open_table(uri, spark).read().num_rows == 0
    rows = [{"key": key, "error": error, "seed": None, "ended_ms": 1} for key, error in (("a", "broke"), ("b", None))]
    table = open_table(uri, spark)
    table.append(pa.Table.from_pylist(rows, ROW))
    table.append(pa.Table.from_pylist([{"key": "a", "cost": 2.5, "ended_ms": 2}], ROW))
    found = open_table(uri, spark).read()
    assert found.schema == ROW
    assert found.select(["key", "cost", "error"]).to_pylist() == [
        {"key": "a", "cost": 2.5, "error": None},
        {"key": "b", "cost": None, "error": None},
    ]
    assert pc.max(found["ended_ms"]).as_py() == 2


def test_unknown_file_system_is_rejected(spark: SparkSession) -> None:
    with pytest.raises(InputError, match=r"nosuch://: Spark has no such file system"):
        open_table("nosuch://host/cells", spark)


def test_uri_with_unexpected_content_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "numbers"))
    with pytest.raises(InputError, match="no sweep wrote"):
        open_table((tmp_path / "numbers").as_uri(), spark).read()
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "x.parquet").write_text("no Parquet")
    with pytest.raises(InputError, match="cannot be used"):
        open_table((tmp_path / "texts").as_uri(), spark).read()
