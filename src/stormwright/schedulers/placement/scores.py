"""Helpers for rules with a score for every node."""

from __future__ import annotations

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.schedulers.placement.placing import FreeResources, Placing


def ranked(*keys: FloatArray | IndexArray) -> FloatArray:
    """Return the rank of every node by `keys`, most significant first, lower ones first; ties by index."""
    order = np.lexsort(keys[::-1])
    ranks = np.empty(len(order))
    ranks[order] = np.arange(len(order))
    return ranks


def part_used(capacity: FloatArray, left: FloatArray, more: float = 0.0) -> FloatArray:
    """Return the utilisation of every node with `more` added; 0 if capacity is infinite, 1 if it is 0."""
    bounded = np.isfinite(capacity) & (capacity > 0)
    parts: FloatArray = np.where(capacity > 0, 0.0, 1.0)
    parts[bounded] = (capacity[bounded] - left[bounded] + more) / capacity[bounded]
    return parts


def weights_of(amount: FloatArray) -> FloatArray:
    """Return `amount` of every node as a weight: at least 0, and the largest one if infinite."""
    finite = np.isfinite(amount)
    largest = float(amount[finite].max(initial=1.0))
    weights: FloatArray = np.maximum(np.where(finite, amount, largest), 0.0)
    return weights


def in_cluster(room: FreeResources) -> BoolArray:
    """Return which nodes have a free slot or an executor, shape (N,)."""
    part: BoolArray = (room.slots >= 1) | (room.executors > 0)
    return part


def busy_with(placing: Placing, executor: int) -> FloatArray:
    """Return the CPU utilisation of every node with an executor added, shape (N,)."""
    room = placing.room
    return part_used(room.capacity_hz, room.cpu_hz, float(room.problem.executor_cpu_hz[executor]))
