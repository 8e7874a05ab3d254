"""Differences in cost, against the oracle that adds up all traffic each time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given

from stormwright.model import CostWeights, Problem
from stormwright.schedulers.annealing import LiveCost
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.testing import oracles
from stormwright.testing.strategies import problems

PORTS = (6700, 6701, 6702, 6703)


def wide(problem: Problem) -> Problem:
    """The problem with ports for all workers of two topologies on each node."""
    return replace(problem, supervisors=tuple(replace(each, ports=PORTS) for each in problem.supervisors))


def spread_out(problem: Problem) -> PartialPlacement:
    """Executors distributed to two workers a topology, workers distributed to nodes; regardless of CPU and memory."""
    placement = PartialPlacement.empty(problem, problem.node_usable)
    node = 0
    for topology in range(len(problem.topologies)):
        own = np.arange(problem.num_executors)[problem.executors_of(topology)]
        for members in (own[::2], own[1::2]):
            if len(members):
                placement.add_worker(topology, members, node % len(problem.supervisors))
                node += 1
    return placement


def cost(problem: Problem, worker, node) -> float:
    """By the oracle; worker number k of a node is in its k-th slot."""
    first = np.concatenate([[0], np.cumsum([len(supervisor.ports) for supervisor in problem.supervisors])])
    taken = [0] * len(problem.supervisors)
    slot = []
    for at in node:
        slot.append(int(first[at]) + taken[at])
        taken[at] += 1
    return oracles.cost(problem, [slot[w] for w in worker])


@pytest.mark.slow
@given(problem=problems(flow_limits=False, running=False, max_topologies=2, max_nodes=4))
def test_incremental_cost_of_executor_moves_equals_oracle(problem):
    problem = wide(problem)
    placement = spread_out(problem)
    assume(len(placement.node) > 1)
    live = LiveCost(placement, CostWeights())
    before = cost(problem, placement.worker, placement.node)
    for executor in range(problem.num_executors):
        workers = np.flatnonzero(np.array(placement.topology) == problem.executor_topology[executor])
        costs = live.costs_at(np.array([executor]), workers, live.node[workers])
        own = int(placement.worker[executor])
        for worker, at in zip(workers.tolist(), costs.tolist(), strict=True):
            moved = placement.worker.copy()
            moved[executor] = worker
            difference = at - costs[workers.tolist().index(own)]
            assert difference == pytest.approx(cost(problem, moved, placement.node) - before, abs=1e-6)


@pytest.mark.long
@given(problem=problems(flow_limits=False, running=False, max_topologies=2, max_nodes=4))
def test_incremental_cost_of_worker_moves_equals_oracle(problem):
    problem = wide(problem)
    placement = spread_out(problem)
    live = LiveCost(placement, CostWeights())
    before = cost(problem, placement.worker, placement.node)
    nodes = np.arange(len(problem.supervisors))
    for worker, own in enumerate(placement.node):
        group = np.flatnonzero(placement.worker == worker)
        places = np.append(nodes, own)
        costs = live.costs_at(group, np.full(len(places), worker), places)
        for node, at in zip(nodes.tolist(), costs.tolist(), strict=False):
            moved = list(placement.node)
            moved[worker] = node
            assert at - costs[-1] == pytest.approx(cost(problem, placement.worker, moved) - before, abs=1e-6)
