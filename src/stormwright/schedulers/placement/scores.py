"""What rules that give every node a number have in common."""

from __future__ import annotations

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.model.requests import CPU
from stormwright.schedulers.placement.placing import NodeRoom, Placing


def ranked(*keys: FloatArray | IndexArray) -> FloatArray:
    """Rank of every node by `keys`, of which the first decides, lower ones first; equal nodes by their index."""
    order = np.lexsort(keys[::-1])
    ranks = np.empty(len(order))
    ranks[order] = np.arange(len(order))
    return ranks


def part_used(capacity: FloatArray, left: FloatArray, more: float = 0.0) -> FloatArray:
    """Used part of every node's capacity with `more` on top; 0 where it is infinite, 1 where there is none."""
    bounded = np.isfinite(capacity) & (capacity > 0)
    parts: FloatArray = np.where(capacity > 0, 0.0, 1.0)
    parts[bounded] = (capacity[bounded] - left[bounded] + more) / capacity[bounded]
    return parts


def weights_of(amount: FloatArray) -> FloatArray:
    """`amount` of every node as a weight: never below 0, and as much as the largest where it is infinite."""
    finite = np.isfinite(amount)
    largest = float(amount[finite].max(initial=1.0))
    weights: FloatArray = np.maximum(np.where(finite, amount, largest), 0.0)
    return weights


def in_cluster(room: NodeRoom) -> BoolArray:
    """Which nodes take part: they have a free slot, or something on them, shape (N,)."""
    part: BoolArray = (room.slots >= 1) | (room.executors > 0)
    return part


def busy_with(placing: Placing, executor: int) -> FloatArray:
    """Used part of every node's CPU with an executor on top, shape (N,)."""
    room = placing.room
    return part_used(room.capacity_hz, room.cpu_hz, float(room.problem.executor_cpu_hz[executor]))


def core_hz_of(problem: Problem) -> FloatArray:
    """Speed of a core of every node in Hz, shape (N,): of the problem's where it does not tell how many it has."""
    percent = [node.resources.get(CPU, 0.0) for node in problem.supervisors]
    told = [
        node.cpu_hz * 100 / cores if cores > 0 and 0 < node.cpu_hz < np.inf else problem.core_hz
        for node, cores in zip(problem.supervisors, percent, strict=True)
    ]
    return np.array(told, dtype=np.float64)
