"""Recorded decisions, each with its cluster and load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from stormwright.errors import Fault, InputError
from stormwright.formats import problem_from_dict
from stormwright.history.tables.definitions import DECISIONS, PROFILES, SNAPSHOTS, Table
from stormwright.history.tables.store import DayRange, Store, day_at
from stormwright.model import LoadProfile, Problem
from stormwright.model.humanize import in_utc
from stormwright.pipeline.streaming.backfill import TimeStretch

# State at a moment --------------------------------------------------------------------------------
# The scheduler's input at a past moment: problems rebuilt from the history's snapshots and profiles.


def known_at(store: Store, moment_ms: int) -> Problem:
    """Return the cluster and its placement with the last measured load, as known at a moment.

    Raises
    ------
    InputError
        There is no record up to then.
    """
    snapshot = newest(store, SNAPSHOTS, moment_ms)
    if snapshot is None:
        raise InputError("history", [Fault("no record exists up to then", in_utc(moment_ms))])
    return problem_of(snapshot["document"], newest(store, PROFILES, moment_ms), in_utc(moment_ms))


def problem_of(snapshot: str, profile: Mapping[str, Any] | None, name: str) -> Problem:
    """Return the problem of a snapshot document and a row of profiles.

    Topologies that have changed since the load was measured have no load: they were killed, or have another number of
    executors.
    """
    document = orjson.loads(snapshot) | {"name": name}
    if profile is None:
        return problem_from_dict(document, "snapshot of the history")
    measured = orjson.loads(profile["document"])
    executors = {raw["id"]: sum(run[2] for run in raw["executor_runs"]) for raw in document["topologies"]}
    loads = {name: load for name, load in measured["topologies"].items() if len(load["cpu_hz"]) == executors.get(name)}
    problem = problem_from_dict(document | {"load": loads}, "snapshot and profile of the history")
    return problem.with_load(
        replace(
            problem.load or LoadProfile({}),
            node_cpu_hz=measured["node_cpu_hz"],
            node_quota_hz=measured.get("node_quota_hz", {}),
            node_overhead_hz=measured.get("node_overhead_hz", {}),
            overload_s=measured["overload_s"],
            start_ms=profile["start_ms"],
            end_ms=profile["end_ms"],
        )
    )


# Decisions ----------------------------------------------------------------------------------------

#: Tasks of one job.
PARTITIONS = 8

#: Maximum age of the profile of a decision, and of its snapshot, which is stored again every day.
_PROFILE_BEFORE_MS = 3_600_000
_SNAPSHOT_BEFORE_MS = 90_000_000

_SPARK_TYPES = {pa.int64(): "long", pa.float64(): "double", pa.string(): "string"}


def decision_times(store: Store, stretch: TimeStretch) -> list[int]:
    """Return the moments of decisions in a stretch of time, oldest first."""
    rows = within(store, DECISIONS, stretch).select("at_ms").orderBy("at_ms").collect()
    return [row["at_ms"] for row in rows]


def answers(
    store: Store,
    stretch: TimeStretch,
    ask: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
) -> list[dict[str, Any]]:
    """Apply a function to the decisions in a closed range of time, one task each, in any order.

    Parameters
    ----------
    store
        Tables of the history.
    stretch
        Range of time of the decisions; all if it is open at both ends.
    ask
        The function. It gets the columns of `DECISIONS`, ``document`` of the snapshot, and of the profile ``profile``
        (its document), ``start_ms`` and ``end_ms``, null if the history no longer has them. It is sent to Spark's
        Python workers, which need its module.
    schema
        Schema of its results; integers and floats of 64 bits, and texts.
    """
    decisions = within(store, DECISIONS, stretch)
    rows = _with_documents(store, decisions, stretch).repartition(PARTITIONS)
    ddl = ", ".join(f"{column.name} {_SPARK_TYPES[column.type]}" for column in schema)
    return [row.asDict() for row in rows.mapInArrow(ask, ddl).collect()]


def clusters(store: Store, stretch: TimeStretch) -> list[dict[str, Any]]:
    """Return the states of the cluster in a range of time and right before it, oldest first.

    Each state has ``at_ms``, when it was first recorded, and ``supervisors`` and ``core_hz`` as JSON, as in
    `stormwright-problem/1`.
    """
    start_ms = None if stretch.start_ms is None else stretch.start_ms - _SNAPSHOT_BEFORE_MS
    # Nearly all of a document is topologies, so nodes are left out there, and stored only if they have changed.
    part = {name: F.get_json_object("document", f"$.{name}") for name in ("supervisors", "core_hz")}
    before = Window.orderBy("at_ms")
    rows = within(store, SNAPSHOTS, TimeStretch(start_ms, stretch.end_ms)).select(
        "at_ms", *(column.alias(name) for name, column in part.items())
    )
    nodes = F.struct(*part)
    changed = rows.withColumn("same", F.lag(nodes).over(before).eqNullSafe(nodes)).where(~F.col("same"))
    return [row.asDict() for row in changed.drop("same").orderBy("at_ms").collect()]


def _with_documents(store: Store, decisions: DataFrame, stretch: TimeStretch) -> DataFrame:
    start_ms = stretch.start_ms or 0
    profiles = within(store, PROFILES, TimeStretch(start_ms - _PROFILE_BEFORE_MS, stretch.end_ms)).select(
        F.col("at_ms").alias("profile_ms"), "start_ms", "end_ms", F.col("document").alias("profile")
    )
    # The same one is noted again every day, and whenever it comes back.
    snapshots = within(store, SNAPSHOTS, TimeStretch(start_ms - _SNAPSHOT_BEFORE_MS, stretch.end_ms))
    snapshots = snapshots.groupBy(F.col("id").alias("snapshot")).agg(F.max("document").alias("document"))
    return decisions.join(profiles, "profile_ms", "left").join(snapshots, "snapshot", "left")


def newest(store: Store, table: Table, moment_ms: int) -> dict[str, Any] | None:
    """Return the last row of a table (with `at_ms`) up to a moment; None if there is none."""
    rows = store.read(table, DayRange(last=day_at(moment_ms))).where(F.col("at_ms") <= moment_ms)
    # Documents are long: which one it is, is found without them.
    (found,) = rows.agg(F.max("at_ms").alias("at_ms")).collect()
    if found["at_ms"] is None:
        return None
    day = day_at(found["at_ms"])
    (row, *_) = store.read(table, DayRange(day, day)).where(F.col("at_ms") == found["at_ms"]).collect()
    wanted: dict[str, Any] = row.asDict()
    return wanted


def within(store: Store, table: Table, stretch: TimeStretch) -> DataFrame:
    """Return rows of a table in a stretch of time, checked by moment only in partial days."""
    days = _days(stretch)
    cut = [day for ms in (stretch.start_ms, stretch.end_ms) if ms is not None and ms % _DAY_MS for day in [day_at(ms)]]
    whole = DayRange(
        days.first + _DAY if days.first in cut and days.first is not None else days.first,
        days.last - _DAY if days.last in cut and days.last is not None else days.last,
    )
    edges = [
        store.read(table, DayRange(day, day)).where(stretch.holds(F.col(table.moment))) for day in sorted(set(cut))
    ]
    return reduce(DataFrame.unionByName, edges, store.read(table, whole))


_DAY, _DAY_MS = timedelta(days=1), 86_400_000


def _days(stretch: TimeStretch) -> DayRange:
    return DayRange(
        None if stretch.start_ms is None else day_at(stretch.start_ms),
        None if stretch.end_ms is None else day_at(stretch.end_ms - 1),
    )
