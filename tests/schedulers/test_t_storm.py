"""T-Storm: its rules, followed by hand."""

from __future__ import annotations

import pytest

from stormwright.model import Problem
from stormwright.schedulers import make_scheduler
from tests.schedulers.builders import load, nodes, problem, running, topology


def placed(of: Problem, **settings: object) -> list[int]:
    """Node of every executor."""
    slots = make_scheduler("t_storm", settings).schedule(of).slot_of_executor
    return of.slot_node[slots].tolist()


def test_busiest_executors_go_first_to_the_node_with_least_added_traffic():
    """Traffic in all: 0: 110, 1: 100, 2: 60, 3: 50. 0 and 1 meet, 2 joins 0 unless the node has too many."""
    pairs = [(0, 1, 100.0), (2, 3, 50.0), (0, 2, 10.0)]
    of = problem(nodes(9.0, 9.0), (topology("t", 4, 2), load(4, pairs)))
    # On average 2 executors a node; gamma 1.5 lets a node have 3.
    assert placed(of) == [0, 0, 0, 1]
    assert placed(of, gamma=1) == [0, 0, 1, 1]
    assert placed(of, gamma=2) == [0, 0, 0, 0]


def test_no_node_is_loaded_beyond_its_cpu():
    pairs = [(0, 1, 9.0), (1, 2, 8.0), (2, 3, 7.0)]
    of = problem(nodes(1.0, 1.0), (topology("t", 4, 2), load(4, pairs, cpu_ghz=0.5)))
    # By traffic 1, 2, 0, 3: 1 and 2 fill the first node.
    assert placed(of, gamma=4) == [1, 0, 0, 1]


def test_executors_without_traffic_go_where_most_cpu_is_left():
    of = problem(nodes(2.2, 3.0, 2.5), (topology("t", 3, 3), load(3, cpu_ghz=1.0)))
    assert placed(of, gamma=1) == [1, 2, 0]


def test_each_node_has_one_worker_unless_more_are_wanted():
    pairs = [(0, i, 10.0) for i in range(1, 6)]
    of = problem(nodes(9.0, 9.0, 9.0), (topology("t", 6, 3), load(6, pairs)))
    slots = make_scheduler("t_storm").schedule(of).slot_of_executor.tolist()
    # Three a node; two nodes are enough, so the third worker splits the fuller one, ties to the lower node.
    assert of.slot_node[slots].tolist().count(0) == 3
    assert len(set(slots)) == 3


def test_gamma_is_relaxed_for_otherwise_unplaceable_executors():
    """The second node is too small for any executor."""
    of = problem(nodes(9.0, 0.1), (topology("t", 4, 1), load(4, cpu_ghz=0.5)))
    assert placed(of, gamma=1) == [0, 0, 0, 0]


@pytest.mark.parametrize("lost", [0, 3])
def test_lost_executor_joins_its_communication_partners(lost):
    """Both nodes have room; the rest of the topology keeps running where it is."""
    of = problem(nodes(9.0, 9.0), (topology("t", 6, 3), load(6, [(0, 1, 5.0), (3, 4, 5.0), (3, 1, 1.0)])))
    now = [0, 0, 0, 4, 4, 4]
    now[lost] = -1
    slots = make_scheduler("t_storm").schedule(running(of, now)).slot_of_executor
    assert of.slot_node[slots[lost]] == (0 if lost == 0 else 1)
    assert [s for e, s in enumerate(slots.tolist()) if e != lost] == [s for s in now if s != -1]
