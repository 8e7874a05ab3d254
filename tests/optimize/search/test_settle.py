"""A topology that has settled: no step of an executor is left that lowers its cost."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from stormwright.jit.compiled import _OPTIONS
from stormwright.jit.inlined import WholeCompiler
from stormwright.model import cost_of, violations
from stormwright.optimize.layout.start import add_up_cost
from stormwright.optimize.search.budget import Budget
from stormwright.optimize.search.refine import can_settle, refine, settle
from tests.case_files import case_files, case_name, case_problem
from tests.optimize.layout.test_layout import placed_layout, slots_of

FEW_TOPOLOGIES = next(path for path in case_files("placement") if case_name(path).startswith("m03"))


@numba.njit(pipeline_class=WholeCompiler, **_OPTIONS)
def settle_all(layout):
    """As code of its own, which is not cached; executors looked at, and those looked at when it settles once more."""
    looks, again = 0, 0
    for topology in range(len(layout.topologies)):
        if can_settle(layout, topology):
            for turn in range(2):
                found = settle(layout, topology)
                looks += found * (1 - turn)
                again += found * turn
    return looks, again


def disturbed_layout(problem):
    """One that keeps all limits, after many steps so hot that any is taken."""
    layout = placed_layout(problem)
    add_up_cost(layout)
    Budget(0.0, 1_000).improve(layout)
    refine(layout, 3_000, 5.0 * layout.executors["tps"].mean())
    return layout


@pytest.mark.slow
def test_no_move_and_no_exchange_lowers_the_cost_further():
    problem = case_problem(FEW_TOPOLOGIES)
    layout = disturbed_layout(problem)
    begun = cost_of(problem, slots_of(problem, layout)).total
    assert settle_all(layout)[0] > problem.num_executors
    while settle_all(layout)[0] > problem.num_executors:
        pass  # what one topology leaves may be room for another that has settled before

    slots = slots_of(problem, layout)
    assert violations(problem, slots) == []
    settled = cost_of(problem, slots).total
    assert settled < begun
    table = layout.table.copy()
    add_up_cost(layout)
    assert layout.totals["cost"][0] == pytest.approx(settled, rel=1e-9)
    assert np.array_equal(table, layout.table)
    for a, other in enumerate(problem.executor_topology):
        own = range(problem.executor_offset[other], problem.executor_offset[other + 1])
        tried = [(b, slots[b]) for b in own if b < a] + [(None, slot) for slot in set(slots[own].tolist())]
        for b, slot in tried:
            step = slots.copy()
            step[a] = slot
            if b is not None:
                step[b] = slots[a]
            if cost_of(problem, step).total < settled * (1 - 1e-9):
                assert violations(problem, step), (a, b)


@pytest.mark.slow
def test_settling_visits_each_executor_only_once():
    layout = disturbed_layout(case_problem(FEW_TOPOLOGIES))
    assert settle_all(layout)[1] == len(layout.executors)
