"""Highest rates: against a linear program, and what must hold whatever the placement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import csr_array

from stormwright.model import Problem
from stormwright.predict import steady
from stormwright.predict.costs import Costs
from stormwright.predict.fairness import highest_rates
from stormwright.predict.flow.profile import Profile
from stormwright.predict.queueing.waits import closed
from stormwright.predict.steady import PlacedLoad, SteadyState, limits, steady_state
from stormwright.testing.word_counts import WordCount
from tests.examples import examples

ALL_IN_ONE = np.zeros(12, np.int32)
SPREAD = np.array([0, 2, 0, 2, 4, 0, 2, 4, 0, 2, 4, 0], np.int32)

placements = st.lists(st.integers(0, 5), min_size=12, max_size=12).map(lambda slots: np.array(slots, np.int32))


def steady_of(word_count: WordCount, slots, costs=None, profile=None) -> SteadyState:
    problem = word_count.problem()
    profile = profile or Profile.of(problem)
    placed = PlacedLoad.under(profile, problem, slots)
    return steady_state(placed, profile.rate_tps, profile.rate_tps, costs or Costs())


def water_filling(shares, free, weights):
    """Max–min fairness by a linear program for each level: raise all that can still be raised."""
    count = len(weights)
    fixed = {}
    while len(fixed) < count:
        open_ones = [t for t in range(count) if t not in fixed]
        used = sum((shares[:, t] * rate for t, rate in fixed.items()), np.zeros(len(free)))
        column = shares[:, open_ones] @ weights[open_ones]
        level = linprog([-1], A_ub=column[:, None], b_ub=free - used, bounds=[(0, None)], method="highs").x[0]
        for one in open_ones:  # whoever cannot have more while the others keep this level stays
            others = [t for t in open_ones if t != one]
            rest = free - used - (shares[:, others] @ weights[others] * level if others else 0)
            most = linprog([-1], A_ub=shares[:, [one]], b_ub=np.maximum(rest, 0), bounds=[(0, None)], method="highs").x[
                0
            ]
            if most <= weights[one] * level * (1 + 1e-7):
                fixed[one] = weights[one] * level
    return np.array([fixed[t] for t in range(count)])


@pytest.mark.long
@given(st.data())
@settings(max_examples=examples(40), deadline=None)
def test_highest_rates_equal_linear_program_solution(data):
    resources, topologies = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    value = st.integers(0, 9)
    shares = np.array(
        data.draw(
            st.lists(st.lists(value, min_size=topologies, max_size=topologies), min_size=resources, max_size=resources)
        ),
        float,
    )
    shares = np.vstack([shares, np.full(topologies, 0.5)])  # everybody is limited by something
    free = np.array(data.draw(st.lists(st.integers(1, 9), min_size=resources + 1, max_size=resources + 1)), float)
    weights = np.array(data.draw(st.lists(st.integers(1, 5), min_size=topologies, max_size=topologies)), float)
    found = highest_rates(csr_array(shares), free, weights)
    assert found.rate_tps == pytest.approx(water_filling(shares, free, weights), rel=1e-6, abs=1e-9)
    used = shares @ found.rate_tps
    assert np.all(used <= free * (1 + 1e-9))
    # What limits each is full.
    assert used[found.limit] == pytest.approx(free[found.limit], rel=1e-9)


def test_highest_rates_of_two_topologies_equal_manual_solution():
    # The first is alone on a node, both share the other one.
    shares = csr_array(np.array([[1.0, 0.0], [1.0, 3.0]]))
    found = highest_rates(shares, np.array([1.0, 8.0]), np.array([1.0, 1.0]))
    assert found.rate_tps.tolist() == [1.0, pytest.approx(7 / 3)]
    assert found.limit.tolist() == [0, 1]


def test_placement_in_one_worker_costs_only_work():
    steady = steady_of(WordCount(cores=0.4), ALL_IN_ONE, Costs(worker_cores=0.0))
    tree_us = 2 * 0.4 + 8 * 0.4 + 8 * 1.2 + 8.0 + 6.0
    assert steady.highest_tps == pytest.approx([0.4 / (tree_us * 1e-6)])
    assert not steady.demand.link_bytes.any()
    assert steady.demand.thread_s.sum() == pytest.approx(tree_us * 1e-6)


def test_inter_worker_tuples_cost_both_ends_and_the_link():
    costs = Costs(serialise_us=2.5, send_us=2.5, receive_us=4.0, overhead_bytes=30.0, worker_cores=0.0)
    slots = np.where(np.arange(12) < 2, 2, 0).astype(np.int32)  # the ackers on another node
    apart, together = (steady_of(WordCount(), each, costs).demand for each in (slots, ALL_IN_ONE))
    messages = 2 + 8 + 1  # told, acked by split and counts, answered
    each_us = 9.0 + 0.04 * 3.0  # 40 bytes
    assert (apart.thread_s.sum() - together.thread_s.sum()) * 1e6 == pytest.approx(messages * each_us)
    assert apart.link_bytes.sum(axis=1) == pytest.approx([messages * 70.0] * 2)
    assert apart.link_messages.sum(axis=1) == pytest.approx([messages] * 2)


def test_saturated_link_carries_tcp_payload_rate_of_ethernet():
    """Of 100 Mbit/s that are counted with the headers of frames of 1,514 bytes, as ``tc`` does, TCP gets 95.6."""
    slots = np.where(np.arange(12) < 2, 2, 0).astype(np.int32)
    steady = steady_of(WordCount(cores=64.0, link_bps=1e6, pending=None), slots)
    (rate_tps,) = steady.highest_tps
    assert 8 * rate_tps * steady.demand.link_bytes.max() == pytest.approx(0.956e6, rel=1e-3)


def test_workers_on_one_node_use_no_link():
    slots = np.where(np.arange(12) < 2, 1, 0).astype(np.int32)
    demand = steady_of(WordCount(), slots).demand
    assert not demand.link_bytes.any()
    assert demand.thread_s.sum() > steady_of(WordCount(), ALL_IN_ONE).demand.thread_s.sum()


@pytest.mark.slow
@given(measured=placements, target=placements)
@settings(max_examples=examples(40), deadline=None)
def test_measured_anywhere_the_same_is_predicted(measured, target):
    """What a placement's messages took of executors is taken out again, so it does not matter where it was measured."""
    word_count, costs = WordCount(rate_tps=3_000.0), Costs()
    truth = steady_of(word_count, measured, costs)
    problem = word_count.problem()
    topology = problem.topologies[0]
    executors = truth.demand.thread_s[:12] * word_count.rate_tps * problem.core_hz
    load = problem.load.topologies[topology.id]
    # What an executor sends goes with what it got there.
    got = truth.demand.thread_visits[:12] / steady_of(word_count, ALL_IN_ONE).demand.thread_visits[:12]
    load = replace(load, cpu_hz=executors, pair_tps=load.pair_tps * got[load.pair_source])
    there = replace(
        problem,
        load=replace(problem.load, topologies={topology.id: load}),
        current={
            topology.id: replace(
                problem.current[topology.id], slots=problem.slots, slot_of_executor=tuple(measured.tolist())
            )
        },
    )
    again = steady_of(word_count, target, costs, Profile.of(there))
    assert again.highest_tps == pytest.approx(steady_of(word_count, target, costs).highest_tps, rel=0.02)


@pytest.mark.long
@given(slots=placements, factor=st.floats(1.0, 4.0))
@settings(max_examples=examples(40), deadline=None)
def test_more_of_anything_never_lowers_the_highest_rate(slots, factor):
    base = WordCount(cores=0.5, link_bps=10e6)
    before = steady_of(base, slots)
    for more in (replace(base, cores=0.5 * factor), replace(base, link_bps=10e6 * factor)):
        assert np.all(steady_of(more, slots).highest_tps >= before.highest_tps * (1 - 1e-9))


@pytest.mark.slow
@given(slots=placements, pending=st.sampled_from([1, 5, 50, 1000]))
@settings(max_examples=examples(60), deadline=None)
def test_nothing_is_ever_fuller_than_full(slots, pending):
    steady = steady_of(WordCount(cores=0.4, link_bps=5e6, pending=pending), slots)
    shares, free = limits(steady.demand)
    assert steady.pending.settled
    for rate in (steady.highest_tps, steady.pending.rate_tps):
        assert np.all(shares @ rate <= free * (1 + 1e-9))
    # Little's law: no more trees are pending than may be.
    assert steady.pending.rate_tps * steady.pending.ways.cycle.mean <= 2 * pending * (1 + 1e-2)


@pytest.mark.long
@given(slots=placements, seed=st.integers(0, 5))
@settings(max_examples=20, deadline=None)
def test_rates_are_independent_of_node_numbering(slots, seed):
    base = WordCount(cores=0.5)
    order = np.random.default_rng(seed).permutation(3)
    renamed = (2 * order[slots // 2] + slots % 2).astype(np.int32)
    one, other = steady_of(base, slots), steady_of(base, renamed)
    assert other.highest_tps == pytest.approx(one.highest_tps)
    assert other.pending.rate_tps == pytest.approx(one.pending.rate_tps, rel=1e-3)
    assert other.given.ways.latency.mean == pytest.approx(one.given.ways.latency.mean)


def test_rates_scale_inversely_with_work(monkeypatch):
    """All times twice as long: half the rate, twice the latency."""
    costs = Costs(worker_cores=0.0)
    twice = costs.varied(2.0, 2.0)
    one = steady_of(WordCount(cores=0.5, link_bps=8e6), SPREAD, costs)
    for name in ("acker_us", "count_us", "split_us", "spout_us"):
        monkeypatch.setattr(WordCount, name, 2 * getattr(WordCount, name))
    other = steady_of(WordCount(cores=0.5, link_bps=4e6, rate_tps=500.0), SPREAD, twice)
    assert other.highest_tps == pytest.approx(one.highest_tps / 2)
    assert other.given.ways.latency.mean == pytest.approx(2 * one.given.ways.latency.mean)
    assert other.pending.rate_tps == pytest.approx(one.pending.rate_tps / 2, rel=1e-3)


def two_on_the_same_nodes(pending=200) -> Problem:
    one, other = (WordCount(cores=0.4, pending=pending, name=name).problem() for name in ("one", "other"))
    return replace(
        one,
        topologies=one.topologies + other.topologies,
        load=replace(one.load, topologies={**one.load.topologies, **other.load.topologies}),
        current={},
    )


def test_equal_topologies_on_one_node_share_it_equally():
    problem = two_on_the_same_nodes()
    slots = np.repeat([0, 1], 12).astype(np.int32)
    profile = Profile.of(problem)
    placed = PlacedLoad.under(profile, problem, slots)
    costs = Costs(worker_cores=0.0)
    both = steady_state(placed, profile.rate_tps, profile.rate_tps, costs)
    alone = steady_of(WordCount(cores=0.4), ALL_IN_ONE, costs)
    assert both.highest_tps == pytest.approx(np.full(2, alone.highest_tps[0] / 2))
    assert both.pending.rate_tps[0] == pytest.approx(both.pending.rate_tps[1])
    assert both.pending.rate_tps.sum() <= alone.highest_tps[0] * (1 + 1e-9)
    assert both.pending.rate_tps.sum() >= alone.highest_tps[0] * 0.98
    # Weights decide who gets how much of what both want.
    weighted = steady_state(placed, profile.rate_tps, profile.rate_tps * [1, 3], costs)
    assert weighted.highest_tps[1] == pytest.approx(3 * weighted.highest_tps[0])
    assert weighted.highest_tps.sum() == pytest.approx(alone.highest_tps[0])


def test_topologies_on_separate_nodes_are_independent():
    problem = two_on_the_same_nodes()
    slots = np.repeat([0, 2], 12).astype(np.int32)
    profile = Profile.of(problem)
    placed = PlacedLoad.under(profile, problem, slots)
    both = steady_state(placed, profile.rate_tps, profile.rate_tps, Costs())
    alone = steady_of(WordCount(cores=0.4), ALL_IN_ONE)
    assert both.highest_tps == pytest.approx(np.repeat(alone.highest_tps, 2))
    assert both.pending.rate_tps == pytest.approx(np.repeat(alone.pending.rate_tps, 2), rel=1e-3)
    assert both.given.ways.latency.mean == pytest.approx(np.repeat(alone.given.ways.latency.mean, 2))


def test_topology_without_trees_uses_its_measured_cpu():
    problem = two_on_the_same_nodes()
    silent = problem.load.topologies[problem.topologies[1].id]
    silent = replace(silent, pair_tps=silent.pair_tps * 0, flow_tps=silent.flow_tps * 0)
    problem = replace(
        problem, load=replace(problem.load, topologies={**problem.load.topologies, problem.topologies[1].id: silent})
    )
    profile = Profile.of(problem)
    placed = PlacedLoad.under(profile, problem, np.repeat([0, 1], 12).astype(np.int32))
    found = steady_state(placed, profile.rate_tps, profile.rate_tps, Costs(worker_cores=0.0))
    taken = silent.cpu_hz.sum() / problem.core_hz
    alone = steady_of(WordCount(cores=0.4), ALL_IN_ONE, Costs(worker_cores=0.0))
    assert found.highest_tps == pytest.approx([alone.highest_tps[0] * (0.4 - taken) / 0.4, 0.0])


def test_cpu_of_idle_threads_is_excluded_from_work():
    word_count = WordCount(cores=16.0)
    problem = word_count.problem()
    topology, spins = problem.topologies[0].id, 0.03
    load = problem.load.topologies[topology]
    busy = load.cpu_hz / problem.core_hz
    burned = replace(load, cpu_hz=(busy + spins * (1 - busy)) * problem.core_hz)
    measured = replace(problem, load=replace(problem.load, topologies={topology: burned}))
    costs = Costs(spin_share=spins)
    found = steady_of(word_count, SPREAD, costs, Profile.of(measured))
    assert found.highest_tps == pytest.approx(steady_of(word_count, SPREAD, Costs()).highest_tps)


@pytest.mark.parametrize("part", [1.0, 0.4, 0.1])
def test_counted_polls_are_no_work_at_any_rate(part):
    """Polling fills a node with a quota at any rate: what a tuple needs is what is left without it."""
    word_count = WordCount(cores=0.4, rate_tps=part * 8_000.0)
    problem = word_count.problem()
    topology, poll_us = problem.topologies[0].id, 12.0
    load = problem.load.topologies[topology]
    runs_per_s = np.linspace(500.0, 5_000.0, len(load.cpu_hz))
    polled = replace(load, cpu_hz=load.cpu_hz + 1e-6 * poll_us * runs_per_s * problem.core_hz, runs_per_s=runs_per_s)
    measured = replace(problem, load=replace(problem.load, topologies={topology: polled}))
    costs = Costs(poll_us=poll_us)
    found = steady_of(word_count, SPREAD, costs, Profile.of(measured))
    assert found.highest_tps == pytest.approx(steady_of(word_count, SPREAD, Costs()).highest_tps)
    full = steady_of(WordCount(cores=0.4, rate_tps=8_000.0), SPREAD, Costs())
    assert found.highest_tps == pytest.approx(full.highest_tps, rel=0.01)


def test_threads_of_full_nodes_poll_less_but_do_not_stop():
    """Messages and collecting garbage fill a node, too."""
    word_count = WordCount(cores=0.4, link_bps=1e9, rate_tps=8_000.0)
    problem = word_count.problem()
    full = {node.id: node.cpu_hz for node in problem.supervisors}
    measured = replace(problem, load=replace(problem.load, node_cpu_hz=full))
    polling, quiet = Costs(spin_share=0.03, polling_threads=1.0), Costs(spin_share=0.03, polling_threads=0.0)
    found, idle = (steady_of(word_count, SPREAD, polling, Profile.of(of)) for of in (measured, problem))
    without = steady_of(word_count, SPREAD, quiet, Profile.of(measured))
    assert without.highest_tps == pytest.approx(steady_of(word_count, SPREAD, Costs()).highest_tps)
    assert found.highest_tps < idle.highest_tps, "threads with CPU to spare poll whenever they do not work"
    worked = [Profile.of(measured).work_cycles(costs) @ Profile.of(measured).handled_tps for costs in (quiet, polling)]
    assert worked[0] - worked[1] == pytest.approx(0.03 / 0.97 * problem.core_hz, rel=0.01)


def test_closed_network_is_solved_once_and_only_on_demand(monkeypatch):
    """It takes more than all else together, and a search for few nodes has no use for it."""
    found = []
    monkeypatch.setattr(steady, "closed", lambda *given: found.append(1) or closed(*given))
    state = steady_of(WordCount(pending=20), SPREAD)
    assert np.all(state.given.ways.latency.mean > 0)
    assert not found
    assert np.all(state.pending.rate_tps > 0)
    assert np.all(state.pending_use <= 1 + 1e-9)
    assert len(found) == 1
