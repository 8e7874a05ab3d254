"""Traffic and cost of the model against plain loops that share no code with it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.model import CostWeights, Problem, cost_of, cost_under, measured_traffic, traffic_under
from stormwright.testing import oracles
from stormwright.testing.strategies import problems, slots_of
from tests.case_files import case_files, case_name, case_problem


def as_dict(traffic):
    found = {}
    for source, target, tps in zip(traffic.source, traffic.target, traffic.tps, strict=True):
        found[int(source), int(target)] = found.get((int(source), int(target)), 0.0) + float(tps)
    return found


@given(problems(), st.data())
def test_traffic_follows_the_placement_as_the_oracle_says(problem, data):
    slots = data.draw(slots_of(problem))
    expected = oracles.traffic(problem, slots.tolist())
    assert as_dict(traffic_under(problem, slots)) == pytest.approx(expected)


@given(problems(), st.data())
def test_cost_by_class_is_what_the_oracle_counts(problem, data):
    slots = data.draw(slots_of(problem))
    expected = oracles.cost_by_distance(problem, slots.tolist(), oracles.traffic(problem, slots.tolist()))
    cost = cost_of(problem, slots)
    found = [
        cost.same_executor,
        cost.same_worker,
        cost.inter_worker,
        cost.inter_node,
        cost.inter_rack,
        cost.unplaced,
    ]
    assert found == pytest.approx(list(expected.values()))
    assert cost.total == pytest.approx(oracles.cost(problem, slots.tolist()))


@given(problems(), st.data())
def test_weights_are_a_choice(problem, data):
    slots = data.draw(slots_of(problem))
    cost = cost_of(problem, slots, CostWeights(0, 0, 1, 2, 3))
    assert cost.total == pytest.approx(cost.inter_worker + 2 * cost.inter_node + 3 * cost.inter_rack)


@given(problems())
def test_measured_traffic_is_that_of_what_runs(problem):
    assert as_dict(measured_traffic(problem)) == pytest.approx(oracles.traffic(problem, problem.current_slot.tolist()))


@given(problems(), st.data())
def test_symmetric_matrix_holds_both_directions(problem, data):
    traffic = traffic_under(problem, data.draw(slots_of(problem)))
    matrix = traffic.symmetric(problem.num_executors)
    assert matrix.sum() == pytest.approx(2 * traffic.tps.sum())
    assert abs(matrix - matrix.T).sum() == pytest.approx(0)


@pytest.mark.parametrize("path", case_files("placement"), ids=case_name)
def test_fixed_traffic_does_not_depend_on_the_placement(path):
    problem: Problem = case_problem(path)
    together = problem.current_slot * 0
    assert cost_under(problem, together, measured_traffic(problem)) == cost_of(problem, together)
