"""The optimizer: known optima, best known costs, budgets, and how far it goes from what runs."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import stormwright as sw
from stormwright.model import (
    UNPLACED,
    Component,
    Grouping,
    LoadProfile,
    Problem,
    Topology,
    cost_of,
    default_executor_runs,
    diff,
    violations,
)
from stormwright.model.constraints.violations import broken_limits
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER
from stormwright.optimize.search.budget import Budget
from stormwright.schedulers import make_scheduler
from stormwright.testing import oracles
from stormwright.testing.pipelines import shuffled_pipelines
from tests.case_files import case_files, case_name, case_problem, read_case
from tests.schedulers.builders import load, nodes, problem, running, topology
from tests.schedulers.search_problems import least, part_optimal

PAIRS = [(0, 1, 100), (2, 3, 100)]


def schedule(of: Problem, **settings: object):
    """The answer by traffic; by rates: test_optimizer_rates.py, test_default_answer.py."""
    settings = {"objective": "traffic", "iterations": 20_000} | settings
    return make_scheduler("optimizer", settings).schedule(of)


def case(prefix: str):
    path = next(p for p in case_files("placement") if case_name(p).startswith(prefix))
    return case_problem(path), read_case(path)["reference"]


@pytest.mark.long
def test_tiny_problems_against_the_optimum():
    """It finds the optimum of problems this small, nearly always."""
    assert part_optimal(schedule, oracles.cost) >= 0.95


@pytest.mark.parametrize("racks", [1, 2])
def test_workers_filling_all_slots_are_exchanged_between_nodes(racks):
    """No worker can move, only be exchanged with another."""
    supervisors = tuple(replace(node, rack=f"r{n % racks}") for n, node in enumerate(nodes(9, 9, ports=2)))
    pairs = [(0, 1, 5), (2, 3, 5), (0, 2, 4), (1, 3, 4)]
    of = problem(supervisors, (topology("t", 4, 4), load(4, pairs)))
    assert oracles.cost(of, schedule(of).slot_of_executor.tolist()) == least(of, oracles.cost)


@pytest.mark.parametrize("path", case_files("placement"), ids=case_name)
def test_cases_valid_and_near_the_best_known(path):
    of, reference = case_problem(path), read_case(path)["reference"]
    slots = schedule(of, iterations=200_000).slot_of_executor
    assert violations(of, slots) == []
    cost = oracles.cost(of, slots.tolist())
    assert cost >= (reference["lower_bound"] or 0) * (1 - 1e-9)
    assert cost <= 1.05 * reference["cost"]


@pytest.mark.parametrize("name", ["s01", "s03"])
def test_proven_optima(name):
    of, reference = case(name)
    assert reference["exact"]
    cost = oracles.cost(of, schedule(of, iterations=2_000_000).slot_of_executor.tolist())
    assert cost == pytest.approx(reference["cost"], rel=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("executors", [1_000, 2_100])
def test_a_very_large_topology_is_placed_whole_within_its_limits(executors):
    """It is searched by levels, whether it has tables or none and was grown."""
    rng = np.random.default_rng(executors)
    pairs = np.column_stack([*rng.integers(executors, size=(2, 5 * executors)), rng.lognormal(3, 1, 5 * executors)])
    large = topology("t", executors, executors // 6, **{MAX_EXECUTORS_PER_WORKER: 8})
    small = topology("u", 5, 2), load(5, PAIRS)
    of = problem(nodes(*[2.0] * (executors // 15)), (large, load(executors, pairs)), small)
    found = [schedule(of, iterations=n) for n in (0, 200_000, 200_000)]
    assert [each.unplaced for each in found] == [()] * 3
    assert violations(of, found[1].slot_of_executor) == []
    costs = [cost_of(of, each.slot_of_executor).total for each in found]
    assert costs[1] < costs[0], "the search beside construction alone"
    assert np.array_equal(found[1].slot_of_executor, found[2].slot_of_executor)


def test_seed_and_iterations_decide_the_answer():
    of, _ = case("m01")
    first = schedule(of)
    assert np.array_equal(first.slot_of_executor, schedule(of).slot_of_executor)
    assert not np.array_equal(first.slot_of_executor, schedule(of, seed=1).slot_of_executor)
    assert first.parameters["iterations_made"] >= 20_000


@pytest.mark.slow
def test_clock_is_unused_without_a_time_budget(monkeypatch):
    """The answer is the same however slow the machine."""
    of, _ = case("m01")
    first = make_scheduler("optimizer").schedule(of).slot_of_executor
    monkeypatch.setattr(time, "perf_counter", map(float, range(0, 10**9, 1000)).__next__)
    assert np.array_equal(first, make_scheduler("optimizer").schedule(of).slot_of_executor)


@pytest.mark.parametrize("settings", [{}, {"max_moves": 2}])
def test_constrained_topologies_stay_separated_beside_others(settings):
    """The search would gladly put all of the first topology into one worker's node, as it does with the second."""
    spread = topology("a", 4, 2, **{"topology.spread.components": ["c"]})
    of = problem(
        nodes(1, 1, 1, 1), (replace(spread, num_workers=4), load(4, PAIRS)), (topology("b", 4, 2), load(4, PAIRS))
    )
    runs = of.with_current(make_scheduler("online").schedule(of).by_topology(of))
    lost = replace(runs, current={"a": runs.current["a"]})
    for each in (of, runs, lost):
        slots = schedule(each, **settings).slot_of_executor
        assert violations(each, slots) == []
        assert oracles.is_valid(each, slots.tolist())


def test_rearrangement_for_generic_resources_preserves_worker_count():
    """Two nodes have one GPU each, and two executors ask for one: those of the same component are moved apart."""
    inputs = (Grouping("c0"),)
    components = (
        Component("c0", "spout", 1),
        Component("c1", "bolt", 2, inputs, {"gpu.count": 1.0}),
        Component("c2", "bolt", 3, inputs),
    )
    supervisors = [
        replace(node, resources={"memory.mb": 4096.0, "gpu.count": gpus})
        for node, gpus in zip(nodes(1, 1, 1, ports=2), (1.0, 0.0, 1.0), strict=True)
    ]
    supervisors[2] = replace(supervisors[2], ports=supervisors[2].ports[:1])
    idle = {"topology.component.cpu.pcore.percent": 0.0}
    of = Problem(tuple(supervisors), (Topology("t", "t", 3, components, default_executor_runs(components), conf=idle),))
    slots = schedule(of).slot_of_executor
    assert violations(of, slots) == []
    assert len(np.unique(slots)) == 3


def test_lost_executor_joining_a_worker_is_not_counted_as_a_move():
    """It goes on to the worker that it exchanges most with, though nothing may move."""
    now = [0, 0, 4, 4, 4, UNPLACED]
    of = running(problem(nodes(1, 1), (topology("t", 6, 2), load(6, [(5, 2, 100)]))), now)
    assert schedule(of, max_moves=0).slot_of_executor.tolist() == [*now[:-1], 4]


def test_time_budget_is_respected_and_iteration_count_is_reported():
    of, _ = case("m01")
    schedule(of, iterations=100)  # compiled from here on

    def in_time() -> bool:
        started = time.perf_counter()
        answer = schedule(of, iterations=0, time_budget_s=0.3)
        took_s = time.perf_counter() - started
        assert violations(of, answer.slot_of_executor) == []
        return took_s < 3.0 and answer.parameters["iterations_made"] > 0

    assert any(in_time() for _ in range(5)), "other work on the machine keeps it from its core some of the time"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_where_streams_are_shuffled_no_more_crosses_nodes_than_with_online(seed):
    """Placed as if new, and where that of online runs."""
    of = shuffled_pipelines(4, seed)
    online = make_scheduler("online").schedule(of)
    both = (of, of.with_current(online.by_topology(of)))
    found = [online, *(schedule(each, objective="traffic", iterations=100_000) for each in both)]
    costs = (cost_of(of, each.slot_of_executor) for each in found)
    theirs, *ours = (cost.inter_node + cost.inter_rack for cost in costs)
    assert max(ours) <= theirs


def test_no_time_at_all_gives_a_valid_placement():
    of, _ = case("l04")
    answer = schedule(of, iterations=0, time_budget_s=0)
    assert answer.parameters["iterations_made"] == 0
    assert violations(of, answer.slot_of_executor) == []


@pytest.mark.parametrize("late", [False, True])
def test_placed_topologies_are_valid_under_scarcity_despite_time_limit(late, monkeypatch):
    """Four fifths of the executors have room, each on a node of its own, so 20 of 25 topologies."""
    monkeypatch.setattr(Budget, "is_late", lambda _: late)
    of = problem(nodes(*[1.5] * 80), *((topology(f"t{k}", 4, 4), load(4, PAIRS, cpu_ghz=1.0)) for k in range(25)))
    answer = schedule(of, iterations=1000)
    assert broken_limits(of, answer.slot_of_executor) == []
    assert len(answer.status) == 5
    searches = 1 if late else 2  # the second with the room that the five leave
    assert answer.parameters["iterations_made"] < searches * 1200, "relieving nodes takes none"


def test_running_executors_move_if_total_cost_decreases():
    of = running(problem(nodes(1, 1), (topology("t", 4, 2), load(4, PAIRS))), [0, 4, 0, 4])
    assert oracles.cost(of, schedule(of).slot_of_executor.tolist()) == 0


def test_a_good_placement_stays():
    of = running(problem(nodes(1, 1, 1), (topology("t", 4, 2), load(4, PAIRS))), [9, 9, 5, 5])
    assert schedule(of).slot_of_executor.tolist() == [9, 9, 5, 5]


@pytest.mark.parametrize("settings", [{}, {"max_moves": 2}, {"move_price": 1000.0}])
def test_lost_worker_is_placed_around_the_others(settings):
    of = running(problem(nodes(1, 1), (topology("t", 4, 2), load(4, PAIRS))), [0, 0, UNPLACED, UNPLACED])
    slots = schedule(of, **settings).slot_of_executor.tolist()
    assert slots[:2] == [0, 0]
    assert slots[2] == slots[3] not in (0, UNPLACED)


def drifted(prefix: str) -> Problem:
    """A case that runs as the optimizer placed it, under a load that has changed since."""
    of, _ = case(prefix)
    of = of.with_current(schedule(of, iterations=300_000).by_topology(of))
    rng = np.random.default_rng(1)
    assert of.load is not None
    loads = {
        name: replace(measured, pair_tps=measured.pair_tps * rng.lognormal(0, 0.6, len(measured.pair_tps)))
        for name, measured in of.load.topologies.items()
    }
    return of.with_load(LoadProfile(loads))


@pytest.mark.long
@pytest.mark.parametrize("prefix", ["m01", "m03", "l04"])
def test_no_more_than_the_cap_moves_and_more_moves_are_worth_more(prefix):
    of = drifted(prefix)
    costs = []
    for most in (0, 5, 25, 100):
        slots = schedule(of, max_moves=most, iterations=300_000).slot_of_executor
        assert len(diff(of, of.current_slot, slots).moved_executors) <= most
        assert violations(of, slots) == []
        costs.append(cost_of(of, slots).total)
    assert costs[0] == pytest.approx(cost_of(of, of.current_slot).total)
    assert costs[-1] < costs[0]
    assert all(later <= 1.01 * sooner for sooner, later in pairwise(costs))


@pytest.mark.long
def test_higher_move_price_causes_fewer_moves():
    of = drifted("l04")
    moved = []
    for price in (1e-6, 100.0, 1e9):
        slots = schedule(of, move_price=price, iterations=300_000).slot_of_executor
        assert violations(of, slots) == []
        moved.append(len(diff(of, of.current_slot, slots).moved_executors))
        gain = cost_of(of, of.current_slot).total - cost_of(of, slots).total
        assert gain >= price * moved[-1] * (1 - 1e-9)
    assert moved[0] > moved[1] > moved[2] == 0


def test_an_overloaded_node_is_emptied_within_the_cap():
    of = running(problem(nodes(0.3, 1), (topology("t", 4, 2), load(4, PAIRS))), [0, 1, 1, 1])
    slots = schedule(of, max_moves=1).slot_of_executor
    assert violations(of, slots) == []
    assert len(diff(of, of.current_slot, slots).moved_executors) == 1


def test_status_names_the_scheduler():
    answer = schedule(problem(nodes(1, ports=2), (topology("t", 4, 3), load(4))))
    assert answer.status["t"] == "optimizer: 3 worker slots wanted, 2 free on 1 usable node together"


def test_problem_without_nodes_is_answered_with_the_reason():
    none = sw.sketch({"words": "lines 2 -> count 2"}, nodes=1)
    found = make_scheduler("optimizer").schedule(replace(none, supervisors=()))
    assert (found.slot_of_executor == UNPLACED).all()
    assert "0 usable nodes" in str(found.unplaced[0].reasons)
