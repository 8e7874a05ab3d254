"""The first placement of the search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stormwright.advise.search.kinds import kinds_of
from stormwright.advise.search.trials import distributed
from stormwright.formats.sketch import sketch
from stormwright.testing.word_counts import WordCount
from tests.examples import examples


def test_even_distribution_places_one_executor_per_component_on_each_node():
    problem = sketch("in 4 -> work 4 -> out 4", nodes=4)
    work_hz = np.array([1.0, 4.0, 2.0])[problem.topologies[0].executor_component] * 1e8
    nodes = problem.slot_node[distributed(problem, work_hz)]
    for component in range(3):
        own = problem.topologies[0].executor_component == component
        assert sorted(nodes[own].tolist()) == [0, 1, 2, 3]


@settings(max_examples=examples(40), deadline=None)
@given(
    work=st.lists(st.floats(0, 3e9), min_size=9, max_size=9),
    nodes=st.integers(1, 5),
    slots=st.integers(1, 3),
)
def test_all_have_a_slot_with_a_worker_a_node_and_the_fullest_is_not_far_from_even(work, nodes, slots):
    """Graham: on n alike nodes the fullest has at most the mean and 1 − 1/n of the largest."""
    problem = sketch({"a": "x 2 -> y 3", "b": "u 2 -> v 2"}, nodes=nodes, slots=slots)
    work_hz = np.array(work)
    found = distributed(problem, work_hz)
    if slots == 1:
        # Each topology needs a worker of its own, so with one slot a node they cannot share nodes.
        assert np.all(found >= 0) if nodes > 1 else np.all(found == -1)
        return
    assert np.all(found >= 0)
    for index in range(2):
        own = np.unique(found[problem.executors_of(index)])
        assert len(set(problem.slot_node[own].tolist())) == len(own)
    used = np.bincount(problem.slot_node[found], work_hz, nodes)
    assert used.max() <= work_hz.sum() / nodes + work_hz.max() * (1 - 1 / nodes) + 1.0


def test_distribution_reserves_one_slot_per_remaining_topology():
    problem = sketch({"a": "x 2 -> y 3", "b": "u 2 -> v 2", "c": "w 1 -> z 1"}, nodes=3, slots=1)
    found = distributed(problem, np.where(problem.executor_topology == 0, 1e9, 1e6))
    assert sorted(set(found.tolist())) == [0, 1, 2]
    assert [len(set(found[problem.executors_of(index)].tolist())) for index in range(3)] == [1, 1, 1]


def test_node_kinds_come_from_nodes_that_accept_new_workers():
    problem = WordCount(nodes=3).problem()
    small = replace(problem.supervisors[2], cpu_hz=3e9, resources={"cpu.pcore.percent": 100.0, "memory.mb": 1024.0})
    problem = replace(problem, supervisors=(*problem.supervisors[:2], small), blacklisted_hosts=frozenset({"n1"}))
    kinds = kinds_of(problem)
    assert [(kind.name, len(kind.existing), kind.cores) for kind in kinds] == [("like n0", 1, 2.0), ("like n2", 1, 1.0)]
    assert [node.id for node in kinds[0].nodes(3)] == ["n0", "like-n0-1", "like-n0-2"]
