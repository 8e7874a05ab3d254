"""Changes of loads are found soon, and noise is not taken for one, against simulated truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stormwright.model import LoadProfile, Topology, TopologyLoad
from stormwright.model.load import assumed_load
from stormwright.pipeline.monitoring.cusum import Cusum, CusumSettings
from stormwright.pipeline.monitoring.drift import DriftWatch
from tests.controller.builders import problem, topology

FAMILY = 20
WINDOW_MS = 15_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "noise", [0.02, pytest.param(0.05, marks=pytest.mark.slow), pytest.param(0.1, marks=pytest.mark.slow)]
)
def test_false_alarms_are_as_rare_as_claimed(noise: float) -> None:
    """A million windows of families of 20 stationary series: one alarm in 10,000 would make a hundred."""
    rng = np.random.default_rng(8)
    families, windows = 500, 2000
    settings = CusumSettings()
    watch = Cusum(settings, FAMILY, 1e-3)
    level = rng.uniform(1, 50, families * FAMILY)
    watched, alarms, quiet = 0, 0, np.ones(families, bool)
    for _ in range(windows):
        changed = watch.add(level * np.exp(rng.normal(0, noise, level.shape))).reshape(families, FAMILY)
        watched += int(quiet.sum())
        alarms += int((changed.any(axis=1) & quiet).sum())
        quiet &= ~changed.any(axis=1)
    assert alarms <= watched / settings.false_alarm_windows


@pytest.mark.parametrize(("factor", "within"), [(1.5, 3), (0.5, 2), (2.0, 2), (1.3, 7)])
def test_a_change_is_found_within_a_few_windows(factor: float, within: int) -> None:
    rng = np.random.default_rng(9)
    watch = Cusum(CusumSettings(), FAMILY, 1e-3)
    level, before = rng.uniform(1, 50, 2000), 40
    found_after = np.full(len(level), np.inf)
    changes, since = np.empty(len(level)), np.empty(len(level))
    for window in range(before + 30):
        values = level * np.exp(rng.normal(0, 0.05, level.shape)) * (factor if window >= before else 1)
        for series in np.flatnonzero(watch.add(values)).tolist():
            if found_after[series] == np.inf:
                found_after[series] = window - before + 1
                changes[series], windows = watch.change(series)
                since[series] = window - before + 1 - windows
    assert np.all(found_after > 0), "nothing was found before there was a change"
    assert np.quantile(found_after, 0.99) <= within
    assert np.median(changes) == pytest.approx(factor - 1, rel=0.15)
    # Within a window of when it began.
    assert np.mean(np.abs(since) <= 1) > 0.95


def profile(t: Topology, load: TopologyLoad, window: int) -> LoadProfile:
    return LoadProfile({t.id: load}, start_ms=window * WINDOW_MS, end_ms=(window + 1) * WINDOW_MS)


def noisy(load: TopologyLoad, rng: np.random.Generator, *, cpu: float = 1, traffic: float = 1) -> TopologyLoad:
    def some(values: np.ndarray, factor: float) -> np.ndarray:
        return values * factor * np.exp(rng.normal(0, 0.03, values.shape))

    return replace(load, cpu_hz=some(load.cpu_hz, cpu), pair_tps=some(load.pair_tps, traffic))


def test_drift_reports_quantity_change_and_start_time() -> None:
    rng, t = np.random.default_rng(3), topology("t")
    load = assumed_load(t, 3e9)
    watch = DriftWatch()
    for window in range(20):
        assert watch.see(profile(t, noisy(load, rng), window)) == []
    for window in range(20, 26):
        drifts = watch.see(profile(t, noisy(load, rng, traffic=1.6), window))
    (drift,) = drifts
    assert (drift.topology, drift.what) == (t.id, "traffic")
    assert drift.change == pytest.approx(0.6, rel=0.25)
    assert drift.since_ms == 20 * WINDOW_MS
    # It stays until the restart; then the new load is what it shall be.
    assert watch.see(profile(t, noisy(load, rng), 26)) == [drift]
    watch.restart(30 * WINDOW_MS)
    assert watch.see(profile(t, noisy(load, rng, cpu=9), 29)) == []
    for window in range(30, 50):
        assert watch.see(profile(t, noisy(load, rng, traffic=1.6), window)) == []


def test_overlapping_windows_count_once_and_rebalance_resets_drift_detection() -> None:
    rng, t, wider = np.random.default_rng(3), topology("t"), topology("t", bolts=5)
    load = assumed_load(t, 3e9)
    watch = DriftWatch()
    for window in range(10):
        watch.see(profile(t, noisy(load, rng), window))
    half = replace(profile(t, noisy(load, rng, cpu=5), 9), start_ms=int(9.5 * WINDOW_MS))
    for _ in range(20):
        assert watch.see(half) == []
    for window in range(11, 30):
        assert watch.see(profile(wider, noisy(assumed_load(wider, 3e9), rng, cpu=5), window)) == []
    assert watch.see(LoadProfile({}, start_ms=10**9, end_ms=10**9 + 1)) == []


def test_idle_topology_receiving_load_counts_as_drift() -> None:
    t = topology("t")
    load = assumed_load(t, 3e9)
    idle = replace(load, cpu_hz=load.cpu_hz * 0, pair_tps=load.pair_tps * 0)
    watch = DriftWatch()
    for window in range(10):
        assert watch.see(profile(t, idle, window)) == []
    (drift,) = watch.see(profile(t, load, 10))
    assert drift.executor is None
    assert drift.topology in problem([t]).topology_index
