"""Searches by rates: what they count is what a prediction says, and what they find is the best there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from stormwright.model import (
    UNPLACED,
    Component,
    Grouping,
    LoadProfile,
    Problem,
    Supervisor,
    Topology,
    TopologyAssignment,
    TopologyLoad,
    default_executor_runs,
)
from stormwright.model.arrays import IntArray
from stormwright.model.cluster import DEFAULT_CORE_HZ
from stormwright.optimize.throughput import parts
from stormwright.optimize.throughput.improve import ImproveEffort, improve
from stormwright.optimize.throughput.parts import Parts
from stormwright.optimize.throughput.score import LATENCY, NODES, THROUGHPUT, add_up, headroom
from stormwright.optimize.throughput.search import search
from stormwright.optimize.throughput.start import Aim, MeasuredLoad, Seats, make_placement_state
from stormwright.predict.costs import NO_CORRECTIONS, Correction, Costs
from stormwright.predict.demand import TreeDemand
from stormwright.predict.flow.fields_grouping import Distributions
from stormwright.predict.flow.placed_routes import PlacedRoutes
from stormwright.predict.flow.profile import Profile
from stormwright.predict.steady import PlacedLoad, limits, steady_state
from stormwright.testing.strategies import problems
from stormwright.testing.word_counts import WordCount, two_word_counts
from tests.predict.unlike import unlike_inputs

COSTS = Costs(serialise_us=2.0, send_us=1.5, send_us_per_kb=0.7, receive_us=3.0, receive_us_per_kb=1.1)


def seats_of(problem: Problem, slots: IntArray, *, free: bool = False) -> Seats:
    """The workers of a placement that is complete; with `free` each topology has one more for each node."""
    used, first, worker = np.unique(slots, return_index=True, return_inverse=True)
    topology = problem.executor_topology[first].astype(np.int64)
    node = problem.slot_node[used].astype(np.int64)
    count, more = len(problem.topologies), len(problem.supervisors) if free else 0
    topology = np.concatenate([topology, np.repeat(np.arange(count), more)])
    node = np.concatenate([node, np.tile(np.arange(len(problem.supervisors)), count)[: count * more]])
    order = np.argsort(topology, kind="stable")
    number = np.argsort(order)
    return Seats(
        worker=number[worker],
        topology=topology[order],
        node=node[order],
        most=np.full(count, problem.num_executors),
        movable=np.ones(count, bool),
        may_be_empty=np.full(count, free),
        ports=np.array([len(node.ports) for node in problem.supervisors]),
    )


def use_of(
    problem: Problem, profile: Profile, slots: IntArray, corrections: Mapping[str, Correction] = NO_CORRECTIONS
) -> np.ndarray:
    """How full every resource and busiest thread is at the measured rates, as a prediction has it."""
    demand = TreeDemand.of(profile, PlacedRoutes(profile, problem, slots).routes(), problem, COSTS, corrections)
    shares, free = limits(demand)
    silent = np.where(demand.running & (profile.rate_tps > 0), profile.rate_tps, 0.0)
    return np.asarray(shares @ silent) + (1 - free)


@pytest.mark.slow
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.filter_too_much])  # of many problems no tree is measured
def test_incremental_resource_use_equals_prediction(data):
    problem = data.draw(problems(max_topologies=2))
    count = len(problem.topologies)
    assume(len(problem.slots) >= count > 0)
    order = data.draw(st.permutations(range(len(problem.slots))))
    more = data.draw(st.lists(st.integers(0, count - 1), min_size=len(order) - count, max_size=len(order) - count))
    owner = np.empty(len(order), int)
    owner[order] = [*range(count), *more]
    slots = np.array(
        [data.draw(st.sampled_from(np.flatnonzero(owner == t).tolist())) for t in problem.executor_topology], np.int32
    )
    profile, known = Profile.of(problem), data.draw(st.sampled_from([{}, unlike_inputs(problem, 1)]))
    of = make_placement_state(
        problem, MeasuredLoad(profile, COSTS, known), seats_of(problem, slots), Aim(THROUGHPUT, profile.rate_tps)
    )
    assume(np.all(of.topologies["rounds"] == 1))  # what circles is followed for fewer rounds than by a prediction
    add_up(of)
    count, expected = len(problem.supervisors), use_of(problem, profile, slots, known)
    nodes = of.nodes
    base = nodes["base"] + nodes["workers"] * COSTS.worker_cores
    there = problem.node_cpu_hz > 0
    # What burns with no rate is told to be no more than all there is.
    cpu = np.minimum(base / nodes["cores"], 1.0) + nodes["cpu"] / nodes["cores"]
    counted = np.concatenate([cpu, nodes["out"], nodes["into"]])
    known = np.concatenate([there, np.ones(2 * count, bool)])
    assert counted[known] == pytest.approx(expected[: 3 * count][known], rel=1e-6, abs=1e-12)
    threads = of.topologies["rate"] * of.topologies["busiest_s"]
    assert threads == pytest.approx(expected[3 * count :], rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("worth", [0.0, np.inf])
def test_distributed_traffic_counts_like_its_pairs(worth, monkeypatch):
    """Ackers get uneven parts of tuples and of bytes, in other workers and in the same."""
    problem = WordCount(nodes=4, cores=0.5).problem()
    whole = Profile.of(problem)
    to_first, pairs = whole.pairs.target == 0, whole.pairs
    uneven = pairs._replace(
        tuples=np.where(to_first, 1.5, 1.0) * pairs.tuples, size=np.where(to_first, 0.3, 1.0) * pairs.size
    )
    profile = replace(whole, pairs=uneven)
    monkeypatch.setattr(parts, "Distributions", SimpleNamespace(of=lambda *given: Distributions.of(*given, worth)))
    assert (len(Parts.of(profile).deals) > 0) == (worth == 0)
    rng = np.random.default_rng(1)
    for number in range(30):
        slots = (rng.integers(0, 4, 12) * 2).astype(np.int32)
        aim, known = Aim(THROUGHPUT, profile.rate_tps), unlike_inputs(problem, number) if number % 2 else {}
        of = make_placement_state(problem, MeasuredLoad(profile, COSTS, known), seats_of(problem, slots), aim)
        add_up(of)
        expected, nodes = use_of(problem, profile, slots, known), of.nodes
        cpu = (nodes["base"] + nodes["workers"] * COSTS.worker_cores + nodes["cpu"]) / nodes["cores"]
        counted = np.concatenate([cpu, nodes["out"], nodes["into"], of.topologies["rate"] * of.topologies["busiest_s"]])
        assert counted == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("kind", [THROUGHPUT, LATENCY, NODES])
def test_sums_are_right_after_many_steps(kind, free):
    problem = WordCount(nodes=4, cores=0.5).problem()
    profile = Profile.of(problem)
    slots = np.array([0, 2, 4, 6, 0, 2, 4, 6, 0, 2, 4, 6], np.int32)
    aim = Aim(kind, profile.rate_tps * 20, 0.8)
    of = make_placement_state(problem, MeasuredLoad(profile, COSTS), seats_of(problem, slots, free=free), aim)
    add_up(of)
    search(of, 20_000, 0.05, 1.0)
    before = {name: of.nodes[name].copy() for name in ("cpu", "out", "into", "workers")}
    score = of.scoring["score"][0]
    used = np.bincount(of.workers["node"][of.workers["size"] > 0], minlength=4)
    assert np.array_equal(of.nodes["used"], used)
    assert np.all(used <= of.nodes["ports"])
    assert np.array_equal(of.workers["size"], np.bincount(of.executors["worker"], minlength=len(of.workers)))
    if not free:
        assert of.workers["size"].min() >= 1
    add_up(of)
    assert of.scoring["score"][0] == pytest.approx(score)
    for name, was in before.items():
        assert of.nodes[name] == pytest.approx(was, abs=1e-9)


def test_idle_cost_of_silent_topologies_is_independent_of_rates():
    """Nor do full nodes of theirs limit others: a search sees the rates that a prediction does."""
    problem = two_word_counts(nodes=3, cores=0.4)
    ours, silent = (problem.load.topologies[t.id] for t in problem.topologies)
    none = {name: np.zeros_like(getattr(silent, name)) for name in ("pair_tps", "flow_tps")}
    silent = replace(silent, cpu_hz=np.full(12, 0.06 * problem.core_hz), **none)
    loads = dict(zip(problem.load.topologies, (ours, silent), strict=True))
    problem = replace(problem, load=replace(problem.load, topologies=loads))
    slots = np.array([0, 2] * 6 + [3] * 5 + [4] * 7, np.int32)  # it burns 0.3 of the second node's cores, 0.42 alone
    profile = Profile.of(problem)
    assert profile.rate_tps.tolist() == [1_000, 0]
    placed = PlacedLoad.under(profile, problem, slots)
    highest = steady_state(placed, profile.rate_tps, np.array([1.0, 1.0]), COSTS).highest_tps
    of = make_placement_state(
        problem, MeasuredLoad(profile, COSTS), seats_of(problem, slots), Aim(THROUGHPUT, profile.rate_tps)
    )
    found = improve(of, ImproveEffort(0))
    assert -found.badness == pytest.approx(highest[0] / 1_000, rel=1e-9)
    assert found.worker.tolist() == of.executors["worker"].tolist()


@pytest.mark.slow
def test_throughput_search_finds_the_optimum():
    """Of all ways to put splits and counts on two nodes, the rest being where it is best."""
    problem = WordCount(nodes=2, cores=0.4, link_bps=None).problem()
    profile = Profile.of(problem)
    best = np.inf
    for nodes in product((0, 2), repeat=11):  # the other way round is the same
        slots = np.array((0, *nodes), np.int32)
        best = min(best, use_of(problem, profile, slots).max())
    start = np.array([0, 2] * 6, np.int32)
    of = make_placement_state(
        problem, MeasuredLoad(profile, COSTS), seats_of(problem, start, free=True), Aim(THROUGHPUT, profile.rate_tps)
    )
    found = improve(of, ImproveEffort(40_000))
    add_up(of)
    slots = np.array([0, 2], np.int32)[found.node[found.worker]]
    assert use_of(problem, profile, slots).max() <= best * (1 + 1e-3)
    assert headroom(of) == pytest.approx(1)
    assert UNPLACED not in found.worker


@pytest.mark.long
def test_many_nodes_are_searched_for_the_better():
    """A step that makes one of them the worst adds next to nothing to the sum over all."""
    many = 60
    made = [WordCount(nodes=2 * many, cores=0.4, name=f"w{number}") for number in range(many)]
    problem = made[0].problem()
    topologies = tuple(each.topology() for each in made)
    loads = {topology.id: each.load() for topology, each in zip(topologies, made, strict=True)}
    assert problem.load is not None
    problem = replace(problem, topologies=topologies, current={}, load=replace(problem.load, topologies=loads))
    pair, one = np.divmod(np.repeat(np.arange(many), 12), 2)  # two share two nodes, and as many are idle
    slots = (4 * pair + one + 2 * np.tile([0, 1], 6 * many)).astype(np.int32)
    profile = Profile.of(problem)
    load, aim = MeasuredLoad(profile, COSTS), Aim(THROUGHPUT, profile.rate_tps)
    seats = seats_of(problem, slots, free=True)
    start, of = make_placement_state(problem, load, seats, aim), make_placement_state(problem, load, seats, aim)
    before = improve(start._replace(free=start.free[:0]), ImproveEffort(many)).badness
    assert improve(of, ImproveEffort(20 * len(of.free))).badness < 1.8 * before < 0


def joined_by_three(kind: str) -> Problem:
    """Spouts a, b and c, two executors each, and a bolt of three that all send to, on two racks of two nodes."""
    inputs = tuple(Grouping(source, kind=kind) for source in "abc")
    components = (*(Component(source, "spout", 2) for source in "abc"), Component("join", "bolt", 3, inputs))
    topology = Topology("t-1-0", "t", 3, components, default_executor_runs(components))
    load = TopologyLoad(
        cpu_hz=np.repeat([1e6, 1e8], [6, 3]),
        memory_mb=np.ones(9),
        pair_source=np.empty(0, np.int32),
        pair_target=np.empty(0, np.int32),
        pair_tps=np.empty(0),
        flow_source=np.arange(6),
        flow_component=np.full(6, 3),
        flow_tps=np.array([100.0, 200.0, 300.0, 50.0, 80.0, 40.0]),
        flow_grouping=(kind,) * 6,
    )
    nodes = tuple(Supervisor(f"n{n}", f"n{n}", (6700, 6701), DEFAULT_CORE_HZ, rack=f"r{n // 2}") for n in range(4))
    problem = Problem(nodes, (topology,), load=LoadProfile({topology.id: load}))
    return problem.with_current({topology.id: TopologyAssignment(problem.slots[:2], (0, 1, 0, 1, 0, 1, 0, 0, 1))})


@pytest.mark.parametrize("kind", ["shuffle", "local_or_shuffle"])
def test_shuffled_tuples_count_with_their_source_specific_cost(kind):
    """Of three spouts, and by every way of finding a bolt: in the worker, on the node, in the rack, among all."""
    problem = joined_by_three(kind)
    profile, rng, matters = Profile.of(problem), np.random.default_rng(1), 0
    for number in range(40):
        slots = rng.integers(0, len(problem.slots), problem.num_executors).astype(np.int32)
        aim, known = Aim(THROUGHPUT, profile.rate_tps), unlike_inputs(problem, number)
        of = make_placement_state(problem, MeasuredLoad(profile, COSTS, known), seats_of(problem, slots), aim)
        add_up(of)
        expected = use_of(problem, profile, slots, known)
        matters += expected[-1] != pytest.approx(use_of(problem, profile, slots)[-1], rel=0.05)
        assert of.topologies["rate"] * of.topologies["busiest_s"] == pytest.approx(expected[-1:], rel=1e-9)
    assert matters > 20
