"""What becomes of a delivery once it is on disk."""

from __future__ import annotations

import gc
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stormwright.controller.tally import Tally
from stormwright.perflog.landing import Landing
from stormwright.perflog.records import encode
from stormwright.service.intake import Intake
from tests.controller.builders import record


def intake(directory: Path, count: Any) -> tuple[Intake, Landing]:
    landing = Landing(directory)
    return Intake(landing, Tally(), SimpleNamespace(count=count)), landing  # type: ignore[arg-type]


def test_what_is_on_disk_is_kept_though_it_cannot_be_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Refused, it would be delivered again, and be on disk twice."""
    failing = [True]

    def count(_: object) -> None:
        if failing[0]:
            raise ValueError("no such window")

    taking, landing = intake(tmp_path, count)
    with caplog.at_level(logging.ERROR):
        for seq in range(3):
            taking.take([encode(record("t", "n0", seq))])
        assert [entry.getMessage() for entry in caplog.records] == [
            "records on disk are missing in the live counts: ValueError: no such window"
        ], "told once"
        failing[0] = False
        taking.take([encode(record("t", "n0", 3))])
        failing[0] = True
        taking.take([encode(record("t", "n0", 4))])
    assert len(caplog.records) == 2, "and again once it was over"
    assert len(landing.files()) == 5


def test_what_is_not_on_disk_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    counted: list[object] = []
    taking, _ = intake(tmp_path, counted.append)
    monkeypatch.setattr("stormwright.perflog.landing.write_whole", full)
    with pytest.raises(OSError, match="No space left"):
        taking.take([encode(record("t", "n0", 0))])
    assert counted == []


def test_nothing_is_collected_while_records_are_counted(tmp_path: Path) -> None:
    """Each collection looks at all that the service holds, and Nimbus may wait for it."""
    enabled: list[bool] = []
    taking, _ = intake(tmp_path, lambda _: enabled.append(gc.isenabled()))
    taking.take([encode(record("t", "n0", 0))])
    assert enabled == [False]
    assert gc.isenabled()
