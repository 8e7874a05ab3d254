"""TOSS: tightly coupled components share workers, whose load is then balanced."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem, Topology
from stormwright.model.arrays import FloatArray
from stormwright.schedulers.placement.placing import FreeResources, Placing
from stormwright.schedulers.templates.waiting import Rule, place_waiting
from stormwright.schedulers.toolkit.params import MAX_FACTOR, Params, param
from stormwright.schedulers.toolkit.traffic import by_component, upstream
from stormwright.schedulers.toolkit.triggers import BALANCE, Adaptation


@dataclass(frozen=True, kw_only=True)
class TossParams(Params):
    """Parameters of the scheduler."""

    tolerance: float = param(0.1, "fraction of the mean by which a worker's CPU may exceed it", low=0, high=MAX_FACTOR)


class TossScheduler:
    """Puts executors of tightly coupled components into one worker, then moves some until workers are equally loaded.

    After Y. Zhou, Y. Liu, C. Zhang, X. Peng, X. Qin, "TOSS: A topology-based scheduler for Storm clusters", IPDPS
    Workshops 2020, pages 587 to 596, of which only the abstract and descriptions by others were available.

    1. The structure of the topology alone says which components are tightly coupled; their executors share workers.
    2. The load of the workers is then balanced by the measured CPU of the executors.

    Assumptions:

    1. Two components that one stream connects are coupled the tighter, the fewer other components they are connected
       with. Components are walked from the spouts, depth first, tightest first; so coupled components are adjacent.
    2. Their executors, in this order, are cut into the requested number of workers of equal size.
    3. While the most loaded worker has more than 1 + `tolerance` times the mean CPU, an executor moves from it to the
       least loaded one: that which minimises the larger of both loads. It ends when none reduces it.
    4. Workers go to nodes by CPU, most first, each to the node with the largest free fraction of CPU, so that nodes are
       equally loaded; one too full for a worker is skipped.
    5. The paper places by the load measured before, as ``--from-scratch`` does; otherwise running executors stay.
    6. A service reschedules every P seconds, and once the load has drifted since the last change, as balance is tuned
       while the topology runs; the abstract itself speaks of tuning in the deployment stage. It does so if the CPU of
       each topology's busiest worker falls, by at least R percent in sum. P, R and T are those of `online`.

    Ties go to the lower index of component, executor, worker and node.

    When to use
    -----------
    CPU was measured but traffic was not, and workers should be equally busy.

    Ignores
    -------
    The amount of traffic on a stream, racks; memory, except as a constraint.

    Honours
    -------
    CPU, memory, executors per worker, streams
    """

    params_type = TossParams
    adapts = Adaptation(on_period=True, on_drift=True, gains=(BALANCE,))

    def __init__(self, params: TossParams | None = None) -> None:
        self.params = params or TossParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place the executors without a slot."""

        def make_rule(room: FreeResources) -> Rule:
            def place(placing: Placing) -> None:
                workers = self._workers(placing, problem.executor_cpu_hz)
                load = [float(problem.executor_cpu_hz[members].sum()) for members in workers]
                for worker in sorted(range(len(workers)), key=lambda w: -load[w]):
                    fits = placing.can_host(workers[worker])
                    left = np.where(fits, _part_left(room), -np.inf)
                    node = int(np.argmax(left))
                    placing.put_worker(workers[worker], node if fits[node] else UNPLACED)

            return place

        return place_waiting(problem, "toss", self.params, make_rule)

    def _workers(self, placing: Placing, cpu_hz: FloatArray) -> list[list[int]]:
        """Return the executors of every worker; assumptions 1 to 3."""
        offset = int(placing.placement.problem.executor_offset[placing.wanted.topology])
        members = by_component(placing.topology, placing.executors, offset)
        in_order = [executor for component in depth_first(placing.topology) for executor in members[component]]
        workers = [part.tolist() for part in np.array_split(np.array(in_order), placing.wanted.workers)]
        load = [float(cpu_hz[part].sum()) for part in workers]
        most_wanted = (1 + self.params.tolerance) * sum(load) / len(load)
        while True:
            donor = max(range(len(load)), key=lambda w: (load[w], -w))
            roomy = [w for w, part in enumerate(workers) if len(part) < placing.limit and w != donor]
            if load[donor] <= most_wanted or len(workers[donor]) == 1 or not roomy:
                return workers
            taker = min(roomy, key=lambda w: (load[w], w))
            own = cpu_hz[workers[donor]]
            larger = np.maximum(load[donor] - own, load[taker] + own)
            position = int(np.argmin(larger))
            if larger[position] >= load[donor]:
                return workers
            workers[taker].append(workers[donor].pop(position))
            load[donor] -= float(own[position])
            load[taker] += float(own[position])


def depth_first(topology: Topology) -> list[int]:
    """Return the components depth first along the streams, tightest coupled first; assumption 1."""
    sources = upstream(topology)
    targets: list[list[int]] = [[] for _ in sources]
    for target, of_target in enumerate(sources):
        for source in of_target:
            targets[source].append(target)
    connected = [len(sources[component]) + len(targets[component]) for component in range(len(sources))]
    order: dict[int, None] = {}
    spouts = [index for index, component in enumerate(topology.components) if component.type == "spout"]
    waiting = [*range(len(sources))][::-1] + spouts[::-1]
    while waiting:
        component = waiting.pop()
        if component not in order:
            order[component] = None
            waiting += sorted(targets[component], key=lambda target: (connected[target], target), reverse=True)
    return list(order)


def _part_left(room: FreeResources) -> FloatArray:
    """Return the free fraction of every node's CPU; 1 where it is infinite."""
    bounded = np.isfinite(room.capacity_hz) & (room.capacity_hz > 0)
    left: FloatArray = np.where(np.isfinite(room.capacity_hz), 0.0, 1.0)
    left[bounded] = room.cpu_hz[bounded] / room.capacity_hz[bounded]
    return left
