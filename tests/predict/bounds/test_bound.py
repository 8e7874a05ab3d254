"""Bounds against placements that are predicted: none may be better, and of small problems the best one comes near."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from stormwright.model import (
    Component,
    LoadProfile,
    Problem,
    Supervisor,
    Topology,
    TopologyLoad,
    default_executor_runs,
)
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.model.cluster import DEFAULT_CORE_HZ
from stormwright.predict.answer import Assumptions, predict
from stormwright.predict.bounds import prove
from stormwright.predict.bounds.case import Case
from stormwright.predict.costs import NO_CORRECTIONS, Correction, Costs
from stormwright.predict.fairness import weights_of
from stormwright.predict.flow.profile import Profile
from stormwright.testing.pipelines import shuffled_pipelines
from stormwright.testing.word_counts import WordCount, two_word_counts
from tests.examples import examples
from tests.predict.unlike import unlike_inputs

COSTS = Costs(serialise_us=2.0, send_us=1.5, send_us_per_kb=0.7, receive_us=3.0, receive_us_per_kb=1.1)

#: Seconds for a proof that is not waited for.
SHORT = 2.0


def case_of(
    problem: Problem,
    costs: Costs = COSTS,
    wanted: FloatArray | None = None,
    corrections: Mapping[str, Correction] = NO_CORRECTIONS,
) -> Case:
    profile, sizes = Profile.of(problem), np.diff(problem.executor_offset)
    wanted = profile.rate_tps * weights_of(problem) if wanted is None else wanted
    return Case.of(problem, profile, Assumptions(costs, corrections), wanted, (np.ones_like(sizes), sizes))


def factor(
    problem: Problem,
    slots: IntArray,
    costs: Costs = COSTS,
    corrections: Mapping[str, Correction] = NO_CORRECTIONS,
) -> float:
    """By what all rates can grow, times weights."""
    found, weights = predict(problem, slots, Assumptions(costs, corrections)).topologies, weights_of(problem).tolist()
    grown = [
        one.highest_tps.value / one.measured_tps / weight
        for one, weight in zip(found, weights, strict=True)
        if one.measured_tps > 0
    ]
    return min(grown, default=np.inf)


def use(problem: Problem, slots: IntArray, rates: FloatArray) -> float:
    """How full the fullest thing is at given rates."""
    named = {topology.id: rate for topology, rate in zip(problem.topologies, rates.tolist(), strict=True) if rate > 0}
    return predict(problem, slots, Assumptions(COSTS, rate_tps=named)).fullest_use


def one_worker_a_node(problem: Problem) -> list[IntArray]:
    """All placements in which each topology has at most one worker on each node."""
    first = [np.flatnonzero(problem.slot_node == node) for node in range(len(problem.supervisors))]
    topologies = problem.executor_topology
    return [
        np.array([first[n][topologies[e]] for e, n in enumerate(nodes)], np.int32)
        for nodes in product(range(len(first)), repeat=problem.num_executors)
        if all(topologies[e] < len(first[n]) for e, n in enumerate(nodes))
    ]


def random_slots(problem: Problem, rng: np.random.Generator) -> IntArray:
    """Slots of all executors, each slot of one topology; few of them or all."""
    count, slots = len(problem.topologies), len(problem.slots)
    owner = rng.permutation(np.append(np.arange(count), rng.integers(0, count, slots - count)))
    found = np.empty(problem.num_executors, np.int32)
    for topology in range(count):
        own, members = np.flatnonzero(owner == topology), np.flatnonzero(problem.executor_topology == topology)
        found[members] = rng.choice(own[: rng.integers(1, len(own) + 1)], len(members))
    return found


def tiny(seed: int, most_topologies: int = 2, most_executors: int = 2) -> Problem:
    """A few executors on two or three nodes: shuffled and paired streams, spouts limited or not, unlike nodes."""
    rng = np.random.default_rng(seed)
    topologies, loads = [], {}
    for number in range(int(rng.integers(1, most_topologies + 1))):
        sizes = [int(rng.integers(1, most_executors + 1)) for _ in range(3 if number == 0 else 2)]
        acked, second_spout = rng.random() < 0.5, rng.random() < 0.3 and len(sizes) > 2
        kinds = ["spout", "spout" if second_spout else "bolt", "bolt"][: len(sizes)]
        components = [Component(f"c{n}", kind, size) for n, (kind, size) in enumerate(zip(kinds, sizes, strict=True))]
        components += [Component("__acker", "system", 1)] if acked else []
        conf = {"topology.max.spout.pending": int(rng.choice([1, 50, 50_000]))} if rng.random() < 0.7 else {}
        if rng.random() < 0.5:
            conf["stormwright.weight"] = float(rng.uniform(0.5, 2.0))
        runs = default_executor_runs(tuple(components))
        topology = Topology(f"t{number}-1-0", f"t{number}", 2, tuple(components), runs, conf=conf)
        topologies.append(topology)
        loads[topology.id] = _load(rng, topology, kinds, acked)
    nodes = tuple(
        Supervisor(
            f"n{n}",
            f"n{n}",
            tuple(range(6700, 6700 + int(rng.integers(1, 3)))),
            cores * speed * DEFAULT_CORE_HZ,
            rack=f"r{n % 2}",
            resources={"cpu.pcore.percent": 100 * cores, "memory.mb": 16_384.0},
            link_bps=float(rng.choice([1e6, 1e8])) if rng.random() < 0.5 else None,
        )
        for n, (cores, speed) in enumerate(
            (float(rng.choice([0.25, 0.5, 2.0])), float(rng.choice([1.0, 1.0, 0.5]))) for _ in range(rng.integers(2, 4))
        )
    )
    return Problem(nodes, tuple(topologies), load=LoadProfile(loads))


def _load(rng: np.random.Generator, topology: Topology, kinds: list[str], acked: bool) -> TopologyLoad:
    of = [np.flatnonzero(topology.executor_component == n).tolist() for n in range(len(topology.components))]
    pairs, flows, kinds_of_flow = [], [], []
    for target in range(1, len(kinds)):
        for source in range(target):
            if kinds[target] != "bolt" or (source + 1 < target and rng.random() < 0.5):
                continue
            tps = float(rng.uniform(50.0, 500.0))
            if rng.random() < 0.6:
                flows += [(s, target, tps / len(of[source])) for s in of[source]]
                kinds_of_flow += [str(rng.choice(["shuffle", "local_or_shuffle"]))] * len(of[source])
            else:
                shares = rng.dirichlet(np.ones(len(of[source]) * len(of[target])))
                both = [(s, t) for s in of[source] for t in of[target]]
                pairs += [(s, t, tps * float(part)) for (s, t), part in zip(both, shares, strict=True)]
    if acked:
        acker = of[-1][0]
        for number, kind in enumerate(kinds):
            pairs += [(s, acker, float(rng.uniform(50.0, 200.0))) for s in of[number]]
            pairs += [(acker, s, float(rng.uniform(50.0, 200.0))) for s in of[number] if kind == "spout"]
    count = topology.num_executors
    return TopologyLoad(
        cpu_hz=rng.uniform(0.001, 0.05, count) * DEFAULT_CORE_HZ,
        memory_mb=np.full(count, 100.0),
        pair_source=np.array([p[0] for p in pairs], np.int32),
        pair_target=np.array([p[1] for p in pairs], np.int32),
        pair_tps=np.array([p[2] for p in pairs], np.float64),
        flow_source=np.array([f[0] for f in flows], np.int32),
        flow_component=np.array([f[1] for f in flows], np.int32),
        flow_tps=np.array([f[2] for f in flows], np.float64),
        flow_grouping=tuple(kinds_of_flow),
        bytes_per_tuple=float(rng.choice([40.0, 2_000.0])),
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(6)))
def test_no_placement_is_better_than_a_bound(seed):
    """Any way of sharing out slots, with several workers of a topology on a node, and whatever spills over."""
    of, rng = tiny(seed), np.random.default_rng(seed)
    if len(of.slots) < len(of.topologies):
        pytest.skip("there is no room")
    best = max(factor(of, random_slots(of, rng)) for _ in range(25))
    case = case_of(of)
    for full in (prove.simple(case), prove.least_full(case, np.inf, SHORT), prove.least_full(case, 1 / best, SHORT)):
        assert best * full <= 1 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(6)))
def test_throughput_bound_holds_for_source_specific_costs(seed):
    of, rng = tiny(seed), np.random.default_rng(seed)
    if len(of.slots) < len(of.topologies):
        pytest.skip("there is no room")
    known = unlike_inputs(of, seed)
    best = max(factor(of, random_slots(of, rng), corrections=known) for _ in range(25))
    assert best * prove.least_full(case_of(of, corrections=known), 1 / best, SHORT) <= 1 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 100 + examples(4)))
def test_of_all_placements_of_a_small_problem_the_best_is_near_to_its_bounds(seed):
    of = tiny(seed, most_topologies=1)
    if of.num_executors > 4:
        of = tiny(seed, most_topologies=1, most_executors=1)
    every, case = one_worker_a_node(of), case_of(of)
    best = max(factor(of, slots) for slots in every)
    full = prove.least_full(case, np.inf, SHORT)
    assert best * full <= 1 + 1e-9
    if np.array_equal(case.units.handled, case.units.least):  # else who begins the trees is left open, as are messages
        assert best * full >= 0.85
    rates = 0.6 * best * Profile.of(of).rate_tps
    sustain = [len(set(of.slot_node[slots].tolist())) for slots in every if use(of, slots, rates) <= 0.8]
    fewest = prove.fewest_nodes(case_of(of, wanted=rates), 0.8, np.inf, SHORT)
    assert fewest <= min(sustain, default=np.inf)
    assert not sustain or fewest >= min(sustain) - 1


ALL_IN_ONE = np.zeros(12, np.int32)


@pytest.mark.long
@pytest.mark.parametrize("nodes", [1, 3])
def test_word_count_in_one_worker_is_proven_optimal(nodes):
    problem = WordCount(nodes=nodes, cores=0.4).problem()
    costs = Costs()
    best = factor(problem, ALL_IN_ONE, costs)
    full = prove.least_full(case_of(problem, costs), 1 / best, 30.0)
    assert 1 - prove.SAME <= best * full <= 1


@pytest.mark.slow
def test_weights_count():
    """Of two alike on two nodes, one that is to get twice as much can get no more than where it has one to itself."""
    plain = two_word_counts(nodes=2, cores=0.4)
    heavy = replace(plain.topologies[1], conf={**plain.topologies[1].conf, "stormwright.weight": 2})
    problem, costs = replace(plain, topologies=(plain.topologies[0], heavy)), Costs()
    apart = np.repeat([0, 2], 12).astype(np.int32)
    best = factor(problem, apart, costs)
    assert best == pytest.approx(factor(plain, apart, costs) / 2)
    full = prove.least_full(case_of(problem, costs), 1 / best, 10.0)
    assert best * full <= 1
    assert full > 1.2 * prove.least_full(case_of(plain, costs), np.inf, 3.0)


@pytest.mark.slow
def test_problem_too_large_for_linear_program_gets_a_weaker_bound(monkeypatch):
    problem = WordCount(nodes=3, cores=0.4).problem()
    case, found = case_of(problem), []
    for most in (0, prove.unknowns(case.without_messages()), prove.MAX_UNKNOWNS):
        monkeypatch.setattr(prove, "MAX_UNKNOWNS", most)
        found.append((prove.least_full(case, np.inf, 3.0), prove.fewest_nodes(case, 0.05, np.inf, 3.0)))
    assert found[0][0] == prove.simple(case)
    assert found == sorted(found)
    assert found[0][0] < found[-1][0]


def test_bound_computation_respects_its_time_limit():
    problem = two_word_counts(nodes=12, cores=0.05)
    begin = time.perf_counter()
    assert prove.least_full(case_of(problem), np.inf, 0.5) >= prove.simple(case_of(problem))
    assert time.perf_counter() - begin < 10.0


@pytest.mark.long
def test_thread_bound_of_a_large_problem_is_proven_quickly():
    """Each stage is as busy as the threads of its executors bear: 0.8 of them, as the pipelines are made."""
    case = case_of(shuffled_pipelines(400, seed=1), Costs())
    assert prove.unknowns(case) > 10**7
    begin = time.process_time()  # not what other work on the machine takes
    assert 1 / prove.least_full(case, np.inf, 10.0) == pytest.approx(1.25, rel=1e-6)
    assert time.process_time() - begin < 2.0


def test_more_than_all_nodes_have_is_sustained_by_none():
    problem = WordCount(nodes=2, cores=0.4).problem()
    rates = np.array([100_000.0])
    assert prove.fewest_nodes(case_of(problem, wanted=rates), 0.8, np.inf, SHORT) == np.inf
    assert prove.fewest_nodes(case_of(problem, wanted=rates * 1e-6), 0.8, np.inf, SHORT) == 1


def test_bound_without_nodes_or_load_is_trivial():
    problem = WordCount(nodes=2, cores=0.4).problem()
    nowhere = replace(problem, supervisors=(), current={})
    assert prove.least_full(case_of(nowhere), np.inf, SHORT) == np.inf
    assert prove.fewest_nodes(case_of(nowhere), 0.8, np.inf, SHORT) == np.inf
    assert prove.least_full(case_of(problem, wanted=np.zeros(1)), np.inf, SHORT) == 0.0


def test_memory_ports_and_workers_count():
    problem = WordCount(nodes=3, cores=4.0).problem()
    small = tuple(replace(n, resources={**n.resources, "memory.mb": 6 * 128.0}) for n in problem.supervisors)
    assert prove.fewest_nodes(case_of(replace(problem, supervisors=small)), 0.8, np.inf, SHORT) == 2
    topology = problem.topologies[0]
    few = replace(topology, conf={**topology.conf, "stormwright.max.executors.per.worker": 2})
    assert prove.fewest_nodes(case_of(replace(problem, topologies=(few,))), 0.8, np.inf, SHORT) == 3
