"""The smoothing and its choices against statsmodels, which knows nothing of ours."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from stormwright.pipeline.monitoring.holt_winters import forecast

SEASON, HORIZON = 6, 3

#: As the module says: level; trend as a part of it; damping; season as a part of what the level leaves.
WEIGHTS = tuple(itertools.product((0.05, 0.15, 0.4, 0.8), (0.02, 0.2), (0.9, 0.98), (0.05, 0.25)))


def seasonal(count: int, length: int, seed: int, season: int = SEASON) -> np.ndarray:
    """Amounts with a season, a trend that bends, and noise."""
    rng = np.random.default_rng(seed)
    at = np.arange(length)
    phase, trend = rng.uniform(0, 1, (count, 1)), rng.uniform(-0.3, 1, (count, 1))
    clean = 200 + trend * at + 60 * np.sin(2 * np.pi * (at / season + phase)) + 8 * np.sin(at / 9)
    return clean + rng.normal(0, 6, clean.shape)


def smoothed(values: np.ndarray, **given: Any) -> Any:
    """Their model of it; other processes are not to wait for the import."""
    from statsmodels.tsa.holtwinters import ExponentialSmoothing

    return ExponentialSmoothing(values, trend="add", damped_trend=True, **given)


def theirs(values: np.ndarray, weights: tuple[float, ...], season: int) -> tuple[float, float]:
    """Root mean squared error of statsmodels' forecasts over the second half, and its forecast for after the end."""
    level, trend, damping, of_season = weights
    start = {"initial_level": values[:5].mean(), "initial_trend": 0.0}
    smoothing = {"smoothing_level": level, "smoothing_trend": trend, "damping_trend": damping}
    if season:
        first, second = values[:season], values[season : 2 * season]
        slope = (second.mean() - first.mean()) / season
        before = first.mean() - slope * (season + 1) / 2
        steps = first - before - slope * np.arange(1, season + 1)
        start = {"initial_level": before, "initial_trend": slope, "initial_seasonal": steps}
        smoothing["smoothing_seasonal"] = (1 - level) * of_season

    def ahead(known: int) -> float:
        model = smoothed(
            values[:known],
            seasonal="add" if season else None,
            seasonal_periods=season or None,
            initialization_method="known",
            **start,
        )
        return float(model.fit(optimized=False, **smoothing).forecast(HORIZON)[-1])

    validated = range(len(values) // 2, len(values))
    errors = [values[at] - ahead(at + 1 - HORIZON) for at in validated]
    return float(np.sqrt(np.mean(np.square(errors)))), ahead(len(values))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_best_forecast_model_is_selected_and_matches_statsmodels(seed: int) -> None:
    (values,) = seasonal(1, 16, seed)
    plain = min(theirs(values, (*weights, 0.0), 0) for weights in {weights[:3] for weights in WEIGHTS})
    best = min(theirs(values, weights, SEASON) for weights in WEIGHTS)
    for seasons, (error, value) in (([], plain), ([SEASON], min(best, plain))):
        found = forecast(values[None, :], HORIZON, seasons)
        assert found.value == pytest.approx([value], rel=1e-9)
        assert found.high - found.value == pytest.approx([1.96 * error], rel=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::statsmodels.tools.sm_exceptions.ConvergenceWarning")
def test_grid_weights_forecast_nearly_as_well_as_fitted_weights() -> None:
    season, horizon, length = 12, 6, 72
    series = seasonal(24, length + horizon, seed=8, season=season)
    known, wanted = series[:, :length], series[:, length - 1 + horizon]
    fitted = [smoothed(values, seasonal="add", seasonal_periods=season).fit().forecast(horizon)[-1] for values in known]
    found = forecast(known, horizon, [season]).value

    def off(values: np.ndarray) -> float:
        return float(np.sqrt(np.mean((values - wanted) ** 2)))

    assert off(found) < 1.1 * off(np.array(fitted))
