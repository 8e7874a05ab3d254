"""Landed files as a DataFrame of lines with their origin."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name in all of Spark's documentation

from stormwright.perflog.columns import LANDED, read_landed_file
from stormwright.perflog.landing import SUFFIX, SUFFIXES, TEMPORARY_PREFIX
from stormwright.pipeline.parsing.parsed import parsed, record_type
from stormwright.pipeline.spark.target import Location, address

#: Nothing else ends a line: not a carriage return, which is a blank in JSON.
_LINES = {"lineSep": "\n"}

_LINES_OF = pa.schema([*LANDED, ("file", pa.string()), ("block", pa.int64()), ("row", pa.int64())])


def waiting_files(landing: Path, most: int | None = None) -> list[Path]:
    """Return the landed files of a directory in the order in which they landed, the first `most` of them."""
    found = []
    for entry in os.scandir(landing) if landing.is_dir() else ():
        if entry.name.endswith(SUFFIXES) and not entry.name.startswith(TEMPORARY_PREFIX):
            # One may have been set aside meanwhile.
            with suppress(FileNotFoundError):
                found.append((entry.stat().st_mtime_ns, entry.path))
    return [Path(path) for _, path in sorted(found)[:most]]


def landed_lines(paths: Sequence[Path]) -> pa.Table:
    """Return the rows of landed files as `LANDED`, with `file`, `block` and `row`; missing files are ignored."""
    tables = [_LINES_OF.empty_table()]
    for path in paths:
        with suppress(FileNotFoundError):
            rows = read_landed_file(path)
            origin = [pa.repeat(path.name, len(rows)), pa.repeat(0, len(rows)), pa.array(range(len(rows)), pa.int64())]
            tables.append(pa.Table.from_arrays([*rows.columns, *origin], schema=_LINES_OF))
    return pa.concat_tables(tables).combine_chunks()


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


def read_files(spark: SparkSession, paths: Sequence[Location]) -> DataFrame:
    """Return all lines of the files."""
    return _read(spark, paths)


def read_landed(
    spark: SparkSession, directories: Sequence[Location], start_ms: int | None = None, end_ms: int | None = None
) -> DataFrame:
    """Return all lines of files in directories that landed, to the second, in a stretch of time.

    Parameters
    ----------
    spark
        Spark session.
    directories
        Directories of this machine or of any Hadoop file system.
    start_ms, end_ms
        Period in ms since 1970; None for open ends. Files land at their modification time.
    """
    limits = {"pathGlobFilter": f"*{SUFFIX}"}
    if start_ms is not None:
        limits["modifiedAfter"] = _timestamp(start_ms // 1000 - 1)
    if end_ms is not None:
        limits["modifiedBefore"] = _timestamp(end_ms // 1000 + 1)
    return _read(spark, directories, **limits)


def read_records(spark: SparkSession, table: Location) -> DataFrame:
    """Return the clean, distinct records stored by a backfill."""
    return spark.read.schema(record_type()).parquet(address(table))


def _read(spark: SparkSession, paths: Sequence[Location], **options: str) -> DataFrame:
    lines = spark.read.options(**_LINES, **options).text([address(path) for path in paths])
    # Numbers grow along a file. In a stream they are neither available nor needed.
    return _with_origin(lines, F.monotonically_increasing_id())


def _timestamp(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _with_origin(lines: DataFrame, row: Column | None = None) -> DataFrame:
    """Add the origin of each line (file, read block, row) and the landing time of its file."""
    return parsed(
        lines,
        F.col("_metadata.file_name").alias("file"),
        F.col("_metadata.file_block_start").alias("block"),
        (F.lit(None) if row is None else row).cast("long").alias("row"),
        F.unix_millis("_metadata.file_modification_time").alias("landed_ms"),
    )
