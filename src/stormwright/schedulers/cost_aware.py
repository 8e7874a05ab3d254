"""Cost aware: place executors on nodes in use, else on the cheapest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model import Assignment, Problem
from stormwright.model.arrays import FloatArray
from stormwright.schedulers.placement.placing import Placing
from stormwright.schedulers.placement.scores import ranked
from stormwright.schedulers.templates.waiting import by_score, place_waiting
from stormwright.schedulers.toolkit.configured_values import node_values
from stormwright.schedulers.toolkit.params import Params

#: Key of `supervisor.scheduler.meta`: price of the node per hour while in use, in any one currency.
PRICE_PER_HOUR = "price.per.hour"


@dataclass(frozen=True, kw_only=True)
class CostAwareParams(Params):
    """Parameters of the scheduler."""


class CostAwareScheduler:
    """Puts each executor on the cheapest node, and uses as few new nodes as possible.

    Generic, after cloud billing: a node costs its price per hour as soon as anything runs on it. Of the nodes with
    enough free resources for an executor, the first by:

    1. whether it is in use, by running executors or by this placement;
    2. lowest price per hour;
    3. most free CPU.

    The price is ``price.per.hour`` in the node's `supervisor.scheduler.meta`; without it, 1 per core.

    Ties go to the lower index of node.

    When to use
    -----------
    Nodes are paid by the hour, as in a cloud, and cost matters more than latency.

    Ignores
    -------
    Traffic, streams, racks, and the performance of a node relative to its price.

    Honours
    -------
    CPU, memory, executors per worker, prices

    Raises
    ------
    InputError
        On scheduling: prices that are not numbers or below 0; all faults at once.
    """

    params_type = CostAwareParams
    quick_up_to = 20_000

    def __init__(self, params: CostAwareParams | None = None) -> None:
        self.params = params or CostAwareParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place the executors without a slot."""
        price = prices_per_hour(problem)

        def score(placing: Placing, _: int) -> FloatArray:
            room = placing.room
            return ranked((room.executors == 0).astype(float), price, -room.cpu_hz)

        return place_waiting(problem, "cost_aware", self.params, by_score(score))


def prices_per_hour(problem: Problem) -> FloatArray:
    """Return the price of every node per hour, shape (N,).

    Raises
    ------
    InputError
        Prices that are not numbers or below 0.
    """
    node_prices = node_values(problem, [PRICE_PER_HOUR])
    cores = [
        node.resources.get("cpu.pcore.percent", 100 * node.cpu_hz / problem.core_hz) / 100
        for node in problem.supervisors
    ]
    return np.array([price.get(PRICE_PER_HOUR, own) for price, own in zip(node_prices, cores, strict=True)])
