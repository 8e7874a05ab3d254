"""Heaps of workers that a plan starts: where the size changes or is scarce."""

from __future__ import annotations

from math import isfinite

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import IntArray
from stormwright.model.constraints.constraint import PlacedExecutors
from stormwright.model.constraints.heaps import WorkerHeaps
from stormwright.plans.figures import HeapChange

#: Needed part of a heap from which it is scarce, and the maximum number of heaps listed for a topology.
_SCARCE, _MAX_HEAPS = 0.8, 20


def heap_changes(problem: Problem, slots: IntArray) -> dict[str, tuple[HeapChange, ...]]:
    """Return the heaps of workers that start, by topology id, where the size changes or is scarce.

    Parameters
    ----------
    problem
        Problem with its current placement.
    slots
        Planned slot of every executor, shape (E,).
    """
    now, then = (PlacedExecutors(problem, each) for each in (problem.current_slot, slots))
    before, after = WorkerHeaps.of(now), WorkerHeaps.of(then)
    found: dict[str, list[HeapChange]] = {}
    started = _started(now, then)
    for worker in sorted(started, key=lambda each: (-after.fill[each], each)):
        topology = problem.topologies[after.workers.topology[worker]].id
        source, sizes = started[worker], [_finite(after.size_mb[worker])]
        sizes.insert(0, None if source is None else _finite(before.size_mb[source]))
        changes = sizes[0] is not None and sizes[1] is not None and sizes[0] != sizes[1]
        listed = found.setdefault(topology, [])
        if (changes or after.fill[worker] > _SCARCE) and len(listed) < _MAX_HEAPS:
            change = HeapChange(
                worker=problem.cluster.slot_name(problem.slots[after.workers.slot[worker]]),
                before_mb=sizes[0],
                after_mb=sizes[1],
                used_mb=_finite(after.live_mb[worker]),
                too_small=bool(after.is_too_small[worker]),
            )
            listed.append(change)
    return {topology: tuple(each) for topology, each in found.items()}


def _started(now: PlacedExecutors, then: PlacedExecutors) -> dict[int, int | None]:
    """Return workers that start, by position, with the current worker of most of their executors, if any had one."""
    positions = []
    for placed in (now, then):
        worker = np.full(placed.problem.num_executors, UNPLACED)
        worker[placed.placed] = placed.worker
        positions.append(worker)
    both = (positions[0] != UNPLACED) & (positions[1] != UNPLACED)
    count = max(len(now.workers.slot), 1)
    keys, executors = np.unique(positions[1][both] * count + positions[0][both], return_counts=True)
    started: dict[int, int | None] = dict.fromkeys(range(len(then.workers.slot)))
    most: dict[int, int] = {}
    for key, shared in zip(keys.tolist(), executors.tolist(), strict=True):
        worker, source = divmod(key, count)
        same = now.workers.slot[source] == then.workers.slot[worker]
        if same and shared == now.workers.executors[source] == then.workers.executors[worker]:
            del started[worker]
        elif shared > most.get(worker, 0):
            most[worker], started[worker] = shared, source
    return started


def _finite(mb: float) -> float | None:
    return float(mb) if isfinite(mb) else None
