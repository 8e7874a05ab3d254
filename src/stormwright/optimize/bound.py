"""A proven bound on the cost of any valid placement: exact where there are few executors, else a relaxation.

What traffic costs is what it would cost all between nodes, less what is saved by keeping it on nodes and in workers.
Small problems: `exact` proves how much can be saved. Larger ones: semidefinite certificates of each topology bound what
its workers keep, and what its pieces on nodes keep (`semidefinite`), and prices for the room on nodes bring the
topologies together (`sharing`). Whatever is bounded is valid at any time, so both may be ended when time is over.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from stormwright.model import CostWeights, Problem, cost_of, violations
from stormwright.model.arrays import FloatArray, IndexArray, IntArray
from stormwright.optimize.exact import Column, Kind, Proof
from stormwright.optimize.node_sets import Executors
from stormwright.optimize.relaxed import Relaxed, cost_of_pairs
from stormwright.optimize.semidefinite import Certificate, certificates
from stormwright.optimize.sharing import Room, share

#: Executors of a problem that is solved exactly, if time allows, and of a topology that a certificate is made for.
MOST_EXACT, MOST_CERTIFIED = 40, 1_200

#: Part of the time that is kept back for the relaxation, where a proof is not complete by then.
_SPARE = 0.15

#: Part of all traffic that rounding takes from a bound, and within which a bound proves the optimum.
_ROUNDING = 4e-9

#: Sizes of pieces that are told apart, and those that a topology gets certificates for.
_GRID, _LIMITS = 24, 3

#: A certificate is as good as it gets when the next ones are better by less than this part of the traffic.
_SLOW, _PATIENCE = 2e-4, 4


@dataclass(frozen=True)
class Bound:
    """No valid placement costs less than `cost`; whether the placement asked about is proven to be the best."""

    cost: float
    optimal: bool

    def figures(self, problem: Problem, slots: IntArray) -> dict[str, Any]:
        """Cost of a placement, the bound, and the gap between them in parts of the cost, for programs."""
        cost = cost_of(problem, slots).total
        gap = max(0.0, 1 - self.cost / cost) if cost > 0 and not self.optimal else 0.0
        return {"cost": cost, "bound": self.cost, "gap": gap, "optimal": self.optimal}


def bound_cost(problem: Problem, slots: IntArray, budget_s: float, weights: CostWeights | None = None) -> Bound:
    """A bound on the cost of valid placements, found within about `budget_s` seconds.

    Parameters
    ----------
    slots
        A good placement, shape (E,): the better it is, the sooner it is proven to be the best.
    """
    _compile()
    until = time.perf_counter() + budget_s
    weights = weights or CostWeights()
    relaxed = Relaxed.of(problem, weights)
    rounding = _ROUNDING * relaxed.base
    valid = not violations(problem, slots)
    if problem.num_executors <= MOST_EXACT and valid:
        found, sure = _exact(problem, relaxed, slots, weights, until - _SPARE * budget_s)
        if not sure:
            found = max(found, RelaxedBound(relaxed).run(_SPARE * budget_s))
    else:
        found = RelaxedBound(relaxed).run(budget_s)
    cost = max(float(found) - rounding, 0.0)
    return Bound(cost, bool(valid and cost_of(problem, slots, weights).total <= cost + 2 * rounding))


def _exact(
    problem: Problem, relaxed: Relaxed, slots: IntArray, weights: CostWeights, until: float
) -> tuple[float, bool]:
    """The least cost, or what it was proven to be at least; and whether that is sure to be all that can be proven."""
    tps = relaxed.tps_between(0, problem.num_executors)
    order = np.argsort(-tps.sum(axis=1), kind="stable")
    executors = Executors(
        np.ascontiguousarray(tps[np.ix_(order, order)]),
        np.ascontiguousarray(relaxed.demand[:, order]),
        problem.executor_topology[order].astype(np.int64),
        relaxed.most,
        relaxed.near,
        relaxed.inner,
    )
    alike, kind_of, counts = np.unique(
        np.vstack([relaxed.capacity, relaxed.ports]).T, axis=0, return_inverse=True, return_counts=True
    )
    kinds = [Kind(row[:-1].copy(), int(row[-1]), int(count)) for row, count in zip(alike, counts, strict=True)]
    known = relaxed.base - cost_of_pairs(problem, slots, weights)
    columns = list(_columns(problem, executors, slots[order], kind_of.ravel()))
    proof = Proof(executors, relaxed.workers, kinds, columns, known)
    sure = proof.run(until)
    return relaxed.base - proof.most, sure


def _columns(problem: Problem, executors: Executors, slots: IntArray, kind_of: IndexArray) -> Iterator[Column]:
    """What nodes have in a placement."""
    node = problem.slot_node[slots]
    for number in np.unique(node).tolist():
        own = node == number
        uses = np.unique(np.stack([slots[own], executors.topology[own]]), axis=1)
        inside = executors.tps[np.ix_(own, own)].sum() / 2
        together = slots[own][:, None] == slots[own][None, :]
        in_workers = executors.tps[np.ix_(own, own)][together].sum() / 2
        yield Column(
            bits=sum(1 << executor for executor in np.flatnonzero(own).tolist()),
            workers=np.bincount(uses[1], minlength=len(executors.most)),
            kept=float(executors.near * inside + executors.inner * in_workers),
            kinds=(int(kind_of[number]),),
        )


class RelaxedBound:
    """Certificates of all topologies, and what they amount to together: a bound without a limit of size."""

    def __init__(self, relaxed: Relaxed) -> None:
        self._relaxed = relaxed
        used = relaxed.demand.sum(axis=1) / np.maximum(relaxed.capacity.sum(axis=1), 1e-300)
        scarcest = int(np.argmax(np.where(np.isfinite(used), used, 0.0)))
        self._size, capacity = relaxed.demand[scarcest], relaxed.capacity[scarcest]
        sizes, counts = np.unique(capacity, return_counts=True)
        largest = sizes[-1] if len(sizes) else 0.0
        steps = largest * np.arange(1, _GRID) / _GRID
        self._room = Room(sizes, counts.astype(float), np.unique(np.concatenate([steps, sizes])))

    def run(self, budget_s: float) -> float:
        """The bound after about so many seconds, or as soon as nothing more is to be gained."""
        until = time.perf_counter() + budget_s
        relaxed = self._relaxed
        apart = 0.0  # what costs the more because workers cannot hold it
        options: list[list[tuple[float, FloatArray]]] = []
        spans = list(zip(relaxed.first[:-1].tolist(), relaxed.first[1:].tolist(), strict=True))
        spans_left = len(spans)
        for topology, (first, last) in enumerate(spans):
            now = time.perf_counter()
            seconds = max(0.0, until - now) / spans_left * 0.9
            spans_left -= 1
            if first == last:
                options.append([(0.0, np.zeros((0, len(self._room.grid))))])
                continue
            tps = relaxed.tps_between(first, last) if last - first <= MOST_CERTIFIED else None
            apart += self._apart_in_workers(topology, tps, now + seconds / 3)
            options.append(list(self._options(topology, tps, now + seconds)))
        return relaxed.base - relaxed.near * self._kept(options) - relaxed.inner * (relaxed.total_tps - apart)

    def _apart_in_workers(self, topology: int, tps: FloatArray | None, until: float) -> float:
        """Traffic of a topology, in tuples/s, that is between its workers in any placement."""
        workers, most = int(self._relaxed.workers[topology]), int(self._relaxed.most[topology])
        if workers <= 1 or tps is None:
            return 0.0
        certificate = _best(tps, np.ones(len(tps)), float(most), workers, until)
        return max(0.0, float(tps.sum()) / 2 - certificate.most_kept(float(most)))

    def _options(self, topology: int, tps: FloatArray | None, until: float) -> Iterator[tuple[float, FloatArray]]:
        """Certificates of a topology: what each adds, and what every executor keeps in a piece of each size at most."""
        first, last = int(self._relaxed.first[topology]), int(self._relaxed.first[topology + 1])
        size, grid = self._size[first:last], self._room.grid
        if tps is None:
            sums = np.concatenate([[0.0], np.cumsum(self._relaxed.links.tps)])
            own = np.diff(sums[self._relaxed.links.first[first : last + 1]]) / 2
            yield 0.0, np.repeat(own[:, None], len(grid), axis=1)
            return
        groups = int(min(self._relaxed.workers[topology], len(self._relaxed.ports)))
        # Smaller pieces than these could not take all executors.
        limits = grid[(grid < size.sum()) & (grid >= max(size.max(), 1.1 * size.sum() / groups))]
        yield _rows(Certificate(tps / 2, size, 0.0), grid)
        if groups <= 1 or not len(limits):
            return
        chosen = np.unique(limits[np.linspace(0, len(limits) - 1, _LIMITS).astype(int)])[::-1]
        for number, limit in enumerate(chosen.tolist()):
            now = time.perf_counter()
            each = now + (until - now) / (len(chosen) - number)
            yield _rows(_best(tps, size, limit, groups, each), grid)

    def _kept(self, options: list[list[tuple[float, FloatArray]]]) -> float:
        """What pieces on nodes keep at most, with the certificate of each topology that is best at the prices found."""
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
            kept, price = share(worth, self._size, self._room)
            if kept + fixed >= best:
                return best
            best = kept + fixed

    def _pick(self, options: list[tuple[float, FloatArray]], price: FloatArray, topology: int) -> int:
        size = self._size[self._relaxed.first[topology] : self._relaxed.first[topology + 1], None]
        kept = [fixed + float((worth - size * price).max(axis=1, initial=-np.inf).sum()) for fixed, worth in options]
        return int(np.argmin(kept))


def _rows(certificate: Certificate, grid: FloatArray) -> tuple[float, FloatArray]:
    return certificate.fixed, np.stack([certificate.rows_kept(limit) for limit in grid.tolist()], axis=1)


def _best(tps: FloatArray, size: FloatArray, limit: float, groups: int, until: float) -> Certificate:
    """The best certificate for groups of size `limit` that is found until then."""
    best, least, slow = Certificate(tps / 2, size, 0.0), np.inf, 0
    enough = _SLOW * float(tps.sum()) / 2
    for certificate in certificates(tps, size, limit, groups):
        kept = certificate.most_kept(limit)
        slow = slow + 1 if kept > least - enough else 0
        if kept < least:
            best, least = certificate, kept
        if time.perf_counter() > until or slow > _PATIENCE:
            return best
    return best


@cache
def _compile() -> None:
    """Have the machine code ready before any clock runs."""
    tps = np.array([[0.0, 1.0], [1.0, 0.0]])
    one, none = np.ones(1, np.int64), np.zeros(2, np.int64)
    executors = Executors(tps, np.ones((1, 2)), none, 2 * one, 0.8, 0.2)
    apart = [Column(1 << number, one, 0.0, (0,)) for number in range(2)]
    Proof(executors, one, [Kind(2 * np.ones(1), 1, 2)], apart, 0.5).run(np.inf)
    _best(tps, np.ones(2), 1.0, 2, 0.0)
