"""Forecasts against series whose season, trend and noise are known, and against the naive forecast."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from stormwright.model import LoadProfile
from stormwright.model.load import assumed_load
from stormwright.pipeline.monitoring.forecasts import (
    FORECASTS,
    MINUTES,
    MinuteTable,
    forecast_history,
    forecast_minutes,
    with_forecast,
)
from stormwright.pipeline.monitoring.holt_winters import forecast
from tests.controller.builders import problem, topology

SEASON, HORIZON = 60, 10
NOISE = 5.0


def truth(at: np.ndarray, phase: float, trend: float = 0.2) -> np.ndarray:
    return 200 + trend * at + 60 * np.sin(2 * np.pi * (at / SEASON + phase))


def known_series(count: int, length: int, seed: int, trend: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """Noisy series of amounts, and what they are without noise up to `HORIZON` later."""
    rng = np.random.default_rng(seed)
    at = np.arange(length + HORIZON)
    clean = np.array([truth(at, phase, trend) for phase in rng.uniform(0, 1, count)])
    return clean[:, :length] + rng.normal(0, NOISE, (count, length)), clean


def off(values: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.sqrt(np.mean((values - wanted) ** 2)))


@pytest.mark.parametrize("length", [2 * SEASON, 3 * SEASON + 17, 8 * SEASON])
def test_season_and_trend_are_found_better_than_by_the_naive_forecast(length: int) -> None:
    values, clean = known_series(200, length, seed=length)
    wanted = clean[:, length - 1 + HORIZON]
    found = forecast(values, HORIZON, [7, SEASON, 1440])
    as_last_season = values[:, length - 1 + HORIZON - SEASON]
    assert off(found.value, wanted) < 0.8 * off(as_last_season, wanted)
    # Noise itself cannot be foreseen.
    assert off(found.value, wanted) < 1.2 * NOISE
    assert off(found.value, wanted) < 0.3 * off(forecast(values, HORIZON).value, wanted)


def test_the_interval_holds_19_of_20() -> None:
    length = 6 * SEASON
    values, clean = known_series(2000, length, seed=3)
    rng = np.random.default_rng(4)
    comes = clean[:, length - 1 + HORIZON] + rng.normal(0, NOISE, len(values))
    found = forecast(values, HORIZON, [SEASON])
    inside = np.mean((found.low <= comes) & (comes <= found.high))
    assert 0.91 < inside < 0.985


def test_a_trend_without_a_season_and_a_level_without_a_trend() -> None:
    rng = np.random.default_rng(5)
    at = np.arange(300)
    rising = 100 + 2.0 * at + rng.normal(0, 5, (50, 300))
    found = forecast(rising, HORIZON, [SEASON])
    wanted = np.full(50, 100 + 2.0 * (299 + HORIZON))
    assert off(found.value, wanted) < 0.7 * off(rising[:, -1], wanted)
    level = 100 + rng.normal(0, 5, (50, 300))
    assert off(forecast(level, HORIZON, [SEASON]).value, np.full(50, 100.0)) < 3


def test_forecast_memory_is_bounded_and_series_are_independent() -> None:
    values, _ = known_series(1500, 2 * SEASON, seed=8)
    tracemalloc.start()
    found = forecast(values, 2 * SEASON, [SEASON])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # A value for each weight and each of 60 + 120 steps, of 1500 series at once: 69 MB.
    assert most < 30e6
    for series in (0, 255, 256, 1499):
        alone = forecast(values[series : series + 1], 2 * SEASON, [SEASON])
        assert (found.value[series], found.high[series]) == (alone.value[0], alone.high[0])


def test_holes_and_short_series() -> None:
    values, clean = known_series(50, 4 * SEASON, seed=6)
    holes = np.where(np.random.default_rng(7).random(values.shape) < 0.2, np.nan, values)
    holes[:, 100:115] = np.nan
    wanted = clean[:, 4 * SEASON - 1 + HORIZON]
    assert off(forecast(holes, HORIZON, [SEASON]).value, wanted) < 1.5 * NOISE
    one = forecast(np.array([[7.0], [np.nan]]), HORIZON, [SEASON])
    assert one.value.tolist() == [7, 0]
    assert (one.low.tolist(), one.high.tolist()) == ([7, 0], [7, 0])
    falling = forecast(np.array([np.linspace(50, 1, 50)]), 40)
    assert (falling.value >= 0).all()
    assert (falling.low >= 0).all()


def table_of(values: np.ndarray, topology_name: str, first: int = 28_000_000) -> pa.Table:
    return pa.table(
        {
            "topology": [topology_name] * values.size,
            "component": [f"c{row}" for row in range(len(values)) for _ in range(values.shape[1])],
            "minute": [first + at for _ in range(len(values)) for at in range(values.shape[1])],
            "cpu_hz": values.ravel() * 1e6,
            "rate_tps": values.ravel(),
        },
        MINUTES,
    )


@pytest.mark.spark
def test_spark_forecasts_match_local_forecasts(spark: SparkSession) -> None:
    tables = [table_of(known_series(3, 200, seed)[0], f"t{seed}") for seed in (1, 2)]
    history = spark.createDataFrame(pa.concat_tables(tables))
    found = (
        forecast_history(history, HORIZON, [SEASON])
        .toArrow()
        .sort_by([("topology", "ascending"), ("component", "ascending")])
    )
    expected = pa.concat_tables([forecast_minutes(table, HORIZON, [SEASON]) for table in tables])
    for row, wanted in zip(found.cast(FORECASTS).to_pylist(), expected.to_pylist(), strict=True):
        assert row == pytest.approx(wanted)
    first = expected.to_pylist()[0]
    assert (first["topology"], first["component"], first["minute"]) == ("t1", "c0", 28_000_199 + HORIZON)
    assert first["cpu_hz_low"] < first["cpu_hz"] < first["cpu_hz_high"]
    assert first["rate_tps"] * 1e6 == pytest.approx(first["cpu_hz"])


def test_component_forecast_is_shared_among_executors() -> None:
    t, other = topology("t"), topology("other")
    of = problem([t, other])
    load = replace(assumed_load(t, 3e9), cpu_hz=[1.0, 2.0, 6.0, 0.0])
    profile = LoadProfile({t.id: load, other.id: assumed_load(other, 3e9)})
    rows = [
        {"topology": t.id, "component": "a-spout", "cpu_hz": 5.0},
        {"topology": t.id, "component": "b-bolt", "cpu_hz": 16.0},
        {"topology": other.id, "component": "a-spout", "cpu_hz": 5.0},
    ]
    forecasts = pa.Table.from_pylist([{name: row.get(name) for name in FORECASTS.names} for row in rows], FORECASTS)
    found = with_forecast(profile, of, forecasts)
    foreseen = found.topologies[t.id].forecast_cpu_hz
    assert foreseen is not None
    assert foreseen.tolist() == [5.0, 4.0, 12.0, 0.0]
    assert found.topologies[other.id].forecast_cpu_hz is None, "a component of it has no forecast"
    profile = LoadProfile({t.id: replace(load, cpu_hz=np.zeros(4))})
    idle = with_forecast(profile, of, forecasts).topologies[t.id].forecast_cpu_hz
    assert idle is not None
    assert idle.tolist() == pytest.approx([5, 16 / 3, 16 / 3, 16 / 3])


def test_minute_means_use_disjoint_windows_and_survive_restart(tmp_path: Path) -> None:
    t = topology("t")
    of, load = problem([t]), assumed_load(t, 3e9)
    minutes = MinuteTable(tmp_path / "minutes.arrow", keep_minutes=3)

    def add(start_s: int, cpu_hz: float) -> None:
        at_once = replace(load, cpu_hz=np.full_like(load.cpu_hz, cpu_hz))
        minutes.add(LoadProfile({t.id: at_once}, start_ms=start_s * 1000, end_ms=(start_s + 15) * 1000), of)

    for start_s, cpu_hz in ((600, 1.0), (603, 99.0), (615, 3.0), (659, 2.0), (665, 50.0), (675, 10.0)):
        add(start_s, cpu_hz)
    rows = minutes.table().to_pylist()
    assert [(row["component"], row["minute"], row["cpu_hz"]) for row in rows] == [("a-spout", 10, 2), ("b-bolt", 10, 6)]
    sent = load.pair_tps.sum()
    assert [row["rate_tps"] for row in rows] == [sent, 0]
    minutes.save()
    minutes = MinuteTable(tmp_path / "minutes.arrow", keep_minutes=3)
    assert minutes.table().equals(pa.Table.from_pylist(rows, MINUTES))
    whole = (tmp_path / "minutes.arrow").read_bytes()
    for content in (b"", whole[: len(whole) // 2], b"something else"):
        (tmp_path / "damaged.arrow").write_bytes(content)
        assert MinuteTable(tmp_path / "damaged.arrow", keep_minutes=3).table().num_rows == 0
    for minute in range(11, 16):
        add(60 * minute, 1.0)
    assert sorted(set(minutes.table()["minute"].to_pylist())) == [12, 13, 14]
    assert forecast_minutes(MINUTES.empty_table(), 5).num_rows == 0
