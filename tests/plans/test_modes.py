"""What the service may do unattended, and when."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stormwright.errors import InputError
from stormwright.plans.modes import (
    Modes,
    closed_reason,
    mode_of,
    staying,
    strongest,
    unmatched_patterns,
    windows_of,
    without_expired_freeze,
)


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_unmatched_mode_pattern_is_reported_with_existing_topologies():
    modes = Modes(topologies={"word-cuont": "auto", "word-*": "suggest", "word-count-1-0": "observe", "x": "auto"})
    unmatched = unmatched_patterns(modes, [("word-count-1-0", "word-count"), ("pay-2-0", "pay")])
    assert unmatched == (
        "word-cuont matches no running topology, so its mode has no effect yet; did you mean word-count?",
        "x matches no running topology, so its mode has no effect yet; known: pay, word-count",
    )
    assert unmatched_patterns(Modes(), []) == ()


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
    assert (closed_reason(Modes(windows=(window,)), at(moment)) == "") == holds


def test_all_invalid_windows_are_reported() -> None:
    with pytest.raises(InputError) as error:
        windows_of(Modes(windows=("25:00-26:00", "22:00-23:00", "Foo 10:00-11:00", "10:61-11:00")))
    assert [fault.path for fault in error.value.faults] == ["$.windows[0]", "$.windows[2]", "$.windows[3]"]


def test_first_matching_pattern_sets_the_mode() -> None:
    modes = Modes(default="auto", topologies={"pay-*": "observe", "*-9-0": "suggest"})
    assert mode_of(modes, "pay-out-1-0", "pay-out") == "observe"
    assert mode_of(modes, "word-9-0", "word") == "suggest"
    assert mode_of(modes, "word-1-0", "word") == "auto"


def test_observed_topologies_stay_unless_every_topology_is_observed() -> None:
    known = [("a-1", "a"), ("b-1", "b")]
    assert staying(Modes(), known, {}) == {}
    assert staying(Modes(topologies={"b": "auto"}), known, {}) == {"a-1": "its mode is observe"}
    assert staying(Modes(default="suggest"), known, {"a-1": "77"}) == {"a-1": "plan 77 waits for a person"}
    assert strongest(Modes(topologies={"b": "suggest"}), known) == "suggest"


def test_frozen_is_closed() -> None:
    assert closed_reason(Modes(frozen="month end", windows=("00:00-24:00",)), 0.0) == "frozen: month end"


def test_freeze_ends_at_its_deadline() -> None:
    until_ms = round(1000 * at("2026-12-31T06:00"))
    modes = Modes(frozen="end of the year", frozen_until_ms=until_ms)
    assert without_expired_freeze(modes, at("2026-12-31T05:59")) is modes
    assert without_expired_freeze(modes, at("2026-12-31T06:00")) == Modes()
    for_ever = Modes(frozen="end of the year")
    assert without_expired_freeze(for_ever, at("2030-01-01T00:00")) is for_ever


@pytest.mark.parametrize(
    ("moment", "holds"),
    [
        ("2026-01-05T00:30", True),  # 01:30 in Berlin, in winter
        ("2026-01-05T04:30", False),
        ("2026-07-06T23:30", True),  # 01:30 on the next day, in summer
        ("2026-07-06T00:30", True),
        ("2026-07-06T03:30", False),
        ("2026-07-10T23:30", False),  # Saturday there
    ],
)
def test_windows_are_of_a_time_zone(moment: str, holds: bool) -> None:
    modes = Modes(windows=("Mon-Fri 01:00-05:00",), time_zone="Europe/Berlin")
    expected = "" if holds else "outside of Mon-Fri 01:00-05:00 (Europe/Berlin)"
    assert closed_reason(modes, at(moment)) == expected


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../etc/passwd", "", "x" * 99, "Europe"])
def test_unknown_time_zone_is_reported_with_other_faults(zone: str) -> None:
    with pytest.raises(InputError) as error:
        windows_of(Modes(windows=("noon",), time_zone=zone))
    assert [fault.path for fault in error.value.faults] == ["$.time_zone", "$.windows[0]"]
