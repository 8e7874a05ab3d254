"""Objective of a search beside the cost of traffic, and limits on changes of the current placement.

::

    objective = Σ tps · weight by distance          cost of a placement without any prices
              + move      · executors in another slot than now
              + restart   · running workers whose executors or slot change
              + node      · nodes on which anything runs
              + imbalance · Σ B_k / B (u_k - u)²

Limits on changes are limits, not prices: a placement beyond them is not taken, however cheap. All prices are in the
unit of the cost, weighted tuples/s, so that ``move=50`` means: an executor moves if that saves 50 weighted tuples/s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, CostWeights, Problem, Traffic, cost_under, diff
from stormwright.model.arrays import IntArray


@dataclass(frozen=True)
class Prices:
    """Prices beside the cost of traffic, in its units.

    Parameters
    ----------
    move, restart
        Of an executor that ends up in another slot; of a running worker whose executors or slot change, which
        Storm restarts.
    max_moves, max_restarts
        The most of them; -1 for any number.
    node
        Price of a used node.
    imbalance
        Price of uneven CPU, multiplied by `imbalance_of` a placement.
    """

    move: float = 0.0
    max_moves: int = -1
    restart: float = 0.0
    max_restarts: int = -1
    node: float = 0.0
    imbalance: float = 0.0

    @property
    def stays_near(self) -> bool:
        """Whether changes of the current placement count."""
        return self.move > 0 or self.restart > 0 or self.max_moves >= 0 or self.max_restarts >= 0

    @property
    def looks_at_nodes(self) -> bool:
        """Whether the use of nodes counts."""
        return self.node > 0 or self.imbalance > 0

    def without_changes(self) -> Prices:
        """Return the same prices without those of changes."""
        return Prices(node=self.node, imbalance=self.imbalance)

    def objective(self, problem: Problem, slots: IntArray, traffic: Traffic, weights: CostWeights) -> float:
        """Return the cost of a placement with this traffic, all prices included; lower is better.

        Except for a constant it is the value that `kernel` and `search` update step by step, computed from scratch:
        they leave out the cost of all traffic if it were within workers.

        Parameters
        ----------
        problem
            Its current assignment is the current placement.
        slots
            Slot of every executor, shape (E,), `UNPLACED` for none.
        traffic
            Traffic of executors under this placement.
        weights
            Cost of a tuple by distance.
        """
        total = cost_under(problem, slots, traffic, weights).total
        if self.stays_near:
            changes = diff(problem, problem.current_slot, slots)
            total += self.move * len(changes.moved_executors) + self.restart * len(changes.stopped_workers)
        if self.looks_at_nodes:
            used = np.unique(problem.slot_node[slots[slots != UNPLACED]])
            total += self.node * len(used) + self.imbalance * imbalance_of(problem, slots)
        return total


def imbalance_of(problem: Problem, slots: IntArray) -> float:
    """Return the imbalance of the CPU of nodes: Σ B_k / B (u_k - u)², 0 if all have the same utilisation.

    u_k is the utilisation of the CPU B_k of node k, u that of all nodes together, and B the mean CPU of a node. So
    a cluster of equal nodes, half of which are idle and half of which are full, has a quarter of their number. Nodes
    with unknown or infinite CPU do not count.
    """
    capacity = problem.node_cpu_hz
    counts = (capacity > 0) & np.isfinite(capacity)
    placed = slots != UNPLACED
    used = np.bincount(problem.slot_node[slots[placed]], problem.executor_cpu_hz[placed], len(capacity))
    used, capacity = used[counts], capacity[counts]
    if not len(capacity):
        return 0.0
    apart = used / capacity - used.sum() / capacity.sum()
    return float((capacity * apart**2).sum() / capacity.mean())
