"""Certificates made for what the program of whole pieces chose, round by round.

Each certificate bounds what a topology keeps in pieces of any size, but it is good for those only that it was made for.
So the program (`pieces`) says what pieces every executor would be in at best, certificates are made for just these, and
so on: column generation, of which each round gives a bound.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stormwright.model.arrays import FloatArray
from stormwright.optimize.bounds.relaxation.certificate import Certificate
from stormwright.optimize.bounds.relaxation.multipliers import Multipliers
from stormwright.optimize.bounds.relaxation.pieces import Pieces
from stormwright.optimize.bounds.relaxation.semidefinite import approach
from stormwright.optimize.bounds.relaxation.sharing import NodeSizes

#: Part of the time for rounds; the rest is for whole pieces. Rounds that there is to be time for in any case.
_ROUNDS_S, _ROUNDS = 0.7, 2

#: A round that brings less than this part is the last one.
_ENOUGH = 2e-4


@dataclass(frozen=True, eq=False)
class Dealt:
    """A topology whose executors are dealt out to pieces.

    Parameters
    ----------
    tps
        What every two executors exchange in both directions, shape (n, n), zero on the diagonal; n > 0.
    size
        What each takes of its piece, shape (n,).
    groups
        On so many nodes it is at most.
    known
        Certificates that there are: what each adds, and what every executor keeps in a piece of each number, shape
        (n, Q), -inf where it does not fit.
    """

    tps: FloatArray
    size: FloatArray
    groups: int
    known: Sequence[tuple[float, FloatArray]]


def kept_in_pieces(topologies: Sequence[Dealt], room: NodeSizes, until: float) -> float:
    """Upper bound on what topologies keep on nodes, in tuples/s; inf where time does not suffice for any.

    Parameters
    ----------
    topologies
        All that have executors.
    room
        The nodes, and the sizes of pieces.
    until
        Of `time.perf_counter`.
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
    under_way = [_UnderWay(number, each, room) for number, each in enumerate(topologies) if each.groups > 1]
    before = np.inf
    while parts and best < before * (1 - _ENOUGH) and time.perf_counter() < rounds_until:
        before = best
        for left, topology in zip(range(len(under_way), 0, -1), under_way, strict=True):
            now = time.perf_counter()
            its_part_s = (rounds_until - now) / (_ROUNDS * left)
            found = topology.better(parts[topology.number], now + its_part_s)
            if found:
                program.add(topology.number, *found)
        kept, parts = program.solve(until, whole=False)
        best = min(best, kept)
    return min(best, program.solve(until, whole=True)[0])


class _UnderWay:
    """A topology, and the multipliers that its certificates come from."""

    def __init__(self, number: int, topology: Dealt, room: NodeSizes) -> None:
        self.number = number
        self._size, self._grid = topology.size, room.grid
        limits = np.full(len(topology.size), topology.size.sum())
        self._multipliers = Multipliers(topology.tps, topology.size, limits, topology.groups)

    def better(self, parts: FloatArray, until: float) -> tuple[float, FloatArray] | None:
        """The best certificate found until then for executors of which such parts are in pieces of each number."""
        found: list[tuple[float, FloatArray]] = []
        values: list[float] = []

        def kept(certificate: Certificate) -> float:
            fixed, worth = certificate.in_pieces(self._grid)
            found.append((fixed, worth))
            values.append(fixed + float((np.where(np.isfinite(worth), worth, 0.0) * parts).sum()))
            return values[-1]

        self._multipliers.limits = np.clip(parts @ self._grid, self._size, self._size.sum())
        for _ in approach(self._multipliers, kept, until, triangles=True):
            pass
        return found[int(np.argmin(values))] if found else None
