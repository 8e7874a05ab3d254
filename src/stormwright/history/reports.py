"""Reports on the history."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from stormwright.errors import Fault, InputError
from stormwright.formats import problem_from_dict
from stormwright.history.decisions import _days, clusters, within
from stormwright.history.tables.definitions import DECISIONS, EVALUATIONS, FACTS, TABLES
from stormwright.history.tables.store import DAY, DayRange, Store
from stormwright.model.arrays import FloatArray
from stormwright.perflog.schema import LATENCY_EDGES_MS
from stormwright.pipeline.measurement.measurement import LatencyHistogram, capacity_cores
from stormwright.pipeline.monitoring.episodes import FOREVER_S, Capacity, episodes
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.streaming.backfill import TimeStretch

# Overloads ----------------------------------------------------------------------------------------
# Overload episodes of nodes, from the history.

#: The service's own: what it raises alarms by is what is reported.
_SETTINGS = StreamSettings()

#: Maximum time between the begin of a pane and a second in it: records land late by at most this.
_PANE_BEFORE_MS = (_SETTINGS.watermark_s + _SETTINGS.window_s) * 1000


@dataclass(frozen=True)
class Episode:
    """A node at or over its capacity without a break, as `stormwright.pipeline.monitoring.episodes` defines it.

    Parameters
    ----------
    start_s, end_s
        Seconds since 1970: the first over the capacity, and the first one below it again.
    peak_cores, capacity_cores
        Maximum cores used by its workers in a second, and its capacity.
    """

    supervisor: str
    start_s: int
    end_s: int
    peak_cores: float
    capacity_cores: float


def overload_episodes(store: Store, stretch: TimeStretch, after_s: float) -> list[Episode]:
    """Return episodes of more than `after_s` seconds in a stretch of time, clipped, oldest first.

    Capacities are those that Nimbus reported at the time; before its first report in the range, or in the
    day before it, those of that report.
    """
    start_ms = None if stretch.start_ms is None else stretch.start_ms - _PANE_BEFORE_MS
    end_ms = None if stretch.end_ms is None else stretch.end_ms + _SETTINGS.settle_s * 1000
    rows = episodes(
        within(store, FACTS, TimeStretch(start_ms, end_ms)),
        _capacities(clusters(store, stretch)),
        after_s,
        _SETTINGS.settle_s,
        (stretch.start_ms or 0) // 1000,
        FOREVER_S if stretch.end_ms is None else stretch.end_ms // 1000,
    )
    return [Episode(**row.asDict()) for row in rows.collect()]


def _capacities(states: list[dict[str, Any]]) -> list[Capacity]:
    """Yield the capacities of nodes between states of the cluster."""
    changes = [state["at_ms"] // 1000 for state in states[1:]]
    stretches = itertools.pairwise([0, *changes, FOREVER_S])
    return [
        Capacity(supervisor, cores, since_s, until_s)
        for state, (since_s, until_s) in zip(states, stretches, strict=False)
        for supervisor, cores in _cores(state).items()
    ]


def _cores(state: Mapping[str, Any]) -> Mapping[str, float]:
    document = {
        "schema": "stormwright-problem/1",
        "supervisors": orjson.loads(state["supervisors"]),
        "core_hz": orjson.loads(state["core_hz"]),
        "topologies": [],
    }
    return capacity_cores(problem_from_dict(document, "snapshot of the history"), _SETTINGS)


# Rates --------------------------------------------------------------------------------------------
# Trees begun by topologies, hour by hour, from the history.

_HOUR_MS = 3_600_000

#: Length of the panes of facts, in seconds.
_PANE_S = 3.0

#: An hour of which less is known does not count, in parts.
_MIN_KNOWN = 0.5


def hourly_trees(
    store: Store, stretch: TimeStretch, left_out: Sequence[TimeStretch] = ()
) -> dict[str, tuple[int, FloatArray]]:
    """Return first hour since 1970 and hourly trees/s by topology id, NaN if less than half of an hour is known.

    Parameters
    ----------
    store
        Tables of the history.
    stretch
        Range of time, without its end; open where a bound is None.
    left_out
        Ranges of time treated as unknown: a test, an outage, a holiday.
    """
    rows = within(store, FACTS, stretch).where(F.col("kind") == "executor")
    for each in left_out:
        rows = rows.where(~each.holds(F.col("pane_ms")))
    hour = (F.col("pane_ms") / _HOUR_MS).cast("long").alias("hour")
    counts = rows.groupBy("topology", hour).agg(
        F.sum("trees").alias("trees"), F.countDistinct("pane_ms").alias("panes")
    )
    found: dict[str, dict[int, float]] = {}
    for row in counts.collect():
        if row["panes"] * _PANE_S * 1000 >= _MIN_KNOWN * _HOUR_MS:
            found.setdefault(row["topology"], {})[row["hour"]] = (row["trees"] or 0) / (row["panes"] * _PANE_S)
    series = {}
    for topology, by_hour in found.items():
        first, last = min(by_hour), max(by_hour)
        rates = np.full(last - first + 1, np.nan)
        for number, rate in by_hour.items():
            rates[number - first] = rate
        series[topology] = first, rates
    return series


# Reports ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TopologyReport:
    """Report on a topology for a stretch of time, or a day of it.

    Parameters
    ----------
    day
        Day as ``2026-11-21``; None for the whole range.
    sent_tuples, sent_bytes
        Tuples and bytes from task to task; sizes of tuples that were not sampled are extrapolated.
    emitted, received, cpu_core_s
        Emitted and received tuples, and CPU time, of all executors.
    trees, acked, failed
        Tuple trees begun, completed and failed by its spouts.
    latency_p50_ms, latency_p99_ms
        Complete latency within 19 %; None without samples.
    """

    topology: str
    day: str | None
    sent_tuples: int
    sent_bytes: int
    emitted: int
    received: int
    cpu_core_s: float
    trees: int
    acked: int
    failed: int
    latency_p50_ms: float | None
    latency_p99_ms: float | None


_SUMS = ("emitted", "received", "trees", "acked", "failed", "cpu_ns", "tuples")


def topology_reports(store: Store, stretch: TimeStretch, by_day: bool = False) -> list[TopologyReport]:
    """Return traffic and load by topology, optionally by day, of panes that begin in a stretch of time."""
    rows = within(store, FACTS, stretch)
    keys = ["topology", *([DAY] if by_day else [])]
    # Nearly all rows are traffic, so it is added up with as little work a row as can be: bytes and samples are of
    # nothing else; of latency, which has tuples as well, the others determine how many to subtract.
    sums = {"tuples": F.sum("tuples"), "bytes": F.sum("bytes"), "sampled": F.sum("sampled")}
    sent = rows.groupBy(keys).agg(*(column.alias(name) for name, column in sums.items()))
    detail = F.when(F.col("kind") == "executor", F.col("component")).otherwise(F.col("first").cast("string"))
    others = rows.where(F.col("kind").isin("executor", "latency")).groupBy(*keys, "kind", detail.alias("detail"))
    done = others.agg(*(F.sum(name).alias(name) for name in _SUMS))
    done_of: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in _collected(done):
        done_of.setdefault(_key(row), []).append(row)
    return [_topology_report(*_key(row), row, done_of.get(_key(row), [])) for row in sorted(_collected(sent), key=_key)]


def _key(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["topology"], str(row.get(DAY, ""))


def _topology_report(topology: str, day: str, sent: Mapping[str, Any], done: list[dict[str, Any]]) -> TopologyReport:
    executors = [row for row in done if row["kind"] == "executor"]
    # What a bolt acks are tuples, and only a spout begins trees.
    spouts = [row for row in executors if row["trees"]]
    counts = np.zeros(len(LATENCY_EDGES_MS) + 1)
    for row in done:
        if row["kind"] == "latency":
            counts[int(row["detail"])] += row["tuples"]
    latency = LatencyHistogram(counts)
    tuples = (sent["tuples"] or 0) - int(counts.sum())
    return TopologyReport(
        topology=topology,
        day=day or None,
        sent_tuples=tuples,
        sent_bytes=round(sent["bytes"] / sent["sampled"] * tuples) if sent["sampled"] else 0,
        emitted=_total(executors, "emitted"),
        received=_total(executors, "received"),
        cpu_core_s=sum(row["cpu_ns"] or 0.0 for row in executors) / 1e9,
        trees=_total(spouts, "trees"),
        acked=_total(spouts, "acked"),
        failed=_total(spouts, "failed"),
        latency_p50_ms=latency.quantile_ms(0.5),
        latency_p99_ms=latency.quantile_ms(0.99),
    )


def _total(rows: list[dict[str, Any]], name: str) -> int:
    return sum(row[name] or 0 for row in rows)


def decisions(store: Store, stretch: TimeStretch, moving_only: bool = False) -> list[dict[str, Any]]:
    """Return rows of `DECISIONS` in a stretch of time with their ``evaluations``, oldest first."""
    rows = within(store, DECISIONS, stretch)
    if moving_only:
        rows = rows.where(F.col("moves") != "{}")
    found = [row | {"evaluations": []} for row in _collected(rows.drop(DAY).orderBy("at_ms"))]
    by_moment = {row["at_ms"]: row for row in found}
    # A decision is evaluated later, possibly on another day.
    evaluation_rows = (
        store.read(EVALUATIONS, DayRange(first=_days(stretch).first)).drop(DAY).orderBy("topology", "quantity")
    )
    for evaluation in _collected(evaluation_rows):
        if evaluation["decision_ms"] in by_moment:
            by_moment[evaluation["decision_ms"]]["evaluations"].append(evaluation)
    return found


def table_summaries(store: Store) -> list[dict[str, Any]]:
    """Return rows, days and bytes of each table."""
    summaries = []
    for table in TABLES.values():
        days = store.days(table)
        summaries.append(
            {
                "table": table.name,
                "version": table.version,
                "rows": store.read(table).count() if days else 0,
                "days": len(days),
                "first_day": str(days[0]) if days else None,
                "last_day": str(days[-1]) if days else None,
                "bytes": store.size_bytes(table) if days else 0,
            }
        )
    return summaries


def run_sql(spark: SparkSession, store: Store, statement: str) -> DataFrame:
    """Run a query over the tables, which are available by name.

    Raises
    ------
    InputError
        It is not SQL, or uses unknown names.
    """
    for table in TABLES.values():
        store.read(table).createOrReplaceTempView(table.name)
    # It would print every error itself, with the stack of the JVM.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    try:
        answer = spark.sql(statement)
        answer.schema  # noqa: B018 - Spark Connect looks at a query only when it has to
    except PySparkException as error:
        why = next(line for line in str(error).splitlines() if line.strip())
        raise InputError("sql", [Fault(why.rstrip(" ;"), statement)]) from error
    return answer


def documents(answer: DataFrame) -> list[orjson.Fragment]:
    """Return all rows as encoded JSON, as Spark can write each of its types and numbers of any length."""
    text = F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("row")
    return [orjson.Fragment(row["row"]) for row in answer.select(text).collect()]


def texts(answer: DataFrame, most: int) -> list[tuple[str | None, ...]]:
    """Return the first rows as text, as Spark formats each of its types."""
    # Two columns may have one name, and bytes may be no text.
    numbered = answer.toDF(*(str(number) for number in range(len(answer.columns))))
    limited_rows = numbered.limit(most).select(
        *(F.make_valid_utf8(numbered[c].cast("string")) for c in numbered.columns)
    )
    return [tuple(row) for row in limited_rows.collect()]


def _collected(rows: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in rows.collect()]
