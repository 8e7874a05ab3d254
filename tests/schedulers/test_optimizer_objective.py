"""What the optimizer lowers beside traffic, and how little it restarts, against plain loops and every placement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from stormwright.errors import InputError
from stormwright.model import LoadProfile, Problem, cost_of, diff, traffic_under, violations
from stormwright.schedulers import make_scheduler
from stormwright.testing import oracles
from stormwright.testing.word_counts import WordCount
from tests.case_files import case_files, case_name, case_problem
from tests.schedulers.builders import load, nodes, problem, running, topology
from tests.schedulers.search_problems import part_optimal, tiny, valid_placements


def schedule(of: Problem, **settings: object):
    return make_scheduler("optimizer", {"objective": "traffic", "iterations": 20_000} | settings).schedule(of)


def nodes_used(of: Problem, slots: Sequence[int]) -> int:
    return len({of.slots[slot].supervisor for slot in slots})


def imbalance(of: Problem, slots: Sequence[int]) -> float:
    used: dict[str, float] = defaultdict(float)
    for slot, cpu_hz in zip(slots, of.executor_cpu_hz.tolist(), strict=True):
        used[of.slots[slot].supervisor] += cpu_hz
    capacity = sum(node.cpu_hz for node in of.supervisors)
    together = sum(used.values()) / capacity
    mean = capacity / len(of.supervisors)
    return sum(node.cpu_hz / mean * (used[node.id] / node.cpu_hz - together) ** 2 for node in of.supervisors)


def restarted(before: Sequence[int], after: Sequence[int]) -> int:
    """Workers that ran and run no more as they did."""

    def workers(slots: Sequence[int]) -> set[tuple[int, frozenset[int]]]:
        return {(s, frozenset(e for e, other in enumerate(slots) if other == s)) for s in set(slots) if s >= 0}

    return len(workers(before) - workers(after))


def moved(before: Sequence[int], after: Sequence[int]) -> int:
    return sum(a != b for a, b in zip(before, after, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(("node", "imbalanced"), [(50.0, 0.0), (0.0, 300.0), (0.0, 1e5), (1e4, 0.0), (40.0, 400.0)])
def test_nodes_and_balance_on_tiny_problems_against_the_optimum(node, imbalanced):
    def objective(of: Problem, slots: Sequence[int]) -> float:
        return oracles.cost(of, slots) + node * nodes_used(of, slots) + imbalanced * imbalance(of, slots)

    def answer(of: Problem):
        found = schedule(of, node_price=node, imbalance_price=imbalanced)
        if not found.unplaced:
            assert found.parameters["priced_cost"] == pytest.approx(objective(of, found.slot_of_executor.tolist()))
        return found

    assert part_optimal(answer, objective) >= 0.95


def test_running_workers_move_according_to_prices():
    """Traffic is the same in every placement, since all executors have a worker of their own and pairs are none."""
    of = problem(nodes(1, 1, 1, ports=4), (topology("t", 3, 3), load(3)))
    apart, together = running(of, [0, 4, 8]), running(of, [0, 1, 2])
    assert schedule(apart).slot_of_executor.tolist() == [0, 4, 8]
    assert nodes_used(of, schedule(apart, node_price=1.0).slot_of_executor.tolist()) == 1
    assert schedule(together, node_price=1.0).slot_of_executor.tolist() == [0, 1, 2]
    assert nodes_used(of, schedule(together, imbalance_price=1.0).slot_of_executor.tolist()) == 3


@pytest.mark.long
def test_more_for_balance_is_more_balance_and_more_for_nodes_fewer_nodes():
    of = case_problem(next(path for path in case_files("placement") if case_name(path).startswith("l04")))
    uneven, many = [], []
    for price in (0.0, 2e4, 1e7):
        slots = schedule(of, imbalance_price=price, iterations=300_000).slot_of_executor
        assert violations(of, slots) == []
        uneven.append(imbalance(of, slots.tolist()))
    for price in (0.0, 1e3, 1e6):
        slots = schedule(of, node_price=price, iterations=300_000).slot_of_executor
        assert violations(of, slots) == []
        many.append(nodes_used(of, slots.tolist()))
    assert uneven[0] > uneven[1] > uneven[2]
    assert many[0] > many[1] >= many[2]


@cache
def three_workers(seed: int) -> tuple[Problem, list[tuple[int, ...]]]:
    """A tiny problem and all its valid placements."""
    of = tiny(seed, (2.5, 4.0))
    of = replace(of, topologies=(replace(of.topologies[0], num_workers=3),))
    return of, list(valid_placements(of))


@pytest.mark.slow
@pytest.mark.parametrize("prices", [{}, {"move_price": 7.0, "restart_price": 20.0}, {"max_moves": 2}])
def test_restarts_on_tiny_problems_against_the_optimum(prices):
    reached = []
    for seed in range(12):
        of, every = three_workers(seed)
        rng = np.random.default_rng(seed)
        before = every[int(rng.integers(len(every)))]
        now = running(of, list(before))

        def objective(after: Sequence[int], now: Problem = now, before: Sequence[int] = before) -> float:
            price = prices.get("move_price", 0.0) * moved(before, after)
            return oracles.cost(now, after) + price + prices.get("restart_price", 0.0) * restarted(before, after)

        costs = [(restarted(before, after), moved(before, after), objective(after)) for after in every]
        for most in range(4):
            may_move = prices.get("max_moves", of.num_executors)
            optimum = min(cost for restarts, moves, cost in costs if restarts <= most and moves <= may_move)
            answer = schedule(now, max_restarts=most, **prices)
            found = answer.slot_of_executor.tolist()
            assert oracles.is_valid(now, found)
            assert restarted(before, found) <= most
            assert moved(before, found) <= may_move
            assert answer.parameters["priced_cost"] == pytest.approx(objective(found))
            assert objective(found) >= optimum - 1e-9
            reached.append(objective(found) <= optimum + 1e-9)
    assert np.mean(reached) >= 0.95


@pytest.mark.long
@pytest.mark.parametrize("prefix", ["m01", "m03", "l04"])
def test_no_more_than_the_cap_restarts_and_more_restarts_are_worth_more(prefix):
    of = case_problem(next(path for path in case_files("placement") if case_name(path).startswith(prefix)))
    of = of.with_current(schedule(of, iterations=300_000).by_topology(of))
    rng = np.random.default_rng(1)
    assert of.load is not None
    loads = {
        name: replace(measured, pair_tps=measured.pair_tps * rng.lognormal(0, 0.6, len(measured.pair_tps)))
        for name, measured in of.load.topologies.items()
    }
    of = of.with_load(LoadProfile(loads))
    now = of.current_slot.tolist()
    costs = []
    for most in (0, 2, 6, 20):
        slots = schedule(of, max_restarts=most, iterations=300_000).slot_of_executor
        assert restarted(now, slots.tolist()) == len(diff(of, of.current_slot, slots).stopped_workers) <= most
        assert violations(of, slots) == []
        costs.append(cost_of(of, slots).total)
    assert costs[0] == pytest.approx(cost_of(of, of.current_slot).total)
    assert costs[-1] < costs[0]
    assert all(later <= 1.01 * sooner for sooner, later in pairwise(costs))


@pytest.mark.parametrize("most", [0, 1, 2])
def test_worker_joined_by_a_lost_executor_counts_as_restarted(most):
    """The lost one has to go into one of two workers; no other may change then unless two may."""
    of = problem(nodes(1, 1, ports=2), (topology("t", 5, 2), load(5, [(0, 2, 9), (4, 2, 5)])))
    before = [0, 0, 2, 2, -1]
    slots = schedule(running(of, before), max_restarts=most).slot_of_executor.tolist()
    assert oracles.is_valid(of, slots)
    assert restarted(before, slots) <= max(most, 1)
    assert oracles.cost(of, slots) < 9, "what it costs if the lost one joins those it exchanges with, and no more"


@pytest.mark.parametrize("prefix", ["s01", "m01"])
@pytest.mark.parametrize("settings", [{"max_moves": 3}, {"max_restarts": 0}, {"move_price": 9.0, "restart_price": 9.0}])
def test_move_prices_have_no_effect_without_running_topologies(prefix, settings):
    of = case_problem(next(path for path in case_files("placement") if case_name(path).startswith(prefix)))
    assert np.array_equal(schedule(of, **settings).slot_of_executor, schedule(of).slot_of_executor)


@pytest.mark.parametrize("name", ["move_price", "restart_price", "node_price", "imbalance_price"])
@pytest.mark.parametrize("wrong", [-1.0, "x", "nan", "inf", 2e12])
def test_prices_and_caps_have_ranges(name, wrong):
    with pytest.raises(InputError) as caught:
        make_scheduler("optimizer", {name: wrong, "max_restarts": "-2"})
    assert [fault.path for fault in caught.value.faults] == [name, "max_restarts"]


@pytest.mark.parametrize("name", ["max_moves", "max_restarts", "seed", "time_budget_s"])
def test_parameter_outside_machine_number_range_is_rejected(name):
    with pytest.raises(InputError) as caught:
        make_scheduler("optimizer", {name: "inf" if name == "time_budget_s" else 2**64})
    assert [fault.path for fault in caught.value.faults] == [name]


def test_traffic_of_a_placement_is_worked_out_once(monkeypatch):
    """Where all runs: for what runs, for what is found, and for what of that goes back; pull needs it once more."""
    evaluated = []
    for place in ("stormwright.schedulers.toolkit.search_problem", "stormwright.optimize.layout.links"):
        monkeypatch.setattr(
            f"{place}.traffic_under", lambda of, slots: evaluated.append(slots) or traffic_under(of, slots)
        )
    of = WordCount(nodes=4, cores=0.5).problem()
    of = of.with_current(make_scheduler("even").schedule(of).by_topology(of))
    assert np.all(of.current_slot >= 0)
    schedule(of, objective="traffic")
    whole = [slots.tobytes() for slots in evaluated if len(slots)]  # machine code is made ready on nothing
    assert len(set(whole)) == len(whole) <= 4
