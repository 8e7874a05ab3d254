"""Difference of two assignments: executors that move, and workers that Storm restarts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model.arrays import IntArray
from stormwright.model.assignment import UNPLACED
from stormwright.model.cluster import WorkerSlot
from stormwright.model.problem import Problem


@dataclass(frozen=True)
class AssignmentDiff:
    """Difference of two assignments.

    Parameters
    ----------
    moved_executors
        Executors that lose their slot, numbered over the problem.
    started_executors
        Executors that had no slot and get one.
    stopped_workers, started_workers, unchanged_workers
        Slots whose worker stops, starts, or keeps running because neither its topology nor its executors change. Storm
        restarts a worker whose executors change: it is in both of the first two.
    topologies
        Ids of the topologies that change.
    """

    moved_executors: tuple[int, ...]
    started_executors: tuple[int, ...]
    stopped_workers: tuple[WorkerSlot, ...]
    started_workers: tuple[WorkerSlot, ...]
    unchanged_workers: tuple[WorkerSlot, ...]
    topologies: tuple[str, ...]

    @property
    def empty(self) -> bool:
        """Whether nothing changes."""
        return not self.topologies


def diff(problem: Problem, before: IntArray, after: IntArray) -> AssignmentDiff:
    """Compare two assignments.

    Parameters
    ----------
    problem
        Problem of both placements.
    before, after
        Index into the problem's slots, -1 for none, each of shape (E,).
    """
    changed = before != after
    workers_before, workers_after = _workers(before), _workers(after)
    same = [slot for slot, worker in workers_after.items() if workers_before.get(slot) == worker]
    return AssignmentDiff(
        moved_executors=tuple(np.flatnonzero(changed & (before != UNPLACED)).tolist()),
        started_executors=tuple(np.flatnonzero(changed & (before == UNPLACED)).tolist()),
        stopped_workers=_named(problem, workers_before.keys() - same),
        started_workers=_named(problem, workers_after.keys() - same),
        unchanged_workers=_named(problem, set(same)),
        topologies=tuple(problem.topologies[t].id for t in np.unique(problem.executor_topology[changed])),
    )


def _workers(slot_of_executor: IntArray) -> dict[int, tuple[int, ...]]:
    """Return slot → its executors."""
    workers: dict[int, list[int]] = {}
    for executor, slot in enumerate(slot_of_executor.tolist()):
        if slot != UNPLACED:
            workers.setdefault(slot, []).append(executor)
    return {slot: tuple(executors) for slot, executors in workers.items()}


def _named(problem: Problem, slots: set[int]) -> tuple[WorkerSlot, ...]:
    return tuple(problem.slots[slot] for slot in sorted(slots))
