"""The mixed-integer program of a case: executors in nodes, and what of their traffic cannot stay there.

Its unknowns are, of each unit and node, the part of the unit's tuples that is handled there (`part`), whether any of
its executors is there (`here`) and how many (`count`); of each topology and node its workers; of each arc and node what
part of its tuples stays there, and comes there from other nodes; which nodes are in use; and how full things are
(`full`), which is one number for all of them.

What is in use of a thing that `full` times a whole number of threads gives is bounded by the envelope of that product:
G. P. McCormick, Computability of global solutions to factorable nonconvex programs: Part I, Mathematical Programming
10, 1976, https://doi.org/10.1007/BF01580665. Messages between workers of one node are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stormwright import stdout
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.predict.bounds.case import Case
from stormwright.predict.bounds.units import COUNT, PART

# Rows ---------------------------------------------------------------------------------------------
# Rows of a linear or mixed-integer program, and the least that a goal comes to under them.

#: How `scipy.optimize.milp` says that it has solved a program, and that there is no solution.
_SOLVED, _IMPOSSIBLE = 0, 2


class Least(NamedTuple):
    """What a solver found.

    Parameters
    ----------
    bound
        The goal is nowhere less; -inf where nothing is known.
    solution
        The unknowns of the best solution that is known, if any.
    complete, possible
        Whether it came to the end; False where there is no solution.
    """

    bound: float
    solution: FloatArray | None
    complete: bool
    possible: bool


class Rows:
    """Rows of a program, written down block by block."""

    def __init__(self) -> None:
        self._row: list[Any] = []
        self._column: list[Any] = []
        self._value: list[Any] = []
        self._low: list[Any] = []
        self._high: list[Any] = []
        self._count = 0

    def add(self, shape: tuple[int, ...], terms: Iterable[tuple[Any, Any]], low: Any, high: Any) -> None:
        """Add rows of a shape: `low` ≤ Σ value × unknown ≤ `high`.

        Parameters
        ----------
        shape
            Of the rows.
        terms
            Unknowns and values; each has the rows' shape, or one axis more, over which it is summed, or is stretched.
        low, high
            Stretched as well.
        """
        count = int(np.prod(shape))
        rows = self._count + np.arange(count).reshape(shape)
        for column, value in terms:
            # Of unknowns that stand along one axis more than the rows each row has all along that axis.
            wide = np.broadcast_shapes(np.shape(column), shape if np.ndim(column) <= len(shape) else np.shape(column))
            at = rows if len(wide) == len(shape) else rows[..., np.newaxis]
            for kept, given in ((self._row, at), (self._column, column), (self._value, value)):
                kept.append(np.broadcast_to(given, wide).ravel())
        self._low.append(np.broadcast_to(low, shape).ravel())
        self._high.append(np.broadcast_to(high, shape).ravel())
        self._count += count

    def minimise(
        self, goal: FloatArray, lower: FloatArray, upper: FloatArray, integral: FloatArray, options: Mapping[str, Any]
    ) -> Least:
        """The least of Σ goal × unknown.

        Parameters
        ----------
        goal, lower, upper
            Of each unknown; the last two are its limits.
        integral
            1 for unknowns that are whole numbers, 0 for others.
        options
            Of `scipy.optimize.milp`.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp  # takes longer to import than the rest

        constraints = LinearConstraint(*self._matrix(len(goal)))
        stdout.turn_away()  # the solver tells there of what it mends
        try:
            found = milp(
                goal, integrality=integral, bounds=Bounds(lower, upper), constraints=constraints, options=dict(options)
            )
        finally:
            stdout.turn_back()
        complete = found.status == _SOLVED
        bound = found.mip_dual_bound if integral.any() else found.fun if complete else None
        if bound is None or not np.isfinite(bound):
            bound = -np.inf
        return Least(float(bound), found.x, complete, found.status != _IMPOSSIBLE)

    def _matrix(self, columns: int) -> tuple[Any, FloatArray, FloatArray]:
        """The rows as a sparse matrix, and their bounds."""
        from scipy.sparse import csr_array  # takes longer to import than the rest

        entries = np.concatenate(self._value), (np.concatenate(self._row), np.concatenate(self._column))
        low, high = np.concatenate(self._low), np.concatenate(self._high)
        return csr_array(entries, shape=(self._count, columns)), low.astype(np.float64), high.astype(np.float64)


# Program ------------------------------------------------------------------------------------------

#: Sums of parts of a whole may be so much less than it.
_ROUNDING = 1e-7


@dataclass(frozen=True, eq=False)
class Columns:
    """Where unknowns stand: `part`, `here` and `count` by unit and node, and so on; shape (…, N)."""

    part: IndexArray
    here: IndexArray
    count: IndexArray
    workers: IndexArray
    stays: IndexArray
    comes: IndexArray
    node: IndexArray
    full: int

    @classmethod
    def of(cls, case: Case) -> Columns:
        """Those of a case; a unit of one executor counts it by whether it is there."""
        many, sizes, nodes = case.units.size > 1, _sizes(case), len(case.cores)
        every = np.arange(sum(sizes) * nodes).reshape(-1, nodes)
        part, here, counts, workers, stays, comes, node = np.split(every, np.cumsum(sizes)[:-1])
        count = here.copy()
        count[many] = counts
        return cls(part, here, count, workers, stays, comes, node[0], every.size)


def unknowns(case: Case) -> int:
    """How many unknowns the program of a case has."""
    return sum(_sizes(case)) * len(case.cores) + 1


def _sizes(case: Case) -> tuple[int, ...]:
    """How many of each kind of unknowns there are for every node."""
    units, sent = len(case.units.size), len(case.tuples)
    return units, units, int(np.count_nonzero(case.units.size > 1)), len(case.most_workers), sent, sent, 1


def rows_of(case: Case, at: Columns, low: float, high: float) -> Rows:
    """All rows of a case.

    Parameters
    ----------
    case
        The case.
    at
        Where its unknowns stand.
    low, high
        Between what things are full, in parts of what there is; the second may be inf.
    """
    rows = Rows()
    _places(case, at, rows)
    _traffic(case, at, rows)
    _nodes(case, at, rows, low)
    _threads(case, at, rows, low, high)
    return rows


def _places(case: Case, at: Columns, rows: Rows) -> None:
    """Every executor and worker is somewhere, and no more is anywhere than may be."""
    units, nodes = case.units, len(case.cores)
    all_of, size = (len(units.size), nodes), units.size[:, np.newaxis]
    rows.add((len(units.size),), [(at.count, 1.0)], units.size, units.size)
    rows.add(all_of, [(at.part, 1.0), (at.here, -1.0)], -np.inf, 0.0)
    many = units.size > 1
    rows.add((int(many.sum()), nodes), [(at.here[many], 1.0), (at.count[many], -1.0)], -np.inf, 0.0)
    rows.add(all_of, [(at.here, 1.0), (at.workers[units.topology], -1.0)], -np.inf, 0.0)
    rows.add(all_of, [(at.count, 1.0), (at.node, -size)], -np.inf, 0.0)
    rows.add((len(at.workers),), [(at.workers, 1.0)], case.least_workers, case.most_workers)
    rows.add((nodes,), [(at.workers.T, 1.0), (at.node, -case.ports)], -np.inf, 0.0)
    rows.add((nodes,), [(at.count.T, units.memory_mb)], -np.inf, case.memory_mb)
    for topology, workers in enumerate(at.workers):
        counts = at.count[units.topology == topology].T
        rows.add((nodes,), [(counts, 1.0), (workers, -case.most_executors[topology])], -np.inf, 0.0)
        rows.add((nodes,), [(workers, 1.0), (counts, -1.0)], -np.inf, 0.0)


def _traffic(case: Case, at: Columns, rows: Rows) -> None:
    """What stays on a node finds somebody there, what leaves comes to another one, and what comes is handled."""
    units, arcs, nodes = case.units, case.arcs, len(case.cores)
    all_of, (source, target) = (len(case.tuples), nodes), (arcs.source, arcs.target)
    lets = at.here[target].copy()
    lets[arcs.stays_by == COUNT] = at.count[target[arcs.stays_by == COUNT]]
    lets[arcs.stays_by == PART] = at.part[target[arcs.stays_by == PART]]
    rows.add(all_of, [(at.stays, 1.0), (at.part[source], -1.0)], -np.inf, 0.0)
    rows.add(all_of, [(at.stays, 1.0), (lets, -arcs.stays[:, np.newaxis])], -np.inf, 0.0)
    rows.add(all_of, [(at.comes, 1.0), (at.here[target], -1.0)], -np.inf, 0.0)
    rows.add((len(case.tuples),), [(at.comes, 1.0), (at.stays, 1.0), (at.part[source], -1.0)], 0.0, 0.0)
    least = np.divide(units.least, units.handled, out=np.zeros(len(units.least)), where=units.handled > 0)
    rows.add((len(units.size),), [(at.part, 1.0)], least * (1 - _ROUNDING), 1.0)
    sent = arcs.tuples * units.handled[source]
    for unit in np.unique(target[arcs.handled]).tolist():
        own = np.flatnonzero((target == unit) & arcs.handled)
        part = sent[own] / units.handled[unit]
        terms = [(at.part[unit], 1.0), (at.stays[own].T, -part), (at.comes[own].T, -part)]
        rows.add((nodes,), terms, 0.0, 0.0)


def _nodes(case: Case, at: Columns, rows: Rows, low: float) -> None:
    """CPU and links of nodes."""
    arcs, nodes = case.arcs, len(case.cores)
    speed = case.speed[:, np.newaxis]
    leaves, source = case.serialise + case.send, arcs.source
    terms: list[tuple[Any, Any]] = [
        (at.part.T, case.work / speed),
        (at.part[source].T, leaves / speed),
        (at.stays.T, -leaves / speed),
        (at.comes.T, case.receive / speed),
        (np.full(nodes, at.full), -case.cores),
    ]
    # A node on which nothing works may have more workers than it has CPU for.
    most = np.minimum(case.ports, case.most_workers.sum())
    each = np.where(most * case.worker_cores < case.cores, low * case.worker_cores, 0.0)
    rows.add((nodes,), [*terms, (at.workers.T, each[:, np.newaxis])], -np.inf, 0.0)
    takes = case.volume / case.link_bytes_per_s[:, np.newaxis]
    full = (np.full(nodes, at.full), -1.0)
    rows.add((nodes,), [(at.part[source].T, takes), (at.stays.T, -takes), full], -np.inf, 0.0)
    rows.add((nodes,), [(at.comes.T, takes), full], -np.inf, 0.0)


def _threads(case: Case, at: Columns, rows: Rows, low: float, high: float) -> None:
    """Threads of executors, and of workers that send and receive: each takes at most a core."""
    units, arcs, nodes = case.units, case.arcs, len(case.cores)
    for unit in case.works.tolist():
        own = np.flatnonzero(arcs.source == unit)
        terms = [(at.part[unit], (case.work[unit] + case.serialise[own].sum()) / case.speed)]
        terms += [(at.stays[own].T, -case.serialise[own] / case.speed[:, np.newaxis])]
        most = np.full(nodes, units.size[unit])
        _full(at, rows, terms, at.count[unit], most, (low, high))
        flat = [(c.reshape(1, -1), np.broadcast_to(v, c.shape).reshape(1, -1)) for c, v in terms]
        rows.add((1,), [*flat, ([at.full], -float(units.size[unit]))], -np.inf, 0.0)
    of = units.topology[arcs.source]
    for topology in np.unique(of).tolist():
        own, most = np.flatnonzero(of == topology), np.minimum(case.ports, case.most_workers[topology])
        send, receive = (cores[own] / case.speed[:, np.newaxis] for cores in (case.send, case.receive))
        leave = [(at.part[arcs.source[own]].T, send), (at.stays[own].T, -send)]
        for used in (leave, [(at.comes[own].T, receive)]):
            _full(at, rows, used, at.workers[topology], most, (low, high))


def _full(
    at: Columns,
    rows: Rows,
    used: list[tuple[Any, Any]],
    count: IndexArray,
    most: IndexArray,
    between: tuple[float, float],
) -> None:
    """What is used on every node is at most `full` times `count`, which is at most `most`."""
    low, high = between
    limits = [(np.full(len(most), at.full), -most), (count, np.full(len(most), -low))]
    rows.add((len(most),), [*used, *limits], -np.inf, -low * most)
    if np.isfinite(high):
        rows.add((len(most),), [*used, (count, np.full(len(most), -high))], -np.inf, 0.0)
