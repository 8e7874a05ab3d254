"""Limits on components: what is read of Storm's configuration, in its forms, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stormwright.model.component_limits import NO_LIMIT, count_components, read_component_limits
from tests.schedulers.builders import load, nodes, problem, topology

INDEX = {"a": 0, "b": 1, "c": 2}
CONSTRAINTS, SPREAD = "topology.ras.constraints", "topology.spread.components"


def read(conf) -> tuple[list[int], list[tuple[int, int]]]:
    """Limits on nodes, and pairs apart."""
    limits, misfits = read_component_limits(conf, INDEX)
    assert misfits == ()
    return limits.most_on_node.tolist(), [tuple(pair) for pair in np.argwhere(np.triu(limits.incompatible)).tolist()]


def test_the_newer_form():
    rules = {
        "a": {"maxNodeCoLocationCnt": 2, "incompatibleComponents": ["b", "c"]},
        "b": {"incompatibleComponents": "b"},
        "c": {"maxNodeCoLocationCnt": "3"},
    }
    assert read({CONSTRAINTS: rules}) == ([2, NO_LIMIT, 3], [(0, 1), (0, 2), (1, 1)])


def test_the_older_form():
    conf = {CONSTRAINTS: [["b", "a"], ["c", "b"]], SPREAD: ["c"]}
    assert read(conf) == ([NO_LIMIT, NO_LIMIT, 1], [(0, 1), (1, 2)])


ONE_EXECUTOR, ONE_COMPONENT = "topology.ras.one.executor.per.worker", "topology.ras.one.component.per.worker"


def test_exclusive_components_or_executors_per_worker_become_incompatible_pairs():
    every_other = [(0, 1), (0, 2), (1, 2)]
    assert read({ONE_COMPONENT: True}) == ([NO_LIMIT] * 3, every_other)
    assert read({ONE_COMPONENT: True, CONSTRAINTS: [["b", "b"]]})[1] == sorted([*every_other, (1, 1)])
    for conf in ({ONE_EXECUTOR: True}, {ONE_EXECUTOR: True, ONE_COMPONENT: True}):
        assert read(conf) == ([NO_LIMIT] * 3, sorted([*every_other, (0, 0), (1, 1), (2, 2)]))
    assert read_component_limits({ONE_EXECUTOR: False, ONE_COMPONENT: None}, INDEX) == (None, ())
    for key in (ONE_EXECUTOR, ONE_COMPONENT):
        limits, misfits = read_component_limits({key: "true"}, INDEX)
        assert limits is None
        assert misfits == (("should be true or false", "true", (key,)),)


def test_a_count_wins_over_the_older_form():
    assert read({CONSTRAINTS: {"a": {"maxNodeCoLocationCnt": 4}}, SPREAD: ["a", "b"]})[0] == [4, 1, NO_LIMIT]


@pytest.mark.parametrize(
    "conf",
    [
        {},
        {CONSTRAINTS: None, SPREAD: None},
        {CONSTRAINTS: {}, SPREAD: []},
        {CONSTRAINTS: {"a": {"maxNodeCoLocationCnt": 0}}},
        {CONSTRAINTS: {"gone": {"maxNodeCoLocationCnt": 1, "incompatibleComponents": ["a"]}}},
        {CONSTRAINTS: [["a", "gone"]], SPREAD: ["gone"]},
    ],
)
def test_constraints_ignored_by_storm_set_no_limit(conf):
    assert read_component_limits(conf, INDEX) == (None, ())


@pytest.mark.parametrize(
    ("conf", "message", "steps"),
    [
        ({CONSTRAINTS: "a"}, "should be an object, or a list of pairs of components", ()),
        ({CONSTRAINTS: [["a"]]}, "should be a list of 2 components", (0,)),
        ({CONSTRAINTS: [["a", "b"], ["a", 1]]}, "should be a list of 2 components", (1,)),
        ({CONSTRAINTS: {"a": 1}}, "should be an object", ("a",)),
        ({CONSTRAINTS: {"a": {"maxNodeCoLocationCnt": 1.5}}}, "should be an integer", ("a", "maxNodeCoLocationCnt")),
        ({CONSTRAINTS: {"a": {"maxNodeCoLocationCnt": True}}}, "should be an integer", ("a", "maxNodeCoLocationCnt")),
        (
            {CONSTRAINTS: {"a": {"incompatibleComponents": {}}}},
            "should be a component or a list of components",
            ("a", "incompatibleComponents"),
        ),
        (
            {CONSTRAINTS: {"a": {"max": 1}}},
            "unknown key, there are maxNodeCoLocationCnt and incompatibleComponents",
            ("a", "max"),
        ),
    ],
)
def test_constraints_rejected_by_storm_are_misfits(conf, message, steps):
    _, (misfit,) = read_component_limits(conf, INDEX)
    assert (misfit.message, misfit.steps) == (message, (CONSTRAINTS, *steps))


def test_all_misfits_at_once():
    _, misfits = read_component_limits({CONSTRAINTS: {"a": 1, "b": {"max": 1}}, SPREAD: "a"}, INDEX)
    assert [misfit.value for misfit in misfits] == [1, 1, "a"]


def test_a_topology_lies_over_the_cluster():
    placed = [(topology(name, 2, 2), load(2)) for name in "tuv"]
    of = replace(problem(nodes(9.0), *placed), conf={SPREAD: ["c"]})
    own = replace(of.topologies[1], conf={SPREAD: []})
    of = replace(of, topologies=(of.topologies[0], own, of.topologies[2]))
    assert sorted(of.component_limits) == [0, 2]


def test_incompatible_pairs_and_component_count_excess_are_counted():
    rules = {"a": {"maxNodeCoLocationCnt": 1, "incompatibleComponents": ["b"]}, "c": {"incompatibleComponents": ["c"]}}
    limits, _ = read_component_limits({CONSTRAINTS: rules}, INDEX)
    counts = count_components(np.array([0, 0, 0, 1, 1, -1]), np.array([0, 0, 1, 2, 2, 0]), 2, 3)
    assert counts.tolist() == [[2, 1, 0], [0, 0, 2]]
    assert limits.clashes(counts).tolist() == [[2, 2, 0], [0, 0, 2]]
    assert limits.crowded(counts).tolist() == [[1, 0, 0], [0, 0, 0]]
