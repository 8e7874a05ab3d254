"""Forecasts of the loads of components, and of executors: those of a component grow and shrink alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from stormwright.model import LoadProfile, Problem, Topology, TopologyLoad
from stormwright.model.arrays import FloatArray
from stormwright.pipeline.watch.holt_winters import forecast
from stormwright.pipeline.watch.minutes import series_of

#: An hour and a day, in minutes.
SEASONS = (60, 1440)

_AMOUNTS = ("cpu_hz", "rate_tps")
_ENDS = ("", "_low", "_high")

#: Per component the minute that is forecast, and what is expected then, with the interval.
FORECASTS = pa.schema(
    [
        ("topology", pa.string()),
        ("component", pa.string()),
        ("minute", pa.int64()),
        *((f"{amount}{end}", pa.float64()) for amount in _AMOUNTS for end in _ENDS),
    ]
)

_FORECASTS_IN_SPARK = ", ".join(
    f"{field.name} {'string' if field.type == pa.string() else 'long' if field.type == pa.int64() else 'double'}"
    for field in FORECASTS
)


def forecast_minutes(minutes: pa.Table, horizon: int, seasons: Sequence[int] = SEASONS) -> pa.Table:
    """Forecast every component of a table of minutes (`stormwright.pipeline.watch.minutes.MINUTES`), as `FORECASTS`.

    Parameters
    ----------
    horizon
        Minutes after the newest of the table.
    seasons
        As `stormwright.pipeline.watch.holt_winters.forecast` takes them, in minutes.
    """
    if not minutes.num_rows:
        return FORECASTS.empty_table()
    names, *amounts, newest = series_of(minutes)
    columns: dict[str, object] = {
        "topology": [topology for topology, _ in names],
        "component": [component for _, component in names],
        "minute": np.full(len(names), newest + horizon),
    }
    for name, values in zip(_AMOUNTS, amounts, strict=True):
        expected = forecast(values, horizon, seasons)
        columns |= {name: expected.value, f"{name}_low": expected.low, f"{name}_high": expected.high}
    return pa.table(columns, FORECASTS)


def forecast_history(minutes: DataFrame, horizon: int, seasons: Sequence[int] = SEASONS) -> DataFrame:
    """The same of a table in Spark, every topology by itself."""

    def of_topology(group: pa.Table) -> pa.Table:
        return forecast_minutes(group, horizon, seasons)

    return minutes.groupBy("topology").applyInArrow(of_topology, _FORECASTS_IN_SPARK)


def with_forecast(profile: LoadProfile, problem: Problem, forecasts: pa.Table) -> LoadProfile:
    """The profile with a forecast for the executors of those topologies all of whose components have one."""
    expected_hz: dict[str, dict[str, float]] = {}
    for row in forecasts.select(["topology", "component", "cpu_hz"]).to_pylist():
        expected_hz.setdefault(row["topology"], {})[row["component"]] = row["cpu_hz"]
    loads = dict(profile.topologies)
    for topology in problem.topologies:
        load, expected = loads.get(topology.id), expected_hz.get(topology.id, {})
        if load is not None and all(component.id in expected for component in topology.components):
            loads[topology.id] = replace(load, forecast_cpu_hz=_of_executors(topology, load, expected))
    return replace(profile, topologies=loads)


def _of_executors(topology: Topology, load: TopologyLoad, expected_hz: Mapping[str, float]) -> FloatArray:
    """What is expected of a component, as its executors share it now; evenly where they do nothing."""
    of, size = topology.executor_component, len(topology.components)
    now_hz, executors = np.bincount(of, load.cpu_hz, size), np.bincount(of, minlength=size)
    component_hz = np.array([expected_hz[component.id] for component in topology.components])
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(now_hz[of] > 0, load.cpu_hz / now_hz[of], 1 / executors[of])
    expected: FloatArray = share * component_hz[of]
    return expected
