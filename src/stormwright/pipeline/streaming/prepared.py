"""Panes of small batches by a Spark plan that is made once."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from stormwright.errors import StormwrightError
from stormwright.perflog.columns import as_file, record_columns
from stormwright.perflog.schema import sample_record
from stormwright.pipeline.measurement.panes import summed_facts
from stormwright.pipeline.measurement.windows import PANES, records_in
from stormwright.pipeline.parsing.parsed import record_type
from stormwright.pipeline.settings import StreamSettings

#: Length of the file that a plan is made for; records of a small batch have less, unless their lines are at the limit.
_LONGEST_BYTES = 2**30

#: Setting of the largest part of a file that one task reads.
_PARTITION = "spark.sql.files.maxPartitionBytes"

_FILE = "batch.parquet"


class PreparedPanes:
    """The facts of records, summed per pane, by a plan that is made once and executed for each batch.

    To plan the query takes 200 ms of CPU, whatever the number of records; to execute it 65. Spark reads the file that
    is at a path when a plan is executed, up to the length that the file had when it was planned. So the plan is made
    for a long file, which is a hole, and each batch is written to its path. Whether Spark does so is tried first;
    otherwise each batch is planned.

    Parameters
    ----------
    spark
        Session in a JVM of this machine.
    directory
        Directory for the file.
    settings
        Settings of the stream.
    """

    def __init__(self, spark: SparkSession, directory: Path, settings: StreamSettings) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._spark, self._path, self._settings = spark, directory / _FILE, settings
        sample = record_columns([sample_record()])
        self._planned: DataFrame | None = None
        before = spark.conf.get(_PARTITION) or ""
        spark.conf.set(_PARTITION, str(2 * _LONGEST_BYTES))
        try:
            write_with_hole(self._path, as_file(sample))
            planned = self._plan()
            # Of two files, as Spark might return its first answer again.
            trials = [self._executed(planned, pa.concat_tables([sample] * number)) for number in (2, 3)]
            if list(map(records_in, trials)) == [2, 3]:
                self._planned = planned
        finally:
            spark.conf.set(_PARTITION, before)

    def __call__(self, records: pa.Table) -> pa.Table:
        """Return the facts of distinct records (`RECORD_COLUMNS`) as `PANES`.

        Raises
        ------
        StormwrightError
            Spark has not read all records.
        """
        if not records.num_rows:
            return PANES.empty_table()
        facts = self._executed(self._planned, records)
        if records_in(facts) != records.num_rows:
            raise StormwrightError(f"Spark has read {records_in(facts)} of {records.num_rows} records of a batch")
        return facts

    def _executed(self, planned: DataFrame | None, records: pa.Table) -> pa.Table:
        temporary = self._path.with_name(f".{_FILE}")
        temporary.write_bytes(as_file(records))
        temporary.replace(self._path)
        return (planned or self._plan()).toArrow().cast(PANES)

    def _plan(self) -> DataFrame:
        records = self._spark.read.schema(record_type()).parquet(str(self._path.absolute()))
        return summed_facts(records.coalesce(1), self._settings)


def write_with_hole(path: Path, parquet: bytes) -> None:
    """Write a Parquet file with a hole of `_LONGEST_BYTES` before its footer, which takes no space on disk."""
    footer = 8 + int.from_bytes(parquet[-8:-4], "little")
    with path.open("wb") as file:
        file.write(parquet[:-footer])
        file.seek(_LONGEST_BYTES, os.SEEK_CUR)
        file.write(parquet[-footer:])
