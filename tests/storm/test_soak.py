"""A short soak on a cluster of its own, in two sessions."""

from __future__ import annotations

from pathlib import Path

import pytest
from stormwright_lab.chaos.soak import SoakSettings, soak
from stormwright_lab.chaos.soak_record import SoakRecord
from stormwright_lab.chaos.soak_verdict import verdict_of

pytestmark = [pytest.mark.storm, pytest.mark.slow, pytest.mark.timeout(900)]


def test_soak_samples_both_processes_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    record = SoakRecord(tmp_path / "soak")
    soak(SoakSettings(2.0, 1, record.directory), record, lambda _: None)
    again = SoakRecord.read(record.directory)
    soak(SoakSettings(3.0, 1, record.directory), again, lambda _: None)
    assert again.sessions == 2
    assert [each.violations for each in again.ledgers.values()] == [(), ()]
    verdict = verdict_of(again, 0.0)
    assert {each.process for each in verdict.growths} == {"service", "spark"}
    assert verdict.state_mb > 0
