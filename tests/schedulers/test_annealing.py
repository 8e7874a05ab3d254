"""Simulated annealing: known optima, never worse than its start, and what runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stormwright.model import (
    UNPLACED,
    Component,
    Grouping,
    Problem,
    Topology,
    cost_of,
    default_executor_runs,
    violations,
)
from stormwright.schedulers import make_scheduler
from stormwright.testing import oracles
from tests.case_files import case_files, case_name, case_problem, read_case, small_cases
from tests.schedulers.builders import load, nodes, problem, running, topology
from tests.schedulers.search_problems import least, part_optimal, tiny


def schedule(of: Problem, **settings: object):
    return make_scheduler("annealing", settings).schedule(of)


@pytest.mark.slow
def test_tiny_problems_against_the_optimum():
    """It finds the optimum of problems this small, nearly always."""
    assert part_optimal(schedule, oracles.cost) >= 0.9


@pytest.mark.parametrize("kind", ["shuffle", "local_or_shuffle", "none"])
def test_flows_follow_the_placement(kind):
    """A bolt beside each spout costs nothing; held fixed, the flows would seem to go to every bolt."""
    components = (Component("spout", "spout", 3), Component("bolt", "bolt", 3, (Grouping("spout", kind=kind),)))
    t = Topology("t", "t", 3, components, default_executor_runs(components))
    of = Problem(nodes(1, 1, 1, ports=1), (t,), core_hz=4e9)
    assert oracles.cost(of, schedule(of).slot_of_executor.tolist()) == 0


@pytest.mark.parametrize("racks", [1, 2])
def test_workers_filling_all_slots_are_exchanged_between_nodes(racks):
    """No worker can move, only be exchanged with another."""
    supervisors = tuple(replace(node, rack=f"r{n % racks}") for n, node in enumerate(nodes(9, 9, ports=2)))
    pairs = [(0, 1, 5), (2, 3, 5), (0, 2, 4), (1, 3, 4)]
    of = problem(supervisors, (topology("t", 4, 4), load(4, pairs)))
    assert oracles.cost(of, schedule(of).slot_of_executor.tolist()) == least(of, oracles.cost)


@pytest.mark.parametrize("path", small_cases(), ids=case_name)
def test_cases_valid_and_no_worse_than_online(path):
    placed = case_problem(path)
    slots = schedule(placed).slot_of_executor
    assert violations(placed, slots) == []
    assert oracles.cost(placed, slots.tolist()) >= read_case(path)["reference"]["lower_bound"] * (1 - 1e-9)
    online = make_scheduler("online").schedule(placed).slot_of_executor
    assert cost_of(placed, slots).total <= cost_of(placed, online).total * (1 + 1e-9)


def test_seed_and_steps_decide_the_answer():
    of = case_problem(next(p for p in case_files("placement") if case_name(p).startswith("m01")))
    first = schedule(of, sweeps=5).slot_of_executor
    assert np.array_equal(first, schedule(of, sweeps=5).slot_of_executor)
    assert not np.array_equal(first, schedule(of, sweeps=5, seed=1).slot_of_executor)


def test_no_steps_is_online():
    of = tiny(3)
    assert np.array_equal(
        schedule(of, sweeps=0).slot_of_executor, make_scheduler("online").schedule(of).slot_of_executor
    )


PAIRS = [(0, 1, 100), (2, 3, 100)]


def test_running_topology_stays_unless_move_running_is_set():
    of = running(problem(nodes(1, 1), (topology("t", 4, 2), load(4, PAIRS))), [0, 4, 0, 4])
    assert schedule(of).slot_of_executor.tolist() == [0, 4, 0, 4]
    moved = schedule(of, move_running=True).slot_of_executor.tolist()
    assert oracles.cost(of, moved) == 0


def test_good_placement_stays_even_with_move_running():
    of = running(problem(nodes(1, 1, 1), (topology("t", 4, 2), load(4, PAIRS))), [9, 9, 5, 5])
    assert schedule(of, move_running=True).slot_of_executor.tolist() == [9, 9, 5, 5]


def test_lost_worker_is_placed_around_the_others():
    of = running(problem(nodes(1, 1), (topology("t", 4, 2), load(4, PAIRS))), [0, 0, UNPLACED, UNPLACED])
    slots = schedule(of).slot_of_executor.tolist()
    assert slots[:2] == [0, 0]
    assert slots[2] == slots[3] not in (0, UNPLACED)


def test_status_names_the_scheduler():
    answer = schedule(problem(nodes(1, ports=2), (topology("t", 4, 3), load(4))))
    assert answer.status["t"] == "annealing: 3 worker slots wanted, 2 free on 1 usable node together"
