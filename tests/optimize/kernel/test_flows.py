"""Flows in a layout against the model's own traffic, and what following them is worth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stormwright.model import Problem, cost_of, violations
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER
from stormwright.optimize.layout import start
from stormwright.optimize.search.refine import refine
from stormwright.schedulers import make_scheduler
from stormwright.testing.pipelines import shuffled_pipelines
from stormwright.testing.strategies import problems, roomy
from tests.examples import examples
from tests.optimize.layout.test_layout import placed_layout, slots_of


def without_limits_of_workers(problem: Problem) -> Problem:
    """The same problem, in which a worker may have any number of executors."""
    topologies = (
        replace(topology, conf={key: value for key, value in topology.conf.items() if key != MAX_EXECUTORS_PER_WORKER})
        for topology in problem.topologies
    )
    return replace(problem, topologies=tuple(topologies))


@pytest.mark.long
@given(
    problems(running=False).map(roomy).map(without_limits_of_workers),
    st.integers(0, 3),
    st.sampled_from([0.0, 0.5, 5.0]),
)
@settings(max_examples=examples(40))
def test_incremental_cost_equals_model_cost_after_many_steps(problem, seed, temperature):
    wanted = sum(min(topology.num_workers, topology.num_executors) for topology in problem.topologies)
    usable = sum(len(n.ports) for n, fit in zip(problem.supervisors, problem.node_usable, strict=True) if fit)
    assume(0 < wanted <= usable)
    layout = placed_layout(problem, seed)
    start.add_up_cost(layout)
    refine(layout, 500, temperature * (layout.executors["tps"].mean() if problem.num_executors else 0.0))
    assert layout.totals["cost"][0] == pytest.approx(cost_of(problem, slots_of(problem, layout)).total, abs=1e-6)
    assert not layout.node_scopes["tps"].any()
    assert not layout.rack_scopes["members"].any()


def test_incremental_cost_equals_model_cost_for_overloaded_pipelines():
    problem = shuffled_pipelines(20, seed=1)
    layout = placed_layout(problem)
    start.add_up_cost(layout)
    refine(layout, 100_000, 0.05 * layout.executors["tps"].mean())
    slots = slots_of(problem, layout)
    assert layout.totals["cost"][0] == pytest.approx(cost_of(problem, slots).total)
    unlimited = [np.all(np.isinf(load.flow_limit_tps)) for load in problem.loads]
    assert not any(unlimited)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_pipelines_are_laid_side_by_side(seed):
    problem = shuffled_pipelines(12, seed)
    costs = {}
    for follow in (True, False):
        params = {"objective": "traffic", "follow_flows": follow, "iterations": 300_000}
        answer = make_scheduler("optimizer", params).schedule(problem)
        assert violations(problem, answer.slot_of_executor) == []
        cost = cost_of(problem, answer.slot_of_executor)
        costs[follow] = cost.inter_node + cost.inter_rack
    assert costs[True] <= 0.5 * costs[False]
