"""Forecasts of many series at once: exponential smoothing with an additive season and a damped trend.

Holt, "Forecasting seasonals and trends by exponentially weighted moving averages" (1957), International Journal of
Forecasting 20, 2004, https://doi.org/10.1016/j.ijforecast.2003.09.015; Winters, "Forecasting sales by exponentially
weighted moving averages", Management Science 6, 1960, https://doi.org/10.1287/mnsc.6.3.324; the damping is that of
Gardner and McKenzie, "Forecasting trends in time series", Management Science 31, 1985,
https://doi.org/10.1287/mnsc.31.10.1237.

Unlike there, smoothing weights are not fitted to the next value but taken from a grid, and so is the season, by the
errors at the requested horizon: a minute ahead all of them forecast alike. The same errors give the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import product

import numpy as np

from stormwright.model.arrays import FloatArray

#: Half-width of the 95 % interval in standard deviations of normal errors.
_INTERVAL = 1.96

#: Smoothing weights: level; trend as a part of it; damping; season as a part of the remainder.
_GRID = np.array(list(product((0.05, 0.15, 0.4, 0.8), (0.02, 0.2), (0.9, 0.98), (0.05, 0.25))))

#: Series that are smoothed side by side: each has a value for each weight and step of a season, or up to the horizon.
#: With a day in minutes that is 100 MB.
_BLOCK = 256

#: Values that make the first level where there is no season.
_FIRST = 5


@dataclass(frozen=True)
class Forecasts:
    """Expected values at a horizon with a 95 % interval, shape (S,) each; none is negative."""

    value: FloatArray
    low: FloatArray
    high: FloatArray


def forecast(values: FloatArray, horizon: int, seasons: Sequence[int] = ()) -> Forecasts:
    """Forecast series of amounts.

    Parameters
    ----------
    values
        Series of amounts at equal distances, NaN where one is missing, shape (S, n) with n > 0.
    horizon
        Number of steps ahead, at least 1.
    seasons
        Candidate lengths of the season; those that fit at least twice into the series are tried.
    """
    blocks = [values[begin : begin + _BLOCK] for begin in range(0, len(values), _BLOCK)] or [values]
    parts = [_forecast(block, horizon, seasons) for block in blocks]
    return Forecasts(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Forecasts)))


def _forecast(values: FloatArray, horizon: int, seasons: Sequence[int]) -> Forecasts:
    best = _smoothed(values, horizon, 0)
    for season in seasons:
        if 1 < season <= values.shape[1] // 2:
            tried = _smoothed(values, horizon, season)
            better = tried.error < best.error
            best = _BestForecast(np.where(better, tried.value, best.value), np.where(better, tried.error, best.error))
    # Without comparisons the last value is the forecast.
    off = _INTERVAL * np.where(np.isfinite(best.error), best.error, 0.0)
    return Forecasts(best.value, np.maximum(best.value - off, 0.0), best.value + off)


@dataclass(frozen=True)
class _BestForecast:
    """The forecast with the best weights, and its root mean squared error; infinite if unknown."""

    value: FloatArray
    error: FloatArray


def _smoothed(values: FloatArray, horizon: int, season: int) -> _BestForecast:
    """Smooth all series with all weights at once, shape (S, G); a season of 0 means none."""
    grid = _GRID if season else np.unique(_GRID[:, :3], axis=0)
    alpha, damping = grid[:, 0], grid[:, 2]
    beta = alpha * grid[:, 1]
    gamma = (1 - alpha) * grid[:, 3] if season else np.zeros(len(grid))
    reach = (damping ** np.arange(1, horizon + 1)[:, None]).sum(axis=0)
    series, length = values.shape
    start_level, start_trend, start_season = _start(values, season)
    level = np.repeat(start_level[:, None], len(grid), axis=1)
    trend = np.repeat(start_trend[:, None], len(grid), axis=1)
    seasonal = np.repeat(start_season.T[:, :, None], len(grid), axis=2)
    squares, compared = np.zeros((series, len(grid))), np.zeros((series, 1))
    # Weights are compared over the second half, after a whole season for each candidate.
    since = max(length // 2, season)
    ahead = np.zeros((horizon, series, len(grid)))
    for step in range(length):
        own = step % len(seasonal)
        actual = values[:, step, None]
        known = ~np.isnan(actual)
        if step >= max(since, horizon):
            error = np.where(known, actual - ahead[step % horizon], 0.0)
            squares += error**2
            compared += known
        expected = level + damping * trend
        error = np.where(known, actual - (expected + seasonal[own]), 0.0)
        level = expected + alpha * error
        trend = damping * trend + beta * error
        seasonal[own] += gamma * error
        ahead[step % horizon] = level + reach * trend + seasonal[(step + horizon) % len(seasonal)]
    last = ahead[(length - 1) % horizon]
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.where(compared > 0, np.sqrt(squares / compared), np.inf)
    best = errors.argmin(axis=1)
    rows = np.arange(series)
    return _BestForecast(np.maximum(last[rows, best], 0.0), errors[rows, best])


def _start(values: FloatArray, season: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return initial level and trend, and the season, shape (S, season or 1), from the first values."""
    filled = np.array([_interpolated(series[: 2 * season or _FIRST]) for series in values])
    if not season:
        level = filled.mean(axis=1)
        return level, np.zeros_like(level), np.zeros((len(level), 1))
    first, second = filled[:, :season], filled[:, season:]
    middle = first.mean(axis=1)
    trend = (second.mean(axis=1) - middle) / season
    level = middle - trend * (season + 1) / 2
    return level, trend, first - level[:, None] - trend[:, None] * np.arange(1, season + 1)


def _interpolated(series: FloatArray) -> FloatArray:
    """Return a series with gaps interpolated linearly; zeros if all values are missing."""
    known = np.flatnonzero(~np.isnan(series))
    return np.interp(np.arange(len(series)), known, series[known]) if len(known) else np.zeros(len(series))
