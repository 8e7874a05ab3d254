"""The same pipeline over files that are at rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from stormwright.errors import Fault, InputError
from stormwright.perflog.records import MAX_CLOCK_AHEAD_MS
from stormwright.pipeline.lines.ledger import LineCounts
from stormwright.pipeline.lines.quarantine import rejected
from stormwright.pipeline.lines.source import read_files, read_landed, read_records
from stormwright.pipeline.measure.measurement import Measurement, measure
from stormwright.pipeline.panes.derive import panes
from stormwright.pipeline.panes.windows import worker_seconds
from stormwright.pipeline.plan import batch_of, pipeline, prepared
from stormwright.pipeline.run.into import PANES, QUARANTINE, RECORDS, require_own
from stormwright.pipeline.run.live import LiveState
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.spark.location import Location, address, exists, inside

#: No two moments of a record are so far apart.
NEVER_LATE_S = 10**10


@dataclass(frozen=True)
class TimeStretch:
    """A stretch of time from `start_ms` up to but not including `end_ms`, open where that is None.

    A record belongs to the stretch in which its interval begins; a line that does not count, having no time of its own
    to be trusted, to the one in which its file landed. So every line belongs to one of two stretches that touch.
    """

    start_ms: int | None = None
    end_ms: int | None = None

    def holds(self, moment_ms: Column) -> Column:
        """Whether a moment is inside."""
        limits = [F.lit(True)]
        if self.start_ms is not None:
            limits.append(moment_ms >= self.start_ms)
        if self.end_ms is not None:
            limits.append(moment_ms < self.end_ms)
        return reduce(and_, limits)

    def landed(self, late_s: int) -> TimeStretch:
        """When the files landed that may hold its lines: records land neither long before they begin nor late."""
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
    tell: Callable[[str], None] = lambda _: None,
) -> LineCounts:
    """Run the pipeline over what has landed in a stretch of time.

    What comes out is what a stream with the same settings made of the same files. With a greater `late_s` it also takes
    in what came too late for the stream.

    Parameters
    ----------
    spark
        Session that does the work.
    directories
        Where landed files are, with the modification times that they had when they landed: the landing directory and
        where a stream keeps what it has processed (`LoadStream.raw`). Paths, or URIs of a file system of Hadoop.
    into
        For the tables ``records`` (Parquet: what is used, as columns, for
        `stormwright.pipeline.lines.source.read_records`), ``panes`` (Parquet, as
        `stormwright.pipeline.panes.derive.panes`) and ``quarantine`` (JSON lines, as
        `stormwright.pipeline.lines.quarantine.QUARANTINE`). Tables that are there are replaced.
    stretch
        Everything by default. It begins and ends with a pane.
    settings
        Those of the stream whose results are wanted again; None for the defaults.
    tell
        Called with what is done next.

    Returns
    -------
    LineCounts
        Of the lines that belong to the stretch.

    Raises
    ------
    InputError
        The stretch cuts a pane in two, there is none of the directories, or what is at `into` no backfill wrote.
    """
    settings, stretch = settings or StreamSettings(), stretch or TimeStretch()
    _require_whole_panes(stretch, settings)
    require_own(into, directories, spark)
    directories = _existing(spark, directories)
    near = stretch.landed(settings.late_s)
    lines = read_landed(spark, directories, near.start_ms, near.end_ms)
    ends = pipeline(lines, settings, taken=stretch.holds(F.col("start_ms")))
    tell("reading records")
    ends.records.write.mode("overwrite").parquet(address(inside(into, RECORDS)))
    records = read_records(spark, inside(into, RECORDS))
    panes_path, quarantine_path = address(inside(into, PANES)), address(inside(into, QUARANTINE))
    tell("adding up loads and traffic")
    panes(records, settings).write.mode("overwrite").parquet(panes_path)
    used = records.count()
    tell("accounting for every line")
    audit, is_rejected = ends.audit.persist(), F.col("reason").isNotNull()
    try:
        # However often a record was delivered.
        counts = _sums(
            audit,
            accepted=F.count_if(~is_rejected & stretch.holds(F.col("start_ms"))),
            quarantined=F.count_if(is_rejected & stretch.holds(F.col("landed_ms"))),
        )
        _rejected(audit.where(stretch.holds(F.col("landed_ms")))).write.mode("overwrite").json(quarantine_path)
    finally:
        audit.unpersist()
    return LineCounts.of(used=used, **counts)


def _existing(spark: SparkSession, directories: Sequence[Location]) -> list[Location]:
    """Those that are there: nothing may have landed yet, or nothing have been processed."""
    existing = [directory for directory in directories if exists(spark, directory)]
    if not existing:
        faults = [Fault(f"no directory {directory}", f"$[{n}]") for n, directory in enumerate(directories)]
        raise InputError("landed files", faults)
    return existing


def _sums(frame: DataFrame, **sums: Column) -> dict[str, Any]:
    """Sums over a whole table, by name."""
    (row,) = frame.agg(*(column.alias(name) for name, column in sums.items())).collect()
    return row.asDict()


def _rejected(audit: DataFrame) -> DataFrame:
    """The quarantine table of the audit of whole files."""
    return audit.groupBy("file").applyInArrow(
        rejected, "reason string, file string, line_number long, landed_ms long, line string"
    )


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
    """What the records in files say about their last window, and what became of every line.

    Whenever the files landed, no record is late.
    """
    settings = settings or StreamSettings()
    rows = prepared(read_files(spark, files), replace(settings, late_s=NEVER_LATE_S))
    facts, audit = batch_of(rows, LiveState(), settings)
    ledger = LiveState().after(0, facts, audit, settings).ledger
    return measure(facts, worker_seconds(facts), settings), ledger
