"""What all topologies together can keep on nodes, in whole pieces: a mixed-integer program.

A piece is what one topology has on one node, and one of number q is larger than the size before and no larger than its
own (`sharing`). Executors may be divided between pieces here, but pieces may not. With x_eq the part of executor e in
pieces of number q, and u_tqk how many of these topology t has on nodes of kind k::

    Σ_t K_t  at most, where  K_t ≤ fixed_c + Σ_eq worth_ceq x_eq     for every certificate c of topology t
    Σ_q x_eq = 1
    above_q Σ_k u_tqk ≤ Σ_e size_e x_eq ≤ grid_q Σ_k u_tqk           what is in them fills them
    Σ_qk u_tqk ≤ groups_t
    Σ_tq above_q u_tqk ≤ n_k size_k                                  room on nodes of kind k
    Σ_tq [above_q ≥ size_k / (j + 1)] u_tqk ≤ j n_k                  places for large pieces, j = 1, 2, 3

Prices (`sharing`) let topologies have parts of large pieces, and choose one certificate of each.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.optimize.bounds.relaxation.certificate import ROUNDING
from stormwright.optimize.bounds.relaxation.sharing import PIECES, NodeSizes
from stormwright.predict.bounds.program import Rows

#: By so much an unknown may be worth more than the solver takes it to be, and a solution more than the best that it
#: knows; in parts of all traffic: its tolerances.
_TOLERANCE, _PRUNED = 1e-7, 1e-6

#: Numbers as small as a half of this the solver takes for 0: what fills a piece counts as this much at least.
_SMALL = 2e-9


def unknowns(executors: int, topologies: int, room: NodeSizes) -> int:
    """How many the program has."""
    return topologies + len(room.grid) * (executors + topologies * len(room.size))


class Pieces:
    """The program; every topology needs a certificate before it is solved.

    Parameters
    ----------
    sizes
        Of each topology what each executor takes of its piece, shape (n,), n > 0.
    groups
        On so many nodes each topology is at most.
    room
        The nodes, and the sizes of pieces.
    all_tps
        All traffic: more than 0.
    """

    def __init__(self, sizes: Sequence[FloatArray], groups: Sequence[int], room: NodeSizes, all_tps: float) -> None:
        self._room, self._unit = room, all_tps
        # As executors are in pieces once, and there are no more of these than groups, so many unknowns count.
        self._rounding = _PRUNED + _TOLERANCE * (sum(map(len, sizes)) + sum(groups) + len(sizes))
        numbers, kinds = len(room.grid), len(room.size)
        shapes = [(len(size), numbers) for size in sizes] + [(kinds, numbers)] * len(sizes)
        ends = np.cumsum([len(sizes), *(rows * columns for rows, columns in shapes)])
        blocks = [np.arange(end - a * b, end).reshape(a, b) for (a, b), end in zip(shapes, ends[1:], strict=True)]
        # Where K of each topology stands; x of each, shape (n, Q); and u of each, shape (K, Q).
        self._kept: IndexArray = np.arange(len(sizes))
        self._parts, self._pieces = blocks[: len(sizes)], blocks[len(sizes) :]
        self._upper = np.full(int(ends[-1]), np.inf)
        self._rows = Rows()
        for size, parts, pieces, most in zip(sizes, self._parts, self._pieces, groups, strict=True):
            self._upper[parts] = size[:, None] <= room.grid * (1 + ROUNDING)
            self._upper[pieces] = np.where(room.takes, np.inf, 0.0)
            self._fill(size, parts, pieces, most)
        self._share_nodes()

    def add(self, topology: int, fixed: float, worth: FloatArray) -> None:
        """Add a certificate: what every executor keeps in a piece of each number at most, shape (n, Q), and `fixed`."""
        worth = np.where(np.isfinite(worth), worth, 0.0)
        terms = [(self._kept[topology], 1.0), (self._parts[topology].ravel(), -worth.ravel() / self._unit)]
        self._rows.add((1,), terms, -np.inf, fixed / self._unit)

    def solve(self, until: float, *, whole: bool) -> tuple[float, list[FloatArray]]:
        """Upper bound on what is kept, in tuples/s, and x of each topology; inf and none where time does not suffice.

        Parameters
        ----------
        until
            Of `time.perf_counter`.
        whole
            False where there may be parts of pieces: solved sooner.
        """
        limit_s = until - time.perf_counter()
        if limit_s <= 0:
            return np.inf, []
        goal, lower, integral = np.zeros((3, len(self._upper)))
        goal[self._kept], lower[self._kept] = -1.0, -np.inf
        for pieces in self._pieces:
            integral[pieces] = whole
        found = self._rows.minimise(goal, lower, self._upper, integral, {"time_limit": limit_s})
        if not np.isfinite(found.bound):
            return np.inf, []
        parts = [found.solution[parts] for parts in self._parts] if found.solution is not None else []
        return (self._rounding - found.bound) * self._unit, parts

    def _fill(self, size: FloatArray, parts: IndexArray, pieces: IndexArray, most: int) -> None:
        """Every executor is in pieces, and these are as full as their numbers say."""
        room, whole = self._room, self._room.grid[-1]
        numbers = len(room.grid)
        self._rows.add((len(parts),), [(parts, 1.0)], 1.0, 1.0)
        takes = np.where(size > 0, np.maximum(size / whole, _SMALL), 0.0)
        no_more, no_less = np.maximum(room.grid / whole, _SMALL), room.above / whole
        self._rows.add((numbers,), [(parts.T, size / whole), (pieces.T, -no_more[:, None])], -np.inf, 0.0)
        self._rows.add((numbers,), [(parts.T, takes), (pieces.T, -no_less[:, None])], 0.0, np.inf)
        self._rows.add((1,), [(pieces.ravel(), 1.0)], 0.0, most)

    def _share_nodes(self) -> None:
        """All pieces have room on nodes."""
        room, whole = self._room, self._room.grid[-1]
        of_kind, above = np.concatenate(self._pieces, axis=1), np.tile(room.above, len(self._pieces))
        self._rows.add((len(room.size),), [(of_kind, above / whole)], 0.0, room.count * room.size / whole)
        for places in PIECES:
            large = above >= room.size[:, None] / (places + 1)
            self._rows.add((len(room.size),), [(of_kind, large.astype(float))], 0.0, places * room.count)
