"""Trees by the hour, read from the history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from stormwright.history.reports import hourly_trees
from stormwright.history.tables.definitions import FACTS
from stormwright.history.tables.store import ParquetStore
from stormwright.pipeline.streaming.backfill import TimeStretch
from tests.history.samples import DAY_MS, START_MS, frame

pytestmark = pytest.mark.spark

HOUR_MS, PANE_MS = 3_600_000, 3000
FIRST_MS = START_MS // DAY_MS * DAY_MS


def panes(hour: int, count: int, trees: int) -> list[dict[str, Any]]:
    """A number of panes of an hour, each with that number of trees of a spout in two executors, and none of a bolt."""
    rows = []
    for number in range(count):
        pane_ms = FIRST_MS + hour * HOUR_MS + number * PANE_MS
        for task, begun in ((1, trees - 2), (2, 2), (3, 0)):
            row = dict.fromkeys(FACTS.columns) | {
                "pane_ms": pane_ms, "kind": "executor", "topology": "words", "supervisor": "s", "component": "c",
                "first": task, "second": task, "trees": begun,
            }  # fmt: skip
            rows.append(row)
    return rows


@pytest.fixture(scope="module")
def store(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ParquetStore:
    made = ParquetStore(spark, Path(tmp_path_factory.mktemp("rates")).as_uri())
    rows = panes(0, 1200, 30) + panes(1, 700, 60) + panes(3, 100, 90) + panes(4, 1200, 15)
    made.write(FACTS, frame(spark, rows, FACTS), 1)
    return made


def test_hourly_rate_is_trees_per_recorded_second(store):
    """Hour 2 is not there, and of hour 3 less than half."""
    (first, rates) = hourly_trees(store, TimeStretch())["words"]
    assert first == FIRST_MS // HOUR_MS
    assert rates == pytest.approx([10.0, 20.0, np.nan, np.nan, 5.0], nan_ok=True)


def test_excluded_time_range_counts_as_missing_data(store):
    outage = TimeStretch(FIRST_MS + HOUR_MS, FIRST_MS + 2 * HOUR_MS)
    _, rates = hourly_trees(store, TimeStretch(), [outage])["words"]
    assert rates == pytest.approx([10.0, np.nan, np.nan, np.nan, 5.0], nan_ok=True)
