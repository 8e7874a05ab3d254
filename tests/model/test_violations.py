"""Limits: the same verdict as the oracle, and messages that carry numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.model import Component, Problem, Topology, WorkerSlot, default_executor_runs, violations
from stormwright.model.limits.apart import CrowdedNode, Incompatible
from stormwright.testing import oracles
from stormwright.testing.strategies import problems, slots_of
from tests.case_files import case_files, case_name, case_problem, read_case
from tests.schedulers.builders import load, nodes, problem, topology


def texts(of, slots):
    return list(map(str, violations(of, slots)))


@given(problems(), st.data())
def test_valid_means_what_the_oracle_says(of, data):
    slots = data.draw(slots_of(of))
    assert (violations(of, slots) == []) == oracles.is_valid(of, slots.tolist())


@pytest.mark.parametrize("path", case_files("placement")[:6], ids=case_name)
def test_one_slot_for_all_breaks_limits(path):
    of = case_problem(path)
    assert violations(of, np.zeros(of.num_executors, np.int32))


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        ([0, 0, 1, -1], "t: 1 of 4 executors have no slot"),
        ([0, 0, 0, 1], "t: 3 executors in s0:6700, limit 2"),
        ([0, 0, 1, 1], "s0: CPU 1.2 of 1.0 GHz"),
        ([4, 4, 5, 5], "s1: memory 400 of 300 MB"),
        ([0, 1, 4, 5], "t: 4 workers, wanted 2"),
    ],
)
def test_messages(slots, message):
    tight = (*nodes(1.0), *nodes(9.0, 9.0, memory_mb=300.0)[1:])
    of = problem(tight, (topology("t", 4, 2, **{"stormwright.max.executors.per.worker": 2}), load(4, cpu_ghz=0.3)))
    assert message in texts(of, np.array(slots, np.int32))


def test_shared_slot():
    of = problem(nodes(9.0), *((topology(name, 1, 1), load(1)) for name in "ab"))
    assert texts(of, np.zeros(2, np.int32)) == ["s0:6700: shared by a, b"]


@given(problems(), st.data())
def test_components_are_apart_as_the_oracle_says(of, data):
    slots = data.draw(slots_of(of))
    broken = [each for each in violations(of, slots) if isinstance(each, CrowdedNode | Incompatible)]
    assert (broken == []) == oracles.keeps_apart(of, slots.tolist())


@pytest.mark.parametrize(
    ("label", "apart"), [("RAS-ConstraintSolverStrategy", True), ("DefaultScheduler", False), ("EvenScheduler", False)]
)
def test_what_storms_own_constraint_solver_answers_keeps_components_apart(label, apart):
    """It looks at constraints, and not at how many workers a topology wants; the others look at no constraints."""
    (path,) = [path for path in case_files("peer") if case_name(path) == "m25-constraints-backtrack"]
    of, answer = case_problem(path), read_case(path)["answers"][label]
    (placement,) = answer["assignments"].values()
    slots = [of.slot_index[WorkerSlot(*placement["slots"][number])] for number in placement["slot_of_executor"]]
    broken = [each for each in violations(of, np.array(slots)) if isinstance(each, CrowdedNode | Incompatible)]
    assert (broken == []) == apart


def test_messages_of_limits_on_components():
    components = (Component("a", "spout", 3), Component("b", "bolt", 2))
    rules = {"a": {"maxNodeCoLocationCnt": 2, "incompatibleComponents": ["b"]}, "b": {"incompatibleComponents": "b"}}
    conf = {"topology.ras.constraints": rules}
    of = Problem(nodes(9.0), (Topology("t", "t", 3, components, default_executor_runs(components), conf=conf),))
    assert texts(of, np.array([0, 0, 1, 1, 2], np.int32)) == [
        "t: 3 executors of a on s0, limit 2",
        "t: 1 executor of a and 1 of b in s0:6701, incompatible",
    ]
    assert texts(of, np.array([0, 0, -1, 1, 1], np.int32)) == [
        "t: 1 of 5 executors have no slot",
        "t: 2 workers, wanted 3",
        "t: 2 executors of b in s0:6701, incompatible",
    ]
