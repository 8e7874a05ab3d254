"""Minimum degree: place each executor on the node that then has fewest connections to others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.arrays import IndexArray
from stormwright.schedulers.placement.placing import FreeResources, Placing
from stormwright.schedulers.placement.scores import ranked
from stormwright.schedulers.templates.waiting import Rule, place_waiting
from stormwright.schedulers.toolkit.params import Params
from stormwright.schedulers.toolkit.traffic import Exchange


@dataclass(frozen=True, kw_only=True)
class MinimumDegreeParams(Params):
    """Parameters of the scheduler."""


class MinimumDegreeScheduler:
    """Puts each executor on the node that is then connected to fewest executors elsewhere.

    After A. George, J. W. H. Liu, "The evolution of the minimum degree ordering algorithm", SIAM Review 31, 1989,
    https://doi.org/10.1137/1031001. Of all choices the one of least degree, recomputed each time.

    1. The degree of a node is the number of pairs of executors that exchange tuples, one on the node, one on another,
       whatever the number of tuples. Unplaced executors do not count.
    2. Ties go to the node with most free CPU, then to the lower index.

    When to use
    -----------
    The number of connections between nodes matters more than the traffic over them.

    Ignores
    -------
    The amount of traffic, racks, streams; load, except as a constraint and to break ties.

    Honours
    -------
    CPU, memory, executors per worker, traffic
    """

    params_type = MinimumDegreeParams

    def __init__(self, params: MinimumDegreeParams | None = None) -> None:
        self.params = params or MinimumDegreeParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place the executors without a slot."""
        exchange = Exchange.of(problem)

        def make_rule(room: FreeResources) -> Rule:
            degree = _degrees(room, exchange)

            def place(placing: Placing) -> None:
                for executor in placing.executors:
                    partners, _ = exchange.of_executor(executor)
                    near = room.node_of[partners]
                    near = near[near != UNPLACED]
                    here = np.bincount(near, minlength=room.num_nodes)
                    node = placing.best(executor, ranked(degree - here, -room.cpu_hz))
                    placing.put(executor, node)
                    if node != UNPLACED:
                        degree[:] += here
                        degree[node] += len(near) - 2 * here[node]

            return place

        return place_waiting(problem, "minimum_degree", self.params, make_rule)


def _degrees(room: FreeResources, exchange: Exchange) -> IndexArray:
    """Return the degree of every node, by the executors placed so far, shape (N,)."""
    first = np.repeat(np.arange(len(exchange.first) - 1), np.diff(exchange.first))
    one, other = room.node_of[first], room.node_of[exchange.partner]
    apart = (one != UNPLACED) & (other != UNPLACED) & (one != other)
    return np.bincount(one[apart], minlength=room.num_nodes).astype(np.int64)
