"""P-Scheduler: its rules, followed by hand."""

from __future__ import annotations

import pytest

from stormwright.model import Problem
from stormwright.schedulers import make_scheduler
from tests.schedulers.builders import load, nodes, problem, topology
from tests.schedulers.test_metis import cliques


def placed(of: Problem, **settings: object) -> tuple[list[int], list[int]]:
    """Slot and node of every executor."""
    slots = make_scheduler("p_scheduler", settings).schedule(of).slot_of_executor
    return slots.tolist(), of.slot_node[slots].tolist()


@pytest.mark.parametrize(("utilisation", "nodes_used"), [(1.0, 2), (0.6, 4), (0.9, 3)])
def test_the_number_of_nodes_follows_from_the_load(utilisation, nodes_used):
    """12 executors of 0.4 GHz: 4.8 GHz on nodes of 2.4."""
    of = problem(nodes(*[2.4] * 6), (topology("t", 12, 6), load(12, cliques(6, 2), cpu_ghz=0.4)))
    _, at = placed(of, utilisation=utilisation)
    assert len(set(at)) == nodes_used


def test_slots_and_memory_raise_the_node_count():
    t = (topology("t", 8, 4), load(8, cliques(4, 2), memory_mb=100.0))
    assert len(set(placed(problem(nodes(9.0, 9.0, 9.0, ports=2), t))[1])) == 2
    assert len(set(placed(problem(nodes(*[9.0] * 4, memory_mb=250), t))[1])) == 4


def test_two_levels_of_groups_become_nodes_and_workers():
    """Four groups of 3; the first two and the last two exchange more than the middle ones."""
    strong = cliques(4, 3, inside=100.0, between=0.0)[:]
    pairs = [pair for pair in strong if pair[2]] + [(0, 3, 10.0), (6, 9, 10.0), (3, 6, 1.0)]
    of = problem(nodes(1.0, 1.0, 1.0), (topology("t", 12, 4), load(12, pairs, cpu_ghz=0.12)))
    slots, at = placed(of)
    assert len(set(at)) == 2
    assert len(set(at[:6])) == len(set(at[6:])) == 1
    assert [len(set(slots[3 * i : 3 * i + 3])) for i in range(4)] == [1, 1, 1, 1]
    assert len(set(slots)) == 4
