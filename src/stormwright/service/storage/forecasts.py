"""Keeps forecasts of the load, for a scheduler that uses them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from stormwright.clock import WALL, Clock
from stormwright.model import LoadProfile, Problem
from stormwright.pipeline.monitoring.forecasts import FORECASTS, SEASONS, MinuteTable, forecast_minutes, with_forecast

#: From one forecast to the next, in seconds; as often the minutes are saved.
REFRESH_S = 300.0

#: A day can be told from the next once two have been seen.
KEEP_MINUTES = 3 * max(SEASONS)


class ForecastStore:
    """Notes the load minute by minute and tells what is expected of it.

    Parameters
    ----------
    path
        File for the minutes.
    ahead_min
        How many minutes ahead.
    clock
        Of the cluster.
    """

    def __init__(self, path: Path, ahead_min: int, clock: Clock = WALL) -> None:
        self._clock = clock
        self._minutes = MinuteTable(path, KEEP_MINUTES)
        self._ahead_min = ahead_min
        self._forecasts = FORECASTS.empty_table()
        self._next_s = 0.0

    def note(self, problem: Problem) -> None:
        """Take note of the load that the problem has, and forecast anew when it is time."""
        if problem.load is None:
            return
        self._minutes.add(problem.load, problem)
        if self._clock.monotonic() >= self._next_s:
            self._next_s = self._clock.monotonic() + REFRESH_S
            self._forecasts = forecast_minutes(self._minutes.table(), self._ahead_min)
            # Only a restart needs them: a full disk is no reason not to look at the placement.
            with suppress(OSError):
                self._minutes.save()

    def added_to(self, load: LoadProfile, problem: Problem) -> LoadProfile:
        """A load of the problem with the newest forecast of it."""
        return with_forecast(load, problem, self._forecasts)
