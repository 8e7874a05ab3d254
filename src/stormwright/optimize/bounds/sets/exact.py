"""Proof of the optimum of small problems: each node has one set of executors, and every executor is in one set.

Sets are generated on demand, as there are too many (column generation): a linear program finds the prices of
executors, workers and nodes at which the best known sets just pay, and a search finds sets that would be worth more
(`node_sets`). At any prices their sum and the best sets bound the traffic that all nodes together can keep
(A. Mehrotra, M. A. Trick, "Cliques and clustering: A combinatorial approach", Operations Research Letters 22, 1998,
https://doi.org/10.1016/S0167-6377(98)00006-6). Then the sets that could be part of a better solution than the known
one are few: they are listed, and combined in every way (`combine_sets`).

With local(S) the traffic within set S, w_t(S) its workers of topology t, and x_Sk how many nodes of kind k have it::

    most  Σ local(S) x_Sk    where  Σ_{S ∋ e} x_Sk = 1          each executor e,    price π_e
                                   Σ w_t(S) x_Sk  = W_t        each topology t,    price σ_t
                                   Σ_S x_Sk       ≤ n_k        each kind k of node
                                   Σ x_Sk         ≥ least      fewest nodes,       price ν ≥ 0

    worth(S) = local(S) + ν - Σ_{e ∈ S} π_e - Σ_t σ_t w_t(S)
    bound    = Σ π_e + Σ σ_t W_t - ν · least + Σ_k n_k · max(0, max_S worth(S))         at any π, σ and ν ≥ 0
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csc_array

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.optimize.bounds.sets.combinations import STEPS_PER_S, EnumerationInput, ProofGap, combine_sets, fitting
from stormwright.optimize.bounds.sets.node_sets import find_sets
from stormwright.optimize.bounds.sets.small_problem import Executors, FoundSets, Kind, Scratch, SetPrices, members_of

#: Most sets from one pass of the search.
_FEW = 400

#: Prices are half those of the linear program and half the best so far: P. Wentges, "Weighted Dantzig–Wolfe
#: Decomposition for Linear Mixed-integer Programming", 1997, https://doi.org/10.1111/1475-3995.00006.
_SMOOTHING = 0.5

#: Slack of a search relative to the unproven gap: with more slack more sets, fewer searches.
_SLACK = 0.05

#: Prices are good enough if better ones could close no more than this fraction of the gap.
_ENOUGH = 0.1

#: Relative tolerance of equal sums: more than sums of some thousand rates lose by rounding.
_SAME = 1e-11


@dataclass(frozen=True)
class KnownSet:
    """A known set of executors.

    Parameters
    ----------
    bits
        Its executors, bit e for executor e.
    workers
        Number of its workers of each topology, shape (T,).
    saved
        The traffic that it keeps; weighted tuples/s.
    kinds
        Numbers of the kinds of nodes that take it.
    """

    bits: int
    workers: IndexArray
    saved: float
    kinds: tuple[int, ...]

    @property
    def key(self) -> tuple[int, bytes]:
        """Identity of the set."""
        return self.bits, self.workers.astype(np.int64).tobytes()


class Proof:
    """Upper bound of the traffic that a placement can keep, tightened until it is exact or time is over.

    Parameters
    ----------
    executors
        Executors of the whole problem.
    workers
        Number of workers of each topology, shape (T,).
    kinds
        All nodes, identical ones together.
    columns
        Known sets, such as those of a good placement.
    known
        Local traffic of the best known placement; weighted tuples/s.
    """

    def __init__(
        self,
        executors: Executors,
        workers: IndexArray,
        kinds: Sequence[Kind],
        columns: Sequence[KnownSet],
        known: float,
    ) -> None:
        self._executors, self._workers, self._kinds = executors, workers, list(kinds)
        self._columns = {column.key: column for column in columns}
        self._known = known
        self._scratch = Scratch.of(executors)
        total = float(executors.tps.sum()) / 2 * (executors.near + executors.inner)
        self._same = _SAME * max(total, 1.0)
        self._unit = max(total / len(executors.tps), 1.0)  # of what the linear program adds up
        #: No placement keeps more.
        self.most = total
        self._best: SetPrices | None = None
        self._best_most = math.inf
        self._best_tops = np.zeros(len(self._kinds))
        self._least_nodes = min(least_nodes(executors, workers, kinds), len(columns))  # the known one is not wrong

    def run(self, until: float, first: SetPrices) -> bool:
        """Tighten `most` until `until` (of `time.perf_counter`), from `first` prices on; return whether it is exact.

        1. Prices of the linear program, moved half-way towards the best so far, as those of few sets oscillate widely.
        2. A search for sets at these. If it finds no new one, once more at the program's own prices.
        3. It goes on until bound and known placement meet, or better prices would gain too little by the program.
        4. The rest that is then unproven is enumerated (`combine_sets`).

        Parameters
        ----------
        until
            Deadline, also within 4.
        first
            Initial prices: any are valid, good ones save rounds.
        """
        smoothing = _SMOOTHING
        self._search(first, until)
        while not self._proven:
            if time.perf_counter() > until:
                return False
            solved = self._solve(until)
            if solved is None:
                break
            prices, program = solved
            if self.most - program <= max(_ENOUGH * (self.most - self._known), self._same):
                break
            if self._best is not None:
                best = self._best
                prices = SetPrices.of(
                    smoothing * best.executor + (1 - smoothing) * prices.executor,
                    smoothing * best.worker + (1 - smoothing) * prices.worker,
                    smoothing * best.node + (1 - smoothing) * prices.node,
                    self._executors,
                )
            if not self._search(prices, until):
                if smoothing == 0.0:
                    break
                smoothing = 0.0
            else:
                smoothing = _SMOOTHING
        return self._proven or self._combine(until)

    @property
    def _proven(self) -> bool:
        return self.most <= self._known + self._same

    def _solve(self, until: float) -> tuple[SetPrices, float] | None:
        """Return prices of executors, workers and nodes, and the best fractional value of the sets; None on failure."""
        executors, columns = self._executors, list(self._columns.values())
        uses = [(column, kind) for column in columns for kind in column.kinds]
        count, topologies = executors.tps.shape[0], len(self._workers)
        covers = members_of(np.array([column.bits for column, _ in uses])[:, None], count).T
        workers = np.array([column.workers for column, _ in uses], float).T
        slack = np.eye(count + topologies)
        equal = np.hstack([np.vstack([covers, workers]), slack, -slack])
        limit = np.zeros((len(self._kinds) + 1, equal.shape[1]))
        limit[[kind for _, kind in uses], np.arange(len(uses))] = 1.0
        limit[-1, : len(uses)] = -1.0
        # An executor is worth no more than all of its traffic, so that is the cost of leaving one out.
        dear = np.full(count + topologies, 2 * executors.tps.sum(axis=1).max(initial=0.0) + 1.0)
        cost = np.concatenate([[-column.saved for column, _ in uses], dear, dear])
        found = linprog(
            cost / self._unit,
            A_ub=csc_array(limit),
            b_ub=[*(kind.nodes for kind in self._kinds), -self._least_nodes],
            A_eq=csc_array(equal),
            b_eq=np.concatenate([np.ones(count), self._workers]),
            method="highs",
            options={"time_limit": max(until - time.perf_counter(), 0.0)} if until < math.inf else {},
        )
        if found.status != 0:
            return None
        price = -found.eqlin.marginals * self._unit
        node = max(0.0, -float(found.ineqlin.marginals[-1]) * self._unit)
        return SetPrices.of(price[:count], price[count:], node, executors), -float(found.fun) * self._unit

    def _search(self, prices: SetPrices, until: float) -> bool:
        """Search the best sets at `prices`; return whether there was a new one.

        `most` falls if these prices bound it lower. A search that ends before it is complete still gives an upper bound
        of the worth of sets, so the bound is valid.
        """
        tops = np.zeros(len(self._kinds))
        fresh = False
        slack = _SLACK * (self.most - self._known)
        for number, kind in enumerate(self._kinds):
            known = [self._worth(column, prices) for column in self._columns.values() if number in column.kinds]
            above = max([0.0, *known])
            found = FoundSets.of(_FEW, len(self._workers))
            count, _, tops[number] = find_sets(
                self._executors,
                prices,
                kind,
                above,
                slack,
                found,
                self._scratch,
                fitting(STEPS_PER_S, until),
            )
            for position in range(count):
                workers = found.workers[position].copy()
                column = self._column(int(found.bits[position]), workers, prices, found.worth[position])
                fresh |= column.key not in self._columns
                self._columns[column.key] = column
        most = self._paid(prices) + float(tops @ [kind.nodes for kind in self._kinds])
        if most < self._best_most:
            self._best_most, self._best, self._best_tops = most, prices, tops
        self.most = min(self.most, most)
        return fresh

    def _worth(self, column: KnownSet, prices: SetPrices) -> float:
        """Return the worth of a known set at some prices, in weighted tuples/s."""
        members = members_of(column.bits, len(prices.executor))
        return float(column.saved + prices.node - prices.executor @ members - prices.worker @ column.workers)

    def _column(self, bits: int, workers: IndexArray, prices: SetPrices, worth: float) -> KnownSet:
        """Return a found set: its local traffic, by subtracting its price, and all kinds of nodes that take it."""
        members = members_of(bits, len(prices.executor))
        saved = float(worth - prices.node + prices.executor @ members + prices.worker @ workers)
        asks = self._executors.demand @ members
        counts = np.bincount(self._executors.topology, members, len(self._workers))
        fewest = int(np.ceil(counts / self._executors.most).sum())
        kinds = tuple(
            number for number, kind in enumerate(self._kinds) if np.all(asks <= kind.capacity) and fewest <= kind.ports
        )
        return KnownSet(bits, workers, saved, kinds)

    def _combine(self, until: float) -> bool:
        """Enumerate everything that could be better than the known solution; return whether that is complete."""
        if self._best is None:
            return False
        paid = self._paid(self._best)
        # The bound of these very prices, which may be above the total traffic: sets are left out by it.
        left = ProofGap(self._best, self._best_tops, paid, self._least_nodes, self._best_most, self._known)
        puzzle = EnumerationInput(self._executors, self._workers, self._kinds, self._same)
        most = combine_sets(puzzle, left, until, self._scratch)
        if most is None:
            return False
        self.most = max(self._known, most)
        return True

    def _paid(self, prices: SetPrices) -> float:
        """Return the least that all sets together pay for executors and workers, minus the payment for nodes."""
        return float(prices.executor.sum() + prices.worker @ self._workers - prices.node * self._least_nodes)


def least_nodes(executors: Executors, workers: IndexArray, kinds: Sequence[Kind]) -> int:
    """Return a lower bound of the nodes of any placement: those with most of a resource would not suffice with fewer.

    It is the maximum over resources and ports, at least 1.
    """
    counts = [kind.nodes for kind in kinds]
    fewest = 0
    for demand, capacity in zip(executors.demand, np.array([kind.capacity for kind in kinds]).T, strict=True):
        fewest = max(fewest, _reach(np.repeat(capacity, counts), float(demand.sum())))
    return max(fewest, _reach(np.repeat([float(kind.ports) for kind in kinds], counts), float(workers.sum())))


def _reach(capacity: FloatArray, demand: float) -> int:
    """Return how many of the largest nodes cover the demand."""
    return int(np.searchsorted(np.cumsum(-np.sort(-capacity)), demand)) + 1
