"""Mixed-integer program of a case: executors on nodes, and the traffic that must leave them.

Unknowns by unit and node: the fraction of the unit's tuples that is handled there (`part`), whether any of its
executors is there (`here`) and how many (`count`); by topology and node: workers; by arc and node: the fraction of its
tuples that stays there, and that comes there from other nodes; which nodes are in use; and the utilisation (`full`),
which is one number for all resources.

The product of `full` with a whole number of threads is bounded by its envelope: G. P. McCormick, Computability of
global solutions to factorable nonconvex programs: Part I, Mathematical Programming 10, 1976,
https://doi.org/10.1007/BF01580665. Messages between workers of one node are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stormwright.base import stdout
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.predict.bounds.case import Case
from stormwright.predict.bounds.units import COUNT, PART

#: Status codes of `scipy.optimize.milp` for an optimum and for an infeasible program.
_SOLVED, _IMPOSSIBLE = 0, 2

#: Tolerance by which sums of fractions may fall short of the whole.
_ROUNDING = 1e-7


class ProgramSolution(NamedTuple):
    """Result of a solver.

    Parameters
    ----------
    bound
        Proven lower bound of the objective; -inf if unknown.
    solution
        The unknowns of the best known solution, if any.
    complete, possible
        Whether the solver finished; False if the program is infeasible.
    """

    bound: float
    solution: FloatArray | None
    complete: bool
    possible: bool


class Rows:
    """Rows of a program, added block by block."""

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
            Shape of the block of rows.
        terms
            Unknowns and values; each has the rows' shape, or one axis more, over which it is summed, or is broadcast.
        low, high
            Limits, broadcast as well.
        """
        count = int(np.prod(shape))
        rows = self._count + np.arange(count).reshape(shape)
        for column, value in terms:
            # Unknowns with one axis more than the rows are summed over that axis.
            wide = np.broadcast_shapes(np.shape(column), shape if np.ndim(column) <= len(shape) else np.shape(column))
            at = rows if len(wide) == len(shape) else rows[..., np.newaxis]
            for target, given in ((self._row, at), (self._column, column), (self._value, value)):
                target.append(np.broadcast_to(given, wide).ravel())
        self._low.append(np.broadcast_to(low, shape).ravel())
        self._high.append(np.broadcast_to(high, shape).ravel())
        self._count += count

    def minimise(
        self, goal: FloatArray, lower: FloatArray, upper: FloatArray, integral: FloatArray, options: Mapping[str, Any]
    ) -> ProgramSolution:
        """Minimise Σ goal × unknown.

        Parameters
        ----------
        goal, lower, upper
            Coefficient, lower and upper limit of each unknown.
        integral
            1 for integer unknowns, 0 for others.
        options
            Options of `scipy.optimize.milp`, such as its time limit in seconds.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp  # takes longer to import than the rest

        constraints = LinearConstraint(*self._matrix(len(goal)))
        stdout.redirect_to_stderr()  # the solver prints corrections there
        try:
            found = milp(
                goal, integrality=integral, bounds=Bounds(lower, upper), constraints=constraints, options=dict(options)
            )
        finally:
            stdout.end_redirection()
        complete = found.status == _SOLVED
        bound = found.mip_dual_bound if integral.any() else found.fun if complete else None
        if bound is None or not np.isfinite(bound):
            bound = -np.inf
        return ProgramSolution(float(bound), found.x, complete, found.status != _IMPOSSIBLE)

    def _matrix(self, columns: int) -> tuple[Any, FloatArray, FloatArray]:
        """Return the rows as a sparse matrix, and their bounds."""
        from scipy.sparse import csr_array  # takes longer to import than the rest

        entries = np.concatenate(self._value), (np.concatenate(self._row), np.concatenate(self._column))
        low, high = np.concatenate(self._low), np.concatenate(self._high)
        return csr_array(entries, shape=(self._count, columns)), low.astype(np.float64), high.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Columns:
    """Column indices of the unknowns: `part`, `here` and `count` by unit and node, and so on; shape (…, N)."""

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
        """Return the columns of a case; for a unit of one executor `count` is `here`."""
        many, sizes, nodes = case.units.size > 1, _sizes(case), len(case.cores)
        every = np.arange(sum(sizes) * nodes).reshape(-1, nodes)
        part, here, counts, workers, stays, comes, node = np.split(every, np.cumsum(sizes)[:-1])
        count = here.copy()
        count[many] = counts
        return cls(part, here, count, workers, stays, comes, node[0], every.size)


def unknowns(case: Case) -> int:
    """Return the number of unknowns of the program of a case."""
    return sum(_sizes(case)) * len(case.cores) + 1


def _sizes(case: Case) -> tuple[int, ...]:
    """Return the number of unknowns of each kind for every node."""
    units, sent = len(case.units.size), len(case.tuples)
    return units, units, int(np.count_nonzero(case.units.size > 1)), len(case.most_workers), sent, sent, 1


def rows_of(case: Case, at: Columns, low: float, high: float) -> Rows:
    """Return all rows of a case.

    Parameters
    ----------
    case
        Case with the topologies and nodes.
    at
        Columns of its unknowns.
    low, high
        Limits of the utilisation, as fractions of capacity; the second may be inf.
    """
    rows = Rows()
    _places(case, at, rows)
    _traffic(case, at, rows)
    _nodes(case, at, rows, low)
    _threads(case, at, rows, low, high)
    return rows


def _places(case: Case, at: Columns, rows: Rows) -> None:
    """Add: every executor and worker is placed, within the limits of every node."""
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
    """Add: tuples stay only where there is a target, those that leave arrive elsewhere, and arrivals are handled."""
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
    """Add: CPU and links of nodes."""
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
    # A node without any work may have more workers than it has CPU for.
    most = np.minimum(case.ports, case.most_workers.sum())
    each = np.where(most * case.worker_cores < case.cores, low * case.worker_cores, 0.0)
    rows.add((nodes,), [*terms, (at.workers.T, each[:, np.newaxis])], -np.inf, 0.0)
    takes = case.volume / case.link_bytes_per_s[:, np.newaxis]
    full = (np.full(nodes, at.full), -1.0)
    rows.add((nodes,), [(at.part[source].T, takes), (at.stays.T, -takes), full], -np.inf, 0.0)
    rows.add((nodes,), [(at.comes.T, takes), full], -np.inf, 0.0)


def _threads(case: Case, at: Columns, rows: Rows, low: float, high: float) -> None:
    """Add: threads of executors, and of workers that send and receive, take at most one core each."""
    units, arcs, nodes = case.units, case.arcs, len(case.cores)
    for unit in case.works.tolist():
        own = np.flatnonzero(arcs.source == unit)
        terms = [(at.part[unit], (case.work[unit] + case.serialise[own].sum()) / case.speed)]
        terms += [(at.stays[own].T, -case.serialise[own] / case.speed[:, np.newaxis])]
        most = np.full(nodes, units.size[unit])
        _full(at, rows, terms, at.count[unit], most, (low, high))
        flat = [(c.reshape(1, -1), np.broadcast_to(v, c.shape).reshape(1, -1)) for c, v in terms]
        rows.add((1,), [*flat, ([at.full], -float(units.size[unit]))], -np.inf, 0.0)
    arc_topology = units.topology[arcs.source]
    for topology in np.unique(arc_topology).tolist():
        own, most = np.flatnonzero(arc_topology == topology), np.minimum(case.ports, case.most_workers[topology])
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
    """Add: the use of every node is at most `full` times `count`, which is at most `most`."""
    low, high = between
    limits = [(np.full(len(most), at.full), -most), (count, np.full(len(most), -low))]
    rows.add((len(most),), [*used, *limits], -np.inf, -low * most)
    if np.isfinite(high):
        rows.add((len(most),), [*used, (count, np.full(len(most), -high))], -np.inf, 0.0)
