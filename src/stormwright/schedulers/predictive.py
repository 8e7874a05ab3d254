"""Predictive: place each executor on the node with the least forecast load."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.arrays import FloatArray
from stormwright.model.topology_config import FORECAST_GROWTH
from stormwright.schedulers.placement.partial_placement import addends
from stormwright.schedulers.placement.placing import FreeResources, Placing
from stormwright.schedulers.placement.scores import part_used
from stormwright.schedulers.templates.waiting import Rule, place_waiting
from stormwright.schedulers.toolkit.configured_values import topology_values
from stormwright.schedulers.toolkit.params import Params


@dataclass(frozen=True, kw_only=True)
class PredictiveParams(Params):
    """Parameters of the scheduler."""


class PredictiveScheduler:
    """Puts each executor on the node with the lowest resulting CPU utilisation, by the forecast load.

    Generic. If the load includes a forecast (seasonal, with a trend, from the pipeline), it is used; otherwise the
    measured (or assumed) CPU is multiplied by ``stormwright.forecast.growth`` in the topology's configuration, 1 by
    default. A node's forecast load is the sum over its executors, running or placed so far and including the present
    one, as a fraction of its CPU capacity.

    Constraints apply to the present load, not to the forecast. Ties go to the lower index of node.

    When to use
    -----------
    Some topologies will grow soon and others will not, and the nodes should be ready for it.

    Ignores
    -------
    Traffic, streams, racks; memory, except as a constraint.

    Honours
    -------
    CPU, memory, executors per worker, forecast growth

    Raises
    ------
    InputError
        On scheduling: a growth that is not a number or below 0; all faults at once.
    """

    params_type = PredictiveParams
    quick_up_to = 50_000
    #: Makes a service compute forecasts.
    uses_forecast = True

    def __init__(self, params: PredictiveParams | None = None) -> None:
        self.params = params or PredictiveParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place the executors without a slot."""
        forecast_hz = forecast_cpu_hz(problem)

        def make_rule(room: FreeResources) -> Rule:
            placed = np.flatnonzero(room.node_of != UNPLACED)
            used_hz = np.bincount(room.node_of[placed], addends(forecast_hz)[placed], room.num_nodes).astype(np.float64)

            def place(placing: Placing) -> None:
                for executor in placing.executors:
                    left_hz = room.capacity_hz - used_hz
                    scores = part_used(room.capacity_hz, left_hz, float(forecast_hz[executor]))
                    node = placing.best(executor, scores)
                    placing.put(executor, node)
                    if node != UNPLACED:
                        used_hz[node] += forecast_hz[executor]

            return place

        return place_waiting(problem, "predictive", self.params, make_rule)


def forecast_cpu_hz(problem: Problem) -> FloatArray:
    """Return the expected CPU of every executor in Hz, shape (E,): forecast, or grown as configured.

    Raises
    ------
    InputError
        A growth that is not a number or below 0.
    """
    growth = np.array(topology_values(problem, FORECAST_GROWTH, 1), dtype=np.float64)
    grown = problem.executor_cpu_hz * growth[problem.executor_topology]
    for index, load in enumerate(problem.loads):
        if load.forecast_cpu_hz is not None:
            grown[problem.executors_of(index)] = load.forecast_cpu_hz
    forecast: FloatArray = grown
    return forecast
