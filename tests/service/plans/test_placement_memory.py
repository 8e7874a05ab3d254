"""On one load a service gives one answer: what was found before is predicted again, and not lost by a worse search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stormwright.controller.objectives.outlook import THROUGHPUT, TRAFFIC, Outlooks
from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.schedulers import make_scheduler
from stormwright.service.plans.scheduler_wrappers import PlacementMemory, with_memory
from stormwright.testing.word_counts import two_word_counts

#: Both topologies on all three nodes; and each on one of its own.
MIXED = np.array([0, 2, 0, 2, 4, 0, 2, 4, 0, 2, 4, 0, 1, 3, 1, 3, 5, 1, 3, 5, 1, 3, 5, 1], np.int32)
APART = np.repeat([0, 2], 12).astype(np.int32)


def mixed() -> Problem:
    problem = two_word_counts(cores=0.4, rate_tps=6_000.0)
    return problem.with_current(Assignment(MIXED).by_topology(problem))


class Searches:
    """A scheduler that finds one placement after the other."""

    params = make_scheduler("optimizer", objective=THROUGHPUT).params

    def __init__(self, *found: np.ndarray) -> None:
        self._found = list(found)

    def schedule(self, problem: Problem) -> Assignment:
        return Assignment(self._found.pop(0))


@pytest.mark.slow
def test_placement_found_before_is_returned_while_nothing_better_is_found():
    problem = mixed()
    assert Outlooks(problem, THROUGHPUT).of(APART).at_least_percent > 0
    scheduler = PlacementMemory(THROUGHPUT).wrap(Searches(APART, MIXED, MIXED))
    for _ in range(3):
        assert np.array_equal(scheduler.schedule(problem).slot_of_executor, APART)


@pytest.mark.long
def test_ten_searches_of_one_load_give_one_answer():
    """Nodes are alike, so placements that are as good as each other are found in turn."""
    problem, other = mixed(), np.repeat([4, 2], 12).astype(np.int32)
    scheduler = PlacementMemory(THROUGHPUT).wrap(Searches(*[APART, other] * 5))
    answers = {tuple(scheduler.schedule(problem).slot_of_executor.tolist()) for _ in range(10)}
    assert answers == {tuple(APART.tolist())}


@pytest.mark.slow
def test_better_placement_replaces_the_last_answer():
    problem, half = mixed(), MIXED.copy()
    half[:12] = 0
    gains = [Outlooks(problem, THROUGHPUT).of(slots).at_least_percent for slots in (half, APART)]
    assert 0 < gains[0] < gains[1]
    scheduler = PlacementMemory(THROUGHPUT).wrap(Searches(half, APART))
    for wanted in (half, APART):
        assert np.array_equal(scheduler.schedule(problem).slot_of_executor, wanted)


@pytest.mark.long
def test_placement_found_before_is_predicted_under_the_present_load():
    """A placement that gained when it was found gains nothing once it runs, and neither does going back."""
    problem = mixed()
    scheduler = PlacementMemory(THROUGHPUT).wrap(Searches(APART, MIXED))
    assert np.array_equal(scheduler.schedule(problem).slot_of_executor, APART)
    there = problem.with_moved(Assignment(APART).by_topology(problem))
    assert np.array_equal(scheduler.schedule(there).slot_of_executor, APART)


@pytest.mark.long
@pytest.mark.parametrize("objective", [THROUGHPUT, TRAFFIC])
def test_placement_that_no_longer_fits_is_not_returned(objective):
    problem = mixed()
    memory = PlacementMemory(objective)
    memory.wrap(Searches(APART)).schedule(problem)
    fewer = replace(problem, blacklisted_hosts=frozenset({problem.supervisors[1].host}))
    answer = memory.wrap(Searches(MIXED)).schedule(fewer)
    assert np.array_equal(answer.slot_of_executor, MIXED)


@pytest.mark.long
def test_incomplete_answers_are_passed_on():
    nowhere = np.full(24, UNPLACED, np.int32)
    memory = PlacementMemory(THROUGHPUT)
    memory.wrap(Searches(APART)).schedule(mixed())
    assert np.array_equal(memory.wrap(Searches(nowhere)).schedule(mixed()).slot_of_executor, nowhere)


def test_published_schedulers_have_no_memory():
    even = make_scheduler("even")
    own, by_goal = with_memory(even, None, THROUGHPUT)
    problem = mixed().with_nothing_running()
    wanted = even.schedule(problem).slot_of_executor
    assert np.array_equal(own.schedule(problem).slot_of_executor, wanted)
    assert by_goal("anything") is own


@pytest.mark.long
def test_searches_for_one_objective_share_what_they_found():
    found = [APART, MIXED]
    _, by_goal = with_memory(Searches(), lambda _: Searches(found.pop(0)), THROUGHPUT)
    for _ in range(2):
        assert np.array_equal(by_goal(THROUGHPUT).schedule(mixed()).slot_of_executor, APART)
