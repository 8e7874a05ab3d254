"""Model-driven scheduling: bundles and their workers by hand."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.model import Component, Problem, Supervisor, Topology, default_executor_runs, violations
from stormwright.schedulers import make_scheduler
from tests.case_files import case_name, case_problem, small_cases
from tests.schedulers.builders import GHZ, load, problem


def machines(count: int, ports: int, cores: int = 8) -> tuple[Supervisor, ...]:
    """Nodes with cores of 1 GHz."""
    resources = {"cpu.pcore.percent": 100.0 * cores, "memory.mb": 8192.0}
    return tuple(
        Supervisor(f"s{n}", f"h{n}", tuple(range(6700, 6700 + ports)), cores * GHZ, resources=resources)
        for n in range(count)
    )


def of_components(workers: int, supervisors: tuple[Supervisor, ...], **cpu_ghz: tuple[int, float]) -> Problem:
    """A topology whose components have a number of executors of equal CPU each."""
    components = tuple(Component(name, "spout", count) for name, (count, _) in cpu_ghz.items())
    each = np.repeat([ghz for _, ghz in cpu_ghz.values()], [count for count, _ in cpu_ghz.values()])
    t = Topology("t", "t", workers, components, default_executor_runs(components))
    return problem(supervisors, (t, load(len(each), cpu_ghz=each)))


def workers_of(of: Problem) -> list[list[int]]:
    slots = make_scheduler("model_driven").schedule(of).slot_of_executor
    assert violations(of, slots) == []
    return sorted(np.flatnonzero(slots == slot).tolist() for slot in np.unique(slots))


def test_full_bundles_have_workers_of_their_own_and_partial_ones_share():
    """2 executors of 0.4 GHz, or of 0.5, fill a core of 1 GHz: bundles of a 2 + 2 + 1, of b 2 + 1."""
    of = of_components(4, machines(2, 2), a=(5, 0.4), b=(3, 0.5))
    assert workers_of(of) == [[0, 1], [2, 3], [4, 7], [5, 6]]


def test_slots_of_used_nodes_come_first():
    of = of_components(4, machines(3, 2), a=(5, 0.4), b=(3, 0.5))
    slots = make_scheduler("model_driven").schedule(of).slot_of_executor
    assert of.slot_node[slots].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_partial_bundle_goes_where_least_cpu_is_left_that_suffices():
    """0.45 + 0.4 share; 0.5 does not fit; 0.15 fits both, and the first has least left."""
    of = of_components(2, machines(1, 2), c=(1, 0.45), d=(1, 0.4), e=(1, 0.5), f=(1, 0.15))
    assert workers_of(of) == [[0, 1, 3], [2]]


def test_executors_that_need_more_than_half_a_core_are_bundles_of_one():
    assert workers_of(of_components(3, machines(1, 3), a=(3, 0.6))) == [[0], [1], [2]]


@pytest.mark.parametrize(("workers", "expected"), [(1, [[0, 1, 2, 3]]), (2, [[0, 1], [2, 3]])])
def test_bundles_share_if_there_are_fewer_workers(workers, expected):
    assert workers_of(of_components(workers, machines(1, 4), a=(4, 0.5))) == expected


def test_workers_left_over_halve_the_largest():
    assert workers_of(of_components(3, machines(1, 4), a=(6, 0.1))) == [[0, 1], [2], [3, 4, 5]]


@pytest.mark.parametrize("path", small_cases(), ids=case_name)
def test_cases_are_valid(path):
    placed = case_problem(path)
    assert violations(placed, make_scheduler("model_driven").schedule(placed).slot_of_executor) == []
