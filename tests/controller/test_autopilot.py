"""The autopilot in virtual time: random days of a source with a daily curve, a spike and an outage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from stormwright.controller.autopilot import Autopilot, AutopilotSettings, Observed, Slo
from stormwright.model.topology_config import MAX_CORES, SLO_LAG, SLO_P99

#: Trees/s of a size, and seconds of a step, of a day, and of the pause of a change.
SIZE_TPS, STEP_S, DAY_S, PAUSE_S = 100.0, 10.0, 86_400.0, 15.0

LAG_S = 60.0


@dataclass
class Day:
    """Result of a day."""

    violated: float
    sizes: float
    fixed: float
    changes: list[tuple[float, int, int]]


def arriving(rng: np.random.Generator) -> tuple[np.ndarray, tuple[float, float]]:
    """Trees/s in each step, and the time in which the source is away: what it would have sent comes after."""
    at = np.arange(0, DAY_S, STEP_S)
    least = rng.uniform(150, 300)
    curve = least * (1 + 1.5 * (1 - np.cos(2 * np.pi * (at / DAY_S + rng.uniform()))))
    noise = np.exp(0.05 * np.convolve(rng.normal(size=len(at)), np.ones(6) / 6**0.5, "same"))
    begin = rng.uniform(0.1, 0.9) * DAY_S
    spike = 1 + (rng.uniform(0.3, 1.0)) * np.clip(1 - np.abs(at - begin) / rng.uniform(600, 1800), 0, 1)
    tps = curve * noise * spike
    off = rng.uniform(0.1, 0.9) * DAY_S, rng.uniform(120, 600)
    return tps, (off[0], off[0] + off[1])


def run(seed: int, settings: AutopilotSettings | None = None) -> Day:
    rng = np.random.default_rng(seed)
    tps, (off, on) = arriving(rng)
    pilot = Autopilot(Slo(lag_s=LAG_S), settings)
    size = int(np.ceil(tps[0] / SIZE_TPS / 0.6))
    backlog, held, pause, excused, violated = 0.0, 0.0, 0.0, 0.0, 0
    used, changes = 0.0, list[tuple[float, int, int]]()
    for number, wanted in enumerate(tps.tolist()):
        at = number * STEP_S
        if off <= at < on:
            held += wanted * STEP_S  # by whoever sends
            came = 0.0
        else:
            came, held = wanted * STEP_S + held, 0.0
        backlog += came
        handled = min(backlog, size * SIZE_TPS * max(STEP_S - pause, 0.0))
        backlog -= handled
        pause = max(pause - STEP_S, 0.0)
        lag = backlog / max(wanted, 1.0)
        # The backlog of an outage of the source is to be worked off in time, not at once.
        excused = on + 900.0 if at < on + STEP_S and at >= off else excused
        violated += lag > LAG_S and at > excused
        used += size
        pilot.observe(Observed(at, handled / STEP_S, arriving_tps=came / STEP_S, backlog=backlog))
        if found := pilot.wanted(at, size * SIZE_TPS):
            other = max(int(np.ceil(found.tps / SIZE_TPS)), 1)
            if (other > size) == found.is_more and other != size:
                changes.append((at, size, other))
                size, pause = other, PAUSE_S
                pilot.changed(at)
    fixed = float(np.ceil(tps.max() / SIZE_TPS / 0.85))
    return Day(violated / len(tps), used / len(tps), fixed, changes)


#: Number of days.
DAYS = 12


@pytest.mark.long
def test_objective_is_held_with_few_changes_and_cores() -> None:
    days = [run(seed) for seed in range(DAYS)]
    assert max(day.violated for day in days) <= 0.03
    assert np.mean([len(day.changes) for day in days]) <= 8
    assert np.mean([day.sizes / day.fixed for day in days]) <= 0.7
    for day in days:
        for (before_s, was, became), (after_s, _, other) in zip(day.changes, day.changes[1:], strict=False):
            undone = (other - became) * (became - was) < 0
            assert not undone or after_s - before_s >= 600


def observe(pilot: Autopilot, *rates: float, since_s: float = 0.0, **more: float) -> float:
    for number, rate in enumerate(rates):
        pilot.observe(Observed(since_s + 10 * number, rate, **more))
    return since_s + 10 * (len(rates) - 1)


def test_capacity_rises_for_demand_backlog_and_latency() -> None:
    now_s = observe(pilot := Autopilot(Slo(lag_s=60)), *[95.0] * 10)
    assert pilot.wanted(now_s, 200.0) is None
    found = pilot.wanted(now_s, 100.0)
    assert found is not None
    assert (found.is_more, found.tps) == (True, pytest.approx(95 / 0.65))
    assert "95 trees/s arrive; 100 can be handled" in found.why
    # Spouts that wait handle less than what comes, whatever is predicted.
    now_s = observe(pilot := Autopilot(Slo(lag_s=60)), *[95.0] * 10, waiting=1.0)
    full = pilot.wanted(now_s, 1000.0)
    assert full is not None
    assert full.tps == pytest.approx(1.3 * 95 / 0.65)
    # And a rate that was handled is a capacity.
    now_s = observe(pilot := Autopilot(Slo(lag_s=60)), *[150.0] * 5, *[120.0] * 5)
    assert pilot.wanted(now_s, 100.0) is None
    now_s = observe(pilot := Autopilot(Slo(p99_ms=100)), *[95.0] * 10, p99_ms=150.0)
    assert pilot.wanted(now_s, 140.0) is not None
    assert pilot.wanted(now_s, 1000.0) is None, "it is slow for another reason"
    now_s = observe(pilot := Autopilot(Slo(lag_s=60)), *[95.0] * 10, arriving_tps=95.0, backlog=95 * 630.0)
    late = pilot.wanted(now_s, 120.0)
    assert late is not None
    assert late.tps == pytest.approx((95 + 95) / 0.65)


def test_changes_are_limited() -> None:
    settings = AutopilotSettings(max_changes=2)
    now_s = observe(pilot := Autopilot(Slo(lag_s=60), settings), *[95.0] * 10)
    for _ in range(2):
        assert pilot.wanted(now_s, 100.0) is not None
        pilot.changed(now_s)
        assert pilot.wanted(now_s + 10, 100.0) is None, "nothing was measured since"
        now_s = observe(pilot, *[95.0] * 10, since_s=now_s + 10)
    assert pilot.wanted(now_s, 100.0) is None
    now_s = observe(pilot, *[95.0] * 10, since_s=now_s + 86_400)
    assert pilot.wanted(now_s, 100.0) is not None
    assert pilot.wanted(now_s + 60, 100.0) is None, "that was a minute ago"


def test_smaller_size_that_was_not_enough_is_not_tried_again_for_the_same_demand() -> None:
    settings = AutopilotSettings(look_back_s=100.0, cool_down_s=100.0)
    now_s = observe(pilot := Autopilot(Slo(lag_s=60), settings), *[40.0] * 20)
    less = pilot.wanted(now_s, 100.0)
    assert less is not None
    assert not less.is_more
    pilot.taken_back(now_s)
    now_s = observe(pilot, *[40.0] * 20, since_s=now_s + 10)
    assert pilot.wanted(now_s, 100.0) is None
    now_s = observe(pilot, *[20.0] * 20, since_s=now_s + 10)
    assert pilot.wanted(now_s, 100.0) is not None


def test_an_hour_of_demand_begins_again_after_a_gap() -> None:
    settings = AutopilotSettings(look_back_s=600.0, cool_down_s=100.0)
    now_s = observe(pilot := Autopilot(Slo(lag_s=60), settings), *[40.0] * 70)
    assert pilot.wanted(now_s, 100.0) is not None
    now_s = observe(pilot, *[40.0] * 10, since_s=now_s + 3600)
    assert pilot.wanted(now_s, 100.0) is None


def test_objectives_are_read_from_the_configuration() -> None:
    assert Slo.of({}) is None
    assert Slo.of({MAX_CORES: 2}) is None
    assert Slo.of({SLO_P99: 80, SLO_LAG: -1, MAX_CORES: 2.5}) == Slo(80.0, None, 2.5)
