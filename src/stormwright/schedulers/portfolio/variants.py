"""Placements one step away from a given one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import IndexArray, IntArray

#: Kinds of steps: an executor to another worker of its topology, swap of two executors, a worker elsewhere.
_MOVE, _SWAP, _WORKER = range(3)


class Variants:
    """Generates placements one step away from those of one problem.

    Parameters
    ----------
    problem
        The problem; topologies that run in part stay as the rules place them.
    rng
        Random generator of the steps.
    """

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        self._problem, self._rng = problem, rng
        topology, count = problem.executor_topology, len(problem.topologies)
        runs = np.bincount(topology[problem.current_slot != UNPLACED], minlength=count) > 0
        self._free: IndexArray = np.flatnonzero(~runs[topology])
        self._usable: IndexArray = np.flatnonzero(problem.node_usable[problem.slot_node])

    def of(self, slots: IntArray, count: int) -> Iterator[IntArray]:
        """Yield up to `count` placements one step away; steps without effect or that empty a worker are skipped.

        Parameters
        ----------
        slots
            Slot of every executor, -1 for none, shape (E,).
        count
            Number of random steps.
        """
        movable = self._free[slots[self._free] != UNPLACED]
        if not len(movable):
            return
        for kind, executor in zip(
            self._rng.integers(0, 3, count).tolist(), self._rng.choice(movable, count).tolist(), strict=True
        ):
            found = self._step(slots, movable, kind, executor)
            if found is not None and not np.array_equal(found, slots):
                yield found

    def _step(self, slots: IntArray, movable: IndexArray, kind: int, executor: int) -> IntArray | None:
        topology = self._problem.executor_topology
        found, own = slots.copy(), self._problem.executors_of(int(topology[executor]))
        here = int(slots[executor])
        if kind == _MOVE:
            workers = sorted(set(slots[own].tolist()) - {UNPLACED, here})
            if not workers or np.count_nonzero(slots == here) < 2:
                return None
            found[executor] = workers[int(self._rng.integers(len(workers)))]
        elif kind == _SWAP:
            others = movable[(topology[movable] == topology[executor]) & (slots[movable] != here)]
            if not len(others):
                return None
            other = int(others[int(self._rng.integers(len(others)))])
            found[executor], found[other] = slots[other], here
        else:
            inside = np.flatnonzero(slots == here)
            there = int(self._usable[int(self._rng.integers(len(self._usable)))]) if len(self._usable) else here
            taken = bool(np.any(slots == there)) or bool(np.any(self._problem.current_slot == there))
            if taken or not np.isin(inside, movable).all():
                return None
            found[inside] = there
        return found
