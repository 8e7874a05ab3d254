"""Forecasts of the loads of components; their executors are assumed to grow and shrink alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from stormwright.base.files import writing
from stormwright.model import LoadProfile, Problem, Topology, TopologyLoad
from stormwright.model.arrays import FloatArray
from stormwright.pipeline.monitoring.holt_winters import forecast

# Minutes ------------------------------------------------------------------------------------------
# Loads of components minute by minute, the input of forecasts.

#: CPU of the executors and their output, per component and minute (since 1970).
MINUTES = pa.schema(
    [
        ("topology", pa.string()),
        ("component", pa.string()),
        ("minute", pa.int64()),
        ("cpu_hz", pa.float64()),
        ("rate_tps", pa.float64()),
    ]
)

_MINUTE_MS = 60_000


class MinuteTable:
    """A rolling table of minutes (`MINUTES`) in a file.

    Parameters
    ----------
    path
        File of the table, which is continued unless it is damaged.
    keep_minutes
        Maximum age of minutes.
    """

    def __init__(self, path: Path, keep_minutes: int) -> None:
        self._path, self._keep = path, keep_minutes
        self._table = _read(path) if path.exists() else MINUTES.empty_table()
        self._minute = -1
        self._end_ms = 0
        self._windows: dict[tuple[str, str], list[tuple[float, float]]] = {}

    def add(self, profile: LoadProfile, problem: Problem) -> None:
        """Add a profile unless it overlaps an earlier one; a minute is the mean of its profiles."""
        if profile.start_ms < self._end_ms:
            return
        self._end_ms = profile.end_ms
        minute = profile.start_ms // _MINUTE_MS
        if minute != self._minute:
            self._close()
            self._minute = minute
        for topology in problem.topologies:
            load = profile.topologies.get(topology.id)
            if load is None:
                continue
            executor_component, size = topology.executor_component, len(topology.components)
            cpu_hz = np.bincount(executor_component, load.cpu_hz, size)
            sent_tps = np.bincount(executor_component[load.pair_source], load.pair_tps, size)
            sent_tps = sent_tps + np.bincount(executor_component[load.flow_source], load.flow_tps, size)
            for component, amounts in zip(topology.components, zip(cpu_hz, sent_tps, strict=True), strict=True):
                self._windows.setdefault((topology.id, component.id), []).append(amounts)

    def table(self) -> pa.Table:
        """Return the complete minutes, `MINUTES`."""
        return self._table

    def save(self) -> None:
        """Replace the file atomically."""
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with writing(self._path) as file, pa.ipc.new_file(file, MINUTES, options=options) as table:
            table.write_table(self._table)

    def _close(self) -> None:
        """Append the complete minute."""
        rows = [
            (topology, component, self._minute, *np.mean(windows, axis=0).tolist())
            for (topology, component), windows in self._windows.items()
        ]
        self._windows = {}
        new = pa.Table.from_pylist([dict(zip(MINUTES.names, row, strict=True)) for row in rows], MINUTES)
        table = pa.concat_tables([self._table, new])
        self._table = table.filter(pc.greater(table["minute"], self._minute - self._keep)).combine_chunks()


def series_of(minutes: pa.Table) -> tuple[list[tuple[str, str]], FloatArray, FloatArray, int]:
    """Return the series in a table of minutes.

    Returns
    -------
    names
        Topology and component of each of the S series, in order.
    cpu_hz, rate_tps
        Minute by minute from the oldest to the newest, NaN where nothing was measured, shape (S, n).
    newest
        The last minute.
    """
    keys = list(zip(minutes["topology"].to_pylist(), minutes["component"].to_pylist(), strict=True))
    names = sorted(set(keys))
    row = {name: number for number, name in enumerate(names)}
    at = minutes["minute"].to_numpy()
    first, newest = int(at.min()), int(at.max())
    cpu_hz = np.full((len(names), newest - first + 1), np.nan)
    rate_tps = cpu_hz.copy()
    place = ([row[key] for key in keys], at - first)
    cpu_hz[place], rate_tps[place] = minutes["cpu_hz"].to_numpy(), minutes["rate_tps"].to_numpy()
    return names, cpu_hz, rate_tps, newest


def _read(path: Path) -> pa.Table:
    """Return the minutes in a file; none if it is damaged."""
    try:
        with pa.ipc.open_file(path) as file:
            return file.read_all().select(MINUTES.names).cast(MINUTES)
    except (OSError, pa.ArrowException, KeyError, ValueError):
        return MINUTES.empty_table()


# Forecasts ----------------------------------------------------------------------------------------

#: An hour and a day, in minutes.
SEASONS = (60, 1440)

_AMOUNTS = ("cpu_hz", "rate_tps")
_ENDS = ("", "_low", "_high")

#: Forecast minute and expected values with intervals, per component.
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
    """Forecast every component of a table of `MINUTES`, as `FORECASTS`.

    Parameters
    ----------
    horizon
        Minutes after the newest of the table.
    seasons
        As `stormwright.pipeline.monitoring.holt_winters.forecast` takes them, in minutes.
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
    """Forecast every component of a Spark table of minutes, topology by topology."""

    def of_topology(group: pa.Table) -> pa.Table:
        return forecast_minutes(group, horizon, seasons)

    return minutes.groupBy("topology").applyInArrow(of_topology, _FORECASTS_IN_SPARK)


def with_forecast(profile: LoadProfile, problem: Problem, forecasts: pa.Table) -> LoadProfile:
    """Return the profile with forecasts for topologies of which all components have one."""
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
    """Return the forecast per executor in proportion to current shares; evenly if all are idle."""
    executor_component, size = topology.executor_component, len(topology.components)
    now_hz, executors = (
        np.bincount(executor_component, load.cpu_hz, size),
        np.bincount(executor_component, minlength=size),
    )
    component_hz = np.array([expected_hz[component.id] for component in topology.components])
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(
            now_hz[executor_component] > 0, load.cpu_hz / now_hz[executor_component], 1 / executors[executor_component]
        )
    expected: FloatArray = share * component_hz[executor_component]
    return expected
