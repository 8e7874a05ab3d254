"""The service keeps forecasts where its scheduler uses them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stormwright.model import LoadProfile
from stormwright.model.load import assumed_load
from stormwright.schedulers import make_scheduler
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from stormwright.service.storage.forecasts import ForecastStore
from tests.controller.builders import problem, topology


@pytest.mark.parametrize(("name", "expected"), [("predictive", True), ("online", False)])
def test_forecasts_are_made_only_for_schedulers_using_them(tmp_path: Path, name: str, expected: bool) -> None:
    service = Service(ServiceSettings(tmp_path, "127.0.0.1", 0, forecast_min=7), make_scheduler(name), name, [])
    assert bool(service._cluster.view._forecasts) is expected  # noqa: SLF001
    status = service.status()
    assert (status.drift, status.counts.looks) == ((), 0)


@pytest.mark.long
def test_rising_load_is_forecast_higher_and_survives_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stormwright.service.storage.forecasts.REFRESH_S", 0.0)
    t = topology("t")
    of = problem([t])
    forecasting = ForecastStore(tmp_path / "minutes.arrow", ahead_min=10)
    load = assumed_load(t, 3e9)
    for minute in range(40):
        now = replace(load, cpu_hz=np.full_like(load.cpu_hz, 1e9 + 1e7 * minute))
        profile = LoadProfile({t.id: now}, start_ms=60_000 * minute, end_ms=60_000 * minute + 15_000)
        forecasting.note(of.with_load(profile))
    forecasting.note(of)
    for known in (forecasting, ForecastStore(tmp_path / "minutes.arrow", ahead_min=10)):
        known.note(of.with_load(profile))
        expected = known.with_forecast(profile, of).topologies[t.id].forecast_cpu_hz
        assert expected is not None
        # At minute 48: the newest that is over is the 38th.
        assert expected.tolist() == pytest.approx([1.48e9] * 4, rel=0.03)
    assert profile.topologies[t.id].forecast_cpu_hz is None


def test_missing_forecast_directory_does_not_abort_decision(tmp_path: Path) -> None:
    t = topology("t")
    profile = LoadProfile({t.id: assumed_load(t, 3e9)}, start_ms=60_000, end_ms=75_000)
    forecasting = ForecastStore(tmp_path / "gone" / "minutes.arrow", ahead_min=10)
    forecasting.note(problem([t]).with_load(profile))
    assert forecasting.with_forecast(profile, problem([t])) == profile
