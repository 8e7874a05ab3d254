"""Proof of the optimum of small problems: what a node has is one set of executors, and every executor is in one set.

The sets are so many that they are made only as they are wanted (column generation): a linear program finds the prices
of executors, workers and nodes at which the best known sets just pay, and a search finds sets that would be worth more
(`node_sets`). At any prices the sum of them and of the best sets bounds what all nodes together can keep of the traffic
(A. Mehrotra, M. A. Trick, "Cliques and clustering: A combinatorial approach", Operations Research Letters 22, 1998,
https://doi.org/10.1016/S0167-6377(98)00006-6). Then all sets that could be part of something better than what is known
are few: they are listed, and put together in every way (`partition`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from operator import add

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csc_array

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.optimize.node_sets import find_sets
from stormwright.optimize.partition import Sets, partitions
from stormwright.optimize.small import Executors, Found, Prices, Scratch
from stormwright.optimize.worker_split import lost_in_workers

#: Sets that one pass of the search brings, and those that are put together, at most.
_FEW, _MANY = 400, 1_500_000

#: Steps of a search for sets, and sets tried in putting them together, that surely fit into a second: neither looks at
#: the clock.
_STEPS_PER_S, _TRIES_PER_S = 500_000, 100_000_000

#: Seconds of one search, at most.
_LONGEST_S = 400.0

#: Prices are half those of the linear program and half the best so far: P. Wentges, "Weighted Dantzig–Wolfe
#: Decomposition for Linear Mixed-integer Programming", 1997, https://doi.org/10.1111/1475-3995.00006.
_SMOOTHING = 0.5

#: Ways to put sets together that are looked at, at most, and sets that are split by their workers.
_WAYS, _SPLIT = 2_000, 100_000

#: A search keeps sets that are worth less than the best by so much of what is unproven: more sets, fewer searches.
_SLACK = 0.05

#: Prices are good enough when better ones could take no more than so much from what is not proven yet.
_ENOUGH = 0.1

#: Part of all traffic within which two sums are the same.
_SAME = 1e-9


@dataclass(frozen=True)
class Kind:
    """Nodes that are alike: what each has of every resource, its ports, and how many there are."""

    capacity: FloatArray
    ports: int
    count: int


@dataclass(frozen=True)
class Column:
    """A set of executors that is known: its bits, its workers by topology, the traffic kept, the kinds that take it."""

    bits: int
    workers: IndexArray
    kept: float
    kinds: tuple[int, ...]

    @property
    def key(self) -> tuple[int, bytes]:
        """What tells it from others."""
        return self.bits, self.workers.astype(np.int64).tobytes()


class Proof:
    """Bounds what a placement can keep of the traffic, and tightens that bound until it is sure or time is over.

    Parameters
    ----------
    workers
        How many each topology has, shape (T,).
    columns
        Sets that are known, as those of a good placement.
    known
        What the best known placement keeps; weighted tuples/s.
    """

    def __init__(
        self,
        executors: Executors,
        workers: IndexArray,
        kinds: Sequence[Kind],
        columns: Sequence[Column],
        known: float,
    ) -> None:
        self._executors, self._workers, self._kinds = executors, workers, list(kinds)
        self._columns = {column.key: column for column in columns}
        self._known = known
        self._scratch = Scratch.of(executors)
        total = float(executors.tps.sum()) / 2 * (executors.near + executors.inner)
        self._same = _SAME * max(total, 1.0)
        #: No placement keeps more.
        self.most = total
        self._best: Prices | None = None
        self._best_tops = np.zeros(len(self._kinds))

    def run(self, until: float, first: Prices) -> bool:
        """Tighten `most` until `until` (of `time.perf_counter`), from `first` prices on; whether it is the most."""
        smoothing = _SMOOTHING
        self._search(first, until)
        while not self._proven:
            if time.perf_counter() > until:
                return False
            prices, program = self._solve()
            if self.most - program <= max(_ENOUGH * (self.most - self._known), self._same):
                break
            if self._best is not None:
                best = self._best
                prices = Prices.of(
                    smoothing * best.executor + (1 - smoothing) * prices.executor,
                    smoothing * best.worker + (1 - smoothing) * prices.worker,
                    executors=self._executors,
                )
            if not self._search(prices, until):
                if smoothing == 0.0:
                    break
                smoothing = 0.0
            else:
                smoothing = _SMOOTHING
        return self._proven or self._put_together(until)

    @property
    def _proven(self) -> bool:
        return self.most <= self._known + self._same

    def _solve(self) -> tuple[Prices, float]:
        """Prices of executors and workers, and what the known sets keep at best, in parts."""
        executors, columns = self._executors, list(self._columns.values())
        uses = [(column, kind) for column in columns for kind in column.kinds]
        count, topologies = executors.tps.shape[0], len(self._workers)
        covers = np.array([[column.bits >> e & 1 for e in range(count)] for column, _ in uses], float).T
        workers = np.array([column.workers for column, _ in uses], float).T
        slack = np.eye(count + topologies)
        equal = np.hstack([np.vstack([covers, workers]), slack, -slack])
        limit = np.zeros((len(self._kinds), equal.shape[1]))
        limit[[kind for _, kind in uses], np.arange(len(uses))] = 1.0
        # An executor is worth no more than all it exchanges, so that is what leaving one out costs.
        dear = np.full(count + topologies, 2 * executors.tps.sum(axis=1).max(initial=0.0) + 1.0)
        cost = np.concatenate([[-column.kept for column, _ in uses], dear, dear])
        found = linprog(
            cost,
            A_ub=csc_array(limit),
            b_ub=[kind.count for kind in self._kinds],
            A_eq=csc_array(equal),
            b_eq=np.concatenate([np.ones(count), self._workers]),
            method="highs",
        )
        price = -found.eqlin.marginals
        return Prices.of(price[:count], price[count:], executors), -float(found.fun)

    def _search(self, prices: Prices, until: float) -> bool:
        """Look for the best sets at `prices`; whether there was one that is new."""
        tops = np.zeros(len(self._kinds))
        fresh = False
        slack = _SLACK * (self.most - self._known)
        for number, kind in enumerate(self._kinds):
            known = [self._worth(column, prices) for column in self._columns.values() if number in column.kinds]
            above = max([0.0, *known])
            found = _room(_FEW, len(self._workers))
            count, _, tops[number] = find_sets(
                self._executors,
                prices,
                kind.capacity,
                kind.ports,
                above,
                slack,
                found,
                self._scratch,
                _fit(_STEPS_PER_S, until),
            )
            for position in range(count):
                workers = found.workers[position].copy()
                column = self._column(int(found.bits[position]), workers, prices, found.worth[position])
                fresh |= column.key not in self._columns
                self._columns[column.key] = column
        most = float(
            prices.executor.sum() + prices.worker @ self._workers + tops @ [kind.count for kind in self._kinds]
        )
        if most < self.most:
            self.most, self._best, self._best_tops = most, prices, tops
        return fresh

    def _worth(self, column: Column, prices: Prices) -> float:
        return float(column.kept - prices.executor @ _members(column.bits, len(prices.executor))) - float(
            prices.worker @ column.workers
        )

    def _column(self, bits: int, workers: IndexArray, prices: Prices, worth: float) -> Column:
        members = _members(bits, len(prices.executor))
        kept = float(worth + prices.executor @ members + prices.worker @ workers)
        asks = self._executors.demand @ members
        counts = np.bincount(self._executors.topology, members, len(self._workers))
        fewest = int(np.ceil(counts / self._executors.most).sum())
        kinds = tuple(
            number for number, kind in enumerate(self._kinds) if np.all(asks <= kind.capacity) and fewest <= kind.ports
        )
        return Column(bits, workers, kept, kinds)

    def _put_together(self, until: float) -> bool:
        """List every set that could be part of something better than known, and try all ways to put them together."""
        prices, executors = self._best, self._executors
        if prices is None:
            return False
        gap = self.most - self._known
        bits: list[NDArray[np.int64]] = []
        worth: list[FloatArray] = []
        kinds: list[IndexArray] = []
        found = _room(_MANY, len(self._workers))
        for number, kind in enumerate(self._kinds):
            above = self._best_tops[number] - gap - self._same
            count, complete, _ = find_sets(
                executors,
                prices,
                kind.capacity,
                kind.ports,
                above,
                np.inf,
                found,
                self._scratch,
                _fit(_STEPS_PER_S, until),
            )
            if not complete or time.perf_counter() > until:
                return False
            bits.append(found.bits[:count].copy())
            worth.append(found.worth[:count].copy())
            kinds.append(np.full(count, 1 << number))
        every, position, inverse = np.unique(np.concatenate(bits), return_index=True, return_inverse=True)
        if not len(every):
            return False
        fits = np.zeros(len(every), np.int64)
        np.bitwise_or.at(fits, inverse, np.concatenate(kinds))
        no_workers = np.zeros((len(every), len(self._workers)), np.int64)
        sets = Sets.of(every, np.concatenate(worth)[position], fits, no_workers, executors.tps.shape[0])
        paid = float(prices.executor.sum() + prices.worker @ self._workers)
        nodes = np.array([kind.count for kind in self._kinds])
        ways = np.zeros((_WAYS, int(nodes.sum())), np.int64)
        above = self._known + self._same - paid
        no_limit = np.zeros_like(self._workers)
        count = partitions(sets, nodes, self._best_tops, above, _fit(_TRIES_PER_S, until), no_limit, ways)
        if count < 0 and len(sets.bits) <= _SPLIT:  # too many, most of them with more or fewer workers than there are
            sets = self._by_workers(sets, prices)
            count = partitions(sets, nodes, self._best_tops, above, _fit(_TRIES_PER_S, until), self._workers, ways)
        if count < 0:
            return False
        self.most = max([self._known, *(self._kept(sets, way) for way in ways[:count])])
        return True

    def _by_workers(self, sets: Sets, prices: Prices) -> Sets:
        """Every set once for each number of workers that it can be in."""
        ports = max(kind.ports for kind in self._kinds)
        bits, worth, fits, workers = [], [], [], []
        for number, own in enumerate(sets.bits.tolist()):
            members = _members(own, len(prices.executor))
            within = float(members @ self._executors.tps @ members) / 2
            whole = (self._executors.near + self._executors.inner) * within - float(prices.executor @ members)
            for counts, lost in self._splits(own, ports).items():
                bits.append(own)
                worth.append(whole - lost - float(prices.worker @ counts))
                fits.append(int(sets.fits[number]))
                workers.append(counts)
        return Sets.of(np.array(bits), np.array(worth), np.array(fits), np.array(workers), len(prices.executor))

    def _kept(self, sets: Sets, way: IndexArray) -> float:
        """What nodes that have these sets keep with as many workers as there are to be; -inf if there cannot be."""
        executors = self._executors
        ports = np.repeat([kind.ports for kind in self._kinds], [kind.count for kind in self._kinds])
        lost = {(0,) * len(self._workers): 0.0}  # workers so far, by topology → what is lost by them
        within = 0.0
        for number, most in zip(way.tolist(), ports.tolist(), strict=True):
            if number < 0:
                continue
            bits = int(sets.bits[number])
            members = _members(bits, len(executors.tps))
            within += float(members @ executors.tps @ members) / 2
            after: dict[tuple[int, ...], float] = {}
            for used, before in lost.items():
                for counts, more in self._splits(bits, most).items():
                    total = tuple(map(add, used, counts))
                    after[total] = min(after.get(total, np.inf), before + more)
            lost = after
        least = lost.get(tuple(self._workers.tolist()), np.inf)
        return (executors.near + executors.inner) * within - least

    def _splits(self, bits: int, ports: int) -> dict[tuple[int, ...], float]:
        """Numbers of workers that a set can be in, by topology → what is lost by them."""
        found: dict[tuple[int, ...], float] = {(): 0.0}
        for topology, most in enumerate(self._workers.tolist()):
            ranges = [
                (workers, lost_in_workers(self._executors, bits, topology, workers, self._scratch))
                for workers in range(min(most, ports) + 1)
            ]
            found = {
                (*counts, workers): before + more
                for counts, before in found.items()
                for workers, more in ranges
                if more < np.inf and sum(counts) + workers <= ports
            }
        return found


def _room(places: int, topologies: int) -> Found:
    return Found(np.zeros(places, np.int64), np.zeros(places), np.zeros((places, topologies), np.int64))


def _members(bits: int, count: int) -> FloatArray:
    return np.array([bits >> executor & 1 for executor in range(count)], float)


def _fit(per_second: int, until: float) -> int:
    """As many as fit into the time until then."""
    return int(min(max(until - time.perf_counter(), 0.001), _LONGEST_S) * per_second)
