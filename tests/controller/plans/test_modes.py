"""What the service may do by itself, and when."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stormwright.client.shapes import Modes
from stormwright.controller.plans.modes import closed, mode_of, staying, strongest, windows_of
from stormwright.errors import InputError


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("window", "moment", "holds"),
    [
        ("22:00-04:00", "2026-11-23T23:00", True),
        ("22:00-04:00", "2026-11-24T03:59", True),
        ("22:00-04:00", "2026-11-24T04:00", False),
        ("Mon-Fri 22:00-04:00", "2026-11-28T03:00", True),  # Saturday, begun on Friday
        ("Mon-Fri 22:00-04:00", "2026-11-28T23:00", False),
        ("Mon-Fri 22:00-04:00", "2026-11-23T03:00", False),  # Monday, begun on Sunday
        ("Sun 00:00-24:00", "2026-11-22T12:00", True),
        ("Sun 00:00-24:00", "2026-11-23T00:00", False),
        ("Sat-Mon 08:00-10:00", "2026-11-23T09:00", True),
        ("08:00-10:00", "2026-11-23T10:00", False),
    ],
)
def test_windows(window: str, moment: str, holds: bool) -> None:
    assert (closed(Modes(windows=(window,)), at(moment)) == "") == holds


def test_all_windows_that_are_none_are_told() -> None:
    with pytest.raises(InputError) as told:
        windows_of(Modes(windows=("25:00-26:00", "22:00-23:00", "Foo 10:00-11:00", "10:61-11:00")))
    assert [fault.path for fault in told.value.faults] == ["$.windows[0]", "$.windows[2]", "$.windows[3]"]


def test_the_first_pattern_that_fits_counts() -> None:
    modes = Modes(default="auto", topologies={"pay-*": "observe", "*-9-0": "suggest"})
    assert mode_of(modes, "pay-out-1-0", "pay-out") == "observe"
    assert mode_of(modes, "word-9-0", "word") == "suggest"
    assert mode_of(modes, "word-1-0", "word") == "auto"


def test_who_is_only_observed_stays_unless_all_are() -> None:
    known = [("a-1", "a"), ("b-1", "b")]
    assert staying(Modes(), known, {}) == {}
    assert staying(Modes(topologies={"b": "auto"}), known, {}) == {"a-1": "its mode is observe"}
    assert staying(Modes(default="suggest"), known, {"a-1": "77"}) == {"a-1": "plan 77 waits for a person"}
    assert strongest(Modes(topologies={"b": "suggest"}), known) == "suggest"


def test_frozen_is_closed() -> None:
    assert closed(Modes(frozen="month end", windows=("00:00-24:00",)), 0.0) == "frozen: month end"
