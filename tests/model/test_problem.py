"""The arrays that a problem compiles to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from stormwright.model import (
    UNPLACED,
    Component,
    LoadProfile,
    Problem,
    Supervisor,
    Topology,
    TopologyAssignment,
    WorkerSlot,
    default_executor_runs,
)
from stormwright.testing import oracles
from stormwright.testing.strategies import problems


@pytest.mark.long
@given(problems())
def test_arrays_agree_with_the_objects(problem):
    named = oracles.executors(problem)
    assert problem.num_executors == len(named)
    assert [problem.topologies[t].id for t in problem.executor_topology] == [topology for topology, _ in named]
    for index, topology in enumerate(problem.topologies):
        own = problem.executors_of(index)
        assert [name for name, _ in named[own]] == [topology.id] * topology.num_executors
    assert [
        (problem.supervisors[n].id, slot.port) for n, slot in zip(problem.slot_node, problem.slots, strict=True)
    ] == [(node.id, port) for node in problem.supervisors for port in node.ports]
    assert all(problem.slot_index[slot] == index for index, slot in enumerate(problem.slots))
    racks = [node.rack for node in problem.supervisors]
    same = np.array([[a == b for b in racks] for a in racks])
    assert np.array_equal(problem.node_rack[:, None] == problem.node_rack[None, :], same)


@pytest.mark.long
@given(problems())
def test_current_slot_by_name(problem):
    for (topology, executor), slot in zip(oracles.executors(problem), problem.current_slot, strict=True):
        now = problem.current.get(topology)
        position = now.slot_of_executor[executor] if now else UNPLACED
        runs_in = now.slots[position] if now and position != UNPLACED else None
        assert (problem.slots[slot] if slot != UNPLACED else None) == (runs_in if runs_in in problem.slots else None)


@pytest.mark.long
@given(problems())
def test_loads_are_measured_or_assumed(problem):
    assert len(problem.executor_cpu_hz) == len(problem.executor_memory_mb) == problem.num_executors
    if problem.load is not None:
        expected = [problem.load.topologies[t.id].cpu_hz for t in problem.topologies]
        assert problem.executor_cpu_hz.tolist() == [hz for of_topology in expected for hz in of_topology]


def test_usable_nodes():
    nodes = tuple(Supervisor(f"s{n}", f"h{n}", (1,), 1.0) for n in range(3))
    problem = Problem(nodes, (), blacklisted_hosts=frozenset({"h0"}), greylisted_supervisors=("s1",))
    assert problem.node_usable.tolist() == [False, False, True]


def test_an_assignment_of_an_unknown_topology_is_nothing():
    problem = Problem(
        (Supervisor("s", "h", (1,), 1.0),), (), current={"t": TopologyAssignment((WorkerSlot("s", 1),), (0,))}
    )
    assert problem.current_slot.tolist() == []


@pytest.mark.long
@given(problems())
def test_problem_without_load_or_placement_retains_its_supervisors(problem):
    nothing = problem.with_current({}).with_load(LoadProfile({}))
    assert np.all(nothing.current_slot == UNPLACED)
    assert nothing.supervisors == problem.supervisors


@pytest.mark.long
@given(problems())
def test_shared_arrays_cannot_be_written_to(problem):
    shared = [problem.executor_offset, problem.executor_topology, problem.slot_node, problem.current_slot]
    for array in [*shared, problem.node_cpu_hz, problem.node_memory_mb, problem.node_rack, problem.executor_cpu_hz]:
        if len(array):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


def test_empty_problem_has_empty_arrays():
    problem = Problem((), ())
    for name in ("executor_topology", "slot_node", "node_cpu_hz", "node_rack", "current_slot", "executor_cpu_hz"):
        assert len(getattr(problem, name)) == 0
    assert replace(problem, name="x").num_executors == 0


def test_node_has_one_name_and_is_found_by_each_alias():
    """Of several supervisors on a host the id says which."""
    nodes = [Supervisor(name, host, (6700,), 1e9) for name, host in (("a1", "red"), ("b2", "blue"), ("c3", "blue"))]
    cluster = Problem(tuple(nodes), ()).cluster
    assert cluster.node_names == ("red", "b2@blue", "c3@blue")
    assert [cluster.slot_name(slot) for slot in cluster.slots] == ["red:6700", "b2@blue:6700", "c3@blue:6700"]
    assert cluster.slot_name(WorkerSlot("gone", 1)) == "gone:1"
    assert [cluster.find_node(name) for name in ("red", "a1", "c3@blue", "c3", "blue")] == [0, 0, 2, 2, None]


@pytest.mark.parametrize(
    ("executors", "workers", "resources", "limited"),
    [
        (51, 1, {"cpu.pcore.percent": 400.0, "memory.mb": 4096.0}, False),  # 5.1 cores and 6,528 MB
        (31, 1, {"cpu.pcore.percent": 400.0, "memory.mb": 4096.0}, True),  # fits
        (51, 1, {"cpu.pcore.percent": 400.0, "memory.mb": 4095.0}, True),  # somebody has declared it
        (62, 2, {"cpu.pcore.percent": 400.0, "memory.mb": 4096.0}, True),
        (66, 2, {"cpu.pcore.percent": 400.0, "memory.mb": 4096.0}, False),  # 33 in a worker: 4,224 MB
    ],
)
def test_mere_defaults_refuse_no_topology(executors, workers, resources, limited):
    components = (Component("s", "spout", executors, resources=default_requests()),)
    of = Topology("t", "t", workers, components, default_executor_runs(components))
    nodes = tuple(Supervisor(f"n{i}", f"n{i}", (6700, 6701), 12e9, resources=resources) for i in range(4))
    memory_mb = Problem(nodes, (of,)).executor_demand[1]
    assert memory_mb.any() == limited
    requested = replace(of, components=(Component("s", "spout", executors, resources={"onheap.memory.mb": 129.0}),))
    assert Problem(nodes, (requested,)).executor_demand[1].all(), "a request is one"
    aware = {"storm.scheduler": "org.apache.storm.scheduler.resource.ResourceAwareScheduler"}
    assert Problem(nodes, (of,), conf=aware).executor_demand[1].all(), "that scheduler takes defaults for requests"


def default_requests():
    return {"cpu.pcore.percent": 10.0, "onheap.memory.mb": 128.0, "offheap.memory.mb": 0.0}
