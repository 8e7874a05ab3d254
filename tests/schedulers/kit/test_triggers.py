"""The triggers of Aniello et al., §3.2.1, rule by rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stormwright.schedulers.kit.triggers import Observation, TriggerParams, should_reschedule
from stormwright.schedulers.online import OnlineParams

PARAMS = TriggerParams(overload_s=30, period_s=60, min_gain_percent=20, cool_down_s=45)
QUIET = Observation(since_change_s=1000, since_look_s=61, overload_s={}, inter_node_now_tps=100, inter_node_new_tps=90)


def test_nothing_to_gain():
    assert should_reschedule(PARAMS, QUIET) is None


@pytest.mark.parametrize(("new_tps", "fires"), [(80.1, False), (80.0, True), (0.0, True), (120.0, False)])
def test_gain_of_at_least_r_percent(new_tps, fires):
    assert (should_reschedule(PARAMS, replace(QUIET, inter_node_new_tps=new_tps)) is not None) == fires


def test_gain_only_every_p_seconds():
    assert should_reschedule(PARAMS, replace(QUIET, inter_node_new_tps=0, since_look_s=59)) is None


@pytest.mark.parametrize(("seconds", "fires"), [(30.0, False), (30.1, True)])
def test_overload_for_more_than_x_seconds_needs_no_gain_and_no_period(seconds, fires):
    seen = replace(QUIET, overload_s={"s1": seconds, "s0": 1.0}, since_look_s=0, inter_node_new_tps=500)
    reason = should_reschedule(PARAMS, seen)
    assert reason == ("s1: over CPU capacity for more than 30 s" if fires else None)


def test_never_within_t_seconds_after_a_change():
    seen = replace(QUIET, overload_s={"s0": 1000.0}, inter_node_new_tps=0, since_change_s=44)
    assert should_reschedule(PARAMS, seen) is None
    assert should_reschedule(PARAMS, replace(seen, since_change_s=45)) is not None


def test_no_traffic_between_nodes_is_no_reason():
    assert should_reschedule(PARAMS, replace(QUIET, inter_node_now_tps=0, inter_node_new_tps=0)) is None
    nothing = TriggerParams(min_gain_percent=0)
    assert should_reschedule(nothing, replace(QUIET, inter_node_new_tps=100)) is None


def test_online_parameters_carry_the_triggers():
    assert should_reschedule(OnlineParams(period_s=1), replace(QUIET, inter_node_new_tps=10)) == (
        "inter-node traffic falls by 90 %, at least 20 % wanted"
    )
