"""Cost of an assignment: traffic weighted by distance class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model.arrays import IntArray
from stormwright.model.assignment import UNPLACED
from stormwright.model.problem import Problem
from stormwright.model.traffic_matrix import Traffic, scopes_of, traffic_under


@dataclass(frozen=True, slots=True)
class CostWeights:
    """Weight of a tuple by distance. Storm's own network metric corresponds to 0, 0, 1, 2, 3.

    Parameters
    ----------
    same_executor, same_worker
        Weight of tuples within an executor, and within a worker.
    inter_worker
        Weight between workers of one node.
    inter_node, inter_rack
        Weight between nodes of one rack, and between racks.
    """

    same_executor: float = 0.0
    same_worker: float = 0.0
    inter_worker: float = 0.2
    inter_node: float = 1.0
    inter_rack: float = 2.0


@dataclass(frozen=True, slots=True)
class Cost:
    """Traffic in tuples/s by distance class, and its weighted sum.

    `inter_worker` is traffic within a node, `inter_node` traffic within a rack. Traffic from or to an executor without
    a slot is `unplaced`, and costs nothing.
    """

    same_executor: float
    same_worker: float
    inter_worker: float
    inter_node: float
    inter_rack: float
    unplaced: float
    total: float


def cost_of(problem: Problem, slot_of_executor: IntArray, weights: CostWeights | None = None) -> Cost:
    """Return the cost of an assignment under the traffic that it causes itself (flows follow the placement).

    Parameters
    ----------
    problem
        Problem with the traffic between executors.
    slot_of_executor
        Index into the problem's slots, -1 for none, shape (E,).
    weights
        Weights of the distance classes; by default those of `CostWeights`.
    """
    return cost_under(problem, slot_of_executor, traffic_under(problem, slot_of_executor), weights)


def cost_under(
    problem: Problem, slot_of_executor: IntArray, traffic: Traffic, weights: CostWeights | None = None
) -> Cost:
    """Return the cost of an assignment under a given traffic.

    Parameters
    ----------
    problem
        Problem with the traffic between executors.
    slot_of_executor
        Index into the problem's slots, -1 for none, shape (E,).
    traffic
        Traffic between executors, under whatever placement it was measured.
    weights
        Weights of the distance classes; by default those of `CostWeights`.
    """
    weights = weights or CostWeights()
    scopes = scopes_of(problem, slot_of_executor)
    (slot_a, slot_b), (node_a, node_b), (rack_a, rack_b) = (
        (scope[traffic.source], scope[traffic.target]) for scope in scopes
    )
    # The first class that applies is the distance of a pair.
    classes = [
        (slot_a == UNPLACED) | (slot_b == UNPLACED),
        traffic.source == traffic.target,
        slot_a == slot_b,
        node_a == node_b,
        rack_a == rack_b,
    ]
    distance = np.select(classes, np.arange(len(classes)), default=len(classes))
    tps = np.bincount(distance, weights=traffic.tps, minlength=len(classes) + 1)
    unplaced, same_executor, same_worker, inter_worker, inter_node, inter_rack = (float(x) for x in tps)
    total = (
        weights.same_executor * same_executor
        + weights.same_worker * same_worker
        + weights.inter_worker * inter_worker
        + weights.inter_node * inter_node
        + weights.inter_rack * inter_rack
    )
    return Cost(same_executor, same_worker, inter_worker, inter_node, inter_rack, unplaced, total)
