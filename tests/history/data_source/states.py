"""State directories for the tests of the data source, and readers without a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition
from pyspark.sql.streaming.query import StreamingQuery

from stormwright.history.data_source.source import StormwrightSource
from stormwright.history.tables.definitions import Table
from stormwright.history.tables.ingest import compact, ingest
from stormwright.history.tables.staging import Staging
from stormwright.history.tables.store import ParquetStore, tables_below
from tests.history.samples import Row

LATER = date(2100, 1, 1)


class State:
    """The state directory of a service that is only a history."""

    def __init__(self, directory: Path, spark: SparkSession | None = None) -> None:
        self.directory = directory
        self.spark = spark
        self.staging = Staging(directory / "history")
        (directory / "history").mkdir(parents=True, exist_ok=True)

    def stage(self, table: Table, rows: Sequence[Row]) -> None:
        """Stage rows as one file, named as a service does."""
        first_ms = min(row[table.moment] for row in rows)
        self.staging.write(table, f"{first_ms:013d}-{len(self.staging.pending(table)):03d}", rows)

    def store(self) -> ParquetStore:
        assert self.spark is not None
        return ParquetStore(self.spark, tables_below(self.directory))

    def ingest(self) -> None:
        """Take what is staged into the tables."""
        assert self.spark is not None
        ingest(self.spark, self.store(), self.staging)

    def compact(self) -> None:
        """Compact all days."""
        compact(self.store(), LATER)

    def load(self, table: str, **options: str) -> DataFrame:
        """A table as a user loads it."""
        assert self.spark is not None
        reader = self.spark.read.format("stormwright").option("table", table)
        return reader.options(**options).load(str(self.directory))


def finish(start: Callable[[], StreamingQuery], wait: Callable[[StreamingQuery], Any]) -> None:
    """Start a query, wait for its end and stop it.

    Spark gives the process of a source ten seconds to start, which a busy machine may exceed: then the query is
    repeated, as an operator would.
    """
    for attempt in range(5):
        query = start()
        try:
            wait(query)
        except StreamingQueryException as error:
            if attempt == 4 or "Python worker failed to connect back" not in str(error):
                raise
        else:
            return
        finally:
            query.stop()


def source(**options: str) -> StormwrightSource:
    """The source as Spark makes it."""
    return StormwrightSource(CaseInsensitiveDict(options))


def read(**options: str) -> list[dict[str, Any]]:
    """All rows of a table, read in this process."""
    found = source(**options)
    reader = found.reader(found.schema())
    return [row for partition in reader.partitions() for batch in reader.read(partition) for row in batch.to_pylist()]


def partitions(**options: str) -> list[InputPartition]:
    """The partitions that Spark would run tasks for."""
    found = source(**options)
    return list(found.reader(found.schema()).partitions())
