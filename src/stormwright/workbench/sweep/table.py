"""The table of a sweep's cells: a directory of Parquet files, local or at a URI."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from stormwright.base.files import writing
from stormwright.errors import Fault, InputError
from stormwright.workbench.sweep.work import ROW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class CellTable(Protocol):
    """Rows (`ROW`) by key; the last appended row counts."""

    def append(self, rows: pa.Table) -> None:
        """Append rows atomically."""
        ...

    def read(self) -> pa.Table:
        """Return every key's newest row."""
        ...


def open_table(location: Path | str, spark: SparkSession) -> CellTable:
    """Return the table in a local directory, or at a URI that Spark can write to.

    Raises
    ------
    InputError
        There cannot be a table.
    """
    from stormwright.pipeline.spark.target import is_uri

    return RemoteTable(str(location), spark) if is_uri(location) else LocalTable(Path(location))


class LocalTable:
    """A table written by this process; Spark's machines need no access to the directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unusable(directory, error.strerror or str(error)) from error

    def append(self, rows: pa.Table) -> None:
        """Write one more file."""
        name = f"cells-{uuid.uuid4().hex}.parquet"
        with writing(self._directory / name) as file:
            pq.write_table(rows, file)

    def read(self) -> pa.Table:
        """Return every key's newest row.

        Raises
        ------
        InputError
            A file is no part of such a table.
        """
        import pyarrow.dataset as ds  # it takes pandas along

        files = sorted(map(str, self._directory.glob("[!._]*.parquet")))
        if not files:
            return ROW.empty_table()
        try:
            rows = ds.dataset(files, schema=ROW, format="parquet").to_table()
        except (pa.ArrowInvalid, OSError) as error:
            raise _unusable(self._directory, f"holds something else: {str(error).splitlines()[0]}") from error
        return newest(rows, self._directory)


class RemoteTable:
    """A table written by Spark, on any file system that it supports."""

    def __init__(self, uri: str, spark: SparkSession) -> None:
        from stormwright.pipeline.spark.file_systems import exists

        self._uri, self._spark = uri, spark
        self._exists = exists(spark, uri)

    def append(self, rows: pa.Table) -> None:
        """Write one more file, which Spark's commit makes visible atomically.

        Raises
        ------
        InputError
            Spark cannot write there.
        """
        with _uri_faults(self._uri):
            self._spark.createDataFrame(rows).coalesce(1).write.mode("append").parquet(self._uri)
        self._exists = True

    def read(self) -> pa.Table:
        """Return every key's newest row.

        Raises
        ------
        InputError
            Spark cannot read there, or it holds something else.
        """
        from pyspark.sql.pandas.types import from_arrow_schema

        if not self._exists:
            return ROW.empty_table()
        with _uri_faults(self._uri):
            rows = self._spark.read.schema(from_arrow_schema(ROW)).parquet(self._uri).toArrow()
        return newest(rows.cast(ROW), self._uri)


@contextmanager
def _uri_faults(uri: str) -> Iterator[None]:
    """Convert errors of Spark into a fault of the URI."""
    from stormwright.pipeline.spark.query_supervisor import GONE
    from stormwright.pipeline.spark.target import first_line

    try:
        yield
    except GONE as error:
        raise _unusable(uri, first_line(error)) from error


def newest(rows: pa.Table, location: Path | str) -> pa.Table:
    """Return the newest row per key; a retried cell has several.

    Raises
    ------
    InputError
        There are rows without a key.
    """
    if rows["key"].null_count:
        raise _unusable(location, "holds Parquet files that no sweep wrote")
    by_age = rows.sort_by([("key", "ascending"), ("ended_ms", "descending")])
    keys = by_age["key"].to_pylist()
    first = [position for position, key in enumerate(keys) if position == 0 or keys[position - 1] != key]
    return by_age.take(pa.array(first, pa.int64()))


def _unusable(location: Path | str, why: str) -> InputError:
    return InputError("table of cells", [Fault(f"cannot be used: {why}", str(location))])
