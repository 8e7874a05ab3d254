"""Repair of a placement that overloads nodes, by few small steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import IndexArray
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE, PlacedExecutors
from stormwright.model.constraints.requests import RequestLimits, Requests
from stormwright.optimize import repair
from stormwright.optimize.kernel.records import NOWHERE
from stormwright.schedulers.placement.admission import RequiredWorkers, leave_out, movable_workers
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.placement.placing import FreeResources, Placing
from stormwright.schedulers.placement.separate import separate_components
from stormwright.schedulers.placement.staying import choose_slots
from stormwright.schedulers.toolkit.limits import max_executors_per_worker

#: Evaluated pairs of nodes between two checks of the deadline: some milliseconds.
_LOOKS = 100_000


# Topologies that request more than nodes and heaps have are left out if Storm's ResourceAwareScheduler is used.
def leave_out_excessive_requests(placement: PartialPlacement) -> None:
    """Leave out topologies, last first, until no node or worker exceeds its requests.

    Fixed workers stay, as Storm's scheduler has admitted them.
    """
    problem = placement.problem
    if RequestLimits.of(problem) is None:
        return
    while True:
        for broken in Requests().violations(PlacedExecutors(problem, choose_slots(placement))):
            on = [
                topology
                for topology, place, fixed in zip(placement.topology, placement.node, placement.fixed, strict=True)
                if not fixed
                and place == problem.node_index.get(broken.supervisor or "", UNPLACED)
                and place != UNPLACED
            ]
            if broken.topology is not None:
                on = [topology for topology in on if problem.topologies[topology].id == broken.topology]
            if on:
                placement.take_out(max(on))
                placement.reasons[max(on)] = (str(broken),)
                break
        else:
            return


def never() -> bool:
    """Deadline check without a deadline."""
    return False


class PlacementRepair:
    """Removes overload: the steepest step on the most overloaded node that has one, until none is left or helps.

    The steps on a node: a worker moves to a node with a free slot; two workers swap nodes; an executor moves to another
    worker of its topology; two executors of a topology swap workers. Fixed workers are excluded. Of equal steps that of
    the worker with the lower index wins, then the one in that order, then the one with lower indices. Overload is the
    sum over resources of the excess as a fraction of all capacity.
    """

    def __init__(self, placement: PartialPlacement, *, soft_cpu: bool = False) -> None:
        problem = placement.problem
        self._placement = placement
        hard = slice(1 if soft_cpu else 0, None)  # CPU comes first
        demand, capacity = placement.demand[hard].T, problem.node_capacity[hard].T
        executors = np.zeros(len(demand), repair.EXECUTOR)
        executors["worker"] = placement.worker
        workers = np.zeros(len(placement.node), repair.WORKER)
        workers["node"], workers["topology"] = placement.node, placement.topology
        workers["movable"] = ~np.array(placement.fixed, bool)
        most = np.array([max_executors_per_worker(topology) for topology in problem.topologies], int)
        workers["most"] = most[workers["topology"]]
        nodes = np.zeros(len(capacity), repair.NODE)
        nodes["ports"] = np.where(placement.usable, [len(supervisor.ports) for supervisor in problem.supervisors], 0)
        nodes["looked"] = NOWHERE
        nodes["older"] = np.arange(len(nodes)) - 1
        nodes["newer"] = np.append(np.arange(1, len(nodes)), NOWHERE)
        workers["first"] = nodes["first"] = NOWHERE
        totals = np.zeros(1, repair.TOTALS)
        totals["newest"] = len(nodes) - 1
        self._state = repair.RepairState(
            executors=executors,
            workers=workers,
            nodes=nodes,
            demand=np.array(demand, order="C"),  # writable like all others, so that it is compiled once
            of_worker=np.zeros((len(workers), demand.shape[1])),
            of_node=np.zeros(capacity.shape),
            capacity=np.ascontiguousarray(capacity * (1 + RELATIVE_TOLERANCE)),
            unit=np.maximum(np.where(np.isfinite(capacity), capacity, 0.0).sum(axis=0), 1.0),
            hardest=np.empty(len(nodes), np.int64),
            best=np.zeros(1, repair.STEP),
            totals=totals,
        )
        repair.settle(self._state)
        self._state.hardest[:] = np.argsort(-nodes["overload"], kind="stable")
        nodes["rank"][self._state.hardest] = np.arange(len(nodes))

    @property
    def steps(self) -> int:
        """Number of steps so far."""
        return int(self._state.totals["steps"][0])

    @property
    def looks(self) -> int:
        """Number of evaluated pairs of nodes so far."""
        return int(self._state.totals["looks"][0])

    def run(self, is_late: Callable[[], bool] = never) -> IndexArray:
        """Take all steps that help, until `is_late`; return the nodes that stay overloaded."""
        before = self.steps
        while not is_late() and not repair.take_steps(self._state, _LOOKS):
            pass
        if self.steps > before:
            self._write()
        return np.flatnonzero(self._state.nodes["overload"])

    def blamed(self) -> set[int]:
        """Return topologies with movable workers that need a resource that is short on their node."""
        state = self._state
        over = state.of_node > state.capacity
        node = state.workers["node"]
        on_node = np.flatnonzero((node != NOWHERE) & state.workers["movable"])
        blamed = on_node[np.any(over[node[on_node]] & (state.of_worker[on_node] > 0), axis=1)]
        return set(state.workers["topology"][blamed].tolist())

    def take_out(self, topology: int) -> None:
        """Remove a topology's workers, except fixed ones, from their nodes."""
        repair.take_out(self._state, topology)
        self._write()

    def put_back(self, topologies: Iterable[int]) -> list[int]:
        """Put removed topologies back, one after the other, as far as they fit; return the others."""
        state, left_out = self._state, []
        waiting = state.workers["movable"] & (state.workers["node"] == NOWHERE) & (state.workers["size"] > 0)
        largest_first = np.argsort(-(state.of_worker / state.unit).sum(axis=1), kind="stable")
        largest_first = largest_first[waiting[largest_first]]
        for topology in topologies:
            own = largest_first[state.workers["topology"][largest_first] == topology]
            if not repair.put_back(state, own):
                left_out.append(topology)
        self._write()
        return left_out

    def _write(self) -> None:
        self._placement.worker[:] = self._state.executors["worker"]
        self._placement.node[:] = self._state.workers["node"].tolist()


def make_room(placement: PartialPlacement, *, soft_cpu: bool = False, is_late: Callable[[], bool] = never) -> None:
    """Put workers without a node where most CPU is free, then repair overload, or leave topologies out.

    The last of the topologies that need a resource that is short on their node is left out, repeatedly; in the end
    those whose workers fit are put back, in order. Limits on components come last: `separate_components`. Topologies
    already left out stay so. With `soft_cpu` nodes may exceed their CPU capacity. After the deadline no more steps are
    taken, which leaves more out.
    """
    room = placement.capacity - placement.node_use()
    room[0, ~placement.usable | (room[-1] < 1)] = -math.inf
    demand = placement.worker_use()
    # A removed worker has no executors.
    waiting = [w for w in np.unique(placement.worker).tolist() if w != UNPLACED and placement.node[w] == UNPLACED]
    for worker in sorted(waiting, key=lambda w: -demand[0, w]):
        node = placement.node[worker] = int(np.argmax(room[0]))
        room[:, node] -= *demand[:, worker], 1
        if room[-1, node] < 1:
            room[0, node] = -math.inf
    tried: set[int] = set()
    left_out: list[int] = []
    repairing = PlacementRepair(placement, soft_cpu=soft_cpu)
    while len(repairing.run(is_late)) and (blamed := repairing.blamed()):
        last = max(blamed)
        if last not in tried and not is_late() and _place_from_scratch(placement, last, soft_cpu=soft_cpu):
            repairing = PlacementRepair(placement, soft_cpu=soft_cpu)
        else:
            repairing.take_out(last)
            left_out.append(last)
        tried.add(last)
    leave_out(placement, repairing.put_back(sorted(left_out)))
    separate_components(placement, soft_cpu=soft_cpu)


@cache
def ready_repair() -> None:
    """Load the machine code before any time is measured."""
    nothing = Problem((), ())
    repairing = PlacementRepair(PartialPlacement.empty(nothing, nothing.node_usable))
    repairing.run()
    repairing.take_out(0)
    repairing.put_back([0])


def _place_from_scratch(placement: PartialPlacement, topology: int, *, soft_cpu: bool) -> bool:
    """Place the movable part of a topology from scratch, by largest demand of generic resources first.

    Few nodes may have such a resource: moving a worker there does not help until executors follow, so `PlacementRepair`
    does not do it. Executors go to nodes with a worker of the topology, then to those with most CPU. If one finds no
    node nothing changes.
    """
    problem, workers = placement.problem, movable_workers(placement, topology)
    executors = np.flatnonzero(np.isin(placement.worker, workers))
    demand = problem.executor_demand[:, executors]
    if not demand[2:].any():
        return False
    attempt = replace(placement, worker=placement.worker.copy(), reasons={})
    attempt.topology, attempt.node, attempt.fixed = (
        list(placement.topology),
        list(placement.node),
        list(placement.fixed),
    )
    attempt.take_out(topology)
    room = FreeResources(attempt)
    placing = Placing(attempt, room, RequiredWorkers(topology, executors, len(workers)), soft_cpu=soft_cpu)
    for executor in executors[np.lexsort((-demand[0], *-demand[:1:-1]))].tolist():
        new = np.array([placing.workers_on(node) == 0 for node in range(room.num_nodes)])
        order = np.lexsort((-room.cpu_hz, new))
        able = order[placing.can_take(executor)[order]]
        if not len(able):
            return False
        placing.put(executor, int(able[0]))
    placing.finish()
    if UNPLACED in attempt.node_of_executor()[executors]:
        return False
    placement.worker, placement.topology, placement.node, placement.fixed = (
        attempt.worker,
        attempt.topology,
        attempt.node,
        attempt.fixed,
    )
    return True
