"""Proven bounds on all valid placements: the highest rates, and the fewest nodes for given rates.

Any size: all work by all CPU, and the busiest thread (`simple`). If it is small enough, a mixed-integer program adds
messages between nodes, threads, links, memory, ports and workers. If its solver runs out of time, the bound proven so
far is used. Q. Huangfu, J. A. J. Hall, Parallelizing the dual revised simplex method, Mathematical Programming
Computation 10, 2018, https://doi.org/10.1007/s12532-017-0130-5 (HiGHS).
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np

from stormwright.model.arrays import FloatArray
from stormwright.predict.bounds.case import Case
from stormwright.predict.bounds.program import Columns, rows_of, unknowns

#: Most unknowns of a program that is solved; in larger ones messages are left out, and finally all but the sums.
MAX_UNKNOWNS = 30_000

#: Safety margin on a solver's bound: it satisfies rows only up to its tolerances.
_ROUNDING = 2e-6

#: Relative gap at which a bound counts as the optimum; and the improvement that is worth another program.
SAME, _BETTER = 1e-3, 2e-4

#: Fraction of the time for programs without integer unknowns.
_RELAXED_PART = 0.3


class _ProgramBound(NamedTuple):
    """Lower bound of a program, inf if it is infeasible; and whether it was solved to optimality."""

    least: float
    complete: bool


def least_full(case: Case, known: float, budget_s: float) -> float:
    """Return a lower bound of the utilisation at the wanted rates under any valid placement.

    It is 1 divided by the factor of the highest rates.

    Parameters
    ----------
    case
        The case at the wanted rates.
    known
        Utilisation under a good placement, inf if there is none.
    budget_s
        Time limit, in seconds.
    """
    end, low = time.perf_counter() + budget_s, simple(case)
    for part in _smaller(case):
        for whole in (False, True):
            complete = True
            while complete and low < known * (1 - SAME):
                left = end - time.perf_counter()
                found = _solve(part, low, known, whole, left if whole else min(left, _RELAXED_PART * budget_s))
                better = min(found.least, known) * (1 - _ROUNDING)
                complete = found.complete and better > low * (1 + _BETTER)
                low = max(low, better)
    return min(low, known)


def fewest_nodes(case: Case, allowed: float, known: float, budget_s: float) -> float:
    """Return a lower bound of the nodes of any valid placement that sustains the wanted rates; inf if none does.

    Parameters
    ----------
    case
        The case at the wanted rates.
    allowed
        Highest allowed utilisation of any resource, as a fraction.
    known
        Nodes of a placement that sustains the rates, inf if there is none.
    budget_s
        Time limit, in seconds.
    """
    end, low = time.perf_counter() + budget_s, _simple_nodes(case, allowed)
    for part in _smaller(case):
        for whole in (False, True):
            left = end - time.perf_counter()
            if low < known and left > 0:
                limit = left if whole else min(left, _RELAXED_PART * budget_s)
                found = _solve(part, allowed, allowed, whole, limit, count_nodes=True)
                low = max(low, math.ceil(found.least * (1 - SAME)) if math.isfinite(found.least) else found.least)
    return low


def simple(case: Case) -> float:
    """Return a lower bound of the utilisation by sums: all work by all CPU, and threads by the fastest node."""
    units, there = case.units, (case.cores > 0) & (case.ports > 0)
    if not len(case.works):
        return 0.0
    if not there.any():
        return math.inf
    least = _least_work(case)
    busiest = float((least / units.size).max()) / float(case.speed[there].max())
    topologies = len(np.unique(units.topology[least > 0]))
    room = float((case.cores * case.speed)[there].sum())
    room -= topologies * case.worker_cores * float(case.speed[there].min())
    return max(busiest, float(least.sum()) / room if room > 0 else math.inf)


def _simple_nodes(case: Case, allowed: float) -> float:
    least, room = float(_least_work(case).sum()), allowed * case.cores * case.speed
    if not len(case.work):
        return 0.0
    count = int(np.searchsorted(np.cumsum(np.sort(room)[::-1]), least * (1 - _ROUNDING))) + 1
    return math.inf if count > len(room) or simple(case) > allowed * (1 + _ROUNDING) else float(count)


def _least_work(case: Case) -> FloatArray:
    handled = case.units.handled
    part = np.divide(case.units.least, handled, out=np.zeros(len(handled)), where=handled > 0)
    return case.work * part


def _smaller(case: Case) -> list[Case]:
    """Return the largest relaxation whose program is small enough, if any."""
    parts = (case, case.without_messages())
    return [part for part in parts if len(part.cores) and unknowns(part) <= MAX_UNKNOWNS][:1]


def _solve(
    case: Case, low: float, high: float, whole: bool, limit_s: float, *, count_nodes: bool = False
) -> _ProgramBound:
    at = Columns.of(case)
    if limit_s <= 0:
        return _ProgramBound(0.0, complete=False)
    upper = np.ones(at.full + 1)
    upper[at.count] = np.maximum(case.units.size[:, np.newaxis], 1)
    upper[at.workers] = case.ports
    upper[at.full] = high * (1 + _ROUNDING)
    lower, goal, integral = np.zeros(at.full + 1), np.zeros(at.full + 1), np.zeros(at.full + 1)
    lower[at.full] = low
    goal[at.node if count_nodes else at.full] = 1.0
    if whole:
        for columns in (at.here, at.count, at.workers, at.node if count_nodes else at.node[:0]):
            integral[columns] = 1
    options = {"time_limit": limit_s, "mip_rel_gap": _BETTER / 2}
    found = rows_of(case, at, low, high).minimise(goal, lower, upper, integral, options)
    if not found.possible:
        return _ProgramBound(math.inf, complete=True)
    return _ProgramBound(found.bound if math.isfinite(found.bound) else 0.0, complete=found.complete)
