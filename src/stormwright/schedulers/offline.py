"""The offline scheduler of Aniello, Baldoni, Querzoni: who talks to whom is read from the topology, not measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.schedulers.frame.waiting import QueueParams, Rule, place_waiting
from stormwright.schedulers.kit.limits import most_executors
from stormwright.schedulers.kit.params import param
from stormwright.schedulers.placing.placing import Placing, Room, fill_empty
from stormwright.schedulers.traffic.dag import by_component, linearised, upstream


@dataclass(frozen=True, kw_only=True)
class OfflineParams(QueueParams):
    """Parameters of the scheduler."""

    alpha: float = param(0.0, "0: workers hold equally many executors; 1: as many as leave one for each", low=0, high=1)
    beta: float = param(1.0, "0: a topology gets as few nodes as have its slots; 1: as many as it can", low=0, high=1)
    epsilon: float = param(
        0.5, "part of the components after which workers that are still empty come first", low=0, high=1
    )


class OfflineScheduler:
    """Puts executors of components that follow each other into one worker, and the workers round robin onto nodes.

    L. Aniello, R. Baldoni, L. Querzoni, "Adaptive online scheduling in Storm", DEBS 2013, §3.1,
    https://doi.org/10.1145/2488222.2488267. What the paper calls β there is `epsilon` here.

    1. Components in an order in which each comes after those it subscribes to.
    2. The executors of a component go round robin over workers that hold an executor of a component it subscribes to
       and have fewer than M executors, then over the others.
    3. From component ⌊epsilon · |C|⌋ on, workers that are still empty come first, so that all are used.
    4. Workers go round robin over the nodes with most free slots.

    Different from the paper: a node too full for a worker is passed over, so that CPU, memory and the topology's limit
    on executors in a worker hold; the authors look at slots alone. A cycle of components is broken as in `linearised`.

    Ties go to the lower index of worker and node.

    When to use
    -----------
    The first start of a topology: nothing was measured yet, but its streams are known.

    Ignores
    -------
    How much traffic a stream carries, racks; load, other than to keep limits.

    Honours
    -------
    CPU, memory, executors per worker, streams
    """

    params_type = OfflineParams

    def __init__(self, params: OfflineParams | None = None) -> None:
        self.params = params or OfflineParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place what has no slot."""
        return place_waiting(problem, "offline", self.params, self._rule)

    def _rule(self, room: Room) -> Rule:
        def place(placing: Placing) -> None:
            nodes = self._nodes(room, placing.wanted.workers)
            next_node = 0
            for members in self._workers(placing):
                fits = placing.can_host(members)
                tried = [nodes[(next_node + step) % len(nodes)] for step in range(len(nodes))] if nodes else []
                node = next((node for node in tried if fits[node]), UNPLACED)
                if node != UNPLACED:
                    next_node = nodes.index(node) + 1
                placing.put_worker(members, node)

        return place

    def _workers(self, placing: Placing) -> list[list[int]]:
        """Rules 1 to 3: the executors of every worker, none empty."""
        topology, wanted = placing.topology, placing.wanted
        count, executors = wanted.workers, placing.executors
        limit = min(most_executors(len(executors), count, self.params.alpha), placing.limit)
        offset = int(placing.draft.problem.executor_offset[wanted.topology])
        members = by_component(topology, executors, offset)
        sources = upstream(topology)
        order = [component for component in linearised(topology) if members[component]]
        workers: list[list[int]] = [[] for _ in range(count)]
        holds: list[set[int]] = [set() for _ in range(count)]
        fill_empty_from = math.floor(self.params.epsilon * len(order))
        for position, component in enumerate(order):
            near = [bool(held & sources[component]) for held in holds]
            own = [0] * count  # executors of this component; equally good workers take turns by it
            fills_empty = position >= fill_empty_from
            for executor in members[component]:
                ranks = (
                    (len(workers[w]) >= limit, fills_empty and bool(workers[w]), not near[w], own[w], w)
                    for w in range(count)
                )
                worker = min(ranks)[-1]
                workers[worker].append(executor)
                holds[worker].add(component)
                own[worker] += 1
        fill_empty(workers)
        return workers

    def _nodes(self, room: Room, workers: int) -> list[int]:
        """The nodes to deal workers to, by free slots: from as few as have enough, by `beta`, up to one a worker."""
        by_slots = [int(node) for node in np.argsort(-room.slots, kind="stable") if room.slots[node] >= 1]
        reach = np.cumsum(room.slots[by_slots])
        fewest = min(int(np.searchsorted(reach, workers)) + 1, len(by_slots))
        most = max(fewest, min(len(by_slots), workers))
        return by_slots[: fewest + math.ceil(self.params.beta * (most - fewest))]
