"""Bound on the traffic of all topologies within nodes, given that they share these.

A piece is the part of one topology on one node. An executor in a piece of size q keeps at most the worth of its row of
the topology's certificate (`semidefinite`) for groups of size q. Prices for the capacity of nodes of every kind, and
for the places of pieces of which a node holds at most one, two or three, bound the traffic within all pieces:
Lagrangian duality, so any prices give a bound. Good ones are found by cutting planes (J. E. Kelley, "The Cutting-Plane
Method for Solving Convex Programs", Journal of SIAM 8, 1960, https://doi.org/10.1137/0108053).

With λ_k the price of capacity on nodes of kind k, size_k and n_k their size and number, and μ_kj that of the j places
which such a node has for pieces larger than 1/(j + 1) of it::

    bound = Σ_k n_k (λ_k size_k + Σ_j j μ_kj) + Σ_e max_q (worth_eq - size_e · price_q)
    price_q = min over kinds k that take q of  λ_k + Σ_{j: q is so large on k} μ_kj / q

A piece pays for its place by its contents, at most 1/q of a place for each unit of size: a bound, as pieces of number
q are no larger than q.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import linprog

from stormwright.model.arrays import BoolArray, FloatArray

#: Most pieces of a node larger than 1/2, 1/3, 1/4 of it.
PIECES = np.array([1.0, 2.0, 3.0])

#: Most cutting planes, and the relative tolerance of the bound.
_ROUNDS, _ENOUGH = 80, 1e-4


@dataclass(frozen=True)
class NodeSizes:
    """Nodes by capacity.

    Parameters
    ----------
    size, count
        Size and number of nodes of every kind, shape (K,).
    grid
        Sizes of pieces, increasing, the last that of the largest node, shape (Q,). A piece of number k is larger than
        the previous size and no larger than its own.
    """

    size: FloatArray
    count: FloatArray
    grid: FloatArray

    @cached_property
    def above(self) -> FloatArray:
        """Lower limit of the size of every piece, shape (Q,)."""
        return np.concatenate([[0.0], self.grid[:-1]])

    @cached_property
    def takes(self) -> BoolArray:
        """Whether a node of every kind may take a piece of every number, shape (K, Q)."""
        found: BoolArray = self.above < self.size[:, None]
        return found

    @cached_property
    def places(self) -> FloatArray:
        """Places for large pieces that a piece takes per unit of its size; shape (K, 3, Q)."""
        large = self.above >= self.size[:, None, None] / (PIECES[:, None] + 1)
        return np.where(large, 1 / self.grid, 0.0)


def share(worth: FloatArray, size: FloatArray, room: NodeSizes, until: float = math.inf) -> tuple[float, FloatArray]:
    """Return an upper bound on the local traffic of all executors, and the price of capacity by piece, shape (Q,).

    Better prices are searched until the deadline (of `time.perf_counter`).

    Parameters
    ----------
    worth
        The most that each executor keeps in pieces of every number, -inf if it does not fit, shape (E, Q).
    size
        Size of each executor in its piece, shape (E,).
    room
        The nodes, and the sizes of pieces.
    until
        Deadline; the first prices, all zero, are evaluated in any case.
    """
    kinds = len(room.size)
    held = np.concatenate([room.size * room.count, (room.count[:, None] * PIECES).ravel()])
    scale = float(size.sum()) or 1.0
    prices = np.zeros(len(held))
    # No price is useful above the highest worth of an executor per size; prices are in this unit.
    finite = np.where(np.isfinite(worth), worth, 0.0)
    unit = np.concatenate([np.full(kinds, 1 / scale), np.full(3 * kinds, float(np.median(room.grid)) / scale)]) * max(
        float(finite.max(axis=1).sum()), 1e-300
    )
    best, best_price = np.inf, np.zeros(len(room.grid))
    planes: list[FloatArray] = []
    heights: list[float] = []
    for _ in range(_ROUNDS):
        value, slope, price = _evaluate(worth, size, room, held, prices * unit)
        if value < best:
            best, best_price = value, price
        planes.append(slope * unit)
        heights.append(value - float(slope * unit @ prices))
        left_s = until - time.perf_counter()
        if left_s <= 0:
            break
        rows = np.column_stack([np.array(planes), -np.ones(len(planes))])
        found = linprog(
            np.append(np.zeros(len(held)), 1.0),
            A_ub=rows,
            b_ub=-np.array(heights),
            bounds=[(0.0, 20.0)] * len(held) + [(None, None)],
            method="highs",
            options={"time_limit": left_s} if left_s < math.inf else {},
        )
        if found.x is None or found.fun >= best * (1 - _ENOUGH):
            break
        prices = np.maximum(found.x[:-1], 0.0)
    return best, best_price


def _evaluate(
    worth: FloatArray, size: FloatArray, room: NodeSizes, held: FloatArray, prices: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Return the bound at some prices, its subgradient, and the price of capacity in a piece of every number."""
    kinds = len(room.size)
    of_size, of_places = prices[:kinds], prices[kinds:].reshape(kinds, 3)
    by_kind = of_size[:, None] + np.einsum("kj,kjq->kq", of_places, room.places)
    by_kind = np.where(room.takes, by_kind, np.inf)
    cheapest = np.argmin(by_kind, axis=0)
    numbers = np.arange(len(room.grid))
    price = by_kind[cheapest, numbers]
    net = worth - size[:, None] * price
    chosen = np.argmax(net, axis=1)
    used = np.bincount(chosen, size, len(room.grid))
    slope = held.copy()
    np.add.at(slope, cheapest, -used)
    np.add.at(slope[kinds:].reshape(kinds, 3), cheapest, -used[:, None] * room.places[cheapest, :, numbers])
    value = float(held @ prices) + float(net[np.arange(len(net)), chosen].sum())
    return value, slope, price
