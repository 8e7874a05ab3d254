"""Makes a placement that overloads nodes valid, by few small steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import NamedTuple

import numpy as np

from stormwright.model import UNPLACED
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.model.constraints import RELATIVE_TOLERANCE
from stormwright.schedulers.support.admission import Wanted, leave_out, movable_workers
from stormwright.schedulers.support.draft import Draft
from stormwright.schedulers.support.limits import max_executors_per_worker
from stormwright.schedulers.support.moving_apart import keep_apart
from stormwright.schedulers.support.placing import Placing, Room

#: An overload, as a part of the cluster's capacity, below which it is rounding.
_NOISE = 1e-12


class _Kind(Enum):
    MOVE_WORKER = auto()
    SWAP_WORKERS = auto()
    MOVE_EXECUTOR = auto()
    SWAP_EXECUTORS = auto()


class _Step(NamedTuple):
    """A change, and by how much it lowers the overload of all nodes together."""

    gain: float
    kind: _Kind
    subject: int
    target: int


class _Resource:
    """CPU, memory or another: what executors ask for and nodes have; overload is counted in parts of all capacity."""

    def __init__(self, demand: FloatArray, capacity: FloatArray) -> None:
        self.demand = demand
        self.capacity = capacity * (1 + RELATIVE_TOLERANCE)
        self.unit = max(float(capacity[np.isfinite(capacity)].sum()), 1.0)
        self.of_worker = self.of_node = np.empty(0)

    def overload(self, used: FloatArray | float, node: IndexArray | int) -> FloatArray:
        over: FloatArray = np.maximum(used - self.capacity[node], 0.0) / self.unit
        return over

    def gain(self, node: int, others: IndexArray, amount: FloatArray | float) -> FloatArray:
        """How much overload goes away when `amount` goes from `node` to each of `others`."""
        before = self.overload(self.of_node[node], node) + self.overload(self.of_node[others], others)
        after = self.overload(self.of_node[node] - amount, node) + self.overload(self.of_node[others] + amount, others)
        return before - after


class Repair:
    """Takes overload away: the steepest step on the most overloaded node, until none is left or none helps.

    The steps on a node: a worker goes to a node with a free slot; two workers change nodes; an executor goes to
    another worker of its topology; two executors of a topology change workers. Fixed workers take no part. Of equal
    steps the one in that order wins, then the one with the lower index.
    """

    def __init__(self, draft: Draft, *, soft_cpu: bool = False) -> None:
        problem = draft.problem
        self._draft = draft
        resources = [_Resource(*rows) for rows in zip(problem.executor_demand, problem.node_capacity, strict=True)]
        self._resources = resources[1:] if soft_cpu else resources  # CPU comes first
        self._ports = np.array([len(supervisor.ports) for supervisor in problem.supervisors])
        self._topology = np.array(draft.topology)
        self._movable = ~np.array(draft.fixed, dtype=bool)
        self._max_executors = np.array([max_executors_per_worker(problem.topologies[t]) for t in draft.topology])
        self._measure()

    def run(self) -> IndexArray:
        """Take all steps that help; the nodes that stay overloaded."""
        while True:
            overload = self._overload()
            overloaded = np.flatnonzero(overload > _NOISE)
            hardest_first = overloaded[np.argsort(-overload[overloaded], kind="stable")].tolist()
            best = next((step for node in hardest_first if (step := self._best(node)) is not None), None)
            if best is None:
                return overloaded
            self._apply(best)

    def blamed(self) -> set[int]:
        """Topologies with workers, not fixed, that ask for something of which their node has too little."""
        every, blamed = np.arange(len(self._ports)), np.zeros(len(self._node), dtype=bool)
        for resource in self._resources:
            over = np.append(resource.overload(resource.of_node, every) > _NOISE, False)
            blamed |= over[self._node] & (resource.of_worker > 0)
        return set(self._topology[blamed & self._movable].tolist())

    def _measure(self) -> None:
        # As `Draft.worker_sum` and the like, but after every step, so what they have in common is done once.
        self._node = np.array(self._draft.node, dtype=np.int64)
        used = np.bincount(self._node[self._node != UNPLACED], minlength=len(self._ports))
        self._free = (used < self._ports) & self._draft.usable
        placed = np.flatnonzero(self._draft.worker != UNPLACED)
        worker = self._draft.worker[placed]
        node = self._node[worker]
        on_node = node != UNPLACED
        self._count = np.bincount(worker, minlength=len(self._node))
        for resource in self._resources:
            demand = resource.demand[placed]
            resource.of_worker = np.bincount(worker, demand, len(self._node)).astype(np.float64)
            resource.of_node = np.bincount(node[on_node], demand[on_node], len(self._ports)).astype(np.float64)

    def _overload(self) -> FloatArray:
        every = np.arange(len(self._ports))
        return sum((r.overload(r.of_node, every) for r in self._resources), start=np.zeros(len(every)))

    def _best(self, node: int) -> _Step | None:
        best = None
        for worker in np.flatnonzero((self._node == node) & self._movable).tolist():
            for step in self._steps(node, worker):
                if step.gain > (_NOISE if best is None else best.gain):
                    best = step
        return best

    def _steps(self, node: int, worker: int) -> Iterator[_Step]:
        """The best step of each kind for a worker on `node`."""
        nodes = np.flatnonzero(self._free)
        nodes = nodes[nodes != node]
        amounts = [resource.of_worker[worker] for resource in self._resources]
        yield from self._steepest(_Kind.MOVE_WORKER, worker, nodes, self._gains(node, nodes, amounts))

        elsewhere = self._movable & (self._node != node) & (self._node != UNPLACED)
        others = np.flatnonzero(elsewhere)
        amounts = [resource.of_worker[worker] - resource.of_worker[others] for resource in self._resources]
        yield from self._steepest(_Kind.SWAP_WORKERS, worker, others, self._gains(node, self._node[others], amounts))

        own = self._draft.problem.executors_of(int(self._topology[worker]))
        worker_of = self._draft.worker[own]
        executors = (np.flatnonzero(worker_of == worker) + own.start).tolist()
        siblings = np.flatnonzero(elsewhere & (self._topology == self._topology[worker]))
        partners = np.flatnonzero(np.isin(worker_of, siblings)) + own.start
        roomy = siblings[self._count[siblings] < self._max_executors[siblings]]
        for executor in executors:
            demands = [resource.demand[executor] for resource in self._resources]
            if len(executors) > 1:
                gains = self._gains(node, self._node[roomy], demands)
                yield from self._steepest(_Kind.MOVE_EXECUTOR, executor, roomy, gains)
            amounts = [
                demand - resource.demand[partners] for demand, resource in zip(demands, self._resources, strict=True)
            ]
            gains = self._gains(node, self._node[self._draft.worker[partners]], amounts)
            yield from self._steepest(_Kind.SWAP_EXECUTORS, executor, partners, gains)

    def _gains(self, node: int, others: IndexArray, amounts: Sequence[FloatArray | float]) -> FloatArray:
        gains = np.zeros(len(others))
        for resource, amount in zip(self._resources, amounts, strict=True):
            gains += resource.gain(node, others, amount)
        return gains

    def _steepest(self, kind: _Kind, subject: int, targets: IndexArray, gains: FloatArray) -> Iterator[_Step]:
        if len(targets):
            steepest = int(np.argmax(gains))
            yield _Step(float(gains[steepest]), kind, subject, int(targets[steepest]))

    def _apply(self, step: _Step) -> None:
        draft, (_, kind, subject, target) = self._draft, step
        if kind is _Kind.MOVE_WORKER:
            draft.node[subject] = target
        elif kind is _Kind.SWAP_WORKERS:
            draft.node[subject], draft.node[target] = draft.node[target], draft.node[subject]
        elif kind is _Kind.MOVE_EXECUTOR:
            draft.worker[subject] = target
        else:
            draft.worker[[subject, target]] = draft.worker[[target, subject]]
        self._measure()


def make_room(draft: Draft, *, soft_cpu: bool = False) -> None:
    """Put workers without a node where most CPU is free, then mend what that overloads, or leave topologies out.

    Last come limits on components: `keep_apart`. What is left out already stays so. With `soft_cpu` a node beyond its
    CPU capacity is left as it is.
    """
    room = draft.capacity - draft.node_use()
    room[0, ~draft.usable | (room[-1] < 1)] = -math.inf
    demand = np.array([draft.worker_sum(demand) for demand in draft.problem.executor_demand])
    # A worker that was taken out has no executor any more.
    waiting = [w for w in np.unique(draft.worker).tolist() if w != UNPLACED and draft.node[w] == UNPLACED]
    for worker in sorted(waiting, key=lambda w: -demand[0, w]):
        node = draft.node[worker] = int(np.argmax(room[0]))
        room[:, node] -= *demand[:, worker], 1
        if room[-1, node] < 1:
            room[0, node] = -math.inf
    tried: set[int] = set()
    while True:
        repair = Repair(draft, soft_cpu=soft_cpu)
        repair.run()
        blamed = repair.blamed()
        if not blamed:
            break
        last = max(blamed)
        if last in tried or not _place_anew(draft, last, soft_cpu=soft_cpu):
            leave_out(draft, last)
        tried.add(last)
    keep_apart(draft, soft_cpu=soft_cpu)


def _place_anew(draft: Draft, topology: int, *, soft_cpu: bool) -> bool:
    """Place all that may move of a topology that asks for generic resources by what asks for most of them first.

    Few nodes may have such a resource: to bring a worker there is a step that does not help until executors follow, so
    `Repair` does not take it. Executors go to nodes on which the topology has a worker, then to those with most CPU.
    Where one finds no node nothing changes.
    """
    problem, workers = draft.problem, movable_workers(draft, topology)
    executors = np.flatnonzero(np.isin(draft.worker, workers))
    demand = problem.executor_demand[:, executors]
    if not demand[2:].any():
        return False
    attempt = replace(draft, worker=draft.worker.copy(), reasons={})
    attempt.topology, attempt.node, attempt.fixed = list(draft.topology), list(draft.node), list(draft.fixed)
    attempt.take_out(topology)
    room = Room(attempt)
    placing = Placing(attempt, room, Wanted(topology, executors, len(workers)), soft_cpu=soft_cpu)
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
    draft.worker, draft.topology, draft.node, draft.fixed = (
        attempt.worker,
        attempt.topology,
        attempt.node,
        attempt.fixed,
    )
    return True
