"""Landed files, of JSON lines or of columns, as rows with their origin."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name in all of Spark's documentation

from stormwright.errors import Fault, InputError
from stormwright.perflog.columns import LANDED, read_landed_file
from stormwright.perflog.landing import COLUMNS_SUFFIX, SUFFIX, SUFFIXES, TEMPORARY_PREFIX
from stormwright.pipeline.parsing.clean import late_marked, validated
from stormwright.pipeline.parsing.parsed import LINE, parsed, record_type
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.spark.file_systems import exists
from stormwright.pipeline.spark.location import Location, address

#: Nothing else ends a line: not a carriage return, which is a blank in JSON.
_LINES = {"lineSep": "\n"}

#: Of a short record.
_BYTES_PER_LINE = 600

_ROWS = pa.schema([*LANDED, ("file", pa.string()), ("block", pa.int64()), ("row", pa.int64())])
_ROW_COLUMNS = _ROWS.names

#: Schema of landed files of columns, for Spark.
_LANDED_TYPE = record_type().add("landed_ms", "long").add("reason", "string").add(LINE, "binary")

#: Reason for a Parquet file without the columns of a landed file.
FOREIGN = "was not landed by stormwright: move it to another directory"


def waiting_files(landing: Path, most: int | None = None) -> list[Path]:
    """Return the landed files of a directory in the order in which they landed, the first `most` of them."""
    found = []
    for entry in os.scandir(landing) if landing.is_dir() else ():
        # Spark reads no file whose name begins with an underscore either.
        if entry.name.endswith(SUFFIXES) and not entry.name.startswith((TEMPORARY_PREFIX, "_")):
            # One may have been set aside meanwhile.
            with suppress(FileNotFoundError):
                found.append((entry.stat().st_mtime_ns, entry.path))
    return [Path(path) for _, path in sorted(found)[:most]]


def read_rows(paths: Sequence[Path]) -> pa.Table:
    """Return the rows of landed files as `LANDED`, with `file`, `block` and `row`; missing files are ignored."""
    tables = [_ROWS.empty_table()]
    for path in paths:
        with suppress(FileNotFoundError):
            rows = read_landed_file(path)
            origin = [pa.repeat(path.name, len(rows)), pa.repeat(0, len(rows)), pa.array(range(len(rows)), pa.int64())]
            tables.append(pa.Table.from_arrays([*rows.columns, *origin], schema=_ROWS))
    return pa.concat_tables(tables).combine_chunks()


def rows_in(paths: Sequence[Path]) -> int:
    """Return about how many rows landed files have."""
    return sum(map(_rows_in, paths))


def _rows_in(path: Path) -> int:
    with suppress(FileNotFoundError, pa.ArrowInvalid):
        return pq.read_metadata(path).num_rows if is_columnar(path) else path.stat().st_size // _BYTES_PER_LINE
    return 0


def remove_files(landing: Path, names: Iterable[str], raw: Path | None) -> None:
    """Delete processed files, or move them to `raw`; missing files are ignored."""
    for name in names:
        # One that is moved keeps the time at which it landed.
        with suppress(FileNotFoundError):
            if raw is None:
                (landing / name).unlink()
            else:
                raw.mkdir(parents=True, exist_ok=True)
                shutil.move(landing / name, raw / name)


def prune(raw: Path, keep_s: float) -> None:
    """Delete retained files that landed more than `keep_s` ago."""
    oldest_s = time.time() - keep_s
    for path in raw.iterdir() if raw.is_dir() else ():
        # Deletion is retried next time.
        with suppress(OSError):
            if path.name.endswith(SUFFIXES) and path.stat().st_mtime < oldest_s:
                path.unlink()


def read_files(spark: SparkSession, paths: Sequence[Location], late_s: int) -> DataFrame:
    """Return the rows of landed files of one directory, whose names they have as `file`; see `read_landed`."""
    lines = [path for path in paths if not is_columnar(path)]
    columns = [path for path in paths if is_columnar(path)]
    found = [_read_lines(spark, lines, late_s)] if lines else []
    found += [_read_columns(spark, columns, late_s)] if columns else []
    return reduce(DataFrame.unionByName, found).withColumn("file", file_name(F.col("file")))


def file_name(path: Column) -> Column:
    """Return the last part of a path."""
    return F.substring_index(path, "/", -1)


def read_landed(
    spark: SparkSession,
    directories: Sequence[Location],
    late_s: int,
    start_ms: int | None = None,
    end_ms: int | None = None,
) -> tuple[DataFrame, DataFrame]:
    """Return the rows of files in directories that landed, to the second, in a stretch of time.

    Parameters
    ----------
    spark
        Session that reads the files; it must reach their file systems.
    directories
        Directories of this machine or of any Hadoop file system.
    late_s
        Seconds after which a record is late.
    start_ms, end_ms
        Period in ms since 1970; None for open ends. Files land at their modification time.

    Returns
    -------
    tuple of DataFrame
        The rows of files of JSON lines, each of which is parsed whenever it is read, and of files of columns: a row per
        line, as `stormwright.perflog.columns.LANDED`, `reason` being set for late records as well, and its origin: path
        of the `file`, `block` that was read, and `row`, which grows along a block.

    Raises
    ------
    InputError
        One of the Parquet files was not landed by a service.
    """
    limits = {}
    if start_ms is not None:
        limits["modifiedAfter"] = _timestamp(start_ms // 1000 - 1)
    if end_ms is not None:
        limits["modifiedBefore"] = _timestamp(end_ms // 1000 + 1)
    of_lines, of_columns = ({"pathGlobFilter": f"*{suffix}", **limits} for suffix in (SUFFIX, COLUMNS_SUFFIX))
    _require_landed(spark, directories, **of_columns)
    return _read_lines(spark, directories, late_s, **of_lines), _read_columns(spark, directories, late_s, **of_columns)


def is_columnar(path: Location) -> bool:
    """Return whether a landed file has columns, not JSON lines."""
    return str(path).endswith(COLUMNS_SUFFIX)


def read_records(spark: SparkSession, table: Location) -> DataFrame:
    """Return the clean, distinct records stored by a backfill."""
    return spark.read.schema(record_type()).parquet(address(table))


def stream_landed(
    spark: SparkSession,
    directory: Location,
    settings: StreamSettings,
    *,
    json_lines: bool = False,
    delete: bool = False,
) -> DataFrame:
    """Return the rows of files that land in a directory, as a stream; as `read_landed`, and with their `event` time.

    Files are read in the order of their modification times, `StreamSettings.max_files_per_batch` of them in a batch;
    the event time of a row is that of its file.

    Parameters
    ----------
    spark
        Session that reads the files; it must reach their file system.
    directory
        Directory of this machine or of any Hadoop file system.
    settings
        Settings of the stream.
    json_lines
        Whether to read the files of JSON lines, whose `row` is null, since a stream does not number lines; by default
        those of columns, of which one of another origin is rejected row by row. Files of both kinds need two streams:
        Spark reads two sources in no common order.
    delete
        Whether to delete files of batches that count; each batch lists all files that are there.

    Raises
    ------
    InputError
        The directory does not exist.
    """
    if not exists(spark, directory):
        raise InputError("landed files", [Fault("no such directory", str(directory))])
    reader = spark.readStream.option("maxFilesPerTrigger", settings.max_files_per_batch)
    reader = reader.option("cleanSource", "delete" if delete else "off")
    if json_lines:
        lines = reader.options(**_LINES, pathGlobFilter=f"*{SUFFIX}").text(address(directory))
        found = _of_lines(lines, F.lit(None).cast("long"), settings.late_s)
        return found.withColumn("event", F.timestamp_millis("landed_ms"))
    rows = reader.option("pathGlobFilter", f"*{COLUMNS_SUFFIX}").schema(_LANDED_TYPE).parquet(address(directory))
    rows = rows.withColumn("reason", F.when(F.col("landed_ms").isNull(), FOREIGN).otherwise(F.col("reason")))
    rows = rows.withColumn("landed_ms", F.coalesce("landed_ms", _modified_ms()))
    rows = rows.withColumn("event", F.col("_metadata.file_modification_time"))
    return _of_columns(rows, settings.late_s, "event")


def _require_landed(spark: SparkSession, directories: Sequence[Location], **options: str) -> None:
    """Raise if a Parquet file was not landed by a service: to Spark, the columns that it lacks are null."""
    rows = spark.read.options(**options).schema("landed_ms long").parquet(*map(address, directories))
    found = rows.where(F.col("landed_ms").isNull()).select("_metadata.file_path").limit(1).collect()
    if found:
        raise InputError("landed files", [Fault(FOREIGN, found[0]["file_path"])])


def _read_lines(spark: SparkSession, paths: Sequence[Location], late_s: int, **options: str) -> DataFrame:
    lines = spark.read.options(**_LINES, **options).text([address(path) for path in paths])
    # Numbers grow along a file.
    return _of_lines(lines, F.monotonically_increasing_id(), late_s)


def _of_lines(lines: DataFrame, row: Column, late_s: int) -> DataFrame:
    origin = _origin(F.col("_metadata.file_block_start").alias("block"), row)
    return rows_of(lines, *origin, _modified_ms().alias("landed_ms"), late_s=late_s)


def rows_of(lines: DataFrame, *origin: Column, late_s: int) -> DataFrame:
    """Return the rows of lines, a text as `value` each.

    Parameters
    ----------
    lines
        Texts, without their ends, and the columns that `origin` needs.
    origin
        The columns `file`, `block`, `row` and `landed_ms`, as expressions over those of the lines.
    late_s
        Seconds after which a record is late.
    """
    return validated(parsed(lines, *origin), late_s).select(*_ROW_COLUMNS)


def _read_columns(spark: SparkSession, paths: Sequence[Location], late_s: int, **options: str) -> DataFrame:
    rows = spark.read.options(**options).schema(_LANDED_TYPE).parquet(*(address(path) for path in paths))
    return _of_columns(rows, late_s)


def _of_columns(rows: DataFrame, late_s: int, *others: str) -> DataFrame:
    origin = _origin(F.lit(0).cast("long").alias("block"), F.col("_metadata.row_index"))
    return late_marked(rows.select("*", *origin), late_s).select(*_ROW_COLUMNS, *others)


def _origin(block: Column, row: Column) -> tuple[Column, ...]:
    return F.col("_metadata.file_path").alias("file"), block, row.alias("row")


def _modified_ms() -> Column:
    return F.unix_millis("_metadata.file_modification_time")


def _timestamp(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
