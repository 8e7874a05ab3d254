"""CPU utilisation of nodes under many placements at once, including the cost of passing tuples on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stormwright.model import UNPLACED, Problem, measured_traffic
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.schedulers.placement.partial_placement import addends
from stormwright.schedulers.templates.search import ExecutorPairs

#: Pairs of placement and executor pair to work on at once; bounds the memory taken.
_AT_ONCE = 2_000_000


class Utilisation:
    """CPU utilisation of every node.

    A node's CPU goes to its executors (as measured) and to tuples that leave or enter: `hop_cycles` on either side.
    Traffic is taken as measured, that is, assumed not to change with the placement.

    Parameters
    ----------
    hop_cycles
        CPU cycles to write or read a tuple that is passed on.

    Attributes
    ----------
    pairs
        Traffic between executors.
    """

    def __init__(self, problem: Problem, hop_cycles: float) -> None:
        self.pairs = ExecutorPairs.of(measured_traffic(problem), problem.num_executors)
        self._cpu_hz, self._capacity_hz = addends(problem.executor_cpu_hz), problem.node_cpu_hz
        self._tps = addends(self.pairs.tps)
        self._hop_cycles = hop_cycles

    @property
    def total_tps(self) -> float:
        """All traffic between different executors."""
        return float(self._tps.sum())

    def of(self, place: IndexArray, node: IndexArray) -> tuple[FloatArray, FloatArray]:
        """Return the utilisation of every node, shape (P, N), and traffic between nodes in tuples/s, shape (P,).

        Parameters
        ----------
        place
            Container (worker or node) of each executor in each of P placements, shape (P, E); tuples between different
            ones are passed on.
        node
            Node of every executor, -1 for none, shape (P, E).
        """
        hops, between = zip(*self._passed_on(place, node), strict=True)
        load_hz = _sums(node, np.broadcast_to(self._cpu_hz, node.shape), len(self._capacity_hz))
        load_hz += self._hop_cycles * np.concatenate(hops)
        busy: FloatArray = load_hz / np.maximum(self._capacity_hz, 1.0)
        return busy, np.concatenate(between)

    def _passed_on(self, place: IndexArray, node: IndexArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield tuples/s that nodes write or read, and those between nodes, for a batch of placements."""
        a, b, tps = self.pairs.a, self.pairs.b, self._tps
        rows = max(_AT_ONCE // max(len(tps), 1), 1)
        for first in range(0, len(place), rows):
            some = slice(first, first + rows)
            node_a, node_b = node[some][:, a], node[some][:, b]
            both = (node_a != UNPLACED) & (node_b != UNPLACED)
            crossing = np.where(both & (place[some][:, a] != place[some][:, b]), tps, 0.0)
            num_nodes = len(self._capacity_hz)
            yield (
                _sums(node_a, crossing, num_nodes) + _sums(node_b, crossing, num_nodes),
                np.where(both & (node_a != node_b), tps, 0.0).sum(axis=1),
            )


def _sums(node: IndexArray, amount: FloatArray, num_nodes: int) -> FloatArray:
    """Return `amount` summed by node, row by row; node -1 is left out."""
    bins = node + 1 + (num_nodes + 1) * np.arange(len(node))[:, None]
    sums = np.bincount(bins.ravel(), amount.ravel(), len(node) * (num_nodes + 1))
    return sums.reshape(len(node), num_nodes + 1)[:, 1:].astype(np.float64)
