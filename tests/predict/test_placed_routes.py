"""What is known from the placement before changes nothing of what is predicted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stormwright.model import LoadProfile, Problem
from stormwright.predict.costs import Costs
from stormwright.predict.demand import TreeDemand
from stormwright.predict.evaluate import steady_states
from stormwright.predict.flow.placed_routes import PlacedRoutes
from stormwright.predict.flow.profile import Profile
from stormwright.predict.flow.routes import Paths
from stormwright.predict.queueing import waits
from stormwright.predict.steady import PlacedLoad, SteadyState
from stormwright.testing.strategies import problems
from stormwright.testing.word_counts import WordCount, two_word_counts
from tests.examples import examples
from tests.predict.unlike import unlike_inputs

KNOWN = [(Costs(), {})]


def states(
    profile: Profile, problem: Problem, placements: list[np.ndarray], *, from_scratch: bool
) -> list[SteadyState]:
    """The steady states of placements one after the other, each known from the one before or recomputed."""
    last, found = None, []
    known = [*KNOWN, (Costs(), unlike_inputs(problem, 1))]
    for slots in placements:
        last = PlacedLoad.under(profile, problem, slots, None if from_scratch else last)
        found += steady_states(last, profile.rate_tps, profile.rate_tps, known)[1]
        for state in found:
            assert state.given.ways  # what is worked out is known from then on
    return found


def assert_same(one: SteadyState, other: SteadyState) -> None:
    for name in ("highest_tps", "given_use", "pending_use"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9, abs=1e-12)
    assert one.pending.rate_tps == pytest.approx(other.pending.rate_tps, rel=1e-6)
    assert one.given.ways.latency.mean == pytest.approx(other.given.ways.latency.mean, rel=1e-9, abs=1e-15)


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=examples(40), deadline=None)
def test_incremental_routes_equal_routes_computed_from_scratch(data):
    problem = data.draw(problems())
    assume(problem.slots)
    slots = st.integers(-1, len(problem.slots) - 1)
    placement = st.lists(slots, min_size=problem.num_executors, max_size=problem.num_executors)
    placements = [np.array(data.draw(placement), np.int32) for _ in range(2)]
    # Of the third some topologies are where they were.
    keeps = np.array(data.draw(st.lists(st.booleans(), min_size=(n := len(problem.topologies)), max_size=n)), bool)
    placements.append(np.where(keeps[problem.executor_topology], placements[1], placements[0]).astype(np.int32))
    profile = Profile.of(problem)
    both = (states(profile, problem, placements, from_scratch=from_scratch) for from_scratch in (True, False))
    for fresh, known in zip(*both, strict=True):
        assert_same(fresh, known)


@pytest.mark.long
@pytest.mark.parametrize("pending", [5, 100_000, None])
def test_incremental_rates_equal_full_rates_with_spill_and_uneven_spouts(pending):
    problem = WordCount(cores=0.4, pending=pending).problem()
    profile = Profile.of(problem)
    rng = np.random.default_rng(1)
    placements = [(rng.integers(0, 3, 12) * 2).astype(np.int32) for _ in range(6)]
    for fresh, known in zip(
        *(states(profile, problem, placements, from_scratch=from_scratch) for from_scratch in (True, False)),
        strict=True,
    ):
        assert_same(fresh, known)


def assert_next_to_equal(one: SteadyState, other: SteadyState) -> None:
    """What is known from before is as exact as what is recomputed: only sums may be in another order."""

    def close(name: str, ours: np.ndarray, theirs: np.ndarray) -> None:
        assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-300), name

    for name in ("highest_tps", "given_use", "pending_use"):
        close(name, getattr(one, name), getattr(other, name))
    assert np.array_equal(one.limit, other.limit)
    close("pending", one.pending.rate_tps, other.pending.rate_tps)
    for demand, theirs in ((one.demand, other.demand), (one.full_demand, other.full_demand)):
        assert np.array_equal(demand.worker_slot, theirs.worker_slot)
        assert np.array_equal(demand.executor_worker, theirs.executor_worker)
        for name in ("thread_s", "thread_visits", "link_bytes", "link_messages", "base_cores"):
            close(name, getattr(demand, name), getattr(theirs, name))
    for ours, known in zip(one.given.ways, other.given.ways, strict=True):
        close("mean", ours.mean, known.mean)
        close("variance", ours.variance, known.variance)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(2)))
def test_rates_after_a_move_sequence_equal_independent_predictions(seed):
    """Several topologies on nodes that they share: some of them move, again and again, and lose a slot and get one."""
    rng = np.random.default_rng(seed)
    counts = [
        WordCount(nodes=6, cores=1.0, name=f"words-{number}", pending=[4, 60, 100_000, None][number % 4])
        for number in range(5)
    ]
    loads = {count.topology().id: count.load() for count in counts}
    topologies = tuple(count.topology() for count in counts)
    problem = replace(counts[0].problem(), topologies=topologies, current={}, load=LoadProfile(loads))
    slots = rng.integers(0, len(problem.slots), problem.num_executors).astype(np.int32)
    placements = [slots]
    for _ in range(4):
        slots = slots.copy()
        for topology in rng.choice(len(topologies), rng.integers(0, 4), replace=False).tolist():
            own = np.flatnonzero(problem.executor_topology == topology)
            slots[own] = rng.choice(rng.integers(0, len(problem.slots), 3), len(own))
            if rng.random() < 0.1:
                slots[own[0]] = -1
        placements.append(slots)
    profile = Profile.of(problem)
    both = (states(profile, problem, placements, from_scratch=from_scratch) for from_scratch in (True, False))
    for fresh, known in zip(*both, strict=True):
        assert_next_to_equal(known, fresh)


@pytest.mark.slow
@pytest.mark.parametrize("pending", [3, 40, None])
@pytest.mark.parametrize("costs", [Costs(), Costs(quota_period_ms=100.0, machine_cores=2.0)])
def test_topologies_unaffected_by_a_move_are_not_recomputed(pending, costs, monkeypatch):
    """One word count stays on its nodes while the other one moves, on its own nodes and then to those of the first."""
    problem, rng = two_word_counts(nodes=6, cores=0.4, pending=pending), np.random.default_rng(1)
    profile, fixed, known_before = Profile.of(problem), (rng.integers(0, 3, 12) * 2).astype(np.int32), []
    moves = [rng.integers(3, 6, 12) * 2 for _ in range(4)] + [rng.integers(0, 6, 12) * 2 + 1 for _ in range(3)]
    placements = [np.concatenate([fixed, each]).astype(np.int32) for each in moves]
    original = waits.unchanged
    monkeypatch.setattr(waits, "unchanged", lambda *of: known_before.append(original(*of)) or known_before[-1])
    monkeypatch.setattr("tests.predict.test_placed_routes.KNOWN", [(costs, {})])
    both = (states(profile, problem, placements, from_scratch=from_scratch) for from_scratch in (True, False))
    for fresh, known in zip(*both, strict=True):
        assert_same(fresh, known)
        assert known.given.ways.latency.variance == pytest.approx(fresh.given.ways.latency.variance, rel=1e-9)
    if costs.quota_period_ms == 0 or pending is not None:
        assert any(one is not None and one[0].tolist() == [True, False] for one in known_before)


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=examples(40), deadline=None)
def test_some_topologies_by_themselves_are_as_among_all(data):
    problem = data.draw(problems())
    assume(problem.slots)
    slots = st.integers(-1, len(problem.slots) - 1)
    placement = st.lists(slots, min_size=problem.num_executors, max_size=problem.num_executors)
    profile, costs = Profile.of(problem), Costs()
    standing = PlacedRoutes(profile, problem, np.array(data.draw(placement), np.int32))
    count = len(problem.topologies)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool)
    near = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.3, 1.0]), min_size=count, max_size=count)))
    begins = profile.begins * data.draw(st.sampled_from([1.0, 2.0]))
    load, paths = standing.paths(chosen)
    part = load.chosen
    whole, own = Paths(profile, standing.workers).routes(near, begins), paths.routes(near, begins[part.executors])
    assert own.handled == pytest.approx(whole.handled[part.executors])
    assert own.edge_tuples == pytest.approx(whole.edge_tuples[part.edges])
    assert own.came == pytest.approx(whole.came[part.ends[1]])
    for ours, theirs, ends in zip((own.sent, own.received), (whole.sent, whole.received), part.ends, strict=True):
        assert np.stack(ours) == pytest.approx(np.stack(theirs)[:, ends])
    known = unlike_inputs(problem, 1)
    all_, some = (TreeDemand.of(of, routes, problem, costs, known) for of, routes in ((profile, whole), (load, own)))
    assert some.busiest_s[chosen] == pytest.approx(all_.busiest_s[chosen])
    at = chosen[all_.places.topology]
    assert some.claims.shared == pytest.approx(all_.claims.shared[:, at])


def test_converged_topology_is_independent_of_unconverged_ones():
    """A topology comes to the same rate alone as beside others that take longer to be found."""
    both = two_word_counts(cores=0.4, pending=50)
    slots = np.repeat([0, 2], 12).astype(np.int32)  # a node each
    other = replace(both.topologies[1], conf={**both.topologies[1].conf, "topology.max.spout.pending": 3})
    both = replace(both, topologies=(both.topologies[0], other))
    rates = []
    for problem, where in ((both, slots), (replace(both, topologies=both.topologies[:1], current={}), slots[:12])):
        profile = Profile.of(problem)
        placed = PlacedLoad.under(profile, problem, where)
        (state,) = steady_states(placed, profile.rate_tps, profile.rate_tps, KNOWN)[1]
        assert state.pending.settled
        rates.append(state.pending.rate_tps[0])
        cycle_s = state.pending.ways.cycle.mean
        limits = profile.layout.pending
        assert state.pending.rate_tps * cycle_s == pytest.approx(limits, rel=1e-3)
    assert rates[0] == pytest.approx(rates[1], rel=1e-9)
