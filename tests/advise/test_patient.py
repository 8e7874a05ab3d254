"""Our advice window by window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from stormwright_lab.advisers.pace import Patience, WindowPace
from stormwright_lab.advisers.patient import PredictiveAdviser
from stormwright_lab.evaluations.advice_cases import cases
from stormwright_lab.evaluations.advice_run import world_of

from stormwright.advise.adviser import Observation, TargetSize
from stormwright.advise.observed import observed
from stormwright.advise.search.goals import AdviceGoals
from stormwright.errors import InputError

CASE = next(case for case in cases() if case.name == "word-count, alike")


def names() -> dict[str, int]:
    return {component.id: 1 for component in CASE.base.topologies[0].components}


def follow(adviser: PredictiveAdviser, parts: list[float]) -> list[tuple[Observation, TargetSize]]:
    """Observations and advice, window by window, from one executor of each component."""
    world, wanted, history = world_of(CASE), TargetSize(names(), 2), list[tuple[Observation, TargetSize]]()
    for part in parts:
        observation = world.run(wanted, part * CASE.rate_tps)
        advised = adviser.advise(observation)
        history.append((observation, advised))
        if advised.changes(observation):
            wanted = advised
    return history


@pytest.mark.long
def test_predictive_adviser_reaches_rate_in_one_step_and_stays():
    history = follow(PredictiveAdviser(AdviceGoals(), CASE.kinds), [1.0] * 4)
    assert [advised.changes(observation) for observation, advised in history] == [True, False, False, False]
    assert history[0][0].reached_tps < history[0][0].wanted_tps
    assert all(observation.reached_tps == observation.wanted_tps for observation, _ in history[1:])


@pytest.mark.long
def test_less_is_wanted_only_after_some_windows_and_for_the_most_of_them():
    patience = Patience(windows=4)
    history = follow(PredictiveAdviser(AdviceGoals(), CASE.kinds, patience), [1.0, 1.0, 0.3, 0.3, 0.35, 0.3, 0.3])
    changed = [number for number, (observation, advised) in enumerate(history) if advised.changes(observation)]
    assert changed[:2] == [0, 5]
    assert "4 windows in which less was enough" in history[5][1].why
    assert history[6][0].reached_tps == history[6][0].wanted_tps


@pytest.mark.long
def test_a_dip_of_a_window_changes_nothing():
    history = follow(
        PredictiveAdviser(AdviceGoals(), CASE.kinds, Patience(windows=3)), [1.0, 1.0, 0.3, 1.0, 0.3, 0.3, 1.0]
    )
    assert [advised.changes(observation) for observation, advised in history] == [True] + [False] * 6


DAY = 1.0 - 0.7 * np.cos(2 * np.pi * np.arange(24) / 24)  # 0.3 at midnight, 1.7 at noon


def test_growth_is_extrapolated_before_a_season_is_known():
    pace = WindowPace(Patience())
    for rate in (100.0, 110.0, 120.0):
        pace.note(rate)
    assert pace.to_add_for() == 120.0 + 5 * 10.0


def test_known_season_lets_one_step_cover_the_coming_peak():
    pace = WindowPace(Patience(), [*DAY, *DAY[:3]])
    pace.note(DAY[3])
    assert pace.to_add_for() == pytest.approx(1.1 * DAY.max())
    twice = WindowPace(Patience(), np.tile(DAY, 2))
    assert twice.to_add_for() == pytest.approx(DAY[:12].max()), "forecasts that came true"


def test_pace_scales_daily_season_by_growth_of_current_day():
    pace = WindowPace(Patience(), [*DAY, *(2 * DAY[:4])])
    assert pace.to_add_for() == pytest.approx(1.1 * 2 * DAY.max())


def test_capacity_for_an_imminent_peak_is_retained():
    pace = WindowPace(Patience(coming=6), [*DAY, *DAY[:19]])
    for _ in range(4):
        pace.enough(less_is=True)
    evening = pace.to_leave_for()
    assert evening == pytest.approx(max(DAY[15:19].max(), 1.1 * DAY[[19, 20, 21, 22, 23, 0]].max()))
    for rate in DAY[[19, 20, 21, 22, 23, 0, 1, 2, 3]]:
        pace.note(rate)
    night = pace.to_leave_for()
    assert night is not None
    assert night > 0.8 * DAY[9], "the morning is near"


def test_before_a_season_is_known_nothing_is_taken_away_for_long():
    pace = WindowPace(Patience())
    for _ in range(11):
        pace.note(100.0)
        pace.enough(less_is=True)
    assert pace.to_leave_for() is None
    pace.note(90.0)
    pace.enough(less_is=True)
    assert pace.to_leave_for() == 100.0


@pytest.mark.long
def test_ineffective_scale_up_is_reported_reverted_and_not_retried_at_once():
    """A bolt waits for a database that takes no more: executors more reach no higher rate."""
    adviser = PredictiveAdviser(AdviceGoals(), CASE.kinds, Patience(windows=3))
    world, wanted = world_of(CASE), TargetSize(names(), 2)
    observation = world.run(wanted, CASE.rate_tps)
    before = adviser.advise(observation)
    assert before.changes(observation)
    advised = before
    for _ in range(2):
        more = world.run(advised, CASE.rate_tps)
        stuck = replace(more, reached_tps=observation.reached_tps)
        advised = adviser.advise(stuck)
    assert "did not help" in advised.why
    assert f"{CASE.rate_tps:,.0f} trees/s were promised" in advised.why
    assert dict(advised.executors) == names()
    again = replace(world.run(advised, CASE.rate_tps), reached_tps=observation.reached_tps)
    assert not adviser.advise(again).changes(again)


def test_an_observation_without_a_problem_is_refused():
    observation = replace(world_of(CASE).run(TargetSize(names(), 2), 100.0), problem=None)
    with pytest.raises(InputError, match="has no measured problem"):
        PredictiveAdviser(AdviceGoals()).advise(observation)


def test_observation_of_measured_problem_matches_the_simulated_world():
    observation = world_of(CASE).run(TargetSize(dict(names(), split=3, count=3), 3), 0.5 * CASE.rate_tps)
    assert observation.problem is not None
    again = observed(observation.problem, 0)
    assert again.executors == observation.executors
    assert again.workers == observation.workers
    for one, other in zip(again.components, observation.components, strict=True):
        assert one.input_tps == pytest.approx(other.input_tps, rel=0.1)
        assert one.true_tps == pytest.approx(other.true_tps, rel=0.1)
        assert set(one.inputs) == set(other.inputs)
