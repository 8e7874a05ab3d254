"""Verdicts about soaks from samples, the record, and the choice of faults."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from stormwright_lab.chaos.faults import FILLING
from stormwright_lab.chaos.scenarios import FaultKind, FaultTarget, PlannedFault
from stormwright_lab.chaos.soak import ends_service, fault_by_chance
from stormwright_lab.chaos.soak_record import (
    RECORD,
    LedgerResult,
    ProcessSample,
    SoakEvent,
    SoakRecord,
    SoakSample,
    sample_of,
    state_sizes,
)
from stormwright_lab.chaos.soak_report import PAGE, write_page
from stormwright_lab.chaos.soak_verdict import SoakVerdict, verdict_of, windows


def record_of(
    directory: Path,
    memory_mb: Callable[[float], float],
    *,
    minutes: int = 40,
    life: Callable[[float], str] = lambda _: "1",
    files: Callable[[float], int] = lambda _: 30,
    state_mb: Callable[[float], float] = lambda _: 1.0,
) -> SoakRecord:
    """Return a record whose service and Spark have the same values, as functions of the minute."""
    record = SoakRecord(directory)
    for number in range(6 * minutes):
        minute = number / 6
        each = ProcessSample(life(minute), memory_mb(minute), files(minute), 20)
        processes = {"service": each, "spark": each}
        record.samples.append(SoakSample(60 * minute, 1, processes, {"history": state_mb(minute)}, 100.0))
    return record


def memory(verdict: SoakVerdict) -> float:
    return next(each.percent for each in verdict.growths if each.measure == "memory_mb")


def test_flat_memory_holds_whatever_the_first_minutes_and_single_samples_do(tmp_path: Path) -> None:
    def values(minute: float) -> float:
        return 100 + 10 * minute if minute < 10 else 400 if minute % 3 < 0.1 else 200

    verdict = verdict_of(record_of(tmp_path, values))
    assert verdict.faults == []
    assert memory(verdict) == pytest.approx(0, abs=0.1)


def test_growing_memory_is_a_fault(tmp_path: Path) -> None:
    verdict = verdict_of(record_of(tmp_path, lambda minute: 200 + minute))
    assert memory(verdict) == pytest.approx(100 * 29 / 225, rel=0.05)
    assert len(verdict.faults) == 2
    assert not any(each.holds for each in verdict.growths if each.measure == "memory_mb")


def test_restarts_do_not_hide_growth_and_are_none(tmp_path: Path) -> None:
    def life(minute: float) -> str:
        return str(int(minute // 20))

    grows = verdict_of(record_of(tmp_path, lambda minute: 200 + 3 * (minute % 20), life=life))
    assert memory(grows) > 5
    assert grows.lives == {"service": 2, "spark": 2}
    differs = verdict_of(record_of(tmp_path, lambda minute: 200 if minute < 20 else 300, life=life))
    assert memory(differs) == pytest.approx(0, abs=0.1)


def test_open_files_state_and_ledgers_are_checked(tmp_path: Path) -> None:
    record = record_of(
        tmp_path, lambda _: 200, files=lambda minute: 30 + int(minute), state_mb=lambda minute: 10 * minute
    )
    record.ledgers[1] = LedgerResult(1, 10, 10, 0, ("lost: spout task 0: 1",))
    verdict = verdict_of(record)
    assert len(verdict.faults) == 5
    assert verdict.state_mb_an_hour == pytest.approx(600, rel=0.05)


def test_processes_that_were_not_measured_for_long_enough_are_named(tmp_path: Path) -> None:
    assert len(verdict_of(record_of(tmp_path, lambda _: 200, minutes=8)).faults) == 1


def test_windows_are_medians_of_minutes() -> None:
    assert windows([(0, 1.0), (10, 9.0), (20, 2.0), (70, 5.0)]) == [(10, 2.0), (70, 5.0)]
    assert windows([]) == []


def test_interrupted_record_is_read_and_continued(tmp_path: Path) -> None:
    sample = SoakSample(10.0, 1, {"service": ProcessSample("1", 100.0, 3, 2)}, {"landing": 0.5}, 50.0)
    record = SoakRecord(tmp_path)
    record.add(sample)
    record.add(SoakEvent(11.0, 2, "fault", "kill nimbus"))
    with (tmp_path / RECORD).open("ab") as file:
        file.write(b'{"type": "sam')
    again = SoakRecord.read(tmp_path)
    again.add(LedgerResult(1, 5, 5, 0, ended=False))
    final = SoakRecord.read(tmp_path)
    assert final.samples == [sample]
    assert (final.elapsed_s, final.sessions, len(final.events)) == (10.0, 2, 1)
    assert final.ledgers == {1: LedgerResult(1, 5, 5, 0, ended=False)}


def test_this_process_and_its_directories_are_sampled(tmp_path: Path) -> None:
    found = sample_of(os.getpid())
    assert found is not None
    assert min(found.memory_mb, found.files, found.threads) > 0
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "part").write_bytes(bytes(2**20))
    (tmp_path / FILLING).write_bytes(bytes(2**20))
    assert state_sizes(tmp_path) == {"history": 1.0}


def test_faults_that_end_a_process_are_left_out() -> None:
    assert ends_service(PlannedFault(FaultKind.KILL, FaultTarget.SPARK))
    assert not ends_service(PlannedFault(FaultKind.STOP, FaultTarget.SERVICE, 8.0))
    rng = random.Random(1)  # noqa: S311 (no secret)
    assert not any(ends_service(fault_by_chance(rng, may_end=False)) for _ in range(300))
    assert any(ends_service(fault_by_chance(rng, may_end=True)) for _ in range(300))


@pytest.mark.slow
def test_page_is_written(tmp_path: Path) -> None:
    record = record_of(tmp_path, lambda _: 200, minutes=14)
    record.events.append(SoakEvent(60.0, 1, "fault", "kill <nimbus>"))
    write_page(tmp_path / PAGE, record, verdict_of(record))
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert "<svg" in page
    assert "kill &lt;nimbus&gt;" in page
