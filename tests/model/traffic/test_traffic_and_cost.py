"""Traffic and cost of the model against plain loops that share no code with it."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.model import (
    Component,
    CostWeights,
    LoadProfile,
    Problem,
    Supervisor,
    Topology,
    TopologyLoad,
    cost_of,
    cost_under,
    default_executor_runs,
    measured_traffic,
    traffic_under,
)
from stormwright.model.flows import Flows, flow_pairs
from stormwright.testing import oracles
from stormwright.testing.strategies import problems, slots_of
from tests.case_files import case_files, case_name, case_problem


def as_dict(traffic):
    found = {}
    for source, target, tps in zip(traffic.source, traffic.target, traffic.tps, strict=True):
        found[int(source), int(target)] = found.get((int(source), int(target)), 0.0) + float(tps)
    return found


@pytest.mark.long
@given(problems(), st.data())
def test_traffic_under_a_placement_equals_oracle(problem, data):
    slots = data.draw(slots_of(problem))
    expected = oracles.traffic(problem, slots.tolist())
    assert as_dict(traffic_under(problem, slots)) == pytest.approx(expected)


@pytest.mark.long
@given(problems(), st.data())
def test_cost_by_class_equals_oracle(problem, data):
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


@pytest.mark.long
@given(problems(), st.data())
def test_weights_are_a_choice(problem, data):
    slots = data.draw(slots_of(problem))
    cost = cost_of(problem, slots, CostWeights(0, 0, 1, 2, 3))
    assert cost.total == pytest.approx(cost.inter_worker + 2 * cost.inter_node + 3 * cost.inter_rack)


@pytest.mark.long
@given(problems())
def test_measured_traffic_equals_oracle_traffic_of_current_placement(problem):
    assert as_dict(measured_traffic(problem)) == pytest.approx(oracles.traffic(problem, problem.current_slot.tolist()))


@pytest.mark.long
@given(problems(), st.data())
def test_symmetric_matrix_holds_both_directions(problem, data):
    traffic = traffic_under(problem, data.draw(slots_of(problem)))
    matrix = traffic.symmetric(problem.num_executors)
    assert matrix.sum() == pytest.approx(2 * traffic.tps.sum())
    assert abs(matrix - matrix.T).sum() == pytest.approx(0)


@pytest.mark.parametrize("path", case_files("placement"), ids=case_name)
def test_fixed_traffic_is_independent_of_the_placement(path):
    problem: Problem = case_problem(path)
    together = problem.current_slot * 0
    assert cost_under(problem, together, measured_traffic(problem)) == cost_of(problem, together)


def test_rounding_sends_nothing_further():
    """Members that can take just what arrives take all of it: a last digit is no tuple.

    Limits of 0 are raised to each member's share where all take equally much; the sum of such shares differs from what
    arrives by rounding. A source without a member within reach of that rest sends it nowhere.
    """
    components = (Component("c0", "spout", 4), Component("c1", "bolt", 2), Component("c2", "bolt", 1))
    of_topology = Topology("t", "t", 3, components, default_executor_runs(components))
    flows = [(3, 0, 2371.0), (3, 1, 830.0), (1, 1, 1765.0), (5, 0, 259.0), (5, 0, 598.0)]
    none = np.empty(0, np.int32)
    load = TopologyLoad(
        cpu_hz=np.zeros(7),
        memory_mb=np.zeros(7),
        pair_source=none,
        pair_target=none,
        pair_tps=np.empty(0),
        flow_source=[source for source, _, _ in flows],
        flow_component=[component for _, component, _ in flows],
        flow_tps=[tps for _, _, tps in flows],
        flow_grouping=("none",) * 5,
        flow_limit_tps=np.zeros(3),
    )
    nodes = (Supervisor("s0", "h0", (0,), 1e9, rack="r"), Supervisor("s1", "h1", (0, 1, 2), 1e9, rack="r"))
    of = Problem(nodes, (of_topology,), load=LoadProfile({"t": load}))
    slots = np.array([2, 3, -1, 2, 3, 3, -1], np.int32)
    found = as_dict(traffic_under(of, slots))
    assert min(found.values()) > 1.0
    assert found == pytest.approx(oracles.traffic(of, slots.tolist()))
    assert sum(found.values()) == pytest.approx(sum(tps for _, _, tps in flows))


def test_flow_computation_time_is_independent_of_unused_nodes():
    """Of a cluster with that many slots each topology would count in all of them."""
    load = TopologyLoad(
        cpu_hz=np.ones(4), memory_mb=np.ones(4), pair_source=np.empty(0, np.int32), pair_target=np.empty(0, np.int32),
        pair_tps=np.empty(0), flow_source=np.array([0, 1], np.int32), flow_component=np.array([1, 1], np.int32),
        flow_tps=np.array([3.0, 5.0]), flow_grouping=("shuffle", "shuffle"), flow_limit_tps=np.array([0.0, 4.5]),
    )  # fmt: skip
    component = np.array([0, 0, 1, 1])
    near = (np.array([0, 1, 0, -1]), np.array([0, 1, 0, -1]), np.array([0, 0, 0, -1]))
    far = tuple(np.where(scope >= 0, scope + 4_000_000, -1) for scope in near)
    flows = Flows.of([load], [component])
    expected = flow_pairs(flows, near)
    tracemalloc.start()
    found = flow_pairs(flows, far)
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one, other)
