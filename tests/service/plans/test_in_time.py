"""Who waits for a plan waits for as long as the problem is large, unless a time limit of the search is set."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from stormwright.cli.triggers import by_goal
from stormwright.controller.objectives.outlook import OBJECTIVES
from stormwright.errors import InputError
from stormwright.model import Assignment, Problem
from stormwright.service.plans.scheduler_wrappers import TimeBoundedScheduler


def test_larger_problems_are_searched_for_longer() -> None:
    limits: list[float] = []

    def made(seconds: float) -> Any:
        limits.append(seconds)
        return SimpleNamespace(schedule=lambda _: Assignment(np.zeros(1, np.int32)))

    scheduler = TimeBoundedScheduler(made)
    for executors in (10, 1_000, 100_000):
        problem: Problem = SimpleNamespace(num_executors=executors)  # type: ignore[assignment]
        scheduler.schedule(problem)
    assert limits == sorted(limits)
    assert limits[1] < 0.7
    assert 5 < limits[2] < 10


@pytest.mark.parametrize("goal", OBJECTIVES)
def test_default_optimizer_runs_within_time_bound(goal: str) -> None:
    assert isinstance(by_goal("optimizer", (), None)(goal), TimeBoundedScheduler)


def test_explicit_scheduler_settings_disable_default_time_bound() -> None:
    for setting in ("time_budget_s=30", "iterations=2000"):
        assert not isinstance(by_goal("optimizer", [setting], None)("throughput"), TimeBoundedScheduler)
    for name in ("online", "n_version"):
        assert not isinstance(by_goal(name, (), None)("throughput"), TimeBoundedScheduler)
    with pytest.raises(InputError, match="no_such"):
        by_goal("optimizer", ["no_such=1"], None)("throughput")
