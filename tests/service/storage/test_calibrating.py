"""What a service learns of costs as records arrive, keeps, and shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from stormwright.base.clock import WallClock
from stormwright.base.documents import FileDocument
from stormwright.formats import problem_from_dict, problem_to_dict
from stormwright.model import LoadProfile, Problem
from stormwright.pipeline.measurement.node_load import capacity_cores
from stormwright.pipeline.settings import StreamSettings
from stormwright.predict.answer import Assumptions
from stormwright.predict.calibration.windows import Windows
from stormwright.service.storage import calibration as module
from stormwright.service.storage.calibration import CostCalibration
from stormwright.testing.word_counts import WordCount
from tests.predict.calibration.log import SPREAD, Log


class Ahead(WallClock):
    """A clock that can be put forward."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


#: A minute, and the records that close its last window.
ENOUGH_S = 75


@pytest.fixture
def problem() -> Problem:
    return WordCount().problem()


def taught(path: Path, problem: Problem, log: Log, seed: int = 1) -> CostCalibration:
    calibrating = CostCalibration(FileDocument(path))
    for record in log.records(seed, seconds=ENOUGH_S):
        calibrating.count([record])
    calibrating.refresh(problem)
    return calibrating


def test_costs_accompany_load_one_minute_after_first_record(tmp_path: Path, problem: Problem) -> None:
    fresh = CostCalibration(FileDocument(tmp_path / "costs.json"))
    fresh.refresh(problem)
    none = LoadProfile({})
    assert fresh.with_costs(none) is none
    assert fresh.status()["minutes"] == 0
    calibrating = taught(tmp_path / "costs.json", problem, Log(SPREAD, serialise_us=4.0))
    load = calibrating.with_costs(problem.load or LoadProfile({}))
    assert calibrating.with_costs(problem.load or LoadProfile({})) is load, "until either is another one"
    known = Assumptions.of(problem.with_load(load))
    assert known.costs.serialise_us == pytest.approx(4.0, rel=0.1)
    assert known.costs.fitted_in is not None
    assert set(known.corrections) == {"words-1-0"}
    status = calibrating.status()
    assert status["minutes"] == 1
    assert status["errors"]["messages"] < 0.15
    assert status["figures"]["serialise_us"]["low"] < 4.0 < status["figures"]["serialise_us"]["high"]
    assert status["error"] is None
    orjson.dumps(status)


def test_costs_can_be_fitted_to_less_than_a_minute(tmp_path: Path, problem: Problem) -> None:
    calibrating = CostCalibration(FileDocument(tmp_path / "costs.json"))
    for record in Log(SPREAD, serialise_us=4.0).records(1, seconds=20):
        calibrating.count([record])
    calibrating.refresh(problem)
    assert calibrating.status()["minutes"] == 0
    calibrating.refresh(problem, min_windows=1)
    assert calibrating.status()["minutes"] == 1


def test_new_workers_are_fitted_after_three_windows_and_waited_for_until_then(tmp_path: Path, problem: Problem) -> None:
    calibrating = CostCalibration(FileDocument(tmp_path / "costs.json"))
    assert not calibrating.unfitted(problem), "no probe tells enough"
    # The workers of the log are warm; a window is closed 5 s after its end.
    for seconds, minutes in ((18, 0), (28, 1)):
        calibrating = CostCalibration(FileDocument(tmp_path / f"{seconds}.json"))
        for record in Log(SPREAD, serialise_us=4.0).records(1, seconds=seconds):
            calibrating.count([record])
        assert list(calibrating.unfitted(problem)) == ["words-1-0"]
        calibrating.refresh(problem)
        assert calibrating.status()["minutes"] == minutes
        calibrating.refresh(problem)
        assert calibrating.status()["minutes"] == minutes, "the same workers are fitted by the minute from then on"
        assert bool(calibrating.unfitted(problem)) is not bool(minutes)


def test_wait_for_first_cost_fit_times_out(tmp_path: Path, problem: Problem) -> None:
    clock = Ahead()
    calibrating = CostCalibration(FileDocument(tmp_path / "costs.json"), clock)
    for record in Log(SPREAD, serialise_us=4.0).records(1, seconds=10):
        calibrating.count([record])
    assert calibrating.unfitted(problem)
    clock.ahead_s = module.FIRST_FIT_TIMEOUT_S + 1
    assert not calibrating.unfitted(problem)


def test_a_problem_takes_its_costs_along(tmp_path: Path, problem: Problem) -> None:
    calibrating = taught(tmp_path / "costs.json", problem, Log(SPREAD, serialise_us=4.0))
    problem = problem.with_load(calibrating.with_costs(problem.load or LoadProfile({})))
    document = orjson.loads(orjson.dumps(problem_to_dict(problem)))
    again = problem_from_dict(document)
    assert Assumptions.of(again) == Assumptions.of(problem)
    assert problem_to_dict(again) == document


def test_calibration_survives_restart(tmp_path: Path, problem: Problem) -> None:
    before = taught(tmp_path / "costs.json", problem, Log(SPREAD, serialise_us=4.0))
    again = CostCalibration(FileDocument(tmp_path / "costs.json"))
    assert again.status() == before.status()
    assert again.with_costs(LoadProfile({})).costs == before.with_costs(LoadProfile({})).costs


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"version":1}', b'{"version":1,"known":{"topologies":3}}'])
def test_a_damaged_document_is_replaced(tmp_path: Path, problem: Problem, damage: bytes) -> None:
    path = tmp_path / "costs.json"
    path.write_bytes(damage)
    assert CostCalibration(FileDocument(path)).status()["minutes"] == 0
    assert taught(path, problem, Log(SPREAD)).status()["minutes"] == 1


def test_unwritable_cost_file_is_reported(tmp_path: Path, problem: Problem) -> None:
    calibrating = taught(tmp_path / "gone" / "costs.json", problem, Log(SPREAD))
    status = calibrating.status()
    assert status["minutes"] == 1
    assert "No such file" in status["error"]


def test_excess_records_are_sampled_by_node(tmp_path: Path, problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RECORDS", 5)
    calibrating = CostCalibration(FileDocument(tmp_path / "costs.json"))
    taken: list[Any] = []
    monkeypatch.setattr(Windows, "add", lambda _, records: taken.extend(records))
    records = Log(SPREAD).records(1, seconds=ENOUGH_S)
    for record in records:
        calibrating.count([record])
    late = taken[len(taken) // 2 :]
    nodes = {record["worker"]["supervisor"] for record in late}
    assert len(taken) < len(records)
    # Of a node all records are taken, or none.
    for node in nodes:
        seconds = [r["start_ms"] for r in late if r["worker"]["supervisor"] == node]
        assert max(seconds) - min(seconds) == (len(seconds) - 1) * 1000


@pytest.mark.long
def test_only_newest_minute_is_retained_before_first_poll(tmp_path: Path, problem: Problem) -> None:
    calibrating = CostCalibration(FileDocument(tmp_path / "costs.json"))
    for record in Log(SPREAD).records(1, seconds=300):
        calibrating.count([record])
    for _ in range(3):
        calibrating.refresh(problem)
    assert calibrating.status()["minutes"] == 1


def test_core_speed_differences_scale_node_capacity(tmp_path: Path, problem: Problem) -> None:
    calibrating = taught(tmp_path / "costs.json", problem, Log(SPREAD, core_hz={"n2": 1.25e9}))
    stream = StreamSettings(core_hz_of=calibrating.core_hz)
    scaled = calibrating.with_speeds(problem)
    assert [one.cpu_hz / two.cpu_hz for one, two in zip(scaled.supervisors, problem.supervisors, strict=True)] == [
        1.0,
        1.0,
        0.5,
    ]
    # Cores are as many as before.
    assert capacity_cores(scaled, stream) == capacity_cores(problem, StreamSettings())
    assert stream.core_hz_at("n2", problem.core_hz) == problem.core_hz / 2
    assert stream.core_hz_at("n0", problem.core_hz) == problem.core_hz
    # What is made of a snapshot is made once.
    assert calibrating.with_speeds(problem) is scaled
    assert calibrating.with_speeds(problem.with_current({})) is not scaled


def test_core_speed_differences_apply_before_first_cost_fit(
    tmp_path: Path, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that has just begun, and of many records some nodes' only."""
    monkeypatch.setattr(CostCalibration, "_is_sampled", lambda *_: False)
    calibrating = CostCalibration(FileDocument(tmp_path / "costs.json"))
    for record in Log(SPREAD, core_hz={"n2": 1.25e9}).records(1, seconds=3):
        calibrating.count([record])
    assert calibrating.status()["minutes"] == 0
    assert calibrating.status()["speeds"] == {"n0": 1.0, "n1": 1.0, "n2": 0.5}
    scaled = calibrating.with_speeds(problem)
    parts = [one.cpu_hz / two.cpu_hz for one, two in zip(scaled.supervisors, problem.supervisors, strict=True)]
    assert parts == [1.0, 1.0, 0.5]
    assert calibrating.core_hz == {"n2": problem.core_hz / 2}


def test_equal_core_speeds_leave_problem_unchanged(tmp_path: Path, problem: Problem) -> None:
    calibrating = taught(tmp_path / "costs.json", problem, Log(SPREAD, core_hz=dict.fromkeys(("n0", "n1"), 2.45e9)))
    assert calibrating.with_speeds(problem) is problem
    assert not calibrating.core_hz


def test_matching_declared_node_speed_is_unchanged(tmp_path: Path, problem: Problem) -> None:
    calibrating = taught(tmp_path / "costs.json", problem, Log(SPREAD, core_hz={"n2": 1.25e9}))
    declared = replace(problem, supervisors=tuple(replace(one, cpu_hz=0.8 * one.cpu_hz) for one in problem.supervisors))
    assert calibrating.with_speeds(declared) is declared
    assert not calibrating.core_hz
