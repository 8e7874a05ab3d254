"""D-Storm: its rules, followed by hand."""

from __future__ import annotations

from stormwright.model import Problem
from stormwright.schedulers import make_scheduler
from tests.schedulers.builders import load, nodes, problem, topology


def placed(of: Problem, **settings: object) -> list[int]:
    """Node of every executor."""
    slots = make_scheduler("d_storm", settings).schedule(of).slot_of_executor
    return of.slot_node[slots].tolist()


def test_first_fit_decreasing_without_communication():
    """Sizes 0.6, 0.5, 0.4, 0.3, 0.2 in nodes of 1: first fit decreasing packs 0.6 + 0.4 and 0.5 + 0.3 + 0.2."""
    of = problem(nodes(1.0, 1.0, 1.0), (topology("t", 5, 3), load(5, cpu_ghz=[0.3, 0.6, 0.2, 0.5, 0.4])))
    at = placed(of, communication=0)
    assert at[1] == at[4] == 0
    assert at[3] == at[0] == at[2] == 1


def test_memory_counts_as_a_dimension():
    of = problem(
        nodes(9.0, 9.0, memory_mb=1000), (topology("t", 4, 2), load(4, memory_mb=[600.0, 500.0, 500.0, 400.0]))
    )
    assert placed(of, communication=0) == [0, 1, 1, 0]


def test_communication_partners_precede_larger_executors():
    """0 is largest and starts the node; 1, nearly as large, gives way to 3, which talks only to 0."""
    cpu = [0.5, 0.49, 0.4, 0.4]
    pairs = [(0, 3, 10.0), (1, 2, 10.0)]
    of = problem(nodes(1.0, 1.0), (topology("t", 4, 2), load(4, pairs, cpu_ghz=cpu)))
    assert placed(of) == [0, 1, 1, 0]
    assert placed(of, communication=0) == [0, 0, 1, 1]


def test_fewest_nodes_are_used_starting_with_most_cpu():
    of = problem(nodes(2.0, 4.0, 3.0), (topology("t", 8, 4), load(8, cpu_ghz=0.5)))
    assert set(placed(of)) == {1}


def test_not_more_nodes_than_workers():
    """One worker cannot be on two nodes: it goes to the node that takes all."""
    of = problem(nodes(2.0, 1.9), (topology("t", 3, 1), load(3, cpu_ghz=0.6)))
    assert placed(of) == [0, 0, 0]
