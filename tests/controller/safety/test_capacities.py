"""Nodes that may use other CPU than they declare."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stormwright.controller.propose import to_plan_on
from stormwright.controller.safety.capacities import wrong_capacities
from stormwright.model import Assignment, Problem
from stormwright.predict.answer import predict
from stormwright.predict.workers import nodes_of
from stormwright.testing.word_counts import WordCount


def with_quotas(*cores: float, declared: float = 0.4) -> Problem:
    """Three nodes with measured quotas, all in use."""
    problem = WordCount(nodes=3, cores=declared).problem()
    problem = problem.with_current(Assignment(np.array([0, 2, 4] * 4, np.int32)).by_topology(problem))
    quotas = {node.id: each * problem.core_hz for node, each in zip(problem.supervisors, cores, strict=True)}
    assert problem.load is not None
    return problem.with_load(replace(problem.load, node_quota_hz=quotas))


@pytest.mark.parametrize(
    ("cores", "wrong"),
    [
        ((0.4, 0.4, 0.4), {}),
        ((0.35, 0.45, 0.4), {}),
        ((0.2, 0.4, 0.4), {0: 20}),
        ((0.4, 0.8, 0.1), {1: 80, 2: 10}),
    ],
)
def test_wrong_declarations_are_named_with_the_right_value(cores, wrong):
    problem = with_quotas(*cores)
    found = {problem.node_index[each.supervisor]: each for each in wrong_capacities(problem)}
    assert {number: round(100 * each.allowed) for number, each in found.items()} == wrong
    for number, percent in wrong.items():
        assert f"supervisor.cpu.capacity: {percent} " in str(found[number])


def test_predictions_use_what_is_allowed_in_both_directions():
    right = with_quotas(0.7, 0.4, 0.25, declared=0.4)
    assert nodes_of(right).cores.tolist() == pytest.approx([0.7, 0.4, 0.25])
    unlike = with_quotas(0.7, 0.4, 0.25, declared=0.4)
    unlike = unlike.with_load(replace(unlike.load, node_quota_hz={}))
    nodes = tuple(
        replace(node, cpu_hz=each * unlike.core_hz, resources={**node.resources, "cpu.pcore.percent": 100 * each})
        for node, each in zip(unlike.supervisors, (0.7, 0.4, 0.25), strict=True)
    )
    declared_rightly = predict(replace(unlike, supervisors=nodes), right.current_slot)
    found = predict(right, right.current_slot)
    assert found.topologies[0].reachable_tps.value == pytest.approx(declared_rightly.topologies[0].reachable_tps.value)


def test_plans_are_made_for_the_lesser_of_both():
    planned = to_plan_on(with_quotas(0.2, 0.4, 0.8))
    assert [round(node.cpu_hz / planned.core_hz, 3) for node in planned.supervisors] == [0.2, 0.4, 0.4]
    assert nodes_of(planned).cores.tolist() == pytest.approx([0.2, 0.4, 0.8])
    assert nodes_of(planned).core_hz.tolist() == pytest.approx([planned.core_hz] * 3)
