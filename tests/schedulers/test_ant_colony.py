"""The ant colony: its objective by loops, known optima, the sigmoid, never worse than its start."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np
import pytest

from stormwright.model import Problem, violations
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.ant_colony import evaporation
from tests.case_files import case_name, case_problem, small_cases
from tests.schedulers.builders import load, nodes, problem, running, topology
from tests.schedulers.search_problems import busy_parts, part_optimal

HOP_CYCLES = 2e6


def schedule(of: Problem, **settings: object):
    return make_scheduler("ant_colony", {"hop_cycles": HOP_CYCLES, **settings}).schedule(of)


def worth(of: Problem, slots: Sequence[int], hop_cycles: float = HOP_CYCLES) -> float:
    """Mean and standard deviation of the nodes' busy parts, added."""
    busy = list(busy_parts(of, slots, hop_cycles, "nodes").values())
    return statistics.fmean(busy) + statistics.pstdev(busy)


@pytest.mark.slow
def test_tiny_problems_against_the_optimum():
    """It finds the optimum of problems this small, mostly."""
    assert part_optimal(schedule, worth) >= 0.8


def test_evaporation_is_a_sigmoid_from_start_to_end():
    """1 / (1 + e^5) is 0.0067, so it begins and ends less than a hundredth of the way off; halfway is the middle."""
    assert evaporation(0.5, 0.7, 0.1) == pytest.approx(0.4)
    assert evaporation(0.0, 0.7, 0.1) == pytest.approx(0.7, abs=0.006)
    assert evaporation(1.0, 0.7, 0.1) == pytest.approx(0.1, abs=0.006)
    falling = [evaporation(part, 0.7, 0.1) for part in np.linspace(0, 1, 20)]
    assert falling == sorted(falling, reverse=True)


def test_load_is_evened_out():
    """Without traffic: four equal executors on two equal nodes."""
    of = problem(nodes(1, 1), (topology("t", 4, 2), load(4)))
    assert sorted(of.slot_node[schedule(of).slot_of_executor].tolist()) == [0, 0, 1, 1]


def test_exactly_as_many_workers_as_wanted_within_their_limit():
    limited = topology("t", 6, 3, **{"stormwright.max.executors.per.worker": 2})
    of = problem(nodes(1, 1, 1, ports=2), (limited, load(6, cpu_ghz=0.2)))
    slots = schedule(of).slot_of_executor
    assert violations(of, slots) == []
    assert np.unique(slots, return_counts=True)[1].tolist() == [2, 2, 2]


@pytest.mark.parametrize("path", small_cases(), ids=case_name)
def test_cases_valid_and_no_worse_than_online(path):
    placed = case_problem(path)
    slots = schedule(placed, hop_cycles=1e4).slot_of_executor
    assert violations(placed, slots) == []
    online = make_scheduler("online").schedule(placed).slot_of_executor
    assert worth(placed, slots.tolist(), 1e4) <= worth(placed, online.tolist(), 1e4) * (1 + 1e-9)


def test_running_topology_stays_unless_move_running_is_set():
    of = running(problem(nodes(1, 1), (topology("t", 4, 2), load(4))), [0, 0, 1, 1])
    assert schedule(of).slot_of_executor.tolist() == [0, 0, 1, 1]
    moved = schedule(of, move_running=True).slot_of_executor
    assert sorted(of.slot_node[moved].tolist()) == [0, 0, 1, 1]


def test_random_start_without_search_is_the_random_placement_of_the_seed():
    of = problem(nodes(4, 4, 4), (topology("t", 6, 3), load(6, [(0, 1, 9), (2, 3, 9)])))
    random = make_scheduler("random", {"seed": 5}).schedule(of).slot_of_executor
    slots = schedule(of, iterations=0, start="random", seed=5).slot_of_executor
    assert of.slot_node[slots].tolist() == of.slot_node[random].tolist()


@pytest.mark.parametrize("path", small_cases(), ids=case_name)
def test_random_start_is_valid_and_improved(path):
    placed = case_problem(path)
    random = make_scheduler("random").schedule(placed).slot_of_executor
    slots = schedule(placed, hop_cycles=1e4, start="random").slot_of_executor
    assert violations(placed, slots) == []
    assert worth(placed, slots.tolist(), 1e4) < worth(placed, random.tolist(), 1e4)
