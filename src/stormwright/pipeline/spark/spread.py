"""Distribution of a Python function over many parts, one Spark task a part."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

Part = TypeVar("Part")

#: Maximum number of cores assumed.
_MAX_CORES = 4096


def cores(spark: SparkSession) -> int:
    """Return the number of concurrent Spark tasks as far as known; executors may still be starting."""
    partitions = spark.range(_MAX_CORES).select(F.spark_partition_id().alias("partition")).toArrow()
    # Counted here, as Spark would start two more stages for it.
    return int(pc.count_distinct(partitions["partition"]).as_py())


def spread(
    spark: SparkSession, function: Callable[[Part], pa.RecordBatch], parts: Sequence[Part], schema: pa.Schema
) -> pa.Table:
    """Return the combined results of `function` for all parts, in any order.

    Parameters
    ----------
    spark
        Session whose Python workers run the function, one task a part.
    function, parts
        Function and its inputs, sent to Spark's Python workers, where the function's module must be installed.
    schema
        Schema of the function's results.

    Raises
    ------
    PySparkException, Py4JError, OSError
        The function raised something, or Spark could not run it.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark's daemon collects garbage after every task, which takes 0.05 s and more as long as it looks through
        # everything that earlier tasks have imported.
        gc.freeze()
        for batch in batches:
            for part in batch["part"].to_pylist():
                yield function(pickle.loads(part))  # noqa: S301 (ours)

    rows = pa.table({"id": range(len(parts)), "part": [pickle.dumps(part) for part in parts]})
    # A task gets its own part only; in the function, all parts would travel to all tasks.
    each: DataFrame = spark.createDataFrame(rows)
    if hasattr(each, "repartitionById"):
        each = each.repartitionById(len(parts), F.col("id").cast("int"))
    else:  # before Spark 4.1; some tasks get two parts, and others none
        each = each.repartition(len(parts), "id")
    return each.mapInArrow(run, from_arrow_schema(schema)).toArrow().cast(schema)
