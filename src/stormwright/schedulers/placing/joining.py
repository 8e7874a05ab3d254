"""Lost executors into live workers: Storm restarts such a worker, in its slot, with what it had and what joins it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from stormwright.model import UNPLACED
from stormwright.model.arrays import IndexArray
from stormwright.model.constraints.components import count_components
from stormwright.schedulers.draft.draft import Draft
from stormwright.schedulers.kit.limits import max_executors_per_worker

#: Given an executor and those of a live worker, numbered over the problem: whether it may join them.
MayJoin = Callable[[int, IndexArray], bool]


def anybody(_: int, __: IndexArray) -> bool:
    """Every live worker may take every executor of its topology."""
    return True


def join_running(
    draft: Draft, topology: int, waiting: IndexArray, new_workers: int, may_join: MayJoin = anybody
) -> IndexArray | None:
    """Put what new workers have no room for into live workers of its topology.

    Those that ask for least CPU join, the largest of them first, each the worker with fewest executors that can take
    it; ties go to the lower index.

    Parameters
    ----------
    draft
        Live workers are fixed in it. Written; as before, but for the reason, if not all can join.
    topology
        Its index.
    waiting
        Lost executors of it, numbered over the problem.
    new_workers
        How many new workers it gets: full ones leave the rest to join.
    may_join
        Whether an executor may be with those of a live worker; all may by default.

    Returns
    -------
    Those of `waiting` that still want a new worker; None if one finds no live worker. Then none joins, and the draft
    notes why.
    """
    problem = draft.problem
    most = max_executors_per_worker(problem.topologies[topology])
    joins = len(waiting) - new_workers * most
    live = [worker for worker, of in enumerate(draft.topology) if of == topology and draft.fixed[worker]]
    if joins <= 0 or not live:
        return waiting
    joining = _Joining(draft, topology, live, most, may_join)
    cpu_hz = problem.executor_cpu_hz
    smallest_first = sorted(filter(joining.has_company, waiting.tolist()), key=lambda e: float(cpu_hz[e]))
    chosen = sorted(smallest_first[:joins], key=lambda e: (-float(cpu_hz[e]), e))
    for executor in chosen:
        if not joining.join(executor):
            draft.reasons[topology] = joining.why_not(executor)
            draft.worker[chosen] = UNPLACED
            return None
    return np.setdiff1d(waiting, chosen)


class _Joining:
    """Live workers of one topology, and what they and their nodes still take."""

    def __init__(self, draft: Draft, topology: int, live: Sequence[int], most: int, may_join: MayJoin) -> None:
        problem = draft.problem
        self._draft, self._live, self._most, self._may_join = draft, live, most, may_join
        own, of = problem.executors_of(topology), problem.topologies[topology]
        self._first, self._component = own.start, of.executor_component
        self._mates = {worker: np.flatnonzero(draft.worker == worker) for worker in live}
        self._left = draft.capacity - draft.node_use()
        self._limits = problem.component_limits.get(topology)
        self._in_worker = count_components(draft.worker[own], self._component, len(draft.node), len(of.components))
        self._on_node = count_components(
            draft.node_of_executor()[own], self._component, len(draft.usable), len(of.components)
        )

    def has_company(self, executor: int) -> bool:
        """Whether there is a live worker that the executor may join, room or not."""
        return any(self._may_join(executor, mates) for mates in self._mates.values())

    def join(self, executor: int) -> bool:
        """Put an executor into a live worker; whether one could take it."""
        able = [worker for worker in self._live if not self._obstacle(executor, worker)]
        if not able:
            return False
        worker = min(able, key=lambda worker: self._in_worker[worker].sum())
        node, component = self._draft.node[worker], self._component[executor - self._first]
        problem = self._draft.problem
        self._draft.worker[executor] = worker
        self._left[:-1, node] -= problem.executor_demand[:, executor]
        self._in_worker[worker, component] += 1
        self._on_node[node, component] += 1
        return True

    def why_not(self, executor: int) -> tuple[str, ...]:
        """What keeps an executor from the live workers, counted."""
        found = Counter(self._obstacle(executor, worker) for worker in self._live)
        return tuple(f"{count} of {len(self._live)} live workers: {why}" for why, count in sorted(found.items()))

    def _obstacle(self, executor: int, worker: int) -> str:
        """What keeps an executor from a live worker; empty if it may join."""
        problem, node = self._draft.problem, self._draft.node[worker]
        component = self._component[executor - self._first]
        if not self._may_join(executor, self._mates[worker]):
            return "with executors that it may not join"
        if not self._draft.usable[node]:
            return "on a node that gets nothing new"
        if self._in_worker[worker].sum() >= self._most:
            return f"full with {self._most} executors"
        if self._limits and np.any(self._limits.incompatible[component] & (self._in_worker[worker] > 0)):
            return "with incompatible components"
        if self._limits and self._on_node[node, component] >= self._limits.most_on_node[component]:
            return "on a node with as many executors of its component as it may have"
        for resource, asked, left in zip(
            problem.resources, problem.executor_demand[:, executor], self._left[:-1, node], strict=True
        ):
            if asked > max(left, 0.0):
                return f"on a node with too little {resource.name} left"
        return ""
