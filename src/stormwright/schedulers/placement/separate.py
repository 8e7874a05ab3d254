"""Separation of executors that may not share a worker or node (`ComponentLimits`), for every scheduler."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from stormwright.model import UNPLACED
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.model.component_limits import NO_LIMIT, ComponentLimits, count_components
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.toolkit.limits import max_executors_per_worker

#: Maximum steps of a search: constant, and per executor.
_STEPS, _STEPS_PER_EXECUTOR = 50, 10

#: Steps for which an executor that moved is skipped, if there are others.
_REST = 7

#: Change of an impossible step.
_NEVER = np.iinfo(np.int64).max


def separate_components(placement: PartialPlacement, *, soft_cpu: bool = False) -> None:
    """Rearrange each topology with limits on components until it satisfies them, or leave it out.

    Other topologies and running workers do not move. With `soft_cpu` nodes may exceed their CPU.
    """
    for topology, limits in placement.problem.component_limits.items():
        search = _Search(placement, topology, limits)
        if not search.broken().any():
            continue
        if search.run(soft_cpu):
            search.write_back()
        else:
            placement.take_out(topology)
            placement.reasons[topology] = (search.why_not(),)


def separation_violations(placement: PartialPlacement, topology: int) -> tuple[str, ...]:
    """Return counted reasons why a topology violates its limits on components; empty if it does not."""
    limits = placement.problem.component_limits.get(topology)
    if limits is None:
        return ()
    search = _Search(placement, topology, limits)
    return (search.why_not(),) if search.broken().any() else ()


class _Step(NamedTuple):
    """A step, and the change of violations that it causes."""

    rise: int
    kind: int
    target: int


class _Search:
    """Min-conflicts search in the placement of one topology.

    S. Minton, M. D. Johnston, A. B. Philips, P. Laird, "Minimizing conflicts: a heuristic repair method for constraint
    satisfaction and scheduling problems", Artificial Intelligence 58, 1992,
    https://doi.org/10.1016/0004-3702(92)90007-K.

    Violations are pairs of executors that may not share their worker, and excess executors on a node. Each step takes
    the executor with most violations and applies the step that leaves fewest: it moves to another worker (0), swaps
    workers with another executor (1), or its worker moves to another node (2) or swaps nodes with another worker (3).
    An executor that moved rests while others have violations. CPU, memory, slots and executors per worker hold at every
    step, and no worker becomes empty. Ties are broken at random, or the search would cycle; with a fixed seed.

    Executors and workers are numbered within the topology.
    """

    def __init__(self, placement: PartialPlacement, topology: int, limits: ComponentLimits) -> None:
        problem = placement.problem
        definition, self._own = problem.topologies[topology], problem.executors_of(topology)
        self._placement, self._most = placement, limits.most_on_node
        self._rng = np.random.default_rng(0)
        self._component: IndexArray = definition.executor_component.astype(np.int64)
        self._apart = limits.incompatible.astype(np.int64)
        self._alone = np.diagonal(self._apart)
        self._limit = max_executors_per_worker(definition)
        self._workers = np.flatnonzero(
            (np.array(placement.topology) == topology) & (np.array(placement.node) != UNPLACED)
        )
        number = np.full(len(placement.node) + 1, UNPLACED)
        number[self._workers] = np.arange(len(self._workers))
        self._worker: IndexArray = number[placement.worker[self._own]]
        self._node: IndexArray = np.array(placement.node, dtype=np.int64)[self._workers]
        self._movable: BoolArray = ~np.array(placement.fixed, dtype=bool)[self._workers]
        self._moves: BoolArray = np.append(self._movable, False)[self._worker]
        self._demand = problem.executor_demand[:, self._own]
        components = len(definition.components)
        self._on_nodes = count_components(
            np.append(self._node, UNPLACED)[self._worker], self._component, len(placement.usable), components
        )
        #: Executors of each component in each worker, and the number in each worker that conflict with the component.
        self._held = count_components(self._worker, self._component, len(self._workers), components)
        # Few pairs of worker and component exist: the product of dense tables would be cubic.
        self._foes = csr_array(self._held) @ self._apart

    def run(self, soft_cpu: bool) -> bool:
        """Search until there are no violations; return whether that succeeded."""
        left = self._placement.capacity - self._placement.node_use()
        self._left, self._slots = left[:-1], np.where(self._placement.usable, left[-1].round(), 0)
        if soft_cpu:
            self._left[0] = np.inf
        last = np.full(len(self._worker), -_REST - 1)
        for number in range(_STEPS + _STEPS_PER_EXECUTOR * len(self._worker)):
            broken = self.broken()
            candidates = np.flatnonzero(broken)
            if not len(candidates):
                return True
            rests = last[candidates] >= number - _REST
            order = np.lexsort((last[candidates], -broken[candidates], rests))
            steps = ((executor, self._best(executor)) for executor in candidates[order].tolist())
            executor, step = next(((e, s) for e, s in steps if s.rise < _NEVER), (UNPLACED, None))
            if step is None:
                return False
            self._take(executor, step)
            last[executor] = number
        return False

    def broken(self) -> IndexArray:
        """Return the violations of each executor, 0 for those that may not move, shape (E,)."""
        moving = np.flatnonzero(self._moves)
        worker, component = self._worker[moving], self._component[moving]
        crowded = self._on_nodes[self._node[worker], component] > self._most[component]
        broken = np.zeros(len(self._worker), dtype=np.int64)
        broken[moving] = self._foes[worker, component] - self._alone[component] + crowded
        return broken

    def why_not(self) -> str:
        """Return the present violations as text, counted."""
        executors = np.count_nonzero(self.broken())
        return (
            f"limits on components do not hold: {executors} of {len(self._worker)} executors would be with others "
            "that they may not be with"
        )

    def write_back(self) -> None:
        """Store the result in the partial placement."""
        self._placement.worker[self._own] = np.append(self._workers, UNPLACED)[self._worker]
        for worker, node in zip(self._workers.tolist(), self._node.tolist(), strict=True):
            self._placement.node[worker] = node

    def _best(self, executor: int) -> _Step:
        worker = int(self._worker[executor])
        rises = (
            self._moved(executor, worker),
            self._exchanged(executor, worker),
            self._worker_moved(worker),
            self._workers_exchanged(worker),
        )
        lowest = min(int(rise.min(initial=_NEVER)) for rise in rises)
        kinds = [kind for kind, rise in enumerate(rises) if (rise == lowest).any()]
        kind = kinds[self._rng.integers(len(kinds))]
        targets = np.flatnonzero(rises[kind] == lowest)
        return _Step(lowest, kind, int(targets[self._rng.integers(len(targets))]))

    def _take(self, executor: int, step: _Step) -> None:
        worker, target = int(self._worker[executor]), step.target
        if step.kind == 0:
            self._put(executor, target)
        elif step.kind == 1:
            self._put(executor, int(self._worker[target]))
            self._put(target, worker)
        elif step.kind == 2:
            self._carry(worker, target)
        else:
            node = int(self._node[worker])
            self._carry(worker, int(self._node[target]))
            self._carry(target, node)

    def _fits(self, nodes: IndexArray, demand: FloatArray) -> BoolArray:
        """Return whether each node has free resources for the additional demand."""
        fits: BoolArray = np.all(self._left[:, nodes] >= demand, axis=0)
        return fits

    def _moved(self, executor: int, worker: int) -> IndexArray:
        """Return the increase of violations for each worker that an executor could move to."""
        c, here, nodes = self._component[executor], self._node[worker], self._node
        elsewhere = nodes != here
        can: BoolArray = self._movable & (self._held.sum(axis=1) < self._limit) & (self._held[worker].sum() > 1)
        can &= ~elsewhere | self._fits(nodes, self._demand[:, [executor]])
        can[worker] = False
        crowding = (self._on_nodes[nodes, c] >= self._most[c]).astype(np.int64)
        crowding -= self._on_nodes[here, c] > self._most[c]
        rise = self._foes[:, c] - (self._foes[worker, c] - self._alone[c]) + elsewhere * crowding
        return np.where(can, rise, _NEVER)

    def _exchanged(self, executor: int, worker: int) -> IndexArray:
        """Return the increase of violations for each executor that one could swap workers with."""
        c, d, others = self._component[executor], self._component, self._worker
        here, nodes = self._node[worker], np.append(self._node, UNPLACED)[others]
        elsewhere = nodes != here
        more = self._demand - self._demand[:, [executor]]
        fits = self._fits(np.full(len(d), here), more) & self._fits(nodes, -more)
        can = self._moves & (d != c) & (others != worker) & (~elsewhere | fits)
        crowding = (self._on_nodes[nodes, c] >= self._most[c]).astype(np.int64)
        crowding -= self._on_nodes[here, c] > self._most[c]
        crowding += self._on_nodes[here, d] >= self._most[d]
        crowding -= self._on_nodes[nodes, d] > self._most[d]
        rise = self._foes[worker, d] + self._foes[others, c] - 2 * self._apart[c, d] + elsewhere * crowding
        rise -= self._foes[worker, c] - self._alone[c] + self._foes[others, d] - self._alone[d]
        return np.where(can, rise, _NEVER)

    def _worker_moved(self, worker: int) -> IndexArray:
        """Return the increase of violations for each node that a worker could move to."""
        here, held = self._node[worker], self._held[worker]
        counts = (held > 0) & (self._most < NO_LIMIT)
        can = (self._slots >= 1) & (self._left >= self._worker_demand(worker)).all(axis=0)
        can[here] = False
        now = self._on_nodes[:, counts]
        rise = self._too_many(now + held[counts], counts) - self._too_many(now, counts)
        rise -= self._too_many(now[here], counts) - self._too_many(now[here] - held[counts], counts)
        return np.where(can, rise, _NEVER)

    def _workers_exchanged(self, worker: int) -> IndexArray:
        """Return the increase of violations for each worker that one could swap nodes with."""
        here, nodes, counts = self._node[worker], self._node, self._most < NO_LIMIT
        demands: FloatArray = np.stack(
            [np.bincount(self._worker[self._moves], d[self._moves], len(nodes)) for d in self._demand]
        )
        more = demands - demands[:, [worker]]
        can = self._movable & (nodes != here)
        can &= self._fits(np.full(len(nodes), here), more) & self._fits(nodes, -more)
        now, gained = self._on_nodes[:, counts], (self._held - self._held[worker])[:, counts]
        rise = self._too_many(now[here] + gained, counts) - self._too_many(now[here], counts)
        rise += self._too_many(now[nodes] - gained, counts) - self._too_many(now[nodes], counts)
        return np.where(can, rise, _NEVER)

    def _too_many(self, on_nodes: IndexArray, counts: BoolArray) -> IndexArray:
        """Return the excess executors on each node, of the components in `counts`."""
        too_many: IndexArray = np.maximum(on_nodes - self._most[counts], 0).sum(axis=-1)
        return too_many

    def _worker_demand(self, worker: int) -> FloatArray:
        demand: FloatArray = self._demand[:, self._worker == worker].sum(axis=1, keepdims=True)
        return demand

    def _put(self, executor: int, to: int) -> None:
        c, worker = self._component[executor], self._worker[executor]
        for w, sign in ((worker, -1), (to, 1)):
            self._held[w, c] += sign
            self._foes[w] += sign * self._apart[c]
            self._on_nodes[self._node[w], c] += sign
            self._left[:, self._node[w]] -= sign * self._demand[:, executor]
        self._worker[executor] = to

    def _carry(self, worker: int, to: int) -> None:
        demand = self._worker_demand(worker)[:, 0]
        for node, sign in ((self._node[worker], -1), (to, 1)):
            self._on_nodes[node] += sign * self._held[worker]
            self._left[:, node] -= sign * demand
            self._slots[node] -= sign
        self._node[worker] = to
