"""Rules by which nodes take turns in getting workers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stormwright.model import UNPLACED
from stormwright.model.arrays import BoolArray, FloatArray
from stormwright.schedulers.placement.placing import Placing
from stormwright.schedulers.templates.waiting import Rule


def deal(take: Callable[[BoolArray], int]) -> Rule:
    """Return the rule that distributes executors round robin over workers, and workers over nodes.

    Parameters
    ----------
    take
        Given which nodes can take a worker, shape (N,), returns the one whose turn it is; -1 if there is none.
    """

    def place(placing: Placing) -> None:
        executors, count = placing.executors, placing.wanted.workers
        for number in range(count):
            worker = executors[number::count]
            placing.put_worker(worker, take(placing.can_host(worker)))

    return place


class Turns:
    """Nodes in order of their index, cyclically; unavailable ones are skipped."""

    def __init__(self, num_nodes: int) -> None:
        self._num_nodes = num_nodes
        self._next = 0

    def take(self, can: BoolArray) -> int:
        """Return the available node whose turn it is; -1 if there is none."""
        able = np.flatnonzero(can)
        if not len(able):
            return UNPLACED
        node = int(able[np.searchsorted(able, self._next) % len(able)])
        self._next = (node + 1) % self._num_nodes
        return node


class SmoothTurns:
    """Nodes in proportion to weights, the turns of each spread as evenly as possible.

    The rule of nginx since 1.3.1 (``ngx_http_upstream_round_robin.c``): at every turn each available node gains its
    weight, and the node with the highest total is selected and loses the sum of all gains. Ties go to the lower index.
    """

    def __init__(self, num_nodes: int) -> None:
        self._gained = np.zeros(num_nodes)

    def take(self, can: BoolArray, weights: FloatArray) -> int:
        """Return the available node whose turn it is; -1 if there is none."""
        able = np.flatnonzero(can)
        if not len(able):
            return UNPLACED
        self._gained[able] += weights[able]
        node = int(able[np.argmax(self._gained[able])])
        self._gained[node] -= weights[able].sum()
        return node
