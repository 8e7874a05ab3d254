"""Limits: the same verdict as the oracle, and messages that carry numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.model import Component, Problem, Topology, WorkerSlot, default_executor_runs, violations
from stormwright.model.constraints.blacklist import BlacklistedHostUse
from stormwright.model.constraints.separation import CrowdedNode, IncompatibleExecutors
from stormwright.model.constraints.slots import NoSuchSlot
from stormwright.model.constraints.violations import broken_limits
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER
from stormwright.testing import oracles
from stormwright.testing.strategies import problems, slots_of
from tests.case_files import case_files, case_name, case_problem, read_case
from tests.schedulers.builders import load, nodes, problem, running, topology


def texts(of, slots):
    return list(map(str, violations(of, slots)))


@pytest.mark.long
@given(problems(), st.data())
def test_placement_without_violations_is_valid_for_the_oracle(of, data):
    slots = data.draw(slots_of(of))
    assert (violations(of, slots) == []) == oracles.is_valid(of, slots.tolist())


@pytest.mark.parametrize("path", case_files("placement")[:6], ids=case_name)
def test_all_executors_in_one_slot_violate_limits(path):
    of = case_problem(path)
    assert violations(of, np.zeros(of.num_executors, np.int32))


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        ([0, 0, 1, -1], "t: 1 of 4 executors have no slot"),
        ([0, 0, 0, 1], "t: 3 executors in h0:6700, limit 2"),
        ([0, 0, 1, 1], "h0: CPU 1.2 of 1.0 GHz"),
        ([4, 4, 5, 5], "h1: memory 400 of 300 MB"),
        ([0, 1, 4, 5], "t: 4 workers, wanted 2"),
    ],
)
def test_messages(slots, message):
    tight = (*nodes(1.0), *nodes(9.0, 9.0, memory_mb=300.0)[1:])
    of = problem(tight, (topology("t", 4, 2, **{"stormwright.max.executors.per.worker": 2}), load(4, cpu_ghz=0.3)))
    assert message in texts(of, np.array(slots, np.int32))


def test_shared_slot():
    of = problem(nodes(9.0), *((topology(name, 1, 1), load(1)) for name in "ab"))
    assert texts(of, np.zeros(2, np.int32)) == ["h0:6700: shared by a, b"]


@pytest.mark.slow
@given(problems(), st.data())
def test_component_separation_violations_equal_oracle(of, data):
    slots = data.draw(slots_of(of))
    broken = [each for each in violations(of, slots) if isinstance(each, CrowdedNode | IncompatibleExecutors)]
    assert (broken == []) == oracles.separates(of, slots.tolist())


@pytest.mark.parametrize(
    ("label", "apart"), [("RAS-ConstraintSolverStrategy", True), ("DefaultScheduler", False), ("EvenScheduler", False)]
)
def test_only_storms_constraint_solver_separates_components(label, apart):
    """It looks at constraints, and not at how many workers a topology wants; the others look at no constraints."""
    (path,) = [path for path in case_files("peer") if case_name(path) == "m25-constraints-backtrack"]
    of, answer = case_problem(path), read_case(path)["answers"][label]
    (placement,) = answer["assignments"].values()
    slots = [of.slot_index[WorkerSlot(*placement["slots"][number])] for number in placement["slot_of_executor"]]
    broken = [each for each in violations(of, np.array(slots)) if isinstance(each, CrowdedNode | IncompatibleExecutors)]
    assert (broken == []) == apart


def test_messages_of_limits_on_components():
    components = (Component("a", "spout", 3), Component("b", "bolt", 2))
    rules = {"a": {"maxNodeCoLocationCnt": 2, "incompatibleComponents": ["b"]}, "b": {"incompatibleComponents": "b"}}
    conf = {"topology.ras.constraints": rules}
    of = Problem(nodes(9.0), (Topology("t", "t", 3, components, default_executor_runs(components), conf=conf),))
    assert texts(of, np.array([0, 0, 1, 1, 2], np.int32)) == [
        "t: 3 executors of a on h0, limit 2",
        "t: 1 executor of a and 1 of b in h0:6701, incompatible",
    ]
    assert texts(of, np.array([0, 0, -1, 1, 1], np.int32)) == [
        "t: 1 of 5 executors have no slot",
        "t: 2 workers, wanted 3",
        "t: 2 executors of b in h0:6701, incompatible",
    ]


def test_only_new_executors_on_blacklisted_host_are_a_violation():
    of = problem(nodes(9.0, 9.0), (topology("t", 2, 1), load(2)), (topology("u", 1, 1), load(1)))
    of = running(replace(of, blacklisted_hosts=frozenset({"h1"})), [4, 4, 0])
    assert violations(of, np.array([4, 4, 0], np.int32)) == []
    (moved,) = violations(of, np.array([5, 5, 0], np.int32))
    assert moved == BlacklistedHostUse(topology="t", node="h1", supervisor="s1", amount=2, allowed=0)
    assert str(moved) == "t: 2 executors new on h1, whose host is blacklisted"
    (came,) = broken_limits(of, np.array([4, 4, 6], np.int32))
    assert (came.topology, came.node, came.amount) == ("u", "h1", 1)
    half = broken_limits(of, np.array([-1, 5, 0], np.int32))
    assert [(each.topology, each.amount) for each in half] == [("t", 1)], "of a topology placed in part, too"


def test_nonexistent_slot_is_a_violation():
    of = problem(nodes(9.0), (topology("t", 2, 1), load(2)))
    assert [str(each) for each in violations(of, np.array([0, 9], np.int32))] == [
        "t: 1 executor in slots that are none of the 4 slots"
    ]
    (found,) = violations(of, np.array([0, -5], np.int32))
    assert isinstance(found, NoSuchSlot)


def test_violations_are_typed_for_programs_with_the_text_last():
    of = problem(nodes(1.0), (topology("t", 4, 2, **{MAX_EXECUTORS_PER_WORKER: 2}), load(4, cpu_ghz=0.3)))
    found = [each.as_dict() for each in violations(of, np.zeros(4, np.int32))]
    assert found == [
        {
            "limit": "resources",
            "topology": None,
            "node": "h0",
            "supervisor": "s0",
            "slot": None,
            "amount": 1.2e9,
            "allowed": 1e9,
            "unit": "Hz",
            "resource": "CPU",
            "text": "h0: CPU 1.2 of 1.0 GHz",
        },
        {
            "limit": "number of workers",
            "topology": "t",
            "node": None,
            "supervisor": None,
            "slot": None,
            "amount": 1,
            "allowed": 2,
            "unit": "workers",
            "text": "t: 1 worker, wanted 2",
        },
        {
            "limit": "executors per worker",
            "topology": "t",
            "node": "h0",
            "supervisor": "s0",
            "slot": "h0:6700",
            "amount": 4,
            "allowed": 2,
            "unit": "executors",
            "text": "t: 4 executors in h0:6700, limit 2",
        },
    ]
    assert all(list(each)[-1] == "text" for each in found)


def test_topology_named_like_a_node_is_distinguished_from_it():
    """Once the beginning of a text decided which topology it was about."""
    of = problem(nodes(1.0), (topology("h0", 2, 1), load(2, cpu_ghz=0.9)), (topology("t", 1, 1), load(1)))
    assert [str(each) for each in broken_limits(of, np.array([0, -1, 1], np.int32))] == []
    assert [str(each) for each in broken_limits(running(of, [0, 0, 1]), np.array([0, 0, -1], np.int32))] == [
        "h0: CPU 1.8 of 1.0 GHz"
    ]
    slots = np.array([0, -1, 1], np.int32)
    over = replace(of, supervisors=nodes(0.5))
    assert [str(each) for each in broken_limits(over, slots)] == ["h0: CPU 1.0 of 0.5 GHz"]
