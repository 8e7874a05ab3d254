"""Seasonal forecasts of hourly rates, and when they exceed the capacity of the running placement.

The seasonal naive forecast (R. J. Hyndman, G. Athanasopoulos, "Forecasting: Principles and Practice", 3rd edition,
2021, section 5.2, without a DOI): the value of the same hour of the last day, or of the last week if two weeks are
known. Its error is estimated from past forecasts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import FloatArray
from stormwright.predict.answer import predict

#: Lengths of the supported seasons in hours, the longest first.
SEASONS = {"week": 168, "day": 24}

#: Number of known seasons required for an error, and the maximum fraction of their hours that may be missing.
_SEASONS_KNOWN, _MISSING = 2, 0.25

#: Part of the forecasts covered by the error.
_COVERED = 0.9


@dataclass(frozen=True, eq=False)
class Forecast:
    """Expected trees/s by hour.

    Parameters
    ----------
    season
        Length of the season: ``day`` or ``week``.
    first_hour
        The first hour, since 1970.
    rate_tps
        Expected rates, NaN where the same hour was unknown, shape (hours,).
    error
        90th percentile of the relative shortfall of past forecasts; 0 if they were not too low.
    """

    season: str
    first_hour: int
    rate_tps: FloatArray
    error: float


@dataclass(frozen=True)
class Saturation:
    """Expected saturation of a topology.

    Parameters
    ----------
    topology
        Name of the topology.
    at_ms
        Beginning of the hour of saturation, in ms since 1970.
    expected_tps, highest_tps
        Expected trees/s at that time, and trees/s that the running placement sustains.
    certain
        Whether the expected rate exceeds the limit without adding the forecast error.
    error
        Relative error of the forecast, as in `Forecast`.
    limit
        Description of the full resource.
    season
        Season of the forecast, as in `Forecast`.
    """

    topology: str
    at_ms: int
    expected_tps: float
    highest_tps: float
    certain: bool
    error: float
    limit: str
    season: str


def forecast(rate_tps: FloatArray, first_hour: int) -> Forecast | None:
    """Return the forecast of the next season; None if too little is known.

    Parameters
    ----------
    rate_tps
        Hour by hour, NaN where it is unknown or left out, shape (hours,).
    first_hour
        Hour of the first value, since 1970.
    """
    for name, season in SEASONS.items():
        if len(rate_tps) < _SEASONS_KNOWN * season:
            continue
        now, before = rate_tps[season:], rate_tps[:-season]
        known = np.isfinite(now) & np.isfinite(before)
        if np.mean(known) < 1 - _MISSING:
            continue
        error = too_low_by(now[known], before[known])
        last = rate_tps[-season:]
        # An hour that is missing is taken from the season before.
        last = np.where(np.isfinite(last), last, rate_tps[-2 * season : -season])
        return Forecast(name, first_hour + len(rate_tps), last, error)
    return None


def too_low_by(came: FloatArray, expected: FloatArray) -> float:
    """Return the 90th percentile of the relative shortfall of forecasts above 0, at least 0; shape (hours,) each."""
    some = expected > 0
    if not np.any(some):
        return 0.0
    return max(float(np.quantile(came[some] / expected[some] - 1, _COVERED)), 0.0)


def saturation(found: Forecast, topology: str, highest_tps: float, limit: str) -> Saturation | None:
    """Return the first hour of an expected or possible saturation of a topology; None if there is none.

    Parameters
    ----------
    found
        Forecast of the topology's rate.
    topology
        Name of the topology.
    highest_tps, limit
        Trees/s that the running placement sustains, and the resource that limits it.
    """
    for certain, factor in ((True, 1.0), (False, 1.0 + found.error)):
        over = np.flatnonzero(found.rate_tps * factor > highest_tps)
        if len(over):
            hour = int(over[0])
            expected = float(found.rate_tps[hour])
            at_ms = (found.first_hour + hour) * 3_600_000
            return Saturation(topology, at_ms, expected, highest_tps, certain, found.error, limit, found.season)
    return None


def expected_saturations(problem: Problem, series: Mapping[str, tuple[int, FloatArray]]) -> tuple[Saturation, ...]:
    """Return the first expected saturation of each running topology.

    Parameters
    ----------
    problem
        Problem with a load, measured under its current placement.
    series
        Topology id → first hour since 1970, and trees/s hour by hour.
    """
    found = []
    for one in predict(problem).topologies:
        first, rates = series.get(one.topology, (0, np.empty(0)))
        expected = forecast(rates, first)
        limit = str(one.bottleneck)
        expected_saturation = saturation(expected, one.topology, one.reachable_tps.value, limit) if expected else None
        found += [expected_saturation] if expected_saturation else []
    return tuple(sorted(found, key=lambda each: each.at_ms))
