"""Offline scheduler of Aniello, Baldoni, Querzoni: communication follows from the topology, not from measurements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.topology_config import ALPHA, BETA, EPSILON
from stormwright.schedulers.placement.placing import FreeResources, Placing, fill_empty
from stormwright.schedulers.templates.waiting import Rule, place_waiting
from stormwright.schedulers.toolkit.configured_values import topology_values
from stormwright.schedulers.toolkit.limits import most_executors
from stormwright.schedulers.toolkit.params import ParameterSet, Params, param
from stormwright.schedulers.toolkit.traffic import by_component, linearised, upstream


@dataclass(frozen=True, kw_only=True)
class OfflineParams(Params):
    """Parameters of the scheduler."""

    alpha: float = param(
        0.0, "0: equally many executors per worker; 1: as many as leave one for each worker", low=0, high=1
    )
    beta: float = param(
        1.0, "0: a topology gets the fewest nodes with enough slots; 1: as many as possible", low=0, high=1
    )
    epsilon: float = param(
        0.5, "part of the components after which workers that are still empty come first", low=0, high=1
    )


class OfflineScheduler:
    """Puts executors of consecutive components into one worker, and the workers round robin onto nodes.

    L. Aniello, R. Baldoni, L. Querzoni, "Adaptive online scheduling in Storm", DEBS 2013, §3.1,
    https://doi.org/10.1145/2488222.2488267. The paper's β is called `epsilon` here.

    1. Components are ordered so that each comes after those it subscribes to.
    2. The executors of a component go round robin over workers that hold an executor of a component it subscribes to
       and have fewer than M executors, then over the others.
    3. From component ⌊epsilon · |C|⌋ on, workers that are still empty come first, the last of them ahead, in turn like
       those of rule 2, so that all are used, as in the authors' code.
    4. Workers go round robin over the nodes with most free slots.

    ``stormwright.alpha``, ``stormwright.beta`` and ``stormwright.epsilon`` in a topology's configuration, numbers from
    0 to 1, override the parameters here: in the authors' code they are part of the topology (``alfa``, ``beta``,
    ``epsilon``, strings there).

    Differences from the paper and the authors' code:

    1. A node too full for a worker is skipped, so that CPU, memory and the topology's limit on executors per worker
       hold; the authors consider only slots.
    2. A worker that remains empty gets the last executor of the fullest. In the authors' code it stays empty.
    3. Components and streams are those of the topology, including ackers and other system components, which come after
       those they subscribe to. The authors list them in its configuration, and leave unlisted ones to Storm's
       EvenScheduler.
    4. A cycle of components is broken as in `linearised`; the paper assumes acyclic topologies.

    Ties go to the lower index of worker and node; in the authors' code ties between nodes depend on hash order.

    When to use
    -----------
    The first start of a topology: nothing was measured yet, but its streams are known.

    Ignores
    -------
    The amount of traffic on a stream, racks; load, except as a constraint.

    Honours
    -------
    CPU, memory, executors per worker, streams

    Raises
    ------
    InputError
        On scheduling: a parameter in a topology's configuration is out of range; all faults at once.
    """

    params_type = OfflineParams
    variants: ClassVar[Mapping[str, ParameterSet]] = {
        "authors": ParameterSet(
            "defaults of the authors' code, as ours; those of the paper's own evaluation (§4) are not known",
            {"alpha": 0.0, "beta": 1.0, "epsilon": 0.5},
        )
    }
    quick_up_to = 50_000

    def __init__(self, params: OfflineParams | None = None) -> None:
        self.params = params or OfflineParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place the executors without a slot."""
        return place_waiting(problem, "offline", self.params, self._rule)

    def _rule(self, room: FreeResources) -> Rule:
        params = _TopologyParams.of(room.problem, self.params)

        def place(placing: Placing) -> None:
            nodes = self._nodes(room, placing.wanted.workers, params.beta[placing.wanted.topology])
            next_node = 0
            for members in self._workers(placing, params):
                fits = placing.can_host(members)
                tried = [nodes[(next_node + step) % len(nodes)] for step in range(len(nodes))] if nodes else []
                node = next((node for node in tried if fits[node]), UNPLACED)
                if node != UNPLACED:
                    next_node = nodes.index(node) + 1
                placing.put_worker(members, node)

        return place

    def _workers(self, placing: Placing, params: _TopologyParams) -> list[list[int]]:
        """Return the executors of every worker, none empty; rules 1 to 3."""
        topology, wanted = placing.topology, placing.wanted
        count, executors = wanted.workers, placing.executors
        limit = min(most_executors(len(executors), count, params.alpha[wanted.topology]), placing.limit)
        offset = int(placing.placement.problem.executor_offset[wanted.topology])
        members = by_component(topology, executors, offset)
        sources = upstream(topology)
        order = [component for component in linearised(topology) if members[component]]
        workers: list[list[int]] = [[] for _ in range(count)]
        holds: list[set[int]] = [set() for _ in range(count)]
        fill_empty_from = math.floor(params.epsilon[wanted.topology] * len(order))
        for position, component in enumerate(order):
            near = [w for w in range(count) if holds[w] & sources[component]]
            others = [w for w in range(count) if w not in near]
            if position >= fill_empty_from:
                # As in the authors' code, the highest first.
                empty = [w for w in reversed(others) if not workers[w]]
                near, others = [*empty, *near], [w for w in others if workers[w]]
            for executor, worker in zip(members[component], _in_turns(near, others, workers, limit), strict=False):
                workers[worker].append(executor)
                holds[worker].add(component)
        fill_empty(workers)
        return workers

    def _nodes(self, room: FreeResources, workers: int, beta: float) -> list[int]:
        """Return nodes for the workers, by free slots: from the fewest with enough, by `beta`, up to one per worker."""
        by_slots = [int(node) for node in np.argsort(-room.slots, kind="stable") if room.slots[node] >= 1]
        reach = np.cumsum(room.slots[by_slots])
        fewest = min(int(np.searchsorted(reach, workers)) + 1, len(by_slots))
        most = max(fewest, min(len(by_slots), workers))
        return by_slots[: fewest + math.ceil(beta * (most - fewest))]


class _TopologyParams(NamedTuple):
    """Parameters of every topology, by index: those in its configuration, else those of the scheduler."""

    alpha: list[float]
    beta: list[float]
    epsilon: list[float]

    @classmethod
    def of(cls, problem: Problem, params: OfflineParams) -> _TopologyParams:
        keys = {ALPHA: params.alpha, BETA: params.beta, EPSILON: params.epsilon}
        return cls(*(topology_values(problem, key, otherwise) for key, otherwise in keys.items()))


def _in_turns(first: Sequence[int], then: Sequence[int], workers: Sequence[Sequence[int]], limit: int) -> Iterator[int]:
    """Yield the worker for each executor: preferred workers in turn, then the others, until all are full.

    Parameters
    ----------
    first, then
        Preferred and other workers, in the order of their turns.
    workers
        Executors of each so far; grows during iteration.
    limit
        Maximum executors per worker.
    """
    for ring in (list(first), list(then)):
        turn = 0
        while ring:
            turn %= len(ring)
            if len(workers[ring[turn]]) >= limit:
                del ring[turn]  # the next one has its turn
            else:
                yield ring[turn]
                turn += 1
