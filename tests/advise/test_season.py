"""What is expected by the hour, and when that is too much."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormwright.advise.season import expected_saturations, forecast, saturation
from stormwright.testing.word_counts import WordCount
from tests.examples import examples

DAY = 1000.0 - 800.0 * np.cos(2 * np.pi * np.arange(24) / 24)  # 200 at midnight, 1,800 at noon
HOUR_0 = 490_000 // 24 * 24


def test_the_same_hour_of_the_last_day():
    found = forecast(np.tile(DAY, 3), HOUR_0)
    assert found is not None
    assert found.season == "day"
    assert found.first_hour == HOUR_0 + 72
    assert found.rate_tps == pytest.approx(DAY)
    assert found.error == 0.0


def test_the_same_hour_of_the_last_week_once_two_are_known():
    week = np.concatenate([np.tile(DAY, 5), np.tile(0.3 * DAY, 2)])
    found = forecast(np.tile(week, 2), HOUR_0)
    assert found is not None
    assert found.season == "week"
    assert found.rate_tps == pytest.approx(week)


def test_too_little_or_too_full_of_holes_is_no_forecast():
    assert forecast(DAY, HOUR_0) is None
    assert forecast(np.full(100, np.nan), HOUR_0) is None


def test_forecast_fills_missing_hour_from_the_previous_day():
    rates = np.tile(DAY, 3)
    rates[-12] = np.nan
    found = forecast(rates, HOUR_0)
    assert found is not None
    assert found.rate_tps[12] == DAY[12]


def test_saturation_reports_first_hour_above_the_limit():
    found = forecast(np.tile(DAY, 2), HOUR_0)
    assert found is not None
    result = saturation(found, "words", 1_500.0, "the CPU of node n0")
    assert result is not None
    hour = int(np.argmax(DAY > 1_500.0))
    assert result.at_ms == (HOUR_0 + 48 + hour) * 3_600_000
    assert result.certain
    assert saturation(found, "words", 2_000.0, "x") is None


def test_forecast_error_makes_saturation_possible_but_uncertain():
    rng = np.random.default_rng(0)
    rates = np.tile(DAY, 10) * rng.lognormal(0.0, 0.1, 240)
    found = forecast(rates, HOUR_0)
    assert found is not None
    assert 0.1 < found.error < 0.3  # of a quotient of two such: 1.28 × 0.14
    result = saturation(found, "words", float(found.rate_tps.max()) * 1.05, "x")
    assert result is not None
    assert not result.certain


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.one_of(st.just(float("nan")), st.floats(0, 1e6)), min_size=0, max_size=400))
def test_any_series_gives_a_forecast_of_a_season_or_none(values):
    found = forecast(np.array(values, dtype=float), HOUR_0)
    assert found is None or (len(found.rate_tps) in (24, 168) and found.error >= 0)


def test_saturation_warning_of_running_topology_names_its_limit():
    problem = WordCount(cores=0.2, pending=None, rate_tps=1_000.0).problem()
    (expected,) = expected_saturations(problem, {"words-1-0": (HOUR_0, np.tile(20 * DAY, 3))})
    assert expected.topology == "words-1-0"
    assert expected.limit == "the CPU of node n0"
    assert expected.expected_tps > expected.highest_tps
    assert expected_saturations(problem, {}) == ()
