"""Rows of a linear or mixed-integer program, and the least that a goal comes to under them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from stormwright import stdout
from stormwright.model.arrays import FloatArray

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
