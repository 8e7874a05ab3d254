"""A partial placement: executors in workers, workers on nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE

#: Bits of a float's significand, less one for the rounding of the sum.
_BITS = 52


# Sums that do not depend on the order of addition: ties between nodes depend on the last digit.
def addends(amounts: FloatArray) -> FloatArray:
    """Return `amounts`, none below 0, rounded so that sums of any of them are exact.

    All are made multiples of one step, so small that none changes by more than 3·10⁻¹⁶ of the largest times their
    number, and so large that a float holds every multiple up to the sum of all. The idea is the pre-rounding of
    J. Demmel and H. D. Nguyen, "Fast Reproducible Floating-Point Summation", ARITH 2013,
    https://doi.org/10.1109/ARITH.2013.9.

    Parameters
    ----------
    amounts
        Any shape; if any is infinite or NaN, all are returned unchanged.
    """
    # Not the sum, which depends on the order.
    most = float(np.max(amounts, initial=0.0)) * amounts.size
    if not 0.0 < most < math.inf:
        return amounts
    step = math.ldexp(1.0, math.frexp(most)[1] - _BITS)
    rounded: FloatArray = np.rint(amounts / step) * step if step > 0 else amounts
    return rounded


@dataclass
class PartialPlacement:
    """A partial placement: executors in workers, workers on nodes; -1 is none.

    Parameters
    ----------
    usable
        Whether a node may get new workers, shape (N,).
    worker
        Worker of every executor, shape (E,).
    topology, node
        Topology and node of every worker.
    fixed
        Whether each worker runs and stays unchanged.
    reasons
        Topology index → reasons why it is not placed.
    """

    problem: Problem
    usable: BoolArray
    worker: IndexArray
    topology: list[int] = field(default_factory=list)
    node: list[int] = field(default_factory=list)
    fixed: list[bool] = field(default_factory=list)
    reasons: dict[int, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def empty(cls, problem: Problem, usable: BoolArray) -> PartialPlacement:
        """Return an empty placement."""
        return cls(problem, usable, np.full(problem.num_executors, UNPLACED))

    def add_worker(
        self, topology: int, executors: Sequence[int] | IndexArray, node: int = UNPLACED, *, fixed: bool = False
    ) -> None:
        """Add a worker, which gets the next number. No constraint is checked.

        Parameters
        ----------
        topology
            Index of its topology.
        executors
            Its executors, numbered over the problem; they leave their previous workers.
        node
            Node of the worker; none by default.
        fixed
            Whether it runs and stays unchanged.
        """
        self.worker[executors] = len(self.node)
        self.topology.append(topology)
        self.node.append(node)
        self.fixed.append(fixed)

    def take_out(self, topology: int) -> None:
        """Remove a topology's workers, except fixed ones, from nodes, and its executors from them."""
        leaving = [t == topology and not fixed for t, fixed in zip(self.topology, self.fixed, strict=True)]
        self.node = [UNPLACED if leaves else node for node, leaves in zip(self.node, leaving, strict=True)]
        self.worker[np.array([*leaving, False])[self.worker]] = UNPLACED

    def node_of_executor(self) -> IndexArray:
        """Return the node of every executor, shape (E,)."""
        return np.array([*self.node, UNPLACED])[self.worker]

    @cached_property
    def demand(self) -> FloatArray:
        """`Problem.executor_demand` with sums independent of the order of topologies, shape (K, E)."""
        return np.stack([addends(demand) for demand in self.problem.executor_demand])

    def worker_use(self) -> FloatArray:
        """Return every worker's use of each resource, shape (K, W)."""
        placed = self.worker != UNPLACED
        return _sums(self.worker[placed], self.demand[:, placed], len(self.node))

    @cached_property
    def capacity(self) -> FloatArray:
        """Capacity of every node for each resource and slots, with a rounding tolerance, shape (K + 1, N)."""
        ports = [len(supervisor.ports) for supervisor in self.problem.supervisors]
        return np.vstack([self.problem.node_capacity, ports]) * (1 + RELATIVE_TOLERANCE)

    @cached_property
    def largest(self) -> FloatArray:
        """Largest capacity of a usable node for each resource and slots, shape (K + 1,)."""
        most: FloatArray = np.max(self.capacity[:, self.usable], axis=1, initial=0)
        return most

    def node_use(self) -> FloatArray:
        """Return the use of each resource and of slots on every node, shape (K + 1, N)."""
        node = self.node_of_executor()
        placed = node != UNPLACED
        used = _sums(node[placed], self.demand[:, placed], len(self.problem.supervisors))
        return np.vstack([used, self.slots_used()])

    def slots_used(self) -> IndexArray:
        """Return the number of workers on every node, shape (N,)."""
        nodes = [node for node in self.node if node != UNPLACED]
        return np.bincount(np.array(nodes, dtype=np.intp), minlength=len(self.problem.supervisors))


def _sums(group: IndexArray, demand: FloatArray, count: int) -> FloatArray:
    """Return sums of demands over groups, shape (K, count)."""
    return np.stack([np.bincount(group, row, count) for row in demand]).astype(np.float64)
