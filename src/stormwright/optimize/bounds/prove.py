"""Proven lower bound of the cost of any valid placement: exact for few executors, else by a relaxation.

The cost of traffic is its cost if all of it went between nodes, minus the savings of traffic local to nodes and
workers. Small problems: `exact` proves the most that can be saved. Larger ones: semidefinite certificates of each
topology bound the traffic within its workers, and within its pieces on nodes (`semidefinite`), and prices for capacity
of nodes (`sharing`) or a program of whole pieces (`rounds`) combine the topologies. Every bound is valid at any time,
so all steps may be stopped when time is over.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from stormwright.model import UNPLACED, CostWeights, Problem, cost_of, violations
from stormwright.model.arrays import FloatArray, IndexArray, IntArray
from stormwright.optimize.bounds.relaxation.relaxed_bound import RelaxedBound
from stormwright.optimize.bounds.relaxation.semidefinite import best_certificate
from stormwright.optimize.bounds.relaxed import Relaxation, cost_of_pairs
from stormwright.optimize.bounds.sets.combinations import EnumerationInput, ProofGap, compile_loops
from stormwright.optimize.bounds.sets.exact import KnownSet, Proof
from stormwright.optimize.bounds.sets.small_problem import Executors, Kind, Scratch, SetPrices

#: Most executors of a problem that is solved exactly, if time allows.
MAX_EXACT = 40

#: Most seconds for the certificate of a topology that is part of an exact proof.
_CERTIFY_S = 0.5

#: Fraction of the time, and most seconds, reserved for the relaxation if a proof is not complete by then.
_SPARE, _MAX_SPARE_S = 0.15, 1.0

#: Relative rounding margin of a bound, and tolerance within which it proves the optimum: of relaxations, which are as
#: exact as their solvers, and of complete proofs, where only sums are rounded.
_ROUNDING, _ROUNDING_OF_SUMS = 4e-9, 4e-11


@dataclass(frozen=True)
class Bound:
    """Lower bound `cost` of all valid placements; whether the given placement is proven to be optimal."""

    cost: float
    optimal: bool

    def figures(self, problem: Problem, slots: IntArray) -> dict[str, Any]:
        """Return the cost of a placement, the bound, and the relative gap between them, for programs.

        There is no gap (None) if executors are unplaced: the cost of the others is not that of all. `flows` is the
        fraction of all traffic that follows the placement, which a bound counts as free (`relaxed`).
        """
        cost = cost_of(problem, slots).total
        gap: float | None = max(0.0, 1 - self.cost / cost) if cost > 0 and not self.optimal else 0.0
        if np.any(slots == UNPLACED):
            gap = None
        flow_tps = sum(float(load.flow_tps.sum()) for load in problem.loads)
        all_tps = sum(float(load.pair_tps.sum()) for load in problem.loads) + flow_tps
        flows = flow_tps / all_tps if all_tps else 0.0
        return {"cost": cost, "bound": self.cost, "gap": gap, "optimal": self.optimal, "flows": flows}


def bound_cost(problem: Problem, slots: IntArray, budget_s: float, weights: CostWeights | None = None) -> Bound:
    """Return a bound on the cost of valid placements, found within about `budget_s` seconds.

    Parameters
    ----------
    problem
        Problem of any size; up to 40 executors are solved exactly.
    slots
        A good placement, shape (E,): the better it is, the sooner it is proven to be optimal.
    budget_s
        Time limit in seconds, without compilation.
    weights
        Cost of a tuple by distance; the default costs if not given.
    """
    ready_bound()
    spare_s = min(_SPARE * budget_s, _MAX_SPARE_S)
    until = time.perf_counter() + budget_s - spare_s
    weights = weights or CostWeights()
    relaxed = Relaxation.of(problem, weights)
    valid = not violations(problem, slots)
    if not problem.num_executors:
        return Bound(0.0, valid)
    if problem.num_executors <= MAX_EXACT and valid:
        found, sure = _exact(problem, relaxed, slots, weights, until)
        if not sure:
            found = max(found, RelaxedBound(relaxed).run(spare_s))
    else:
        found, sure = RelaxedBound(relaxed).run(budget_s), False
    rounding = (_ROUNDING_OF_SUMS if sure else _ROUNDING) * relaxed.base
    cost = min(max(float(found) - rounding, 0.0), relaxed.base)
    return Bound(cost, bool(valid and cost_of(problem, slots, weights).total <= cost + 2 * rounding))


def _exact(
    problem: Problem, relaxed: Relaxation, slots: IntArray, weights: CostWeights, until: float
) -> tuple[float, bool]:
    """Return the least cost, or a lower bound of it; and whether that is all that can be proven."""
    tps = relaxed.tps_between(0, problem.num_executors)
    order = np.argsort(-tps.sum(axis=1), kind="stable")
    pair, own = _most_worth(relaxed, tps)
    executors = Executors(
        np.ascontiguousarray(tps[np.ix_(order, order)]),
        np.ascontiguousarray(relaxed.demand[:, order]),
        problem.executor_topology[order].astype(np.int64),
        relaxed.most,
        relaxed.workers * relaxed.most - np.diff(relaxed.first),
        relaxed.near,
        relaxed.inner,
        np.ascontiguousarray(pair[np.ix_(order, order)]),
        own[order],
    )
    alike, kind_of, counts = np.unique(
        np.vstack([relaxed.capacity, relaxed.ports]).T, axis=0, return_inverse=True, return_counts=True
    )
    kinds = [Kind(row[:-1].copy(), int(row[-1]), int(count)) for row, count in zip(alike, counts, strict=True)]
    known = relaxed.base - cost_of_pairs(problem, slots, weights)
    columns = list(_columns(problem, executors, slots[order], kind_of.ravel()))
    proof = Proof(executors, relaxed.workers, kinds, columns, known)
    first = _first_prices(relaxed, tps)[order]
    sure = proof.run(until, SetPrices.of(first, np.zeros(len(relaxed.workers)), 0.0, executors))
    return relaxed.base - proof.most, sure


def _most_worth(relaxed: Relaxation, tps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return upper bounds of the worth of sets of executors, as sums over pairs and executors.

    That workers cannot hold a whole set follows from a certificate of the traffic within workers, which is valid for
    any part of a topology: a principal submatrix of a semidefinite matrix is semidefinite.
    """
    pair, own = (relaxed.near + relaxed.inner) * tps, np.zeros(len(tps))
    for topology, most in enumerate(relaxed.most.tolist()):
        part = slice(relaxed.first[topology], relaxed.first[topology + 1])
        count, workers = part.stop - part.start, int(relaxed.workers[topology])
        if most >= count:
            continue
        within = tps[part, part]
        certificate = best_certificate(within, np.ones(count), float(most), workers, time.perf_counter() + _CERTIFY_S)
        left = within / 2 - (certificate.row_worth + certificate.row_worth.T) / 2
        rest = certificate.fixed - float(left.sum()) / workers  # what rounding takes
        pair[part, part] = relaxed.near * within + 2 * relaxed.inner * left / workers
        own[part] = relaxed.inner * (certificate.rows_saved(float(most)) + np.diagonal(left) / workers + abs(rest))
    np.fill_diagonal(pair, 0.0)
    return pair, own


def _first_prices(relaxed: Relaxation, tps: FloatArray) -> FloatArray:
    """Return the most that each executor keeps by certificates of nodes and workers: initial prices, shape (E,)."""
    prices = np.zeros(len(tps))
    for topology, most in enumerate(relaxed.most.tolist()):
        part = slice(relaxed.first[topology], relaxed.first[topology + 1])
        within, workers = tps[part, part], int(relaxed.workers[topology])
        groups = min(workers, len(relaxed.ports))
        ones = np.ones(len(within))
        for weight, size, limit, count in (
            (relaxed.near, relaxed.demand[0, part], float(relaxed.capacity[0].max()), groups),
            (relaxed.inner, ones, float(most), workers),
        ):
            fits = len(within) and size.max() <= limit
            certificate = (
                best_certificate(within, size, limit, count, time.perf_counter() + _CERTIFY_S) if fits else None
            )
            if certificate is not None:
                prices[part] += weight * (certificate.rows_saved(limit) + certificate.fixed / len(within))
    return prices


def _columns(problem: Problem, executors: Executors, slots: IntArray, kind_of: IndexArray) -> Iterator[KnownSet]:
    """Yield the sets of executors on nodes in a placement."""
    node = problem.slot_node[slots]
    for number in np.unique(node).tolist():
        own = node == number
        uses = np.unique(np.stack([slots[own], executors.topology[own]]), axis=1)
        inside = executors.tps[np.ix_(own, own)].sum() / 2
        together = slots[own][:, None] == slots[own][None, :]
        in_workers = executors.tps[np.ix_(own, own)][together].sum() / 2
        yield KnownSet(
            bits=sum(1 << executor for executor in np.flatnonzero(own).tolist()),
            workers=np.bincount(uses[1], minlength=len(executors.most)),
            saved=float(executors.near * inside + executors.inner * in_workers),
            kinds=(int(kind_of[number]),),
        )


@cache
def ready_bound() -> None:
    """Compile the code of the bounds before any clock runs."""
    tps = np.array([[0.0, 1.0], [1.0, 0.0]])
    one, none = np.ones(1, np.int64), np.zeros(2, np.int64)
    executors = Executors(tps, np.ones((1, 2)), none, 2 * one, 0 * one, 0.8, 0.2, tps, np.zeros(2))
    apart = [KnownSet(1 << number, one, 0.0, (0,)) for number in range(2)]
    kinds, prices = [Kind(2 * np.ones(1), 1, 2)], SetPrices.of(np.zeros(2), np.zeros(1), 0.0, executors)
    Proof(executors, one, kinds, apart, 0.5).run(np.inf, prices)
    compile_loops(
        EnumerationInput(executors, one, kinds, 0.0),
        ProofGap(prices, np.ones(1), 0.0, 1, 1.0, 0.0),
        Scratch.of(executors),
    )
    best_certificate(tps, np.ones(2), 1.0, 2, np.inf)
