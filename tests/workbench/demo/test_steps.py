"""What load the demonstration decides by."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from stormwright.errors import ClusterError
from stormwright.workbench.demo.steps import FITTED_S, LAST_LOAD_S, WHOLLY_S, measured_problem


class CountedMeasurement:
    """A service that measures a load of 15 s, and reports it that many seconds later."""

    def __init__(self, lag_s: float, every_s: float) -> None:
        self.now_s, self.lag_s, self.every_s = 0.0, lag_s, every_s
        clock = SimpleNamespace(monotonic=lambda: self.now_s, sleep=self.sleep)
        self.settings = SimpleNamespace(clock=clock, objective="throughput")
        self.decider = SimpleNamespace(observe=self.problem)
        self.unfitted_s = 0.0
        self.stream = SimpleNamespace(progress=lambda: {"error": None, "batch_ms": 77_195})

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def unfitted(self, problem):
        return {"words-1-0": "not yet"} if self.now_s < self.unfitted_s else {}

    def problem(self):
        end_s = (self.now_s - self.lag_s) // self.every_s * self.every_s
        load = SimpleNamespace(start_ms=1000 * (end_s - 15), end_ms=1000 * end_s)
        return SimpleNamespace(load=load if self.now_s > self.lag_s else None)


def test_measurement_waits_for_cost_fit_with_timeout():
    service = CountedMeasurement(lag_s=5.0, every_s=5.0)
    service.unfitted_s = 33.0
    measured_problem(service, since_ms=0)
    assert service.now_s == pytest.approx(33.0, abs=1)
    service = CountedMeasurement(lag_s=5.0, every_s=5.0)
    service.unfitted_s = 1e9
    measured_problem(service, since_ms=0)
    assert service.now_s == pytest.approx(FITTED_S, abs=1), "probes that tell too little are not waited for"


def test_measured_load_excludes_records_before_start():
    service = CountedMeasurement(lag_s=5.0, every_s=5.0)
    assert measured_problem(service, since_ms=0).load.start_ms == 0
    assert service.now_s == pytest.approx(20.0, abs=1)


def test_busy_machine_may_use_window_started_earlier():
    service = CountedMeasurement(lag_s=40.0, every_s=10.0)
    load = measured_problem(service, since_ms=0).load
    assert load.start_ms < 0 < load.end_ms
    assert service.now_s == pytest.approx(max(50.0, WHOLLY_S), abs=1)


def test_lagging_pipeline_is_reported():
    service = CountedMeasurement(lag_s=1000.0, every_s=5.0)
    with pytest.raises(ClusterError, match=r"no load within 180 s: its last batch took 77 s: is the machine"):
        measured_problem(service, since_ms=0)
    assert service.now_s == pytest.approx(LAST_LOAD_S, abs=1)
