"""Backfill: the pipeline over files at rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from stormwright.errors import Fault, InputError
from stormwright.perflog.records import MAX_CLOCK_AHEAD_MS
from stormwright.pipeline.measurement.measurement import Measurement, measure
from stormwright.pipeline.measurement.panes import panes
from stormwright.pipeline.measurement.windows import worker_seconds
from stormwright.pipeline.parsing.clean import LineCounts, audited, distinct
from stormwright.pipeline.parsing.source import file_name, read_landed, read_records
from stormwright.pipeline.plan import large_batch
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.spark.file_systems import exists
from stormwright.pipeline.spark.location import Location, address, inside, is_uri
from stormwright.pipeline.spark.target import SPARK_ERRORS
from stormwright.pipeline.streaming.progress import LiveState

RECORDS, PANES, QUARANTINE = "records", "panes", "quarantine"

#: Files of a table written by Spark; other files begin with an underscore, checksums with a dot.
_OF_A_TABLE = re.compile(rf"({RECORDS}|{PANES}|{QUARANTINE})(/(part-[^/]+|_SUCCESS|_temporary(/.+)?|\.[^/]+\.crc))?")

#: The type of the quarantine table, for Spark.
_QUARANTINE = "reason string, file string, line_number long, landed_ms long, line string, line_base64 string"

#: Upper bound of the time between two moments of a record.
NEVER_LATE_S = 10**10


def require_own(into: Location, directories: Sequence[Location], spark: SparkSession | None = None) -> None:
    """Raise unless a backfill may write to a directory: it is empty or holds an earlier backfill.

    Parameters
    ----------
    directories
        Directories of landed files.
    spark
        Spark session for checking URIs; without it they are not checked.

    Raises
    ------
    InputError
        It has other files, which would be deleted, or landed files are read there.
    """
    if is_uri(into):
        found = _files_in(spark, into) if spark else iter(())
    else:
        path = Path(into)
        if path.exists() and not path.is_dir():
            raise InputError("--into", [Fault("is a file; a directory is required", str(into))])
        for directory in directories:
            if not is_uri(directory) and path.resolve().is_relative_to(Path(directory).resolve()):
                raise InputError("--into", [Fault("is the directory of landed files; choose another one", str(into))])
        found = (each.relative_to(path).as_posix() for each in sorted(path.rglob("*")))
    other = next((name for name in found if not _OF_A_TABLE.fullmatch(name)), None)
    if other is not None:
        why = "contains other files than a backfill's, which would be replaced; choose an empty directory"
        raise InputError("--into", [Fault(why, str(inside(into, other)))])


def _files_in(spark: SparkSession, into: Location) -> Iterator[str]:
    """Yield names of visible files below a directory, as Spark sees them (not starting with ``_`` or ``.``)."""
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        paths = reader.load(address(into)).inputFiles()
    except SPARK_ERRORS as error:
        if isinstance(error, PySparkException) and error.getCondition() == "PATH_NOT_FOUND":
            return
        raise
    begin = re.sub(r"^[^:]+:/+", "/", address(into)).rstrip("/") + "/"
    for path in paths:
        yield path.partition(begin)[2] or path


@dataclass(frozen=True)
class TimeStretch:
    """A range of time from `start_ms` up to but not including `end_ms`; None is an open end.

    A record belongs to the range in which its interval begins. A rejected line has no reliable time: it belongs to the
    range of the earliest record in its file, or, if a batch checks lateness, to the one in which its file landed. So
    every line belongs to exactly one of two adjacent ranges.
    """

    start_ms: int | None = None
    end_ms: int | None = None

    @property
    def is_bounded(self) -> bool:
        """Return whether it has a start or an end."""
        return self.start_ms is not None or self.end_ms is not None

    def holds(self, moment_ms: Column) -> Column:
        """Return whether a moment is inside."""
        limits = [F.lit(True)]
        if self.start_ms is not None:
            limits.append(moment_ms >= self.start_ms)
        if self.end_ms is not None:
            limits.append(moment_ms < self.end_ms)
        return reduce(and_, limits)

    def landed(self, late_s: int) -> TimeStretch:
        """Return when files with lines of the stretch may have landed, if none counts after `late_s`."""
        return TimeStretch(
            None if self.start_ms is None else self.start_ms - MAX_CLOCK_AHEAD_MS,
            None if self.end_ms is None else self.end_ms + late_s * 1000,
        )


def backfill(
    spark: SparkSession,
    directories: Sequence[Location],
    into: Location,
    stretch: TimeStretch | None = None,
    settings: StreamSettings | None = None,
    report_step: Callable[[str], None] = lambda _: None,
    late_s: int | None = None,
) -> LineCounts:
    """Run the pipeline over the records of a stretch of time.

    No record is late unless `late_s` says so: files that were copied have other modification times. With the `late_s`
    of a stream, its settings, and the original times, the result equals that of the stream over the same files.

    1. Without `late_s` every file is read, and only records' own times decide. A rejected line counts where the
       earliest record of its file begins; in a file without records, when the file landed.
    2. With `late_s` only files that landed near the stretch are read. A rejected line counts when its file landed.

    Parameters
    ----------
    spark
        Session that reads the directories and writes the tables.
    directories
        Directories of landed files: the landing directory and where a stream retains processed files
        (`LoadStream.raw`). Paths, or URIs of a Hadoop file system.
    into
        Output directory: the tables ``records`` (Parquet: used records, as columns, for
        `stormwright.pipeline.parsing.source.read_records`), ``panes`` (Parquet, as
        `stormwright.pipeline.measurement.panes.panes`) and ``quarantine`` (JSON lines, as
        `stormwright.pipeline.parsing.quarantine.QUARANTINE`). Tables that are there are replaced.
    stretch
        Period, everything by default. It has to begin and end at panes.
    settings
        Lengths of panes and windows; None for the defaults. Their `late_s` is not used.
    report_step
        Called with a description of the next step.
    late_s
        Maximum time in seconds from the beginning of a record's interval until its file landed, as in `StreamSettings`;
        the files must then have their original modification times. None for no limit.

    Returns
    -------
    LineCounts
        Counts of the lines in the period.

    Raises
    ------
    InputError
        The period cuts a pane in two, none of the directories exists, `into` has other files than a backfill's, or one
        of the Parquet files was not landed by a service.
    """
    settings, stretch = settings or StreamSettings(), stretch or TimeStretch()
    _require_whole_panes(stretch, settings)
    require_own(into, directories, spark)
    directories = _existing(spark, directories)
    settings = replace(settings, late_s=NEVER_LATE_S if late_s is None else late_s)
    near = TimeStretch() if late_s is None else stretch.landed(late_s)
    report_step("reading records")
    lines, columns = read_landed(spark, directories, settings.late_s, near.start_ms, near.end_ms)
    # Lines are parsed once and used several times. Most would not fit in memory, and what does is evicted by the sums
    # of panes. Columns are read again faster than they are stored.
    lines.persist(StorageLevel.DISK_ONLY)
    rows = lines.unionByName(columns)
    try:
        used = distinct(rows.where(stretch.holds(F.col("start_ms"))))
        used.write.mode("overwrite").parquet(address(inside(into, RECORDS)))
        report_step("adding up loads and traffic")
        records = read_records(spark, inside(into, RECORDS))
        panes(records, settings).write.mode("overwrite").parquet(address(inside(into, PANES)))
        report_step("accounting for every line")
        # Files are in the stretch as a whole, so their lines are numbered right.
        by_begin = late_s is None and stretch.is_bounded
        audit, file_ms = (_with_begin(audited(rows)), "begin_ms") if by_begin else (audited(rows), "landed_ms")
        is_rejected, in_stretch = F.col("reason").isNotNull(), stretch.holds(F.col(file_ms))
        # However often a record was delivered.
        counts = _sums(
            audit,
            accepted=F.count_if(~is_rejected & stretch.holds(F.col("start_ms"))),
            quarantined=F.count_if(is_rejected & in_stretch),
        )
        quarantine = _rejected(audit.where(in_stretch))
        quarantine.write.mode("overwrite").json(address(inside(into, QUARANTINE)))
    finally:
        lines.unpersist()
    return LineCounts.of(used=records.count(), **counts)


def _existing(spark: SparkSession, directories: Sequence[Location]) -> list[Location]:
    """Return the directories that exist: possibly nothing has landed or been processed yet."""
    existing = [directory for directory in directories if exists(spark, directory)]
    if not existing:
        faults = [Fault(f"no directory {directory}", f"$[{n}]") for n, directory in enumerate(directories)]
        raise InputError("landed files", faults)
    return existing


def _sums(frame: DataFrame, **sums: Column) -> dict[str, Any]:
    """Return sums over a whole table, by name."""
    (row,) = frame.agg(*(column.alias(name) for name, column in sums.items())).collect()
    return row.asDict()


def _with_begin(audit: DataFrame) -> DataFrame:
    """Add `begin_ms`: when the earliest record of a line's file begins, or without records when the file landed."""
    begins = audit.groupBy("file").agg(F.coalesce(F.min("start_ms"), F.min("landed_ms")).alias("begin_ms"))
    return audit.join(begins, "file")


def _rejected(audit: DataFrame) -> DataFrame:
    """Return the quarantine table from the audit of whole files; see `stormwright.pipeline.parsing.quarantine`."""
    files = audit.where(F.col("reason").isNotNull()).select("file").distinct()
    in_file = Window.partitionBy("file").orderBy("block", "row")
    lines = audit.join(files, "file", "left_semi").withColumn("line_number", F.row_number().over(in_file))
    text = F.col("line").cast("string")
    return lines.where(F.col("reason").isNotNull()).select(
        "reason",
        # A path until here, as files of two directories may have one name.
        file_name(F.col("file")).alias("file"),
        F.col("line_number").cast("long"),
        "landed_ms",
        F.when(F.is_valid_utf8(text), text).alias("line"),
        F.when(~F.is_valid_utf8(text), F.base64("line")).alias("line_base64"),
    )


def count_reasons(spark: SparkSession, into: Location) -> dict[str, int]:
    """Return the number of lines in the quarantine of a backfill by reason, the most frequent first."""
    table = spark.read.schema(_QUARANTINE).json(address(inside(into, QUARANTINE)))
    rows = table.groupBy("reason").count().orderBy(F.desc("count"), "reason").collect()
    return {row["reason"]: row["count"] for row in rows}


def _require_whole_panes(stretch: TimeStretch, settings: StreamSettings) -> None:
    faults = [
        Fault(f"{name} {moment} is no multiple of {settings.slide_s} s", f"$.{name}")
        for name, moment in (("start_ms", stretch.start_ms), ("end_ms", stretch.end_ms))
        if moment is not None and moment % (settings.slide_s * 1000)
    ]
    if faults:
        raise InputError("stretch of time", faults)


def measure_files(
    spark: SparkSession, files: Sequence[Location], settings: StreamSettings | None = None
) -> tuple[Measurement | None, LineCounts]:
    """Return the measurement of the last window in files, and the counts of all lines.

    Whenever the files landed, no record is late.
    """
    settings = settings or StreamSettings()
    facts, audit = large_batch(spark, files, LiveState(), replace(settings, late_s=NEVER_LATE_S))
    ledger = LiveState().after(0, facts, audit, (), settings).ledger
    return measure(facts, worker_seconds(facts), settings), ledger
