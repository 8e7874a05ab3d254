"""Who is called as if nothing ran, what that keeps of the scheduler, and the message on those that move nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stormwright.errors import InputError, SchedulerError
from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.predict.flow.profile import Profile
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.from_scratch import (
    FromScratchScheduler,
    always,
    apply_from_scratch,
    never,
    only_adaptive,
    running_text,
    unless_moving,
    why_nothing_moves,
)
from stormwright.schedulers.toolkit.registry import SCHEDULERS, traits_of
from stormwright.schedulers.toolkit.traits import declared
from stormwright.testing.word_counts import WordCount
from tests.schedulers.builders import load, nodes, problem, running, topology

#: Two executors that exchange much, on two nodes.
APART = running(problem(nodes(4, 4), (topology("t", 2, 1), load(2, [(0, 1, 100.0)]))), [4, UNPLACED])

BY_THEMSELVES = {"model_free", "n_version", "online", "optimizer"}


def chosen(default, from_scratch=None, **settings):
    """Which of all schedulers, or of one, are called from scratch."""
    return {
        name
        for name in SCHEDULERS
        if isinstance(
            apply_from_scratch(name, make_scheduler(name, settings.get(name, {})), from_scratch, default),
            FromScratchScheduler,
        )
    }


def test_default_from_scratch_selection_depends_on_scheduler_traits():
    assert chosen(never) == set()
    assert chosen(always) == set(SCHEDULERS)
    assert chosen(unless_moving) == set(SCHEDULERS) - BY_THEMSELVES
    assert chosen(only_adaptive) == {"t_storm", "p_scheduler", "d_storm", "toss", "learned"}


def test_explicit_from_scratch_option_overrides_the_default():
    assert chosen(never, from_scratch=True) == set(SCHEDULERS)
    assert chosen(always, from_scratch=False) == set()


@pytest.mark.parametrize(
    ("name", "settings"),
    [("optimizer", {"max_restarts": 1}), ("optimizer", {"move_price": 0.5}), ("online", {"keep_running": True})],
)
def test_scheduler_staying_near_current_placement_rejects_from_scratch(name, settings):
    scheduler = make_scheduler(name, settings)
    assert apply_from_scratch(name, scheduler, None, always) is scheduler
    with pytest.raises(InputError, match=f"{name}.*stays near the current placement"):
        apply_from_scratch(name, scheduler, True, never)


def test_moves_running_trait_follows_the_settings():
    assert declared(make_scheduler("genetic", {"move_running": True})).moves_running
    assert not declared(make_scheduler("genetic")).moves_running
    assert not declared(make_scheduler("online", {"keep_running": True})).moves_running
    assert not declared(make_scheduler("optimizer", {"max_moves": 0})).moves_running


def test_warning_names_only_schedulers_that_move_nothing():
    assert why_nothing_moves("even", make_scheduler("even")) == (
        "even moves no running executor, so nothing will ever move: use --from-scratch"
    )
    for quiet in (make_scheduler("online"), FromScratchScheduler(make_scheduler("even"))):
        assert why_nothing_moves("x", quiet) == ""


def test_from_scratch_wrapper_preserves_forecast_trait_and_parameters():
    inside = make_scheduler("predictive")
    assert declared(inside).uses_forecast
    assert declared(FromScratchScheduler(inside)).uses_forecast
    assert FromScratchScheduler(inside).params is inside.params


def test_running_and_lost_executors_are_placed_from_scratch():
    assert FromScratchScheduler(make_scheduler("binpack")).schedule(APART).slot_of_executor.tolist() == [4, 4]


def test_invalid_scheduler_answer_raises_scheduler_error():
    class WrongShape:
        def schedule(self, problem: Problem) -> Assignment:
            return Assignment(np.zeros(7, np.int32))

    with pytest.raises(SchedulerError, match=r"WrongShape.*slot_of_executor should have the shape \(2,\)"):
        FromScratchScheduler(WrongShape()).schedule(APART)


def test_load_is_interpreted_at_measured_slots_with_nothing_running():
    apart = WordCount(cores=0.1).problem()
    there = apart.with_current(Assignment(np.array([0, 2, 0, 2, 4, 0, 2, 4, 0, 2, 4, 0], np.int32)).by_topology(apart))
    measured, from_scratch = Profile.of(there), Profile.of(there.with_nothing_running())
    assert measured.message_tps.any()
    assert np.array_equal(from_scratch.message_tps, measured.message_tps)
    assert not Profile.of(there.with_current({})).message_tps.any()
    again = there.with_nothing_running().with_current(there.current).with_nothing_running()
    assert np.array_equal(again.measured_slot, there.current_slot)


def test_isolation_applies_to_placement_from_scratch():
    """A topology that runs beside another gets its own hosts."""
    of = problem(nodes(4, 4, 4), (topology("a", 1, 1), load(1)), (topology("b", 1, 1), load(1)))
    conf = {"isolation.scheduler.machines": {"a": 1}, "storm.scheduler": "stormwright.PlacementScheduler"}
    of = running(replace(of, conf=conf), [0, 1])
    slots = FromScratchScheduler(make_scheduler("binpack")).schedule(of).slot_of_executor
    assert of.slot_node[slots[0]] != of.slot_node[slots[1]]
    assert make_scheduler("binpack").schedule(of).slot_of_executor.tolist() == [0, 1]


def test_running_text_describes_the_declared_traits():
    assert running_text(traits_of("even")).startswith("It leaves that where it is; with `--from-scratch`")
    assert running_text(traits_of("online")).startswith("It moves of that what pays")
    assert running_text(traits_of("t_storm")).endswith(
        "A service asks it every `--period`, and moves for less traffic between nodes or fewer nodes. A service asks "
        "it once a node was overloaded for `--overload` seconds, and moves whatever that gains."
    )
