"""The triggers of Aniello et al., §3.2.1, rule by rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stormwright.errors import InputError
from stormwright.model import Problem
from stormwright.schedulers.online import OnlineParams
from stormwright.schedulers.toolkit.registry import traits_of
from stormwright.schedulers.toolkit.triggers import (
    NEVER,
    OVERLOAD_S,
    Adaptation,
    TriggerParams,
    TriggerView,
    own_overload_s,
    should_reschedule,
)
from tests.schedulers.builders import nodes

PARAMS = TriggerParams(overload_s=30, period_s=60, min_gain_percent=20, cool_down_s=45)
QUIET = TriggerView(since_change_s=1000, since_look_s=61, overload_s={}, gain_percent=10, gained="it gains 10 %")


def test_nothing_to_gain():
    assert should_reschedule(PARAMS, QUIET) is None


@pytest.mark.parametrize(("gain", "fires"), [(19.9, False), (20.0, True), (100.0, True), (-20.0, False)])
def test_gain_of_at_least_r_percent(gain, fires):
    assert (should_reschedule(PARAMS, replace(QUIET, gain_percent=gain)) is not None) == fires


def test_gain_only_every_p_seconds():
    assert should_reschedule(PARAMS, replace(QUIET, gain_percent=100, since_look_s=59)) is None


@pytest.mark.parametrize(("seconds", "fires"), [(30.0, False), (30.1, True)])
def test_overload_for_more_than_x_seconds_needs_no_gain_and_no_period(seconds, fires):
    observed = replace(QUIET, overload_s={"s1": seconds, "s0": 1.0}, since_look_s=0, gain_percent=-400)
    reason = should_reschedule(PARAMS, observed)
    assert reason == ("s1: over CPU capacity for more than 30 s" if fires else None)


@pytest.mark.parametrize(("seconds", "fires"), [(5.0, False), (5.1, True)])
def test_a_node_has_an_x_of_its_own(seconds, fires):
    observed = replace(QUIET, overload_s={"s1": seconds, "s0": 30.0}, since_look_s=0, own_overload_s={"s1": 5.0})
    assert should_reschedule(PARAMS, observed) == ("s1: over CPU capacity for more than 5 s" if fires else None)
    patient = replace(observed, overload_s={"s1": 40.0, "s0": 31.0}, own_overload_s={"s1": 50.0})
    assert should_reschedule(PARAMS, patient) == "s0: over CPU capacity for more than 30 s"
    both = replace(observed, overload_s={"s1": 40.0, "s0": 31.0})
    assert should_reschedule(PARAMS, both) == "s0, s1: over CPU capacity for more than 30, 5 s"


def test_overload_seconds_of_nodes_are_read_and_all_faults_listed():
    metas = [{OVERLOAD_S: "5"}, None, {"tags": "a"}, {OVERLOAD_S: "2.5"}]
    supervisors = tuple(replace(node, scheduler_meta=meta) for node, meta in zip(nodes(1, 1, 1, 1), metas, strict=True))
    assert own_overload_s(Problem(supervisors, ())) == {"s0": 5.0, "s3": 2.5}
    wrong = [
        replace(node, scheduler_meta={OVERLOAD_S: text}) for node, text in zip(nodes(1, 1), ["-1", "soon"], strict=True)
    ]
    with pytest.raises(InputError) as error:
        own_overload_s(Problem(tuple(wrong), ()))
    assert [fault.path for fault in error.value.faults] == [
        f'$.supervisors[{node}].scheduler_meta["{OVERLOAD_S}"]' for node in (0, 1)
    ]


def test_never_within_t_seconds_after_a_change():
    observed = replace(QUIET, overload_s={"s0": 1000.0}, gain_percent=100, since_change_s=44)
    assert should_reschedule(PARAMS, observed) is None
    assert should_reschedule(PARAMS, replace(observed, since_change_s=45)) is not None


def test_zero_gain_does_not_trigger_with_zero_threshold():
    nothing = TriggerParams(min_gain_percent=0)
    assert should_reschedule(nothing, replace(QUIET, gain_percent=0)) is None


def test_overload_without_overload_gain_requires_another_gain():
    observed = replace(QUIET, overload_s={"s1": 99.0}, since_look_s=0, overload_gain_percent=5)
    assert should_reschedule(PARAMS, replace(observed, gain_percent=4)) is None
    assert should_reschedule(PARAMS, replace(observed, gain_percent=6)) == "s1: over CPU capacity for more than 30 s"


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
def test_rescheduling_follows_the_declared_triggers(name, fires):
    adapts = traits_of(name).adapts
    assert adapts.ever == any(fires)
    for observed, expected in zip((PERIOD, DRIFT, OVERLOAD), fires, strict=True):
        assert (should_reschedule(PARAMS, observed, adapts) is not None) == expected
        assert should_reschedule(PARAMS, replace(observed, since_change_s=44), adapts) is None, "T holds for all"
        if observed is not OVERLOAD:
            assert should_reschedule(PARAMS, replace(observed, gain_percent=19), adapts) is None, "and so does R"


def test_one_time_scheduler_never_reschedules():
    assert not NEVER.ever
    assert should_reschedule(PARAMS, replace(OVERLOAD, drifted="it has", since_look_s=999), NEVER) is None


def test_adaptation_without_gains_triggers_regardless_of_gain():
    anything = Adaptation(on_period=True, gains=())
    assert should_reschedule(PARAMS, replace(QUIET, gain_percent=-50), anything) == (
        "everything is placed from scratch, whatever the gain"
    )
    assert should_reschedule(PARAMS, replace(QUIET, since_look_s=0), anything) is None
