"""The genetic algorithm: its objective by loops, known optima, never worse than its start."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stormwright.model import Problem, violations
from stormwright.schedulers import make_scheduler
from tests.case_files import case_name, case_problem, small_cases
from tests.schedulers.builders import load, nodes, problem, running, topology
from tests.schedulers.search_problems import busy_parts, part_optimal, tiny

HOP_CYCLES = 2e6


def schedule(of: Problem, **settings: object):
    return make_scheduler("genetic", {"hop_cycles": HOP_CYCLES, **settings}).schedule(of)


def bottlenecks(of: Problem, slots: Sequence[int], hop_cycles: float = HOP_CYCLES) -> float:
    """Busiest node of each topology, added up."""
    busy = busy_parts(of, slots, hop_cycles, "workers")
    used: dict[int, set[str]] = {}
    for slot, t in zip(slots, of.executor_topology.tolist(), strict=True):
        used.setdefault(t, set()).add(of.slots[slot].supervisor)
    return sum(max(busy[node] for node in of_topology) for of_topology in used.values())


@pytest.mark.slow
def test_tiny_problems_against_the_optimum():
    """It finds the optimum of problems this small, nearly always."""
    assert part_optimal(schedule, bottlenecks, within=1e-5) >= 0.9


def test_idle_nodes_raise_throughput():
    """`online` puts both workers on one node for their traffic; apart, each node is half as busy."""
    of = problem(nodes(1, 1), (topology("t", 4, 2), load(4, [(0, 1, 9), (2, 3, 9), (1, 2, 1)])))
    slots = schedule(of, hop_cycles=0).slot_of_executor
    assert sorted(of.slot_node[slots].tolist()) == [0, 0, 1, 1]
    assert slots[0] == slots[1]
    assert slots[2] == slots[3]


def test_costly_tuples_keep_workers_together():
    """A tenth of a core for tuples at either end outweighs the second node."""
    of = problem(nodes(1, 1), (topology("t", 2, 1), load(2, [(0, 1, 100)])), (topology("u", 1, 1), load(1)))
    slots = schedule(of, hop_cycles=1e6).slot_of_executor
    assert slots[0] == slots[1]
    assert of.slot_node[slots[2]] != of.slot_node[slots[0]]


@pytest.mark.parametrize("path", small_cases(), ids=case_name)
def test_cases_valid_and_no_worse_than_online(path):
    placed = case_problem(path)
    slots = schedule(placed, hop_cycles=1e4).slot_of_executor
    assert violations(placed, slots) == []
    online = make_scheduler("online").schedule(placed).slot_of_executor
    assert bottlenecks(placed, slots.tolist(), 1e4) <= bottlenecks(placed, online.tolist(), 1e4) * (1 + 1e-5)


def test_running_topology_stays_unless_move_running_is_set():
    of = running(problem(nodes(1, 1), (topology("t", 4, 2), load(4))), [0, 0, 1, 1])
    assert schedule(of).slot_of_executor.tolist() == [0, 0, 1, 1]
    moved = schedule(of, move_running=True).slot_of_executor
    assert sorted(of.slot_node[moved].tolist()) == [0, 0, 1, 1]


def test_no_generations_is_no_worse_than_online():
    of = tiny(3)
    online = make_scheduler("online").schedule(of).slot_of_executor.tolist()
    assert bottlenecks(of, schedule(of, generations=0).slot_of_executor.tolist()) <= bottlenecks(of, online)


def test_random_start_is_no_worse_than_the_random_placement_of_the_seed():
    of = problem(nodes(4, 4, 4), (topology("t", 6, 3), load(6, [(0, 1, 9), (2, 3, 9)])))
    random = make_scheduler("random", {"seed": 5}).schedule(of).slot_of_executor
    slots = schedule(of, generations=0, start="random", seed=5, population=4).slot_of_executor
    assert bottlenecks(of, slots.tolist()) <= bottlenecks(of, random.tolist()) * (1 + 1e-9)


@pytest.mark.parametrize("path", small_cases(), ids=case_name)
def test_random_start_is_valid_and_improved(path):
    placed = case_problem(path)
    random = make_scheduler("random").schedule(placed).slot_of_executor
    slots = schedule(placed, hop_cycles=1e4, start="random").slot_of_executor
    assert violations(placed, slots) == []
    assert bottlenecks(placed, slots.tolist(), 1e4) < bottlenecks(placed, random.tolist(), 1e4)
