"""A problem built in Python has the faults that a file with the same content has."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from stormwright.errors import InputError
from stormwright.formats import problem_from_dict, problem_to_dict
from stormwright.model import (
    Component,
    Grouping,
    LoadProfile,
    Problem,
    Supervisor,
    Topology,
    TopologyAssignment,
    WorkerSlot,
    default_executor_runs,
)
from stormwright.model.problem import CHECKED
from stormwright.testing.strategies import problems
from tests.schedulers.builders import load, nodes, problem, running, topology


def base() -> Problem:
    """Two topologies of two executors on two nodes, measured and running."""
    of = problem(nodes(9.0, 9.0), (topology("t", 2, 1), load(2, [(0, 1, 5.0)])), (topology("u", 2, 2), load(2)))
    return running(of, [0, 0, 4, 5])


def node(**changes) -> dict:
    first, second = base().supervisors
    return {"supervisors": (first, replace(second, **changes))}


def of_topology(**changes) -> dict:
    first, second = base().topologies
    return {"topologies": (first, replace(second, **changes))}


def of_load(**changes) -> dict:
    loads = base().load.topologies
    return {"load": LoadProfile({**loads, "t": replace(loads["t"], **changes)})}


def now(*slots: tuple[str, int], of_executor=(0, 0)) -> dict:
    return {"current": {**base().current, "t": TopologyAssignment(tuple(WorkerSlot(*s) for s in slots), of_executor)}}


SPOUT = Component("c", "spout", 2)

WRONG = {
    "negative CPU": (node(cpu_hz=-1.0), {"$.supervisors[1].cpu_hz"}),
    "negative memory": (node(resources={"memory.mb": -1.0}), {'$.supervisors[1].resources["memory.mb"]'}),
    "port twice": (node(ports=(6700, 6700)), {"$.supervisors[1].ports[1]"}),
    "port that is none": (node(ports=(70000,)), {"$.supervisors[1].ports[0]"}),
    "no name of a host": (node(host=""), {"$.supervisors[1].host"}),
    "link without speed": (node(link_bps=0.0), {"$.supervisors[1].link_bps"}),
    "supervisor twice": (node(id="s0"), {"$.supervisors[1].id"}),
    "topology twice": ({**of_topology(id="t"), "current": {}, "load": LoadProfile({})}, {"$.topologies[1].id"}),
    "no worker": (of_topology(num_workers=0), {"$.topologies[1].num_workers"}),
    "component twice": (
        of_topology(components=(SPOUT, SPOUT), executor_runs=default_executor_runs((SPOUT,))),
        {"$.topologies[1].components[1].id", "$.topologies[1].components[1].parallelism"},
    ),
    "runs that do not fit": (
        of_topology(components=(replace(SPOUT, parallelism=3),)),
        {"$.topologies[1].components[0].parallelism"},
    ),
    "unknown source": (
        of_topology(components=(replace(SPOUT, inputs=(Grouping("x"),)),)),
        {"$.topologies[1].components[0].inputs[0].from"},
    ),
    "unknown grouping": (
        of_topology(components=(replace(SPOUT, inputs=(Grouping("c", kind="shuffled"),)),)),
        {"$.topologies[1].components[0].inputs[0].grouping"},
    ),
    "configuration": (of_topology(conf={"topology.priority": -1}), {'$.topologies[1].conf["topology.priority"]'}),
    "cluster's configuration": (
        {"conf": {"isolation.scheduler.machines": 3}},
        {'$.conf["isolation.scheduler.machines"]'},
    ),
    "core": ({"core_hz": 0.0}, {"$.core_hz"}),
    "load of too few": (of_load(cpu_hz=np.zeros(1)), {"$.load.t.cpu_hz"}),
    "negative load": (of_load(memory_mb=np.array([1.0, -1.0])), {"$.load.t.memory_mb[1]"}),
    "unknown executor": (of_load(pair_target=np.array([2])), {"$.load.t.pairs[0][1]"}),
    "negative rate": (of_load(pair_tps=np.array([-1.0])), {"$.load.t.pairs[0][2]"}),
    "bytes of too many": (of_load(pair_bytes_per_s=np.zeros(2)), {"$.load.t.pair_bytes_per_s"}),
    "part of the time above all": (of_load(executing=np.array([0.0, 1.5])), {"$.load.t.executing[1]"}),
    "runs of too few": (of_load(runs_per_s=np.zeros(1)), {"$.load.t.runs_per_s"}),
    "negative runs": (of_load(runs_per_s=np.array([0.0, -1.0])), {"$.load.t.runs_per_s[1]"}),
    "negative size": (of_load(bytes_per_tuple=-1.0), {"$.load.t.bytes_per_tuple"}),
    "slot twice": (now(("s0", 6700), ("s0", 6700)), {"$.assignments.t.slots[1]"}),
    "slot of two": (now(("s1", 6700)), {"$.assignments.t.slots[0]", "$.assignments.u.slots[0]"}),
    "position that is none": (now(("s0", 6700), of_executor=(0, 1)), {"$.assignments.t.slot_of_executor[1]"}),
    "placement of too few": (now(("s0", 6700), of_executor=(0,)), {"$.assignments.t.slot_of_executor"}),
}


@pytest.mark.parametrize("name", WRONG)
def test_constructor_and_file_reader_report_the_same_faults(name):
    changes, paths = WRONG[name]
    with pytest.raises(InputError) as here:
        replace(base(), **changes)
    found = {fault.path for fault in here.value.faults}
    assert found & paths
    document = problem_to_dict(replace(base(), **changes, parts=CHECKED))
    with pytest.raises(InputError) as there:
        problem_from_dict(document)
    assert found == {fault.path for fault in there.value.faults}


def test_an_unknown_component_in_a_load():
    flow = {"flow_source": [0], "flow_component": [7], "flow_tps": [1.0]}
    with pytest.raises(InputError, match=r"one of 1 components, got 7 @ \$\.load\.t\.flows\[0\]\[1\]"):
        replace(base(), **of_load(**flow, flow_grouping=("shuffle",)))
    with pytest.raises(InputError, match=r"one of local_or_shuffle, none, shuffle, got 'fields'"):
        replace(base(), **of_load(**{**flow, "flow_component": [0]}, flow_grouping=("fields",)))


def test_all_faults_at_once():
    with pytest.raises(InputError) as caught:
        replace(base(), **node(cpu_hz=-1.0), **of_topology(num_workers=0), **of_load(cpu_hz=np.array([-1.0, np.nan])))
    assert [fault.path for fault in caught.value.faults] == [
        "$.supervisors[1].cpu_hz",
        "$.topologies[1].num_workers",
        "$.load.t.cpu_hz[0]",
        "$.load.t.cpu_hz[1]",
    ]


def test_wrong_types_are_reported_with_their_paths():
    components = (Component("c", "sprout", 1, resources={"cpu.pcore.percent": "x"}),)
    strange = Topology("", "t", True, components, default_executor_runs(components))
    with pytest.raises(InputError) as caught:
        Problem((Supervisor(3, "h", ("a",), "fast", rack=None),), (strange,), core_hz=float("nan"))
    assert [fault.path for fault in caught.value.faults] == [
        "$.core_hz",
        "$.supervisors[0].id",
        "$.supervisors[0].rack",
        "$.supervisors[0].ports[0]",
        "$.supervisors[0].cpu_hz",
        "$.topologies[0].id",
        "$.topologies[0].num_workers",
        "$.topologies[0].components[0].type",
        '$.topologies[0].components[0].resources["cpu.pcore.percent"]',
    ]


def test_many_wrong_numbers_are_counted():
    with pytest.raises(InputError, match="3 more like this"):
        problem(nodes(9.0), (topology("t", 13, 1), load(13, cpu_ghz=-1.0)))


@pytest.mark.long
@given(problems())
def test_valid_problem_survives_a_round_trip(of):
    assert problem_from_dict(problem_to_dict(of)).num_executors == of.num_executors


def test_only_new_nodes_are_validated(monkeypatch):
    """One that joins a large cluster, or leaves it, costs as much as one."""
    looked = []
    monkeypatch.setattr("stormwright.model.validate._is_sound", lambda node: looked.append(node.id) or True)
    of = base()
    looked.clear()
    joined = replace(of, supervisors=(*of.supervisors, replace(of.supervisors[0], id="s2")))
    assert looked == ["s2"]
    assert replace(joined, supervisors=joined.supervisors[1:]).supervisors[-1].id == "s2"
    assert looked == ["s2"]


def test_looking_at_a_large_problem_is_cheap():
    components = (Component("a", "spout", 50), Component("b", "bolt", 50))
    runs = default_executor_runs(components)
    topologies = tuple(Topology(f"t{n}", f"t{n}", 10, components, runs) for n in range(1000))
    supervisors = nodes(*[9.0] * 5000)
    start = time.process_time()
    of = Problem(supervisors, topologies)
    measured = LoadProfile({t.id: load(100) for t in topologies})
    before = time.process_time()
    assert of.with_load(measured).num_executors == 100_000
    assert time.process_time() - before < 0.1
    assert time.process_time() - start < 1.0
