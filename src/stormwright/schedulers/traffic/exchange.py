"""What executors exchange, row by row: for schedulers that go from executor to executor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from stormwright.model import Problem, measured_traffic
from stormwright.model.arrays import FloatArray, IndexArray


@dataclass(frozen=True)
class Exchange:
    """R + Rᵀ without its diagonal, as CSR: the partners of executor e are at ``first[e]`` to ``first[e + 1]``.

    Parameters
    ----------
    first
        Shape (E + 1,).
    partner
        Executors, rising for each executor.
    tps
        Tuples/s exchanged with the partner, both directions together.
    """

    first: IndexArray
    partner: IndexArray
    tps: FloatArray

    @classmethod
    def of(cls, problem: Problem) -> Exchange:
        """What the executors of `problem` exchange under the current placement."""
        matrix = measured_traffic(problem).symmetric(problem.num_executors)
        matrix.sum_duplicates()
        row = np.repeat(np.arange(problem.num_executors, dtype=np.int32), np.diff(matrix.indptr))
        real = (row != matrix.indices) & (matrix.data > 0)
        if real.all():
            return cls(matrix.indptr, matrix.indices, matrix.data)
        sizes = np.bincount(row[real], minlength=problem.num_executors)
        return cls(np.concatenate([[0], np.cumsum(sizes)]), matrix.indices[real], matrix.data[real])

    def total(self) -> FloatArray:
        """What every executor exchanges with all others, shape (E,); what others exchange has no part in rounding."""
        row = np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))
        return np.bincount(row, self.tps, len(self.first) - 1).astype(np.float64)

    def of_executor(self, executor: int) -> tuple[IndexArray, FloatArray]:
        """The partners of an executor, and what it exchanges with each."""
        row = slice(self.first[executor], self.first[executor + 1])
        return self.partner[row], self.tps[row]

    def within(self, executors: IndexArray) -> csr_array:
        """What some executors, whose numbers rise, exchange with each other; row and column by position among them."""
        size = len(self.first) - 1
        whole = csr_array((self.tps, self.partner, self.first), shape=(size, size))
        first, last = int(executors[0]), int(executors[-1]) + 1
        return whole[first:last, first:last][executors - first][:, executors - first].tocsr()
