"""Whoever dies whenever, and however late anything is: nothing is lost, nobody stays paused, and a revert is exact."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence

import pytest

from tests.exploration.explore import explore, unpredicted
from tests.exploration.schedule import Death, Schedule, by_chance, every_death, smallest

#: Schedules by chance: `benchmarks/simulator/exploration.py` runs thousands.
SCHEDULES = int(os.environ.get("STORMWRIGHT_RANDOM_SCHEDULES", "16"))

#: About as many steps and messages as there are in a run in which nothing happens.
STEPS, MESSAGES = 250, 250


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.CRITICAL, "stormwright")
    with unpredicted():
        yield


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_whatever_happens_by_chance(seed: int) -> None:
    schedule = by_chance(seed, STEPS, MESSAGES)
    assert explore(schedule).broken == "", smallest(schedule, lambda smaller: bool(explore(smaller).broken))


@pytest.mark.parametrize("first", range(3))
def test_safety_properties_hold_for_sampled_single_deaths(first: int) -> None:
    """At every step of every world: `benchmarks/simulator/exploration.py`."""
    steps = explore(Schedule(first)).steps
    some = list(every_death(first, steps))[first :: 3 * steps // 7]
    assert [(str(each), found) for each in some if (found := explore(each).broken)] == []


def test_the_same_schedule_is_the_same_run() -> None:
    schedule = by_chance(5, STEPS, MESSAGES)
    one, other = explore(schedule), explore(schedule)
    assert (one.steps, one.messages) == (other.steps, other.messages)


def test_exploration_detects_a_move_without_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    def undrained(topologies: Sequence[object], *_: object) -> list[object]:
        return []

    monkeypatch.setattr("stormwright.controller.move.drain", undrained)
    assert "trees have lost a tuple" in explore(Schedule(1)).broken


def test_exploration_shrinks_a_forgotten_pause_to_one_death(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stormwright.controller.safety.pauses.Pauses._write", lambda *_: None)
    monkeypatch.setattr("tests.exploration.explore._LONGEST_S", 200.0)
    least = next(each for at in range(20, 40) if explore(each := Schedule(1, (Death(at, "service"),))).broken)
    more = Schedule(
        1, (*least.deaths, Death(10_000, "worker")), tuple((number, 0.3) for number in range(90_000, 90_004))
    )
    assert "is left INACTIVE" in explore(more).broken
    assert smallest(more, lambda smaller: bool(explore(smaller).broken)) == least
