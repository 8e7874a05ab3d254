"""The workers of a topology, and what each of them takes."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from stormwright.model import UNPLACED
from stormwright.model.arrays import FloatArray, IndexArray, IntArray

#: Slot → executors of the worker in it, numbered in their topology; slots in ascending order.
NodeWorkers: TypeAlias = dict[int, IndexArray]


def workers_of(slots: IntArray) -> NodeWorkers:
    """The workers of a topology whose executors are in `slots`."""
    order = np.argsort(slots, kind="stable")
    ordered = slots[order]
    starts = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist()]
    ends = pairwise([*starts, len(order)])
    return {
        slot: order[start:end]
        for slot, (start, end) in zip(ordered[starts].tolist(), ends, strict=True)
        if slot != UNPLACED
    }


class WorkerLoads(NamedTuple):
    """What the workers of a topology take: their slot → column, and slots and resources by column, shape (R, W)."""

    column: dict[int, int]
    amounts: FloatArray

    def of(self, slot: int) -> list[float]:
        """What the worker in a slot takes."""
        amounts: list[float] = self.amounts[:, self.column[slot]].tolist()
        return amounts

    @classmethod
    def of_workers(cls, demand: FloatArray, workers: NodeWorkers) -> WorkerLoads:
        """Those of workers of a topology, of which each executor takes `demand`, shape (R - 1, E)."""
        starts = np.cumsum([0, *map(len, workers.values())])[:-1]
        amounts = np.add.reduceat(demand[:, np.concatenate(list(workers.values()))], starts, axis=1)
        columns = {slot: column for column, slot in enumerate(workers)}
        return cls(columns, np.vstack([np.ones(len(workers)), amounts]))
