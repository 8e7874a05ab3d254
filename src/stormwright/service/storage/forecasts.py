"""Keeps forecasts of the load, for a scheduler that uses them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from stormwright.base.clock import WALL, Clock
from stormwright.model import LoadProfile, Problem
from stormwright.pipeline.monitoring.forecasts import FORECASTS, SEASONS, MinuteTable, forecast_minutes, with_forecast

#: From one forecast to the next, in seconds; as often the minutes are saved.
REFRESH_S = 300.0

#: Three days: daily patterns need two whole days to be detected.
KEEP_MINUTES = 3 * max(SEASONS)


class ForecastStore:
    """Stores the load of each minute and forecasts it.

    Parameters
    ----------
    path
        File for the minutes.
    ahead_min
        Number of minutes ahead for which the load is forecast.
    clock
        Clock of the cluster.
    """

    def __init__(self, path: Path, ahead_min: int, clock: Clock = WALL) -> None:
        self._clock = clock
        self._minutes = MinuteTable(path, KEEP_MINUTES)
        self._ahead_min = ahead_min
        self._forecasts = FORECASTS.empty_table()
        self._next_forecast_s = 0.0

    def note(self, problem: Problem) -> None:
        """Store the load of a problem, and update the forecast if that is due."""
        if problem.load is None:
            return
        self._minutes.add(problem.load, problem)
        if self._clock.monotonic() >= self._next_forecast_s:
            self._next_forecast_s = self._clock.monotonic() + REFRESH_S
            self._forecasts = forecast_minutes(self._minutes.table(), self._ahead_min)
            # Only a restart needs them: a full disk is no reason to stop deciding.
            with suppress(OSError):
                self._minutes.save()

    def with_forecast(self, load: LoadProfile, problem: Problem) -> LoadProfile:
        """Return a load with its newest forecast."""
        return with_forecast(load, problem, self._forecasts)
