"""Warm-up of workers: tuples cost more until a worker has used some CPU time."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.predict.costs import Costs
from stormwright.simulator.settings import SimulatorSettings
from stormwright.simulator.storm.engine import Events
from stormwright.simulator.storm.warm_up import BOTH_COMPILERS, FIRST_COMPILER, WarmUp
from stormwright.testing.word_counts import WordCount

#: A worker that has half of its speed in its first CPU second.
HALF = WarmUp((0.0, 1.0, 1.0 + 1e-9), (0.5, 0.5, 1.0))

START_S = 5.0


def started(warm_up: WarmUp | None) -> Events:
    """A word count whose one worker has just come up, with as many trees as it can complete."""
    problem = WordCount(cores=1.0).problem()
    settings = SimulatorSettings(Costs(), saturated=True, startup_s=START_S, warm_up=warm_up)
    events = Events(problem, np.full(problem.num_executors, -1, np.int32), settings)
    events.place(problem.current_slot)
    events.until(START_S)
    return events


def trees(events: Events, seconds: float) -> int:
    """Trees that are completed in the next seconds."""
    before = events.counts.topologies["completed"].sum()
    events.until(events.now_s + seconds)
    return int(events.counts.topologies["completed"].sum() - before)


@pytest.mark.long
def test_cold_worker_completes_half_of_the_trees_until_its_cpu_time_is_used() -> None:
    warm, cold = started(None), started(HALF)
    assert trees(cold, 0.5) == pytest.approx(trees(warm, 0.5) / 2, rel=0.05)
    trees(cold, 2.0)
    trees(warm, 2.0)
    assert trees(cold, 2.0) == pytest.approx(trees(warm, 2.0), rel=0.05)


def test_worker_that_starts_again_is_cold_again() -> None:
    events = started(HALF)
    trees(events, 3.0)
    warm = trees(events, 1.0)
    events.kill(int(events.problem.current_slot[0]))
    events.until(events.now_s + START_S)
    assert trees(events, 0.5) == pytest.approx(warm / 4, rel=0.1)


def test_costs_of_a_worker_that_stops_while_cold_are_the_warm_ones_where_it_starts_next() -> None:
    events = started(HALF)
    work_s = started(None).cluster.threads["work_s"].copy()
    nowhere = np.full(events.problem.num_executors, -1, np.int32)
    events.place(nowhere)
    events.place(events.problem.current_slot)
    executors = events.problem.num_executors
    assert events.cluster.threads["work_s"][:executors] == pytest.approx(2 * work_s[:executors])


@pytest.mark.parametrize("model", [FIRST_COMPILER, BOTH_COMPILERS])
def test_speed_rises_to_that_of_a_warm_worker(model: WarmUp) -> None:
    factors = [model.factor(cpu_s) for cpu_s in np.linspace(0, model.ends_s, 50)]
    assert factors == sorted(factors, reverse=True)
    assert factors[-1] == 1


def test_first_compiler_is_warm_earlier_than_both() -> None:
    assert FIRST_COMPILER.ends_s < BOTH_COMPILERS.ends_s
    assert FIRST_COMPILER.factor(1.0) < BOTH_COMPILERS.factor(1.0)
