"""Storage of tables on any Hadoop file system, accessed only through Spark."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import reduce
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from stormwright.errors import Fault, InputError, MissingDependencyError, StormwrightError
from stormwright.history.tables.definitions import Table
from stormwright.pipeline.spark.file_systems import exists, renames_at_once
from stormwright.pipeline.spark.target import first_line

# Delta tables -------------------------------------------------------------------------------------
# The tables in Delta format, whose log makes each write count at once.

CHUNK = "chunk"


#: Required settings of a Spark session.
DELTA_CONF: Mapping[str, str] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # The log of a table is short: 50 partitions of it, the default, cost seconds a write.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Tasks in which files are listed that no longer count: 10,000 by default, minutes for a handful of files.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}


def delta_packages() -> tuple[str, ...]:
    """Return the required jars, as Maven coordinates.

    Raises
    ------
    MissingDependencyError
        delta-spark, which determines the version of the jars, is not installed.
    """
    try:
        jars = version("delta-spark")
    except PackageNotFoundError as error:
        raise MissingDependencyError(
            "tables in Delta format need delta-spark: pip install 'stormwright[delta]'"
        ) from error
    return (f"io.delta:delta-spark_4.2_2.13:{jars}",)


class DeltaStore:
    """A Delta table for each table and version, ``URI/TABLE/version=1``; each row has the number of its chunk.

    1. Writing a chunk again replaces the rows with its number, in the same commit, also after its day was compacted;
       rows of a version before an upgrade are removed first.
    2. Replaced files stay for a week, Delta's default.

    Parameters
    ----------
    uri
        As for `ParquetStore`. The session was started with `delta_conf`.
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

    def read(self, table: Table, days: DayRange | None = None) -> DataFrame:
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
        """See `Store`; each version is compacted separately."""
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
        """Replace the rows that match a condition."""
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


# Store --------------------------------------------------------------------------------------------

#: Rows of one file of a compacted day, about.
ROWS_A_FILE = 16_000_000

#: Spark's error for a missing directory.
NOT_FOUND = "PATH_NOT_FOUND"

#: Column with the day of a row in UTC; present in all results.
DAY = "day"


@dataclass(frozen=True)
class DayRange:
    """Days from `first` to `last`, both inclusive; None is unbounded."""

    first: date | None = None
    last: date | None = None

    def __contains__(self, day: date) -> bool:
        return (self.first is None or self.first <= day) and (self.last is None or day <= self.last)


class Store(Protocol):
    """Tables by name; interrupted operations can be repeated without duplicates or losses."""

    def write(self, table: Table, rows: DataFrame, chunk: int) -> None:
        """Write rows as one chunk, replacing an earlier version of that chunk."""

    def read(self, table: Table, days: DayRange | None = None) -> DataFrame:
        """Return the rows of some days in the newest version, with their `DAY`."""

    def days(self, table: Table) -> list[date]:
        """Return days with data."""

    def fragmented(self, table: Table) -> list[date]:
        """Return days that `compact` would merge."""

    def compact(self, table: Table, day: date) -> None:
        """Merge all rows of a day into one set of sorted files of the newest version."""

    def drop(self, table: Table, day: date) -> None:
        """Delete a day."""

    def size_bytes(self, table: Table) -> int:
        """Return the size of the files."""


class Part(NamedTuple):
    """A directory of files: chunk `number`, or a whole day up to and including chunk `number`."""

    root: str
    day: date
    version: int
    number: int

    @property
    def whole(self) -> bool:
        """Whether it is a whole day, rather than one chunk of it."""
        return self.root == _WHOLE


def part_of(path: str) -> Part | None:
    """Return the part that a file of a table belongs to; None if it is a file that does not count."""
    if not (match := _PART.search(path)):
        return None
    root, day, version, number = match.groups()
    return Part(root, date.fromisoformat(day), int(version), int(number))


def visible_parts(parts: Collection[Part]) -> list[Part]:
    """Return the parts that count, in which each row is once (2 of `ParquetStore`)."""
    through = {part.day: part.number for part in sorted(parts, key=lambda p: p.number) if part.whole}
    counting = [
        part
        for part in parts
        if (part.number == through[part.day] if part.whole else part.number > through.get(part.day, -1))
    ]
    # What was written again after an upgrade, in the place of what an older version of this code had written.
    newest = {(part.root, part.day, part.number): part for part in sorted(counting, key=lambda p: p.version)}
    return list(newest.values())


_CHUNKS, _WHOLE = "chunks", "days"
_NUMBER = {_CHUNKS: "chunk", _WHOLE: "through"}
_PART = re.compile(r"/(chunks|days)/day=(\d{4}-\d\d-\d\d)/version=(\d+)/(?:chunk|through)=(\d+)/[^/]+$")

#: Partitions that are written are replaced, all others stay; and no marker files.
_REPLACING = {
    "partitionOverwriteMode": "dynamic",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "maxRecordsPerFile": "0",  # (3)
}
_CLEARING = {"partitionOverwriteMode": "static", "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}


class ParquetStore:
    """Plain Parquet files.

    ::

        URI/TABLE/chunks/day=2026-11-21/version=1/chunk=NUMBER/    as ingested
        URI/TABLE/days/day=2026-11-21/version=1/through=NUMBER/    the day, up to and including that chunk, sorted

    1. Spark writes beside the tables; the directory is renamed once it is complete.
    2. Numbers of chunks grow. If a whole day exists, its chunks up to that number are not read, nor is an older whole:
       a compaction takes effect with the one rename, and replaced files are deleted later.
    3. Object stores rename a directory file by file. There a whole day is one file of any size, which is renamed at
       once: of several, some would be missing after a crash, although the day's chunks are no longer read.

    Parameters
    ----------
    uri
        Directory that Spark can write to, such as ``file:///var/lib/…``, ``hdfs://…`` or ``s3a://…``.
    """

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._spark = spark
        self._uri = uri.rstrip("/")
        keep_order(spark)

    def write(self, table: Table, rows: DataFrame, chunk: int) -> None:
        """See `Store`."""
        self._write(table, rows.withColumn(DAY, day_of(table)), _CHUNKS, chunk)

    def read(self, table: Table, days: DayRange | None = None) -> DataFrame:
        """See `Store`."""
        return self._read(table, [part for part in self._visible(table) if days is None or part.day in days])

    def days(self, table: Table) -> list[date]:
        """See `Store`."""
        return sorted({part.day for part in self._visible(table)})

    def fragmented(self, table: Table) -> list[date]:
        """See `Store`."""
        parts = self._parts(table)
        alone = {day for day, count in Counter(part.day for part in parts).items() if count == 1}
        return sorted({p.day for p in parts if p.day not in alone or p.root == _CHUNKS or p.version != table.version})

    def compact(self, table: Table, day: date) -> None:
        """See `Store`."""
        parts = self._parts(table, day)
        visible = visible_parts(parts)
        whole = len(visible) == 1 and visible[0].whole and visible[0].version == table.version
        through = max(part.number for part in visible)
        if not whole:
            rows = self._read(table, visible)
            files = _files_for(rows.count()) if renames_at_once(self._uri) else 1  # (3)
            order = table.order or table.key
            rows = rows.repartitionByRange(files, *order).sortWithinPartitions(*order)
            self._write(table, rows, _WHOLE, through)
        # Also what an earlier compaction did not come to delete.
        remaining = Part(_WHOLE, day, table.version, through)
        if any(part.root == _CHUNKS for part in parts):
            self._clear(f"{table.name}/{_CHUNKS}/day={day}")
        for part in {part for part in parts if part.root == _WHOLE} - {remaining}:
            self._clear(f"{table.name}/{_WHOLE}/day={day}/version={part.version}/through={part.number}")

    def drop(self, table: Table, day: date) -> None:
        """See `Store`."""
        for root in {part.root for part in self._parts(table, day)}:
            self._clear(f"{table.name}/{root}/day={day}")

    def size_bytes(self, table: Table) -> int:
        """See `Store`."""
        files = self._spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        try:
            (row,) = files.load(self._path(table.name)).agg(F.sum("length").alias("bytes")).collect()
        except AnalysisException as error:
            if error.getCondition() != NOT_FOUND:
                raise
            return 0
        return row["bytes"] or 0

    def write_day(self, table: Table, day: date, rows: DataFrame, through: int = 0) -> None:
        """Replace a day by sorted rows, as `compact` does.

        Parameters
        ----------
        table
            Table of the history in which the day is replaced.
        day
            Day of every row, in UTC.
        rows
            Rows in the order of the table.
        through
            Number of the newest chunk included: the day's chunks up to it are no longer read.
        """
        self._write(table, rows.withColumn(DAY, F.lit(day)), _WHOLE, through)

    def _path(self, *steps: str) -> str:
        return "/".join([self._uri, *steps])

    def _write(self, table: Table, rows: DataFrame, root: str, number: int) -> None:
        numbered = rows.withColumns({"version": F.lit(table.version), _NUMBER[root]: F.lit(number)})
        writer = numbered.write.mode("overwrite").options(**_REPLACING).partitionBy(DAY, "version", _NUMBER[root])
        writer.parquet(self._path(table.name, root))

    def _clear(self, path: str) -> None:
        """Empty a directory, as Spark deletes overwritten ones, and writes nothing without rows."""
        nothing = self._spark.createDataFrame([], "nothing string, of string")
        nothing.write.mode("overwrite").options(**_CLEARING).partitionBy("of").parquet(self._path(path))

    def _parts(self, table: Table, day: date | None = None) -> list[Part]:
        files = self._spark.read.schema(table.ddl).option("recursiveFileLookup", "true")
        try:
            paths = files.parquet(self._path(table.name)).inputFiles()
        except AnalysisException as error:
            if error.getCondition() != NOT_FOUND:
                raise
            return []
        found = {part for path in paths if (part := part_of(path))}
        return sorted(part for part in found if day is None or part.day == day)

    def _visible(self, table: Table) -> list[Part]:
        """Return the visible parts (2)."""
        return visible_parts(self._parts(table))

    def _read(self, table: Table, parts: Collection[Part]) -> DataFrame:
        frames = [
            self._read_alike(table, root, version, [p for p in parts if (p.root, p.version) == (root, version)])
            for root, version in sorted({(part.root, part.version) for part in parts})
        ]
        if not frames:
            return self._spark.createDataFrame([], f"{table.ddl}, {DAY} date")
        return reduce(DataFrame.unionByName, frames)

    def _read_alike(self, table: Table, root: str, version: int, parts: Iterable[Part]) -> DataFrame:
        """Return rows of directories of one kind and version, in the newest version."""
        number = _NUMBER[root]
        reader = self._spark.read.option("basePath", self._path(table.name, root))
        if version == table.version:
            reader = reader.schema(f"{table.ddl}, {DAY} date, version int, {number} long")
        paths = [
            self._path(table.name, root, f"{DAY}={part.day}", f"version={version}", f"{number}={part.number}")
            for part in parts
        ]
        return table.migrated(reader.parquet(*paths), version).select(*table.columns, DAY)


def keep_order(spark: SparkSession) -> None:
    """Make Spark write rows in order; otherwise it sorts them by day only."""
    spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", "8")


def day_of(table: Table) -> Column:
    """Return the day of a row."""
    return F.to_date(F.timestamp_millis(table.moment))


def day_at(moment_ms: int) -> date:
    """Return the day of a moment."""
    return datetime.fromtimestamp(moment_ms / 1000, UTC).date()


FORMATS = ("parquet", "delta")


def as_uri(place: str) -> str:
    """Return a local directory, or a URI, as a URI.

    Raises
    ------
    InputError
        It is empty.
    """
    if not place:
        raise InputError("history", [Fault("no place", place)])
    return place if re.match(r"[a-z][a-z0-9+.-]*:", place) else _file_uri(Path(place))


def tables_below(state_dir: Path) -> str:
    """Return the default location of the tables of a service."""
    return _file_uri(state_dir / "history" / "tables")


def _file_uri(directory: Path) -> str:
    # As Hadoop reads it: a blank stands for itself, and %20 would be a part of the name.
    return f"file://{directory.absolute()}"


def check_format(kind: str) -> None:
    """Raise InputError unless the table format is known."""
    if kind not in FORMATS:
        raise InputError("history format", [Fault(f"unknown; there are {', '.join(FORMATS)}", kind)])


def open_store(spark: SparkSession, uri: str, kind: str = "parquet") -> Store:
    """Open the tables at a URI, or below a local directory.

    Raises
    ------
    InputError
        There is no such format, or the place is empty.
    """
    check_format(kind)
    if kind == "delta":
        return DeltaStore(spark, as_uri(uri))
    return ParquetStore(spark, as_uri(uri))
