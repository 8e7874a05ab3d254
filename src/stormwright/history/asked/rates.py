"""How many trees topologies began, hour by hour: read from the history."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pyspark.sql import functions as F  # noqa: N812

from stormwright.history.asked.reports import within
from stormwright.history.tables.definitions import FACTS
from stormwright.history.tables.store import Store
from stormwright.model.arrays import FloatArray
from stormwright.pipeline.run.batch import TimeStretch

_HOUR_MS = 3_600_000

#: Seconds of the panes in which facts are kept.
_PANE_S = 3.0

#: An hour of which less is known does not count, in parts.
_LEAST_KNOWN = 0.5


def hourly_trees(
    store: Store, stretch: TimeStretch, left_out: Sequence[TimeStretch] = ()
) -> dict[str, tuple[int, FloatArray]]:
    """Topology id → its first hour since 1970, and trees/s hour by hour, NaN where less than half of one is known.

    Parameters
    ----------
    store
        The tables.
    stretch
        What is looked at.
    left_out
        What is taken as if it were not known: a test, an outage, a holiday.
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
        if row["panes"] * _PANE_S * 1000 >= _LEAST_KNOWN * _HOUR_MS:
            found.setdefault(row["topology"], {})[row["hour"]] = (row["trees"] or 0) / (row["panes"] * _PANE_S)
    series = {}
    for topology, by_hour in found.items():
        first, last = min(by_hour), max(by_hour)
        rates = np.full(last - first + 1, np.nan)
        for number, rate in by_hour.items():
            rates[number - first] = rate
        series[topology] = first, rates
    return series
