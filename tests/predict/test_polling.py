"""Polls of waiting threads, beside Storm's strategy of waiting carried out step by step."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.predict.flow.profile import Profile
from stormwright.predict.polling import PARK_S, Waits, polls_per_s
from stormwright.testing.word_counts import WordCount


def stepwise(gap_s: float, parks: int, sleep_s: float) -> int:
    """Polls of one gap between two tuples, as `WaitStrategyProgressive.idle` counts them."""
    now_s, idle_counter, polls = 0.0, 0, 0
    while now_s < gap_s:
        polls += 1
        now_s += PARK_S if idle_counter < parks else sleep_s
        idle_counter += 1
    return polls


@pytest.mark.parametrize("gap_s", [0.001, 0.02, 0.5, 3.0])
@pytest.mark.parametrize(("parks", "sleep_ms"), [(1_000, 1), (0, 1), (50, 10)])
def test_polls_are_those_of_storms_strategy(gap_s, parks, sleep_ms):
    problem = WordCount().problem()
    (topology,) = problem.topologies
    for kind in ("bolt", "spout"):
        topology.conf[f"topology.{kind}.wait.progressive.level2.count"] = parks
        topology.conf[f"topology.{kind}.wait.progressive.level3.sleep.millis"] = sleep_ms
    nothing = np.zeros(problem.num_executors)
    found = polls_per_s(Profile.of(problem), nothing + 1 / gap_s, nothing)
    assert found * gap_s == pytest.approx(stepwise(gap_s, parks, sleep_ms / 1e3), rel=0.05, abs=1.0)


def test_threads_that_never_wait_never_poll():
    problem = WordCount().problem()
    assert not polls_per_s(Profile.of(problem), np.ones(problem.num_executors), np.ones(problem.num_executors)).any()


def test_bolts_park_first_and_spouts_sleep_at_once():
    problem = WordCount().problem()
    profile = Profile.of(problem)
    spout = profile.layout.is_spout[profile.layout.executor_component]
    often = polls_per_s(profile, np.full(problem.num_executors, 100.0), np.zeros(problem.num_executors))
    assert often[spout] == pytest.approx(1_000.0)
    assert often[~spout] == pytest.approx(1 / PARK_S)
    idle = polls_per_s(profile, np.zeros(problem.num_executors), np.zeros(problem.num_executors))
    assert idle == pytest.approx(1_000.0)


@pytest.mark.parametrize("value", [-1, "many", None, True, float("nan")])
def test_an_invalid_number_counts_as_missing(value):
    assert Waits.of({"topology.bolt.wait.progressive.level2.count": value}, spout=False) == Waits(1_000.0, 1e-3)
