"""Reports over the history against sums in plain Python, whatever form the tables are in."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from stormwright.errors import InputError
from stormwright.history.reports import run_sql, table_summaries, topology_reports
from stormwright.history.tables.definitions import FACTS, TABLES
from stormwright.history.tables.store import ParquetStore, day_at
from stormwright.perflog.schema import LATENCY_EDGES_MS
from stormwright.pipeline.measurement.topology_activity import LatencyHistogram
from stormwright.pipeline.streaming.backfill import TimeStretch
from tests.history.samples import DAY_MS, START_MS, Row, facts, frame

pytestmark = pytest.mark.spark

FIRST_MS = START_MS // DAY_MS * DAY_MS


def expected_reports(rows: list[Row], stretch: TimeStretch, by_day: bool) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str | None], list[Row]] = defaultdict(list)
    for row in rows:
        if (stretch.start_ms or 0) <= row["pane_ms"] < (stretch.end_ms or 10**15):
            groups[row["topology"], str(day_at(row["pane_ms"])) if by_day else None].append(row)
    return [expected_report(topology, day, group) for (topology, day), group in sorted(groups.items())]


def expected_report(topology: str, day: str | None, rows: list[Row]) -> dict[str, Any]:
    traffic = [row for row in rows if row["kind"] in ("pair", "flow")]
    executors = [row for row in rows if row["kind"] == "executor"]
    spouts = [row for row in executors if row["component"] == "spout"]
    counts = np.zeros(len(LATENCY_EDGES_MS) + 1)
    for row in rows:
        if row["kind"] == "latency":
            counts[row["first"]] += row["tuples"]
    sent = sum(row["tuples"] for row in traffic)
    return {
        "topology": topology,
        "day": day,
        "sent_tuples": sent,
        # Every sampled tuple of the samples has 60 bytes.
        "sent_bytes": 60 * sent,
        "emitted": sum(row["emitted"] for row in executors),
        "received": sum(row["received"] for row in executors),
        "cpu_core_s": pytest.approx(sum(row["cpu_ns"] for row in executors) / 1e9),
        **{name: sum(row[name] for row in spouts) for name in ("trees", "acked", "failed")},
        "latency_p50_ms": LatencyHistogram(counts).quantile_ms(0.5),
        "latency_p99_ms": LatencyHistogram(counts).quantile_ms(0.99),
    }


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return facts(3, 4, seed=7)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="module")
def store(spark: SparkSession, directory: Path, rows: list[Row]) -> ParquetStore:
    """Of two days whole files, of one of them and another one chunks as well."""
    made = ParquetStore(spark, directory.as_uri())
    made.write(FACTS, frame(spark, rows[::2], FACTS), 1)
    for day in (0, 1):
        made.compact(FACTS, day_at(FIRST_MS + day * DAY_MS))
    made.write(FACTS, frame(spark, rows[1::2], FACTS), 2)
    return made


@pytest.mark.parametrize("by_day", [False, True])
@pytest.mark.parametrize(
    "stretch",
    [TimeStretch(), TimeStretch(FIRST_MS + 3000, FIRST_MS + 2 * DAY_MS + 3000), TimeStretch(end_ms=FIRST_MS + DAY_MS)],
    ids=["all", "cut", "first day"],
)
def test_reports_are_sums_of_the_rows(store: ParquetStore, rows: list[Row], stretch: TimeStretch, by_day: bool) -> None:
    found = [asdict(report) for report in topology_reports(store, stretch, by_day)]
    assert found == expected_reports(rows, stretch, by_day)


def test_history_tables_are_queryable_in_sql_with_sizes(
    store: ParquetStore, spark: SparkSession, rows: list[Row], directory: Path
) -> None:
    answer = run_sql(
        spark, store, "SELECT day, sum(tuples) AS sent FROM facts WHERE kind = 'pair' GROUP BY day ORDER BY day"
    )
    sent: dict[date, int] = defaultdict(int)
    for row in rows:
        if row["kind"] == "pair":
            sent[day_at(row["pane_ms"])] += row["tuples"]
    assert [(row["day"], row["sent"]) for row in answer.collect()] == sorted(sent.items())
    assert run_sql(spark, store, "SELECT * FROM moves").collect() == []
    with pytest.raises(InputError, match="no_such") as caught:
        run_sql(spark, store, "SELECT no_such FROM facts")
    assert len(str(caught.value).splitlines()) == 2
    summaries = {summary["table"]: summary for summary in table_summaries(store)}
    assert summaries.keys() == TABLES.keys()
    files = sum(path.stat().st_size for path in directory.rglob("*.parquet"))
    assert summaries["facts"] == {
        "table": "facts", "version": 2, "rows": len(rows), "days": 3, "first_day": "2023-07-22",
        "last_day": "2023-07-24", "bytes": files,
    }  # fmt: skip
    assert summaries["moves"]["rows"] == 0
