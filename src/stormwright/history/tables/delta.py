"""The tables in Delta format, whose log makes each write count at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date
from functools import reduce
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from stormwright.errors import MissingDependencyError, StormwrightError
from stormwright.history.tables.definitions import Table
from stormwright.history.tables.store import DAY, ROWS_A_FILE, Days, day_of, keep_order
from stormwright.pipeline.spark.location import exists
from stormwright.pipeline.spark.remote import first_line

CHUNK = "chunk"


def delta_conf() -> Mapping[str, str]:
    """What a Spark session has to be started with; Spark gets the jars from a Maven repository.

    Raises
    ------
    MissingDependencyError
        delta-spark, which tells the version of the jars, is not installed.
    """
    try:
        jars = version("delta-spark")
    except PackageNotFoundError as error:
        raise MissingDependencyError(
            "tables in Delta format need delta-spark: pip install 'stormwright[delta]'"
        ) from error
    return {
        "spark.jars.packages": f"io.delta:delta-spark_4.2_2.13:{jars}",
        # What Delta needs besides its own, Spark has.
        "spark.jars.excludes": "org.*:*,com.*:*,io.netty:*,jakarta.*:*,javax.*:*",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # The log of a table is short: 50 partitions of it, the default, cost seconds a write.
        "spark.databricks.delta.snapshotPartitions": "2",
        # Tasks in which files are listed that no longer count: 10,000 by default, minutes for a handful of files.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    }


class DeltaStore:
    """A Delta table for each table and version, ``URI/TABLE/version=1``; each row keeps the number of its chunk.

    1. A chunk that is written again replaces the rows with its number, in the same commit, also after its day was
       compacted; of a version before an upgrade it takes them away first.
    2. Files that no longer count stay for a week, as Delta has it.

    Parameters
    ----------
    uri
        As of `ParquetStore`. The session was started with `delta_conf`.
    """

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._spark = spark
        self._uri = uri.rstrip("/")
        keep_order(spark)

    def write(self, table: Table, rows: DataFrame, chunk: int) -> None:
        """See `Store`."""
        of_chunk = f"{CHUNK} = {chunk}"
        for before in range(1, table.version):  # (1)
            if (older := self._version(table, before)) is not None:
                self._replace(table, before, older.limit(0), of_chunk)
        numbered = rows.withColumns({DAY: day_of(table), CHUNK: F.lit(chunk).cast("long")})
        self._replace(table, table.version, numbered, of_chunk)

    def read(self, table: Table, days: Days | None = None) -> DataFrame:
        """See `Store`."""
        frames = [table.migrated(rows, found).select(*table.columns, DAY) for found, rows in self._versions(table)]
        if not frames:
            return self._spark.createDataFrame([], f"{table.ddl}, {DAY} date")
        rows = reduce(DataFrame.unionByName, frames)
        if days is not None and days.first is not None:
            rows = rows.where(F.col(DAY) >= F.lit(days.first))
        if days is not None and days.last is not None:
            rows = rows.where(F.col(DAY) <= F.lit(days.last))
        return rows

    def days(self, table: Table) -> list[date]:
        """See `Store`."""
        return sorted({day for _, rows in self._versions(table) for day in _files_by_day(rows)})

    def fragmented(self, table: Table) -> list[date]:
        """See `Store`."""
        return sorted({day for _, rows in self._versions(table) for day in _fragmented(rows)})

    def compact(self, table: Table, day: date) -> None:
        """See `Store`; of each version by itself."""
        for found, rows in self._versions(table):
            if day in _fragmented(rows):
                of_day = rows.where(F.col(DAY) == F.lit(day))
                order = [name for name in (table.order or table.key) if name in rows.columns]
                sorted_rows = of_day.repartitionByRange(_files_for(of_day.count()), *order)
                self._replace(table, found, sorted_rows.sortWithinPartitions(*order), f"{DAY} = '{day}'")
                self._vacuum(table, found)

    def drop(self, table: Table, day: date) -> None:
        """See `Store`."""
        for found, rows in self._versions(table):
            self._replace(table, found, rows.limit(0), f"{DAY} = '{day}'")
            self._vacuum(table, found)

    def size_bytes(self, table: Table) -> int:
        """See `Store`."""
        details = (self._sql("DESCRIBE DETAIL {}", table, found) for found, _ in self._versions(table))
        return sum(detail.select("sizeInBytes").collect()[0][0] for detail in details)

    def _replace(self, table: Table, found: int, rows: DataFrame, where: str) -> None:
        """Put rows in the place of those that a condition is true of."""
        writer = rows.write.format("delta").partitionBy(DAY)
        if self._version(table, found) is None:
            writer.mode("error").save(self._path(table, found))
        else:
            writer.mode("overwrite").option("replaceWhere", where).save(self._path(table, found))

    def _versions(self, table: Table) -> list[tuple[int, DataFrame]]:
        found = ((number, self._version(table, number)) for number in range(1, table.version + 1))
        return [(number, rows) for number, rows in found if rows is not None]

    def _version(self, table: Table, found: int) -> DataFrame | None:
        path = self._path(table, found)
        try:
            return self._spark.read.format("delta").load(path)
        except AnalysisException as error:
            # Without a commit there is no table, whatever an interrupted write may have left.
            if not exists(self._spark, f"{path}/_delta_log/*.json"):
                return None
            raise StormwrightError(f"the table {path} is there and cannot be read: {first_line(error)}") from error

    def _vacuum(self, table: Table, found: int) -> None:
        self._sql("VACUUM {}", table, found)

    def _sql(self, statement: str, table: Table, found: int) -> DataFrame:
        return self._spark.sql(statement.format(f"delta.`{self._path(table, found)}`"))

    def _path(self, table: Table, found: int) -> str:
        return f"{self._uri}/{table.name}/version={found}"


def _files_by_day(rows: DataFrame) -> Counter[date]:
    parts = (part for path in rows.inputFiles() for part in unquote(path).split("/"))
    return Counter(date.fromisoformat(part.removeprefix(f"{DAY}=")) for part in parts if part.startswith(f"{DAY}="))


def _fragmented(rows: DataFrame) -> set[date]:
    files = _files_by_day(rows)
    counts = rows.groupBy(DAY).count().collect()
    return {row[DAY] for row in counts if files[row[DAY]] > _files_for(row["count"])}


def _files_for(rows: int) -> int:
    return max(1, round(rows / ROWS_A_FILE))
