"""What people ask the history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from stormwright.errors import Fault, InputError
from stormwright.perflog.schema import LATENCY_EDGES_MS
from stormwright.pipeline.activity import LatencyHistogram
from stormwright.pipeline.batch import Stretch
from stormwright.pipeline.history.store import DAY, Days, Store, day_at
from stormwright.pipeline.history.tables import DECISIONS, FACTS, JUDGEMENTS, TABLES, Table


@dataclass(frozen=True)
class TopologyReport:
    """What a topology did in a stretch of time, or in a day of it.

    Parameters
    ----------
    day
        As ``2026-11-21``; None where it is the whole stretch.
    sent_tuples, sent_bytes
        From task to task; the bytes of tuples that were not sampled are taken to be as those that were.
    emitted, received, cpu_core_s
        Of all executors: tuples, and CPU time.
    trees, acked, failed
        Tuple trees begun, completed and failed by its spouts.
    latency_p50_ms, latency_p99_ms
        Complete latency within 19 %; None where none was sampled.
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


def topology_reports(store: Store, stretch: Stretch, by_day: bool = False) -> list[TopologyReport]:
    """Traffic and load by topology, and by day if asked for, of the panes that begin in a stretch of time."""
    rows = within(store, FACTS, stretch)
    keys = ["topology", *([DAY] if by_day else [])]
    # Apart from the others: these are nearly all rows, and two numbers of each are enough.
    traffic = rows.where(F.col("kind").isin("pair", "flow")).groupBy(keys)
    sent = traffic.agg(F.sum("tuples").alias("sent"), F.sum("bytes").alias("bytes"), F.sum("sampled").alias("sampled"))
    detail = F.when(F.col("kind") == "executor", F.col("component")).otherwise(F.col("first").cast("string"))
    others = rows.where(F.col("kind").isin("executor", "latency")).groupBy(*keys, "kind", detail.alias("detail"))
    done = others.agg(*(F.sum(name).alias(name) for name in _SUMS))
    sent_of = {_key(row): row for row in _collected(sent)}
    done_of: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in _collected(done):
        done_of.setdefault(_key(row), []).append(row)
    return [
        _topology_report(topology, day or None, sent_of.get((topology, day), {}), done_of.get((topology, day), []))
        for topology, day in sorted(sent_of.keys() | done_of.keys())
    ]


def _key(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["topology"], str(row.get(DAY, ""))


def _topology_report(
    topology: str, day: str | None, sent: Mapping[str, Any], done: list[dict[str, Any]]
) -> TopologyReport:
    executors = [row for row in done if row["kind"] == "executor"]
    # What a bolt acks are tuples, and only a spout begins trees.
    spouts = [row for row in executors if row["trees"]]
    counts = np.zeros(len(LATENCY_EDGES_MS) + 1)
    for row in done:
        if row["kind"] == "latency":
            counts[int(row["detail"])] += row["tuples"]
    latency = LatencyHistogram(counts)
    sampled = sent.get("sampled") or 0
    return TopologyReport(
        topology=topology,
        day=day,
        sent_tuples=sent.get("sent") or 0,
        sent_bytes=round(sent["bytes"] / sampled * sent["sent"]) if sampled else 0,
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


def decisions(store: Store, stretch: Stretch, moving_only: bool = False) -> list[dict[str, Any]]:
    """The rows of `DECISIONS` in a stretch of time, each with its ``judgements``, oldest first."""
    rows = within(store, DECISIONS, stretch)
    if moving_only:
        rows = rows.where(F.col("moves") != "{}")
    found = [row | {"judgements": []} for row in _collected(rows.drop(DAY).orderBy("at_ms"))]
    by_moment = {row["at_ms"]: row for row in found}
    # A decision is judged after it was made, maybe on another day.
    judged = store.read(JUDGEMENTS, Days(first=_days(stretch).first)).drop(DAY).orderBy("topology", "quantity")
    for judgement in _collected(judged):
        if judgement["decision_ms"] in by_moment:
            by_moment[judgement["decision_ms"]]["judgements"].append(judgement)
    return found


def table_summaries(store: Store) -> list[dict[str, Any]]:
    """Of each table its rows, days and bytes."""
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
    """The answer to a query over the tables, which are there by their names.

    Raises
    ------
    InputError
        It is not SQL, or names what is not there.
    """
    for table in TABLES.values():
        store.read(table).createOrReplaceTempView(table.name)
    try:
        answer = spark.sql(statement)
        answer.schema  # noqa: B018 - Spark Connect looks at a query only when it has to
    except PySparkException as error:
        raise InputError("sql", [Fault(str(error).split("\n\n", 1)[0].strip(), statement)]) from error
    return answer


def within(store: Store, table: Table, stretch: Stretch) -> DataFrame:
    """Rows of a table whose moment is in a stretch of time."""
    return store.read(table, _days(stretch)).where(stretch.holds(F.col(table.moment)))


def _days(stretch: Stretch) -> Days:
    return Days(
        None if stretch.start_ms is None else day_at(stretch.start_ms),
        None if stretch.end_ms is None else day_at(stretch.end_ms - 1),
    )


def _collected(rows: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in rows.collect()]
