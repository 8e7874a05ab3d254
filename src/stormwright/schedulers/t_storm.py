"""T-Storm: place the busiest executors first, each where it adds least traffic between nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.arrays import BoolArray
from stormwright.schedulers.placement.placing import FreeResources, Placing
from stormwright.schedulers.templates.waiting import Rule, place_waiting
from stormwright.schedulers.toolkit.params import MAX_FACTOR, Params, param
from stormwright.schedulers.toolkit.traffic import Exchange
from stormwright.schedulers.toolkit.triggers import NODES, TRAFFIC, Adaptation


@dataclass(frozen=True, kw_only=True)
class TStormParams(Params):
    """Parameters of the scheduler."""

    gamma: float = param(
        1.5, "executors that a node may have, in parts of the average; more means fewer nodes", low=1, high=MAX_FACTOR
    )


class TStormScheduler:
    """Puts the executors with most traffic first, each on the node where it adds least traffic between nodes.

    After J. Xu, Z. Chen, J. Tang, S. Su, "T-Storm: Traffic-aware online scheduling in Storm", ICDCS 2014,
    https://doi.org/10.1109/ICDCS.2014.61, of which only the abstract and descriptions by others were available.

    1. Executors of a topology by their traffic with all others, most first.
    2. Each goes to the node where it adds least traffic between nodes, within its CPU and memory.
    3. A node has one worker of a topology, so that there is no traffic between workers of one node.
    4. A node has at most `gamma` times the average number of executors: with a larger `gamma`, fewer nodes are used.

    Assumptions:

    1. Topology by topology; as topologies exchange nothing, their order matters only if resources are short.
    2. The average is that of all executors over usable nodes, or of the topology's over its workers, whichever is more.
       `gamma` is soft, given up for an executor that does not fit otherwise. The paper's values of it are not known.
    3. Among nodes where an executor adds equally much traffic, unused ones come first until the topology is on as many
       as rule 4 requires, then its own, which limits their number and mixes components; of these the one with most free
       CPU.
    4. Exactly the requested number of workers: Storm reschedules a topology with fewer workers repeatedly. So if fewer
       nodes than workers are used, rule 3 is relaxed, and the fullest workers are split.
    5. Loads are taken as measured. The paper smooths them over time (EWMA with α 0.5), which is left to the
       measurement.
    6. The paper reassigns all executors at each call, as ``--from-scratch`` does; otherwise running executors stay.
    7. A service reschedules every P seconds, as the scheduler is an online one, and once a node was overloaded for X
       seconds, as its load is a constraint, if that reduces traffic between nodes or the number of nodes, the two gains
       that the abstract names, by at least R percent. X, P, R and T are those of `online`.

    Ties go to the lower index of executor and node.

    When to use
    -----------
    Traffic was measured, and traffic between nodes is the main cost. With a larger `gamma` fewer nodes are used.

    Ignores
    -------
    Racks, streams; load, except as a constraint and to break ties.

    Honours
    -------
    CPU, memory, executors per worker, traffic
    """

    params_type = TStormParams
    adapts = Adaptation(on_period=True, on_overload=True, gains=(TRAFFIC, NODES))

    def __init__(self, params: TStormParams | None = None) -> None:
        self.params = params or TStormParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place the executors without a slot."""
        exchange = Exchange.of(problem)
        traffic = exchange.total()

        def make_rule(room: FreeResources) -> Rule:
            def place(placing: Placing) -> None:
                executors = placing.wanted.executors
                most = self._most_executors(room, len(executors), placing.wanted.workers)
                fewest = math.ceil(len(executors) / most)
                own = np.zeros(room.num_nodes, dtype=bool)
                for executor in executors[np.argsort(-traffic[executors], kind="stable")].tolist():
                    node = _choose(placing, exchange, executor, most, own if len(placing.on_node) >= fewest else ~own)
                    placing.put(executor, node)
                    own[node] |= node != UNPLACED

            return place

        return place_waiting(problem, "t_storm", self.params, make_rule)

    def _most_executors(self, room: FreeResources, executors: int, workers: int) -> int:
        """Return the maximum number of executors on a node; rule 4."""
        usable = max(int(np.count_nonzero(room.problem.node_usable)), 1)
        average = max(room.problem.num_executors / usable, executors / workers)
        return math.ceil(self.params.gamma * average)


def _choose(placing: Placing, exchange: Exchange, executor: int, most: int, first: BoolArray) -> int:
    """Return the node for an executor, -1 for none; equal ones in `first` are preferred.

    Only nodes with executors that it exchanges tuples with are compared: on all others it adds the same traffic.
    """
    room = placing.room
    partners, tps = exchange.of_executor(executor)
    pull: dict[int, float] = {}
    for node, rate in zip(room.node_of[partners].tolist(), tps.tolist(), strict=True):
        pull[node] = pull.get(node, 0.0) + rate
    pull.pop(UNPLACED, None)
    near = sorted(pull, key=lambda node: (-pull[node], -room.cpu_hz[node], node))
    near = [node for node in near if placing.takes(executor, node)]
    for node in near:
        if room.executors[node] < most:
            return node
    below = placing.can_take(executor) & (room.executors < most)
    for nodes in (below & first, below):
        cpu_left = np.where(nodes, room.cpu_hz, -np.inf)
        node = int(np.argmax(cpu_left))
        if cpu_left[node] > -np.inf:
            return node
    if near:
        return near[0]
    return placing.best(executor, -room.cpu_hz)
