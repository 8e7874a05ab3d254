"""Bound on the cost for problems of any size: certificates of all topologies, and the capacity of nodes.

The traffic within a topology's workers is bounded by its certificate for their limit of executors, independent of other
topologies. Its *pieces* on nodes share these with those of others, so each topology has a few certificates, for
pieces of different sizes, and prices of capacity choose between them: prices, then the certificates that are best at
these, then new prices, until nothing changes (`_priced`). Every round gives a bound. If there are not too many
executors, a program of whole pieces gives others (`rounds`), and the least of all counts. Traffic within workers is
within their nodes as well, so it is no more than that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.optimize.bounds.relaxation.certificate import ROUNDING, Certificate
from stormwright.optimize.bounds.relaxation.multipliers import Multipliers
from stormwright.optimize.bounds.relaxation.semidefinite import approach, best_certificate
from stormwright.optimize.bounds.relaxation.sharing import PIECES, NodeSizes, share
from stormwright.optimize.bounds.relaxed import Relaxation
from stormwright.predict.bounds.program import Rows

#: Tolerances of the solver, relative to all traffic: of the value of an unknown, and of the best known solution.
_TOLERANCE, _PRUNED = 1e-7, 1e-6

#: The solver rounds half of this to 0: the least filling of a piece.
_SMALL = 2e-9

#: Fraction of the time for rounds; the rest is for whole pieces. Rounds that must have time in any case.
_ROUNDS_S, _ROUNDS = 0.7, 2

#: Relative improvement below which a round is the last one.
_ENOUGH = 2e-4

#: Most executors of a topology with a certificate: the time for it grows with their cube.
MAX_CERTIFIED = 1_200

#: Executors of a topology whose first certificate takes negligible time.
_AT_ONCE = 100

#: Numbers of piece sizes: those distinguished, and those with certificates: if these are all there will be, and if the
#: program of whole pieces asks for others.
_GRID, _LIMITS, _FIRST_LIMITS = 24, 3, 1

#: Most unknowns of a program of whole pieces, and the fraction of the time that is for it.
_MAX_UNKNOWNS, _FOR_PIECES = 50_000, 0.7


# Mixed-integer program of the traffic that all topologies together can keep on nodes, in whole pieces.
#
# A piece is the part of one topology on one node, and one of number q is larger than the previous size and no larger
# than its own (`sharing`). Executors may be divided between pieces here, but pieces may not. With x_eq the fraction of
# executor e in pieces of number q, and u_tqk how many of these topology t has on nodes of kind k::
#
#     Σ_t K_t  at most, where  K_t ≤ fixed_c + Σ_eq worth_ceq x_eq     for every certificate c of topology t
#     Σ_q x_eq = 1
#     above_q Σ_k u_tqk ≤ Σ_e size_e x_eq ≤ grid_q Σ_k u_tqk           their contents fill them
#     Σ_qk u_tqk ≤ groups_t
#     Σ_tq above_q u_tqk ≤ n_k size_k                                  capacity of nodes of kind k
#     Σ_tq [above_q ≥ size_k / (j + 1)] u_tqk ≤ j n_k                  places for large pieces, j = 1, 2, 3
#
# Prices (`sharing`) allow fractions of large pieces, and choose one certificate of each topology.
def unknowns(executors: int, topologies: int, room: NodeSizes) -> int:
    """Return the number of unknowns of the program."""
    return topologies + len(room.grid) * (executors + topologies * len(room.size))


class Pieces:
    """The program of pieces; every topology needs a certificate before it is solved.

    Parameters
    ----------
    sizes
        For each topology the size of each executor in its piece, shape (n,), n > 0.
    groups
        Maximum number of nodes of each topology.
    room
        The nodes, and the sizes of pieces.
    all_tps
        All traffic: more than 0.
    """

    def __init__(self, sizes: Sequence[FloatArray], groups: Sequence[int], room: NodeSizes, all_tps: float) -> None:
        self._room, self._unit = room, all_tps
        # As executors are in pieces once, and there are no more of these than groups, this many unknowns count.
        self._rounding = _PRUNED + _TOLERANCE * (sum(map(len, sizes)) + sum(groups) + len(sizes))
        numbers, kinds = len(room.grid), len(room.size)
        shapes = [(len(size), numbers) for size in sizes] + [(kinds, numbers)] * len(sizes)
        ends = np.cumsum([len(sizes), *(rows * columns for rows, columns in shapes)])
        blocks = [np.arange(end - a * b, end).reshape(a, b) for (a, b), end in zip(shapes, ends[1:], strict=True)]
        # Columns of K of each topology; x of each, shape (n, Q); and u of each, shape (K, Q).
        self._saved: IndexArray = np.arange(len(sizes))
        self._parts, self._pieces = blocks[: len(sizes)], blocks[len(sizes) :]
        self._upper = np.full(int(ends[-1]), np.inf)
        self._rows = Rows()
        for size, parts, pieces, most in zip(sizes, self._parts, self._pieces, groups, strict=True):
            self._upper[parts] = size[:, None] <= room.grid * (1 + ROUNDING)
            self._upper[pieces] = np.where(room.takes, np.inf, 0.0)
            self._fill(size, parts, pieces, most)
        self._share_nodes()

    def add(self, topology: int, fixed: float, worth: FloatArray) -> None:
        """Add a certificate: the most that every executor keeps in a piece of each number, (n, Q), and `fixed`."""
        worth = np.where(np.isfinite(worth), worth, 0.0)
        terms = [(self._saved[topology], 1.0), (self._parts[topology].ravel(), -worth.ravel() / self._unit)]
        self._rows.add((1,), terms, -np.inf, fixed / self._unit)

    def solve(self, until: float, *, whole: bool) -> tuple[float, list[FloatArray]]:
        """Return an upper bound on the local traffic, in tuples/s, and x of each topology; inf and none if out of time.

        Parameters
        ----------
        until
            Time of `time.perf_counter` at which the solver has to end.
        whole
            False to allow fractions of pieces: solved sooner.
        """
        limit_s = until - time.perf_counter()
        if limit_s <= 0:
            return np.inf, []
        goal, lower, integral = np.zeros((3, len(self._upper)))
        goal[self._saved], lower[self._saved] = -1.0, -np.inf
        for pieces in self._pieces:
            integral[pieces] = whole
        found = self._rows.minimise(goal, lower, self._upper, integral, {"time_limit": limit_s})
        if not np.isfinite(found.bound):
            return np.inf, []
        parts = [found.solution[parts] for parts in self._parts] if found.solution is not None else []
        return (self._rounding - found.bound) * self._unit, parts

    def _fill(self, size: FloatArray, parts: IndexArray, pieces: IndexArray, most: int) -> None:
        """Add: every executor is in pieces, and these are as full as their numbers state."""
        room, whole = self._room, self._room.grid[-1]
        numbers = len(room.grid)
        self._rows.add((len(parts),), [(parts, 1.0)], 1.0, 1.0)
        takes = np.where(size > 0, np.maximum(size / whole, _SMALL), 0.0)
        no_more, no_less = np.maximum(room.grid / whole, _SMALL), room.above / whole
        self._rows.add((numbers,), [(parts.T, size / whole), (pieces.T, -no_more[:, None])], -np.inf, 0.0)
        self._rows.add((numbers,), [(parts.T, takes), (pieces.T, -no_less[:, None])], 0.0, np.inf)
        self._rows.add((1,), [(pieces.ravel(), 1.0)], 0.0, most)

    def _share_nodes(self) -> None:
        """Add: all pieces fit on nodes."""
        room, whole = self._room, self._room.grid[-1]
        of_kind, above = np.concatenate(self._pieces, axis=1), np.tile(room.above, len(self._pieces))
        self._rows.add((len(room.size),), [(of_kind, above / whole)], 0.0, room.count * room.size / whole)
        for places in PIECES:
            large = above >= room.size[:, None] / (places + 1)
            self._rows.add((len(room.size),), [(of_kind, large.astype(float))], 0.0, places * room.count)


# Each certificate bounds the traffic of a topology in pieces of any size, but it is tight only for those that it was
# made for. So the program (`Pieces`) gives the best pieces for every executor, certificates are made for these, and so
# on: column generation, of which each round gives a bound.
@dataclass(frozen=True, eq=False)
class PiecedTopology:
    """A topology whose executors are divided into pieces.

    Parameters
    ----------
    tps
        Traffic of every two executors in both directions, shape (n, n), zero on the diagonal; n > 0.
    size
        Size of each executor in its piece, shape (n,).
    groups
        Maximum number of nodes of the topology.
    known
        Existing certificates: the constant of each, and the traffic that every executor keeps in a piece of each
        number, shape (n, Q), -inf if it does not fit.
    """

    tps: FloatArray
    size: FloatArray
    groups: int
    known: Sequence[tuple[float, FloatArray]]


def saved_in_pieces(topologies: Sequence[PiecedTopology], room: NodeSizes, until: float) -> float:
    """Return an upper bound on the traffic of topologies within nodes, in tuples/s; inf if time is too short for any.

    Parameters
    ----------
    topologies
        All that have executors.
    room
        The nodes, and the sizes of pieces.
    until
        Time of `time.perf_counter` at which the search has to end.
    """
    all_tps = sum(float(each.tps.sum()) / 2 for each in topologies)
    if not 0 < all_tps < np.inf:
        return all_tps
    program = Pieces([each.size for each in topologies], [each.groups for each in topologies], room, all_tps)
    for number, each in enumerate(topologies):
        for fixed, worth in each.known:
            program.add(number, fixed, worth)
    now = time.perf_counter()
    rounds_until = now + (until - now) * _ROUNDS_S
    best, parts = program.solve(until, whole=False)
    under_way = [_TopologyBound(number, each, room) for number, each in enumerate(topologies) if each.groups > 1]
    before = np.inf
    while parts and best < before * (1 - _ENOUGH) and time.perf_counter() < rounds_until:
        before = best
        for left, topology in zip(range(len(under_way), 0, -1), under_way, strict=True):
            now = time.perf_counter()
            its_part_s = (rounds_until - now) / (_ROUNDS * left)
            found = topology.better(parts[topology.number], now + its_part_s)
            if found:
                program.add(topology.number, *found)
        saved, parts = program.solve(until, whole=False)
        best = min(best, saved)
    return min(best, program.solve(until, whole=True)[0])


class _TopologyBound:
    """A topology, and the multipliers that its certificates come from."""

    def __init__(self, number: int, topology: PiecedTopology, room: NodeSizes) -> None:
        self.number = number
        self._size, self._grid = topology.size, room.grid
        limits = np.full(len(topology.size), topology.size.sum())
        self._multipliers = Multipliers(topology.tps, topology.size, limits, topology.groups)

    def better(self, parts: FloatArray, until: float) -> tuple[float, FloatArray] | None:
        """Return the best certificate until the deadline, given the fractions of executors in pieces of each number."""
        found: list[tuple[float, FloatArray]] = []
        values: list[float] = []

        def saved(certificate: Certificate) -> float:
            fixed, worth = certificate.in_pieces(self._grid)
            found.append((fixed, worth))
            values.append(fixed + float((np.where(np.isfinite(worth), worth, 0.0) * parts).sum()))
            return values[-1]

        self._multipliers.limits = np.clip(parts @ self._grid, self._size, self._size.sum())
        for _ in approach(self._multipliers, saved, until, triangles=True):
            pass
        return found[int(np.argmin(values))] if found else None


class RelaxedBound:
    """Bound by certificates of all topologies, for problems of any size.

    Only the scarcest resource is considered.

    Parameters
    ----------
    relaxed
        Traffic, demands, capacities and numbers of workers of the problem.
    """

    def __init__(self, relaxed: Relaxation) -> None:
        self._relaxed = relaxed
        self._size, capacity = _scarcest(relaxed)
        sizes, counts = np.unique(capacity, return_counts=True)
        steps = capacity.max() * np.arange(1, _GRID) / _GRID
        self._room = NodeSizes(sizes, counts.astype(float), np.unique(np.concatenate([steps, sizes])))
        count = unknowns(len(self._size), len(relaxed.workers), self._room)
        self._small = count <= _MAX_UNKNOWNS and int(np.diff(relaxed.first).max(initial=0)) <= MAX_CERTIFIED
        self._made: dict[tuple[int, int], FloatArray] = {}

    def run(self, budget_s: float) -> float:
        """Return the bound after about `budget_s` seconds, or as soon as it cannot be improved.

        Topologies get an equal part of the time that is left, in the order of their numbers. For those of more than
        1,200 executors, and those of more than 100 without any time left, all of their traffic counts as local.
        """
        relaxed = self._relaxed
        until = time.perf_counter() + budget_s * (1 - _FOR_PIECES if self._small else 1.0)
        apart = 0.0  # what costs the more because workers cannot hold it
        options: list[list[tuple[float, FloatArray]]] = []
        spans = list(pairwise(relaxed.first.tolist()))
        spans_left = len(spans)
        for topology, (first, last) in enumerate(spans):
            now = time.perf_counter()
            seconds = max(0.0, until - now) / spans_left * 0.9
            spans_left -= 1
            if first == last:
                options.append([(0.0, np.zeros((0, len(self._room.grid))))])
                continue
            tps = None
            if last - first <= MAX_CERTIFIED and (seconds > 0 or last - first <= _AT_ONCE):
                tps = self._tps_between(first, last)
            apart += self._split_in_workers(topology, tps, now + seconds / 3)
            options.append(list(self._options(topology, tps, now + seconds)))
        saved = self._priced(options, until)
        if self._small:
            saved = min(saved, self._in_pieces(options, until + budget_s * _FOR_PIECES))
        return relaxed.base - relaxed.near * saved - relaxed.inner * min(saved, relaxed.total_tps - apart)

    def _tps_between(self, first: int, last: int) -> FloatArray:
        """Return the result of `Relaxation.tps_between`; cached if the program of whole pieces needs it, too."""
        if not self._small:
            return self._relaxed.tps_between(first, last)
        if (first, last) not in self._made:
            self._made[first, last] = self._relaxed.tps_between(first, last)
        return self._made[first, last]

    def _split_in_workers(self, topology: int, tps: FloatArray | None, until: float) -> float:
        """Return traffic of a topology, in tuples/s, that is between its workers in any placement."""
        workers, most = int(self._relaxed.workers[topology]), int(self._relaxed.most[topology])
        if workers <= 1 or tps is None:
            return 0.0
        certificate = best_certificate(tps, np.ones(len(tps)), float(most), workers, until, triangles=True)
        return max(0.0, float(tps.sum()) / 2 - certificate.most_saved(float(most)))

    def _options(self, topology: int, tps: FloatArray | None, until: float) -> Iterator[tuple[float, FloatArray]]:
        """Yield certificates of a topology: the constant, and the most that every executor keeps by piece size."""
        first, last = int(self._relaxed.first[topology]), int(self._relaxed.first[topology + 1])
        size, grid = self._size[first:last], self._room.grid
        if tps is None:
            sums = np.concatenate([[0.0], np.cumsum(self._relaxed.links.tps)])
            own = np.diff(sums[self._relaxed.links.first[first : last + 1]]) / 2
            yield 0.0, np.repeat(own[:, None], len(grid), axis=1)
            return
        groups = self._groups(topology)
        # Smaller pieces than these could not take all executors.
        limits = grid[(grid < size.sum()) & (grid >= max(size.max(), 1.1 * size.sum() / groups))]
        yield Certificate(tps / 2, size, 0.0).in_pieces(grid)
        if groups <= 1 or not len(limits):
            return
        count = _FIRST_LIMITS if self._small else _LIMITS
        chosen = np.unique(limits[np.linspace(0, len(limits) - 1, count).astype(int)])[::-1]
        for number, limit in enumerate(chosen.tolist()):
            now = time.perf_counter()
            if now > until:
                return
            each = now + (until - now) / (len(chosen) - number)
            yield best_certificate(tps, size, limit, groups, each, triangles=True).in_pieces(grid)

    def _groups(self, topology: int) -> int:
        """Return the most nodes of a topology."""
        return int(min(self._relaxed.workers[topology], max(len(self._relaxed.ports), 1)))

    def _in_pieces(self, options: list[list[tuple[float, FloatArray]]], until: float) -> float:
        """Return the most that whole pieces on nodes keep."""
        first = self._relaxed.first.tolist()
        topologies = [
            PiecedTopology(self._tps_between(start, end), self._size[start:end], self._groups(number), options[number])
            for number, (start, end) in enumerate(pairwise(first))
            if start < end
        ]
        return saved_in_pieces(topologies, self._room, until)

    def _priced(self, options: list[list[tuple[float, FloatArray]]], until: float) -> float:
        """Return the most that pieces on nodes keep, with the best certificate of each topology at the prices found."""
        price = np.zeros(len(self._room.grid))
        best = np.inf
        chosen: list[int] = []
        while True:
            picks = [self._pick(each, price, number) for number, each in enumerate(options)]
            if picks == chosen:
                return best
            chosen = picks
            worth = np.vstack([each[pick][1] for each, pick in zip(options, picks, strict=True)])
            fixed = sum(each[pick][0] for each, pick in zip(options, picks, strict=True))
            saved, price = share(worth, self._size, self._room, until)
            if saved + fixed >= best:
                return best
            best = saved + fixed
            if time.perf_counter() > until:
                return best

    def _pick(self, options: list[tuple[float, FloatArray]], price: FloatArray, topology: int) -> int:
        """Return the number of a topology's certificate that keeps least at these prices; the first of equal ones."""
        size = self._size[self._relaxed.first[topology] : self._relaxed.first[topology + 1], None]
        saved = [fixed + float((worth - size * price).max(axis=1, initial=-np.inf).sum()) for fixed, worth in options]
        return int(np.argmin(saved))


def _scarcest(relaxed: Relaxation) -> tuple[FloatArray, FloatArray]:
    """Return the use and capacity of the scarcest resource, shapes (E,) and (n,).

    Nodes without a limit have capacity for all, those without any capacity take no part; and if some executor fits on
    no node, so that nothing is valid, it limits nothing.
    """
    requested = relaxed.demand.sum(axis=1)
    had = np.where(np.isfinite(relaxed.capacity), relaxed.capacity, requested[:, None])
    total = had.sum(axis=1)
    scarcest = int(np.argmax(np.divide(requested, total, out=np.zeros(len(requested)), where=total > 0)))
    size, capacity = relaxed.demand[scarcest], had[scarcest]
    capacity = capacity[capacity > 0]
    fits = len(capacity) and capacity.max() >= size.max(initial=0.0)
    return size, capacity if fits else np.full(max(len(relaxed.ports), 1), size.sum() or 1.0)
