"""Spread: place the executors of a component on different hosts and racks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.arrays import IndexArray
from stormwright.schedulers.placement.placing import FreeResources, Placing
from stormwright.schedulers.placement.scores import ranked
from stormwright.schedulers.templates.waiting import Rule, place_waiting
from stormwright.schedulers.toolkit.params import Params
from stormwright.schedulers.toolkit.traffic import by_component


@dataclass(frozen=True, kw_only=True)
class SpreadParams(Params):
    """Parameters of the scheduler."""


class SpreadScheduler:
    """Puts each executor away from the others of its component, so that a failing host or rack affects few of them.

    Generic. Of the nodes with enough free resources for an executor, the first by:

    1. fewest executors of its component, in its topology, on the node's host;
    2. fewest of them in the node's rack;
    3. fewest executors of all topologies on the node.

    Once a topology has a node for each of its workers, no further node is used: few workers cannot be spread far. Ties
    go to the lower index of node.

    When to use
    -----------
    Hosts or racks fail, and none of them should stop a whole component.

    Ignores
    -------
    Traffic, streams; load, except as a constraint.

    Honours
    -------
    CPU, memory, executors per worker, hosts, racks
    """

    params_type = SpreadParams
    quick_up_to = 20_000

    def __init__(self, params: SpreadParams | None = None) -> None:
        self.params = params or SpreadParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place the executors without a slot."""
        return place_waiting(problem, "spread", self.params, _rule)


def _rule(room: FreeResources) -> Rule:
    problem = room.problem
    numbers: dict[str, int] = {}
    host = np.array([numbers.setdefault(node.host, len(numbers)) for node in problem.supervisors], dtype=np.intp)
    rack = problem.node_rack

    def place(placing: Placing) -> None:
        topology = placing.topology
        own = problem.executors_of(placing.wanted.topology)
        for component, executors in by_component(topology, placing.executors, own.start).items():
            nodes = room.node_of[own][topology.executor_component == component]
            nodes = nodes[nodes != UNPLACED]
            on_host, in_rack = _counts(host, nodes), _counts(rack, nodes)
            for executor in executors:
                scores = ranked(on_host[host], in_rack[rack], room.executors)
                node = placing.best(executor, scores)
                placing.put(executor, node)
                if node != UNPLACED:
                    on_host[host[node]] += 1
                    in_rack[rack[node]] += 1

    return place


def _counts(group: IndexArray, nodes: IndexArray) -> IndexArray:
    """Return the number of `nodes` in each group of nodes."""
    return np.bincount(group[nodes], minlength=len(group))
