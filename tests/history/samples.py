"""Rows for the tests of the history, and what they add up to in plain Python."""

from __future__ import annotations

from datetime import date
from typing import Any

from pyspark.sql import SparkSession

from stormwright.history.tables.definitions import FACTS, Table
from stormwright.history.tables.store import Store, day_at
from tests.pipeline.generator import dice

#: 2023-07-22T04:26:40Z
START_MS = 1_690_000_000_000
DAY_MS = 86_400_000

Row = dict[str, Any]


def facts(days: int, panes: int, seed: int, start_ms: int = START_MS // DAY_MS * DAY_MS) -> list[Row]:
    """Panes of several days, equally many of each: traffic, load and latency of two topologies."""
    rng = dice(seed)
    rows: list[Row] = []
    for day in range(days):
        for pane in range(panes):
            pane_ms = start_ms + day * DAY_MS + pane * 3000
            for topology in ("words", "clicks"):
                rows += _of_pane(pane_ms, topology, rng)
    return rows


def _of_pane(pane_ms: int, topology: str, rng: Any) -> list[Row]:
    def row(kind: str, **values: Any) -> Row:
        return dict.fromkeys(FACTS.columns) | {
            "pane_ms": pane_ms, "kind": kind, "topology": topology, **values,
        }  # fmt: skip

    def executor(component: str, task: int, trees: int) -> Row:
        return row(
            "executor", supervisor="s1", component=component, first=task, second=task, length_ns=3_000_000_000,
            cpu_ns=rng.uniform(0, 3e9), received=rng.randrange(9000), execute_ns=rng.randrange(10**9),
            emitted=rng.randrange(9000), trees=trees, acked=rng.randrange(1000), failed=rng.randrange(10),
        )  # fmt: skip

    found = [executor("spout", 1, rng.randrange(1, 1000)), executor("bolt", 2, 0)]
    for target in (2, 3):
        sampled = rng.randrange(500)
        found.append(
            row(
                "pair", component="bolt", grouping="fields", stream="default", first=1, second=target,
                tuples=rng.randrange(500, 900), bytes=sampled * 60, sampled=sampled,
            )
        )  # fmt: skip
    found.append(
        row("flow", component="out", grouping="shuffle", stream="default", first=2, tuples=5, bytes=0, sampled=0)
    )
    found += [row("latency", first=bucket, tuples=rng.randrange(1, 50)) for bucket in (20, 24, 30)]
    found.append(row("node", supervisor="s1", first=pane_ms // 1000, second=6700, length_ns=10**9, cpu_ns=1e9))
    return found


def by_key(rows: list[Row], table: Table) -> list[Row]:
    """Rows in a known order, the table's columns alone."""
    return sorted(
        ({name: row[name] for name in table.columns} for row in rows),
        key=lambda row: [str(row[name]) for name in table.key],
    )


def stored(store: Store, table: Table) -> list[Row]:
    """Everything in a table, in a known order; the day is the moment's."""
    rows = [row.asDict() for row in store.read(table).collect()]
    assert all(row["day"] == day_at(row[table.moment]) for row in rows)
    return by_key(rows, table)


def days_of(rows: list[Row], table: Table) -> list[date]:
    """The days of rows."""
    return sorted({day_at(row[table.moment]) for row in rows})


def frame(spark: SparkSession, rows: list[Row], table: Table) -> Any:
    """Rows as a DataFrame."""
    return spark.createDataFrame([tuple(row[name] for name in table.columns) for row in rows], table.ddl)
