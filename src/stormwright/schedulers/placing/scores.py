"""What rules that give every node a number have in common."""

from __future__ import annotations

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.schedulers.placing.placing import Room


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


def in_cluster(room: Room) -> BoolArray:
    """Which nodes take part: they have a free slot, or something on them, shape (N,)."""
    part: BoolArray = (room.slots >= 1) | (room.executors > 0)
    return part
