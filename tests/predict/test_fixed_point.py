"""What runs is the fixed point of predictions, without a threshold from which a topology or a node counts as full."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.model import Assignment, LoadProfile, Problem
from stormwright.predict.answer import Assumptions, predict
from stormwright.predict.calibration.evidence import Evidence
from stormwright.predict.costs import Correction, Costs, LearnedScale
from stormwright.predict.fixed_point import fixed, learn_scales
from stormwright.predict.flow.layout import FlowLayout
from stormwright.predict.flow.profile import Profile
from stormwright.testing.word_counts import WordCount

SPREAD = np.array([0, 2, 0, 2, 4, 0, 2, 4, 0, 2, 4, 0], np.int32)
TOGETHER = np.zeros(12, np.int32)


def pending(problem: Problem, part: float) -> Problem:
    """Return a problem of which a part of the trees that may be pending were."""
    layout, loads = FlowLayout.of(problem), {}
    for number, topology in enumerate(problem.topologies):
        spout = layout.is_spout[layout.executor_component[problem.executors_of(number)]]
        trees = np.where(spout, part * layout.pending[number] / spout.sum(), 0.0)
        loads[topology.id] = replace(problem.loads[number], pending_trees=trees)
    return problem.with_load(replace(problem.load or LoadProfile({}), topologies=loads))


def slower(problem: Problem, by: float) -> Problem:
    """Return a problem whose rates were measured lower by a factor, with the same CPU."""
    loads = {
        name: replace(load, pair_tps=load.pair_tps / by, flow_tps=load.flow_tps / by)
        for name, load in problem.load.topologies.items()
    }
    return problem.with_load(replace(problem.load, topologies=loads))


def placed(word_count: WordCount, slots: np.ndarray = SPREAD) -> Problem:
    problem = word_count.problem()
    topology = problem.topologies[0]
    return problem.with_current({topology.id: Assignment(slots).by_topology(problem)[topology.id]})


def full(problem: Problem, part: float = 1.0) -> Problem:
    """Return a problem of whose nodes a part of the CPU was in use."""
    used = {node.id: part * node.cpu_hz for node in problem.supervisors}
    return problem.with_load(replace(problem.load, node_cpu_hz=used))


def reach_of(problem: Problem, slots: np.ndarray | None = None) -> float:
    return predict(problem, slots).topologies[0].reachable_tps.value


@pytest.mark.slow
@pytest.mark.parametrize("measured", [800.0, 1_500.0, 3_000.0])
@pytest.mark.parametrize("used", [0.2, 1.0])
def test_rate_with_all_trees_pending_is_the_highest_rate_of_what_runs(measured, used):
    """Whatever the model says, and whether its nodes were full or its trees waited for something else."""
    problem = full(placed(WordCount(cores=0.4, rate_tps=measured, pending=200)), used)
    rate = Profile.of(problem).rate_tps[0]
    assert reach_of(problem) > 1.5 * rate
    assert reach_of(pending(problem, 1.0)) == pytest.approx(rate, rel=0.01)


@pytest.mark.long
def test_what_cpu_does_not_explain_are_waits():
    """Its nodes have CPU to spare, so a placement of less CPU gains little."""
    problem = pending(full(placed(WordCount(cores=0.4, rate_tps=1_500.0, pending=200, link_bps=1e9)), 0.2), 1.0)
    (prediction,) = predict(problem).topologies
    assert prediction.scale < 2
    assert prediction.bottleneck.kind == "pending"
    assert reach_of(problem, TOGETHER) == pytest.approx(1_500, rel=0.05)


@pytest.mark.long
def test_cores_that_other_work_of_the_machine_took_were_not_available():
    """Threads could run and had no core, though the node is far from its quota: it is as good as full."""
    problem = full(placed(WordCount(cores=0.4, rate_tps=3_000.0, pending=200, link_bps=1e9)), 0.3)
    topology = problem.topologies[0].id
    waiting = replace(problem.load.topologies[topology], waited=np.full(12, 0.9))
    waiting = problem.with_load(replace(problem.load, topologies={topology: waiting}))
    calm, contended = (predict(pending(each, 1.0)).topologies[0] for each in (problem, waiting))
    assert contended.reachable_tps.value == pytest.approx(3_000, rel=0.01)
    assert contended.scale > 1.2 * calm.scale
    assert contended.bottleneck.kind == "cpu"


@pytest.mark.long
@pytest.mark.parametrize("used", [0.05, 0.1])
def test_costs_of_lone_tuples_do_not_limit_the_rate_of_full_queues(used):
    """At few trees/s nearly all CPU is polling, which the model takes for work: nodes are far from full."""
    problem = placed(WordCount(cores=0.4, rate_tps=50.0, pending=200, link_bps=1e9))
    topology = problem.topologies[0].id
    dear = replace(problem.load.topologies[topology], cpu_hz=np.full(12, 0.01 * problem.core_hz))
    problem = full(problem.with_load(replace(problem.load, topologies={topology: dear})), used)
    model = reach_of(problem)
    assert model < 50 / used
    assert reach_of(pending(problem, 0.01)) >= 50 / max(used, 0.01) * 0.98


def test_without_pending_trees_nothing_is_scaled():
    problem = placed(WordCount(cores=0.4, rate_tps=1_000.0, pending=200))
    profile, costs = Profile.of(problem), Costs()
    assert fixed(profile, costs, {}) == {}
    assert predict(problem).topologies[0].scale == 1.0


@pytest.mark.slow
@given(st.floats(0.02, 1.0))
def test_highest_rate_is_between_the_measured_one_and_that_of_the_model(part):
    problem = placed(WordCount(cores=0.4, rate_tps=2_000.0, pending=200))
    found, rate = reach_of(pending(problem, part)), Profile.of(problem).rate_tps[0]
    assert rate * 0.99 <= found <= reach_of(problem) * 1.01


@pytest.mark.long
@pytest.mark.parametrize(("part", "of_model"), [(1.0, 0.0), (0.96, 0.02), (0.86, 0.5), (0.8, 0.9), (0.5, 0.99)])
def test_the_fewer_trees_are_pending_the_more_the_model_counts(part, of_model):
    """At 70 % of their highest rate topologies on nodes with a quota had up to 86 % of their trees pending."""
    problem = placed(WordCount(cores=0.4, rate_tps=4_000.0, pending=200, link_bps=1e9))
    found, rate = reach_of(pending(problem, part)), Profile.of(problem).rate_tps[0]
    counts = np.log(found / rate) / np.log(reach_of(problem) / rate)
    assert counts == pytest.approx(of_model, abs=0.1)


@pytest.mark.slow
def test_a_little_less_pending_changes_the_highest_rate_little():
    problem = placed(WordCount(cores=0.4, rate_tps=4_000.0, pending=200, link_bps=1e9))
    found = [reach_of(pending(problem, part)) for part in np.arange(1.0, 0.5, -0.01)]
    steps = np.array(found[1:]) / np.array(found[:-1])
    assert np.all(steps >= 0.995), "the fewer trees are pending the more is possible"
    assert steps.max() < 1.15


@pytest.mark.parametrize("by", [0.90, 0.95, 0.98, 0.995])
def test_a_little_less_load_changes_the_highest_rate_little(by):
    """A node counted as full from 90 % of its CPU: 2 % less CPU and rates made 64 % more of the highest rate."""
    word_count = WordCount(cores=0.4, link_bps=1e9, rate_tps=8_000.0)
    problem = placed(word_count)
    used = {node.id: node.cpu_hz for node in problem.supervisors}
    problem = problem.with_load(replace(problem.load, node_cpu_hz=used, costs=polling_costs()))
    loads = {
        name: replace(load, cpu_hz=load.cpu_hz * by, pair_tps=load.pair_tps * by, flow_tps=load.flow_tps * by)
        for name, load in problem.load.topologies.items()
    }
    less = replace(problem.load, topologies=loads, node_cpu_hz={name: hz * by for name, hz in used.items()})
    assert reach_of(problem.with_load(less)) == pytest.approx(reach_of(problem), rel=1.5 * (1 - by) + 0.01)


def polling_costs() -> dict:
    return {
        "schema": "stormwright-calibration/1",
        "costs": {"spin_share": 0.03},
        "corrections": {},
    }


@pytest.mark.slow
def test_scale_of_what_runs_applies_to_other_placements():
    problem = full(placed(WordCount(cores=0.4, rate_tps=4_000.0, pending=200, link_bps=1e9)))
    waiting = pending(problem, 1.0)
    ratios = [reach_of(each, TOGETHER) / reach_of(each) for each in (problem, waiting)]
    assert ratios[0] == pytest.approx(ratios[1], rel=0.1), "the model says what changes"
    assert predict(waiting).topologies[0].scale > 1.5
    assert predict(waiting, TOGETHER).topologies[0].scale == predict(waiting).topologies[0].scale


@pytest.mark.long
def test_less_cpu_is_not_claimed_where_something_else_is_the_limit():
    """All trees are pending and the links are full: that a node could do more is no error of its costs."""
    problem = placed(WordCount(cores=16.0, link_bps=2e6, rate_tps=2_000.0, pending=200))
    model = reach_of(problem)
    faster = pending(slower(problem, Profile.of(problem).rate_tps[0] / (1.1 * model)), 1.0)
    assert predict(faster).topologies[0].scale > 0.9


def test_cpu_of_others_than_workers_is_not_available():
    problem = placed(WordCount(cores=0.4, rate_tps=2_000.0, link_bps=1e9))
    others = {node.id: 0.1 * node.cpu_hz for node in problem.supervisors}
    beside = problem.with_load(replace(problem.load, node_overhead_hz=others))
    assert reach_of(beside) == pytest.approx(0.9 * reach_of(problem), rel=0.03)


def test_quota_below_the_declared_capacity_is_the_capacity():
    problem = placed(WordCount(cores=0.4, rate_tps=1_000.0, pending=None))
    half = {node.id: 0.5 * node.cpu_hz for node in problem.supervisors}
    held = problem.with_load(replace(problem.load, node_quota_hz=half))
    smaller = placed(WordCount(cores=0.2, rate_tps=1_000.0, pending=None))
    assert reach_of(held) == pytest.approx(reach_of(smaller), rel=0.01)


def saturated(part: float = 1.0, rate_tps: float = 4_000.0) -> Problem:
    """Return a word count that needs some three times the CPU that the model explains, on full nodes."""
    return pending(full(placed(WordCount(cores=0.4, rate_tps=rate_tps, pending=200, link_bps=1e9))), part)


@pytest.mark.long
def test_scale_is_learned_where_trees_wait_and_holds_where_they_do_not():
    """By day it is saturated; at night, at a tenth of the rate, its highest rate is still predicted."""
    day, topology = saturated(), saturated().topologies[0].id
    scale = predict(day).topologies[0].scale
    known: dict[str, LearnedScale] = {}
    for _ in range(3):
        known = learn_scales(Profile.of(day), Costs(), {}, known)
    assert np.exp(known[topology].log) == pytest.approx(scale, rel=0.05)
    night = pending(full(placed(WordCount(cores=0.4, rate_tps=400.0, pending=200, link_bps=1e9)), 0.1), 0.005)
    after = learn_scales(Profile.of(night), Costs(), {}, known)
    assert after[topology].log == pytest.approx(known[topology].log, rel=0.1), "a night says little of it"
    corrections = {topology: Correction(scale=float(np.exp(known[topology].log)))}
    (learned,) = predict(night, assumptions=Assumptions(Costs(), corrections)).topologies
    (unlearned,) = predict(night, assumptions=Assumptions(Costs())).topologies
    errors = [abs(np.log(each.reachable_tps.value / 4_000.0)) for each in (learned, unlearned)]
    assert errors[0] < 0.3
    assert errors[0] < errors[1] / 2


@pytest.mark.slow
def test_learned_scale_is_corrected_by_the_newest_rate():
    """Scales that were learned too high or too low do not matter to what runs now."""
    day = saturated()
    topology, rate = day.topologies[0].id, Profile.of(day).rate_tps[0]
    for scale in (0.5, 1.0, 3.0, 4.5):
        (found,) = predict(day, assumptions=Assumptions(Costs(), {topology: Correction(scale=scale)})).topologies
        assert found.reachable_tps.value == pytest.approx(rate, rel=0.01)


def test_scale_is_not_learned_without_pending_trees():
    problem = full(placed(WordCount(cores=0.4, rate_tps=4_000.0, pending=200)))
    assert learn_scales(Profile.of(problem), Costs(), {}, {}) == {}


def test_learned_scales_are_retained_until_their_topology_is_gone():
    known = Evidence(scales={"words": LearnedScale(0.5, 0.01), "clicks": LearnedScale(0.1, 0.02)})
    read = Evidence.from_dict(json.loads(json.dumps(known.as_dict())))
    assert read.scales == known.scales
    read.forget({"words"})
    assert read.scales == {"words": LearnedScale(0.5, 0.01)}


@pytest.mark.long
def test_base_costs_leave_room_for_what_was_measured():
    """On small nodes costs of young workers would take all: what completes trees there is not predicted to do none."""
    problem = full(pending(placed(WordCount(cores=0.1, rate_tps=1_500.0, pending=200)), 1.0))
    costs = {"schema": "stormwright-calibration/1", "costs": {"worker_cores": 0.12, "spin_share": 0.04}}
    known = problem.with_load(replace(problem.load, costs=costs))
    assert reach_of(known) == pytest.approx(Profile.of(problem).rate_tps[0], rel=0.02)
    assert reach_of(known, TOGETHER) > 0
