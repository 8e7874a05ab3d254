"""What the optimizer placed for few executors, given back as what runs, stays where it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stormwright.model import UNPLACED, Problem
from stormwright.model.component_limits import ONE_COMPONENT, ONE_EXECUTOR, RAS_CONSTRAINTS, SPREAD_COMPONENTS
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER
from stormwright.schedulers import make_scheduler
from stormwright.testing import oracles
from tests.schedulers.builders import load, nodes, problem, topology


def schedule(of: Problem, **settings: object):
    return make_scheduler("optimizer", {"iterations": 2000} | settings).schedule(of)


def assert_stays(of: Problem, **settings: object):
    """The answer's slots."""
    answer = schedule(of, **settings)
    again = schedule(of.with_current(answer.by_topology(of)), **settings)
    placed = answer.slot_of_executor != UNPLACED
    assert placed.any()
    assert again.slot_of_executor[placed].tolist() == answer.slot_of_executor[placed].tolist()
    return answer.slot_of_executor.tolist()


def test_equal_cost_up_to_rounding_causes_no_move():
    ports, racks = (3, 4, 4, 1, 2), (0, 0, 1, 0, 2)
    supervisors = tuple(
        replace(node, ports=node.ports[:count], rack=f"r{rack}")
        for node, count, rack in zip(nodes(9, 4, 9, 3, 3), ports, racks, strict=True)
    )
    pairs = [(0, 0, 71.3), (4, 2, 47.3), (1, 2, 20.6), (4, 5, 86.0)]
    demand = np.array([0, 0.122, 0.283, 0, 0, 0])
    of = problem(supervisors, (topology("t", 6, 4, **{MAX_EXECUTORS_PER_WORKER: 2}), load(6, pairs, demand, 0)))
    assert_stays(of, max_moves=2)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("settings", [{"move_price": 0.1}, {"max_moves": 3}, {"restart_price": 0.1}])
def test_few_steps_are_enough(settings, seed):
    """With so few the first search ends far from the best; a look at what runs would then find something better."""
    rng = np.random.default_rng(seed)
    pairs = [(a, b, rng.integers(1, 100)) for a in range(30) for b in range(a) if rng.random() < 0.2]
    of = problem(nodes(1, 1, 1, 1), (topology("t", 30, 8), load(30, pairs)))
    slots = assert_stays(of, iterations=60, **settings)
    assert oracles.cost(of, slots) <= oracles.cost(of, schedule(of, iterations=60).slot_of_executor.tolist())


@pytest.mark.long
def test_repeated_schedule_is_stable_beside_an_unplaced_topology():
    """The first topology finds no place, and then waits behind the second: that has the nodes to itself."""
    apart = topology("a", 3, 5, **{RAS_CONSTRAINTS: [["c", "c"]], SPREAD_COMPONENTS: ["c"]})
    single = topology("b", 4, 4, **{MAX_EXECUTORS_PER_WORKER: 2, ONE_EXECUTOR: True, ONE_COMPONENT: True})
    pairs = [(0, 2, 64.9), (0, 3, 51.2)]
    ports, racks, memory_mb = (3, 3, 3, 0), (1, 0, 1, 1), (3072.0, 2432.0, 896.0, 4864.0)
    supervisors = tuple(
        replace(node, ports=node.ports[:count], rack=f"r{rack}", resources={"memory.mb": mb})
        for node, count, rack, mb in zip(nodes(10, 9, 12, 8), ports, racks, memory_mb, strict=True)
    )
    of = problem(
        supervisors,
        (apart, load(3, [(1, 0, 24.8)], [0.018, 0.4, 0.271], [86, 300, 123])),
        (single, load(4, pairs, [2.773, 0.423, 0.001, 2.028], [363, 399, 210, 99])),
        greylisted_supervisors=("s0",),
    )
    assert_stays(of, node_price=3.0, imbalance_price=5.0)
