"""The triggers of Aniello et al., §3.2.1, rule by rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stormwright.schedulers.kit.registry import traits_of
from stormwright.schedulers.kit.triggers import NEVER, Adaptation, Observation, TriggerParams, should_reschedule
from stormwright.schedulers.online import OnlineParams

PARAMS = TriggerParams(overload_s=30, period_s=60, min_gain_percent=20, cool_down_s=45)
QUIET = Observation(since_change_s=1000, since_look_s=61, overload_s={}, gain_percent=10, gained="it gains 10 %")


def test_nothing_to_gain():
    assert should_reschedule(PARAMS, QUIET) is None


@pytest.mark.parametrize(("gain", "fires"), [(19.9, False), (20.0, True), (100.0, True), (-20.0, False)])
def test_gain_of_at_least_r_percent(gain, fires):
    assert (should_reschedule(PARAMS, replace(QUIET, gain_percent=gain)) is not None) == fires


def test_gain_only_every_p_seconds():
    assert should_reschedule(PARAMS, replace(QUIET, gain_percent=100, since_look_s=59)) is None


@pytest.mark.parametrize(("seconds", "fires"), [(30.0, False), (30.1, True)])
def test_overload_for_more_than_x_seconds_needs_no_gain_and_no_period(seconds, fires):
    seen = replace(QUIET, overload_s={"s1": seconds, "s0": 1.0}, since_look_s=0, gain_percent=-400)
    reason = should_reschedule(PARAMS, seen)
    assert reason == ("s1: over CPU capacity for more than 30 s" if fires else None)


def test_never_within_t_seconds_after_a_change():
    seen = replace(QUIET, overload_s={"s0": 1000.0}, gain_percent=100, since_change_s=44)
    assert should_reschedule(PARAMS, seen) is None
    assert should_reschedule(PARAMS, replace(seen, since_change_s=45)) is not None


def test_nothing_to_gain_is_no_reason_even_if_none_is_asked_for():
    nothing = TriggerParams(min_gain_percent=0)
    assert should_reschedule(nothing, replace(QUIET, gain_percent=0)) is None


def test_where_overload_is_no_harm_by_itself_something_must_be_gained():
    seen = replace(QUIET, overload_s={"s1": 99.0}, since_look_s=0, overload_gain_percent=5)
    assert should_reschedule(PARAMS, replace(seen, gain_percent=4)) is None
    assert should_reschedule(PARAMS, replace(seen, gain_percent=6)) == "s1: over CPU capacity for more than 30 s"


def test_online_parameters_carry_the_triggers():
    assert should_reschedule(OnlineParams(period_s=1), replace(QUIET, gain_percent=90, gained="it falls")) == (
        "it falls, at least 20 % wanted"
    )


#: What is observed, each alone: a period is over, the load has drifted, a node was overloaded; all gain 30 %.
PERIOD = replace(QUIET, gain_percent=30)
DRIFT = replace(QUIET, gain_percent=30, since_look_s=0, drifted="load has drifted")
OVERLOAD = replace(QUIET, gain_percent=-400, since_look_s=0, overload_s={"s1": 31.0})


@pytest.mark.parametrize(
    ("name", "fires"),
    [
        ("online", (True, True, True)),
        ("t_storm", (True, False, True)),
        ("p_scheduler", (False, True, False)),
        ("d_storm", (False, False, True)),
        ("toss", (True, True, False)),
        ("even", (False, False, False)),
    ],
)
def test_each_looks_when_its_source_does(name, fires):
    adapts = traits_of(name).adapts
    assert adapts.ever == any(fires)
    for seen, expected in zip((PERIOD, DRIFT, OVERLOAD), fires, strict=True):
        assert (should_reschedule(PARAMS, seen, adapts) is not None) == expected
        assert should_reschedule(PARAMS, replace(seen, since_change_s=44), adapts) is None, "T holds for all"
        if seen is not OVERLOAD:
            assert should_reschedule(PARAMS, replace(seen, gain_percent=19), adapts) is None, "and so does R"


def test_who_places_once_never_looks():
    assert not NEVER.ever
    assert should_reschedule(PARAMS, replace(OVERLOAD, drifted="it has", since_look_s=999), NEVER) is None


def test_where_no_gain_is_asked_for_it_moves_whatever_it_gains():
    anything = Adaptation(on_period=True, gains=())
    assert should_reschedule(PARAMS, replace(QUIET, gain_percent=-50), anything) == (
        "everything is placed anew, whatever that gains"
    )
    assert should_reschedule(PARAMS, replace(QUIET, since_look_s=0), anything) is None
