"""Least weighted delay: place each executor where it adds least waiting time, weighted by topology."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.arrays import FloatArray
from stormwright.model.topology_config import WEIGHT
from stormwright.schedulers.placement.partial_placement import addends
from stormwright.schedulers.placement.placing import FreeResources, Placing
from stormwright.schedulers.placement.scores import part_used
from stormwright.schedulers.templates.waiting import Rule, place_waiting
from stormwright.schedulers.toolkit.configured_values import topology_values
from stormwright.schedulers.toolkit.params import Params

#: Idle fraction of a node that counts as full.
_FULL = 1e-9


@dataclass(frozen=True, kw_only=True)
class LeastWeightedDelayParams(Params):
    """Parameters of the scheduler."""


class LeastWeightedDelayScheduler:
    """Puts each executor on the node where the total waiting time, weighted by topology, is then least.

    After L. Fratta, M. Gerla, L. Kleinrock, "The flow deviation method: An approach to store-and-forward communication
    network design", Networks 3, 1973, https://doi.org/10.1002/net.3230030202, whose delay this is, placed greedily.

    1. A node with CPU utilisation U holds u / (1 - U) tuples of an executor that uses the fraction u: those in service
       and those waiting (a queue with processor sharing). By Little's law that is their delay times their rate.
    2. The total delay is Σ w u / (1 - U) over executors, where w is ``stormwright.weight`` in the configuration of the
       executor's topology, a number above 0; 1 by default.
    3. The executor goes to the node where it raises the total least.

    Ties go to the lower index of node.

    When to use
    -----------
    CPU was measured, and latency matters, for some topologies more than for others.

    Ignores
    -------
    Traffic, streams, racks; memory, except as a constraint.

    Honours
    -------
    CPU, memory, executors per worker, weights

    Raises
    ------
    InputError
        On scheduling: weights that are not numbers above 0; all faults at once.
    """

    params_type = LeastWeightedDelayParams

    def __init__(self, params: LeastWeightedDelayParams | None = None) -> None:
        self.params = params or LeastWeightedDelayParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place the executors without a slot."""
        weight = np.array(topology_values(problem, WEIGHT, 1.0), float)[problem.executor_topology]
        weighted_hz = addends(weight * problem.executor_cpu_hz)

        def make_rule(room: FreeResources) -> Rule:
            placed = np.flatnonzero(room.node_of != UNPLACED)
            on_node_hz = np.bincount(room.node_of[placed], weighted_hz[placed], room.num_nodes).astype(np.float64)

            def place(placing: Placing) -> None:
                for executor in placing.executors:
                    demand_hz = float(problem.executor_cpu_hz[executor])
                    after = _delay(room, on_node_hz + weighted_hz[executor], demand_hz)
                    node = placing.best(executor, after - _delay(room, on_node_hz, 0.0))
                    placing.put(executor, node)
                    if node != UNPLACED:
                        on_node_hz[node] += weighted_hz[executor]

            return place

        return place_waiting(problem, "least_weighted_delay", self.params, make_rule)


def _delay(room: FreeResources, weighted_hz: FloatArray, more_hz: float) -> FloatArray:
    """Return weighted delay times rate of every node with `more_hz` of CPU in use; finite on full nodes, too."""
    idle = np.maximum(1.0 - part_used(room.capacity_hz, room.cpu_hz, more_hz), _FULL)
    delay: FloatArray = part_used(room.capacity_hz, room.capacity_hz - weighted_hz) / idle
    return delay
