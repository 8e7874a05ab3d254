"""`stormwright-problem/1`: what is read, what is written, and every fault with its path."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from stormwright.errors import InputError
from stormwright.formats import problem_from_dict, problem_to_dict
from stormwright.model import Supervisor, WorkerSlot
from stormwright.testing.strategies import problems
from tests.case_files import case_files, case_name, read_case
from tests.formats.documents import SMALL, TOPOLOGY, small

LOAD = ("load", TOPOLOGY)
TOP = ("topologies", 0)


def faults(document) -> list[tuple[str, str]]:
    with pytest.raises(InputError) as error:
        problem_from_dict(document, "file.json")
    assert error.value.source == "file.json"
    return [(fault.path, fault.message) for fault in error.value.faults]


def test_everything_is_read():
    problem = problem_from_dict(SMALL)
    assert problem.supervisors[0] == Supervisor(
        id="s0",
        host="h0",
        ports=(6700, 6701),
        cpu_hz=6e9,
        rack="r0",
        scheduler_meta={"tags": "a"},
        resources={"cpu.pcore.percent": 200.0, "memory.mb": 4096.0, "gpu.count": 1.0},
    )
    assert problem.supervisors[1].cpu_hz == 5e9
    assert problem.supervisors[1].link_bps == 1e9
    assert problem.blacklisted_hosts == {"h9"}
    assert problem.greylisted_supervisors == ("s1",)
    (topology,) = problem.topologies
    assert (topology.id, topology.owner, topology.launch_time, topology.num_workers) == (TOPOLOGY, "me", 7, 2)
    assert topology.executor_component.tolist() == [1, 1, 1, 0]
    assert topology.executor_start_task.tolist() == [1, 3, 5, 6]
    assert topology.executor_end_task.tolist() == [2, 4, 5, 6]
    assert topology.components[1].inputs[0].fields == ("word",)
    assert topology.components[1].tags == ("a", "b")
    assert topology.components[1].shared_memory == ({"name": "m", "off_heap_worker": 10.0},)
    assert problem.current[TOPOLOGY].slots == (WorkerSlot("s0", 6700), WorkerSlot("gone", 1))
    assert problem.current_slot.tolist() == [0, -1, -1, 0], "a slot that is gone is dead"
    (load,) = problem.loads
    assert load.cpu_hz.tolist() == [1e9, 2e9, 0, 5]
    assert (load.pair_source.tolist(), load.pair_target.tolist(), load.pair_tps.tolist()) == ([3, 3], [0, 1], [12.5, 0])
    assert (load.flow_source.tolist(), load.flow_component.tolist(), load.flow_grouping) == ([3], [1], ("shuffle",))
    assert load.flow_limit_tps.tolist() == [math.inf, 40]
    assert load.bytes_per_tuple == 16
    assert load.pair_bytes_per_s is not None
    assert load.flow_bytes_per_s is not None
    assert load.forecast_cpu_hz is not None
    assert (load.pair_bytes_per_s.tolist(), load.flow_bytes_per_s.tolist()) == ([200, 0], [128])
    assert load.forecast_cpu_hz.tolist() == [2e9, 2e9, 1, 5]
    assert load.waited.tolist() == [0.25, 0, 1, 0.5]
    assert load.runs_per_s.tolist() == [1000, 0, 2.5, 400]
    assert load.pending_trees.tolist() == [0, 0, 0, 12.5]
    assert problem.load.node_cpu_hz == {"s0": 4e9, "s1": 1e9}
    assert (problem.load.node_quota_hz, problem.load.node_overhead_hz) == ({"s0": 5e9}, {"s0": 3e8})


def test_measurements_of_nodes_without_a_load_are_a_load():
    bare = small("load", drop=True)
    problem = problem_from_dict(bare)
    assert (problem.load.topologies, problem.load.node_quota_hz) == ({}, {"s0": 5e9})


def test_measurements_of_a_node_that_is_gone_are_not_written():
    problem = problem_from_dict(SMALL)
    smaller = replace(problem, supervisors=problem.supervisors[1:], current={})
    written = problem_to_dict(smaller)
    assert written["node_cpu_hz"] == {"s1": 1e9}
    assert "node_quota_hz" not in written
    assert problem_from_dict(written).load.node_cpu_hz == {"s1": 1e9}


def test_optional_problem_fields_have_defaults():
    bare = {
        "schema": "stormwright-problem/1",
        "supervisors": [{"id": "s", "host": "h", "ports": []}],
        "topologies": [{"id": "t", "name": "t", "num_workers": 1, "components": [], "executor_runs": []}],
    }
    problem = problem_from_dict(bare)
    assert problem.load is None
    assert problem.supervisors[0].cpu_hz == math.inf, "what a supervisor does not tell is no limit"
    assert problem.supervisors[0].memory_mb == math.inf
    assert problem.num_executors == 0
    assert problem_to_dict(problem_from_dict(problem_to_dict(problem))) == problem_to_dict(problem)


def test_link_of_the_document_is_preferred_to_a_declared_one():
    document = small("supervisors", 1, "scheduler_meta", value={"stormwright.link": "40mbit"})
    assert problem_from_dict(document).supervisors[1].link_bps == 1e9
    del document["supervisors"][1]["link_bps"]
    problem = problem_from_dict(document)
    assert problem.supervisors[1].link_bps == 40e6
    assert problem_from_dict(problem_to_dict(problem)).supervisors == problem.supervisors


def test_core_speed_of_the_problem_and_of_a_supervisor():
    document = small("core_hz", value=2e9)
    assert problem_from_dict(document).supervisors[0].cpu_hz == 4e9
    document["supervisors"][0]["core_hz"] = 1e9
    assert problem_from_dict(document).supervisors[0].cpu_hz == 2e9


def test_problem_of_a_case_has_longer_paths():
    case = {"schema": "stormwright-case/1", "problem": small("supervisors", 0, "id", value=3), "anything": {}}
    assert faults(case)[0] == ("$.problem.supervisors[0].id", "should be a valid string, got 3")
    assert problem_from_dict({**case, "problem": SMALL}).name == "small"
    assert faults({"schema": "stormwright-case/1"}) == [("$.problem", "should be an object, got None")]


@pytest.mark.parametrize("path", case_files("peer") + case_files("placement"), ids=case_name)
def test_cases_are_read_and_written_back(path):
    original = read_case(path)["problem"]
    written = problem_to_dict(problem_from_dict(original))
    assert problem_to_dict(problem_from_dict(written)) == written
    for name in ("name", "conf", "blacklisted_hosts", "greylisted_supervisors", "assignments"):
        assert written[name] == original[name]
    assert written.get("load", {}) == original.get("load", {})
    for ours, theirs in zip(written["topologies"], original["topologies"], strict=True):
        assert ours["executor_runs"] == theirs["executor_runs"]
        assert {key: ours[key] for key in theirs if key != "components"} == {
            key: value for key, value in theirs.items() if key != "components"
        }


@pytest.mark.long
@given(problems())
def test_problem_round_trip_preserves_content(problem):
    document = problem_to_dict(problem)
    again = problem_from_dict(document)
    assert problem_to_dict(again) == document
    assert again.supervisors == problem.supervisors
    assert [t.components for t in again.topologies] == [t.components for t in problem.topologies]
    assert np.array_equal(again.current_slot, problem.current_slot)
    assert np.array_equal(again.executor_cpu_hz, problem.executor_cpu_hz)


@pytest.mark.parametrize(
    ("path", "value", "at", "message"),
    [
        (("schema",), "stormwright-problem/2", "$.schema", "should be 'stormwright-problem/1', got"),
        (("extra",), 1, "$.extra", "unknown key"),
        (("conf",), [], "$.conf", "should be an object, got []"),
        (("supervisors",), {}, "$.supervisors", "should be a list, got {}"),
        (("supervisors", 1), 7, "$.supervisors[1]", "should be an object, got 7"),
        (("supervisors", 1, "id"), "s0", "$.supervisors[1].id", "'s0' is the id of item 0 already"),
        (("supervisors", 1, "id"), "", "$.supervisors[1].id", "should have at least 1 character"),
        (("supervisors", 0, "ports", 1), 6700, "$.supervisors[0].ports[1]", "port 6700 is there twice"),
        (("supervisors", 0, "ports", 1), "6701", "$.supervisors[0].ports[1]", "should be a valid integer, got '6701'"),
        (("supervisors", 0, "ports", 1), 65536, "$.supervisors[0].ports[1]", "should be less than or equal to 65535"),
        (("supervisors", 0, "ports", 1), True, "$.supervisors[0].ports[1]", "should be a valid integer, got True"),
        (("supervisors", 0, "slots"), 4, "$.supervisors[0].slots", "unknown key"),
        (("supervisors", 0, "cpu_hz"), -1, "$.supervisors[0].cpu_hz", "should be greater than or equal to 0, got -1"),
        (("supervisors", 0, "cpu_hz"), math.nan, "$.supervisors[0].cpu_hz", "should be a finite number, got nan"),
        (
            ("supervisors", 0, "resources", "memory.mb"),
            math.inf,
            '$.supervisors[0].resources["memory.mb"]',
            "should be a finite number, got inf",
        ),
        (
            ("supervisors", 0, "scheduler_meta"),
            {"a": 1},
            "$.supervisors[0].scheduler_meta.a",
            "should be a valid string",
        ),
        ((*TOP, "num_workers"), 0, "$.topologies[0].num_workers", "should be greater than or equal to 1, got 0"),
        ((*TOP, "num_workers"), 1.5, "$.topologies[0].num_workers", "should be a valid integer"),
        (
            (*TOP, "conf", "stormwright.tag.workers"),
            5,
            '$.topologies[0].conf["stormwright.tag.workers"]',
            "should be an object of tags and numbers of workers, got 5",
        ),
        (
            (*TOP, "conf", "stormwright.tag.workers"),
            {"untagged": "x"},
            '$.topologies[0].conf["stormwright.tag.workers"].untagged',
            "should be an integer of at least 1, got 'x'",
        ),
        (
            (*TOP, "conf", "stormwright.tag.workers"),
            {"a,b": 2.7},
            '$.topologies[0].conf["stormwright.tag.workers"]["a,b"]',
            "should be an integer of at least 1, got 2.7",
        ),
        (
            (*TOP, "conf", "stormwright.forecast.growth"),
            "x",
            '$.topologies[0].conf["stormwright.forecast.growth"]',
            "should be a number, at least 0, got 'x'",
        ),
        (
            (*TOP, "conf", "stormwright.weight"),
            0,
            '$.topologies[0].conf["stormwright.weight"]',
            "should be a number above 0, at most 1,000,000,000, got 0",
        ),
        (
            (*TOP, "conf", "stormwright.weight"),
            "twice",
            '$.topologies[0].conf["stormwright.weight"]',
            "should be a number above 0, at most 1,000,000,000, got 'twice'",
        ),
        (
            (*TOP, "conf", "stormwright.workers"),
            "most",
            '$.topologies[0].conf["stormwright.workers"]',
            "should be one of exactly, at_most, free, got 'most'",
        ),
        (
            (*TOP, "conf", "topology.priority"),
            "high",
            '$.topologies[0].conf["topology.priority"]',
            "should be an integer of at least 0, got 'high'",
        ),
        (
            (*TOP, "conf", "topology.priority"),
            None,
            '$.topologies[0].conf["topology.priority"]',
            "should be an integer of at least 0, got None",
        ),
        (
            (*TOP, "conf", "stormwright.max.executors.per.worker"),
            "4",
            '$.topologies[0].conf["stormwright.max.executors.per.worker"]',
            "should be an integer of at least 1, got '4'",
        ),
        ((*TOP, "components", 1, "id"), "spout", "$.topologies[0].components[1].id", "'spout' is the id of item 0"),
        (
            (*TOP, "components", 0, "type"),
            "sprout",
            "$.topologies[0].components[0].type",
            "should be 'spout', 'bolt' or",
        ),
        (
            (*TOP, "components", 1, "inputs", 0, "from"),
            "nobody",
            "$.topologies[0].components[1].inputs[0].from",
            "unknown component 'nobody'",
        ),
        (
            (*TOP, "components", 1, "inputs", 0, "grouping"),
            "SHUFFLE",
            "$.topologies[0].components[1].inputs[0].grouping",
            "should be 'shuffle', 'fields'",
        ),
        (
            (*TOP, "components", 0, "parallelism"),
            2,
            "$.topologies[0].components[0].parallelism",
            "should be the 1 executors that executor_runs give, got 2",
        ),
        (
            (*TOP, "executor_runs", 0),
            [2, 1, 2, 2],
            "$.topologies[0].executor_runs[0][0]",
            "should be the index of one of 2 components, got 2",
        ),
        ((*TOP, "executor_runs", 0), [1, 1, 2], "$.topologies[0].executor_runs[0][3]", "required field missing"),
        ((*TOP, "executor_runs", 2), [0, 5, 1, 1], "$.topologies[0].executor_runs[2][1]", "task 5 belongs to another"),
        (
            (*TOP, "executor_runs", 2),
            [0, 2**31 - 1, 1, 2],
            "$.topologies[0].executor_runs[2]",
            "its last task would be",
        ),
        (("assignments", "other"), {"slots": [], "slot_of_executor": []}, "$.assignments.other", "unknown topology"),
        (("assignments", TOPOLOGY), 3, f'$.assignments["{TOPOLOGY}"]', "should be an object, got 3"),
        (
            ("assignments", TOPOLOGY, "slots", 1),
            ["s0", 6700],
            f'$.assignments["{TOPOLOGY}"].slots[1]',
            "s0:6700 is slot 0 already",
        ),
        (
            ("assignments", TOPOLOGY, "slot_of_executor"),
            [0],
            f'$.assignments["{TOPOLOGY}"].slot_of_executor',
            "has 1 items for 4 executors",
        ),
        (
            ("assignments", TOPOLOGY, "slot_of_executor", 1),
            2,
            f'$.assignments["{TOPOLOGY}"].slot_of_executor[1]',
            "should be -1 or the index of one of 2 slots, got 2",
        ),
        (
            ("assignments", TOPOLOGY, "slot_of_executor", 1),
            None,
            f'$.assignments["{TOPOLOGY}"].slot_of_executor[1]',
            "should be an integer, got None",
        ),
        (("load", "other"), {}, "$.load.other", "unknown topology"),
        ((*LOAD, "cpu_hz"), "fast", f'$.load["{TOPOLOGY}"].cpu_hz', "should be a list, got 'fast'"),
        ((*LOAD, "cpu_hz"), [1, 2, 3], f'$.load["{TOPOLOGY}"].cpu_hz', "has 3 items for 4 executors"),
        (
            (*LOAD, "forecast_cpu_hz"),
            [1, 2, 3],
            f'$.load["{TOPOLOGY}"].forecast_cpu_hz',
            "has 3 items for 4 executors",
        ),
        ((*LOAD, "waited", 1), 1.01, f'$.load["{TOPOLOGY}"].waited[1]', "should be a number from 0 to 1, got 1.01"),
        ((*LOAD, "waited"), [0.5], f'$.load["{TOPOLOGY}"].waited', "has 1 items for 4 executors"),
        ((*LOAD, "runs_per_s", 2), -0.5, f'$.load["{TOPOLOGY}"].runs_per_s[2]', "should be a number from 0"),
        ((*LOAD, "runs_per_s"), [1, 2], f'$.load["{TOPOLOGY}"].runs_per_s', "has 2 items for 4 executors"),
        ((*LOAD, "pending_trees", 3), -1, f'$.load["{TOPOLOGY}"].pending_trees[3]', "should be a number from 0"),
        (("node_cpu_hz", "s1x"), 1e9, "$.node_cpu_hz.s1x", "unknown supervisor; did you mean s1?"),
        (("node_quota_hz", "s0"), -1.0, "$.node_quota_hz.s0", "should be greater than or equal to 0"),
        (("node_overhead_hz", "s0"), math.inf, "$.node_overhead_hz.s0", "should be a finite number"),
        ((*LOAD, "pair_bytes_per_s"), [1], f'$.load["{TOPOLOGY}"].pair_bytes_per_s', "has 1 items for 2 pairs"),
        ((*LOAD, "flow_bytes_per_s"), [-1], f'$.load["{TOPOLOGY}"].flow_bytes_per_s[0]', "should be a number from 0"),
        ((*LOAD, "flow_bytes_per_s"), "x", f'$.load["{TOPOLOGY}"].flow_bytes_per_s', "should be a list, got 'x'"),
        ((*LOAD, "cpu_hz", 2), "1", f'$.load["{TOPOLOGY}"].cpu_hz[2]', "should be a number, got '1'"),
        ((*LOAD, "cpu_hz", 2), 10**400, f'$.load["{TOPOLOGY}"].cpu_hz[2]', "should be a number from 0 to 1e18"),
        ((*LOAD, "pairs", 0, 2), 1e308, f'$.load["{TOPOLOGY}"].pairs[0][2]', "should be a number from 0 to 1e18"),
        ((*LOAD, "memory_mb", 0), -1, f'$.load["{TOPOLOGY}"].memory_mb[0]', "should be a number from 0 to 1e18"),
        ((*LOAD, "pairs", 1), [0, 1], f'$.load["{TOPOLOGY}"].pairs[1]', "should be a list of 3, got [0, 1]"),
        (
            (*LOAD, "pairs", 1),
            [0, 4, 1],
            f'$.load["{TOPOLOGY}"].pairs[1][1]',
            "should be the index of one of 4 executors",
        ),
        ((*LOAD, "pairs", 1), [0.5, 1, 1], f'$.load["{TOPOLOGY}"].pairs[1][0]', "should be an integer, got 0.5"),
        (
            (*LOAD, "pairs", 1),
            [0, 1, math.nan],
            f'$.load["{TOPOLOGY}"].pairs[1][2]',
            "should be a number from 0 to 1e18",
        ),
        (
            (*LOAD, "flows", 0, 1),
            "nobody",
            f'$.load["{TOPOLOGY}"].flows[0][1]',
            "should be a component of the topology",
        ),
        ((*LOAD, "flows", 0, 2), "fields", f'$.load["{TOPOLOGY}"].flows[0][2]', "should be one of local_or_shuffle"),
        ((*LOAD, "flows", 0, 3), True, f'$.load["{TOPOLOGY}"].flows[0][3]', "should be a number, got True"),
        (
            (*LOAD, "flow_limits"),
            {"nobody": 1.0},
            f'$.load["{TOPOLOGY}"].flow_limits',
            "no component of wc-1-1600000000",
        ),
        (
            (*LOAD, "bytes_per_tuple"),
            -1,
            f'$.load["{TOPOLOGY}"].bytes_per_tuple',
            "should be greater than or equal to 0",
        ),
    ],
)
def test_a_fault_has_its_path(path, value, at, message):
    found = faults(small(*path, value=value))
    assert [text for where, text in found if where == at and text.startswith(message)], found


@pytest.mark.parametrize(
    ("path", "at"),
    [
        (("schema",), "$.schema"),
        (("supervisors",), "$.supervisors"),
        (("topologies",), "$.topologies"),
        (("supervisors", 0, "id"), "$.supervisors[0].id"),
        (("supervisors", 0, "ports"), "$.supervisors[0].ports"),
        ((*TOP, "executor_runs"), "$.topologies[0].executor_runs"),
        ((*TOP, "components", 1, "inputs", 0, "from"), "$.topologies[0].components[1].inputs[0].from"),
        ((*LOAD, "cpu_hz"), f'$.load["{TOPOLOGY}"].cpu_hz'),
        (("assignments", TOPOLOGY, "slots"), f'$.assignments["{TOPOLOGY}"].slots'),
    ],
)
def test_missing_fields(path, at):
    assert (at, "required field missing") in faults(small(*path, drop=True))


def test_slot_shared_by_two_topologies_is_a_fault():
    document = small()
    document["topologies"].append({**document["topologies"][0], "id": "second"})
    document["assignments"]["second"] = {"slots": [["s0", 6701], ["s0", 6700]], "slot_of_executor": [0, 0, 1, 1]}
    assert faults(document) == [("$.assignments.second.slots[1]", f"s0:6700 belongs to {TOPOLOGY} already")]


def test_all_faults_of_a_file_at_once():
    """Whatever level they are on, and also inside what has other faults."""
    document = small("topologies", 0, "num_workers", value="many")
    document["supervisors"][0]["ports"] = [1, 1, "x"]
    document["supervisors"].append({"id": "s0"})
    document["topologies"][0]["components"][1]["inputs"] = [{"from": "nobody", "grouping": "fields"}, {"from": "spout"}]
    document["topologies"][0]["components"][1]["tags"] = "a"
    document["load"][TOPOLOGY]["extra"] = 0
    document["assignments"]["nowhere"] = None
    assert {path for path, _ in faults(document)} == {
        "$.supervisors[0].ports[2]",
        "$.supervisors[2].id",
        "$.supervisors[2].host",
        "$.supervisors[2].ports",
        "$.topologies[0].num_workers",
        "$.topologies[0].components[1].inputs[0].from",
        "$.topologies[0].components[1].inputs[1].grouping",
        "$.topologies[0].components[1].tags",
        f'$.load["{TOPOLOGY}"].extra',
        "$.assignments.nowhere",
    }


def test_faults_of_long_lists_are_counted_not_all_listed():
    document = small("load", TOPOLOGY, "pairs", value=[[0, 9, 1.0]] * 1000)
    del document["load"][TOPOLOGY]["pair_bytes_per_s"]
    found = faults(document)
    assert len(found) == 11
    assert found[-1][1] == "should be the index of one of 4 executors: 990 more like this"


@pytest.mark.parametrize(
    "document", [None, [], 3, "text", {}, {"schema": None}, {"schema": "stormwright-assignment/1"}]
)
def test_non_problem_document_is_rejected(document):
    assert faults(document)[0][0] in ("$", "$.schema", "$.supervisors")


def test_hosts_and_workers_invalid_in_storm_are_rejected():
    document = small()
    document["topologies"][0]["conf"] = {
        "topology.ras.one.component.per.worker": "yes",
        "topology.scheduler.favored.nodes": "host-1",
        "topology.scheduler.unfavored.nodes": [1],
    }
    conf = "$.topologies[0].conf"
    assert faults(document) == [
        (f'{conf}["topology.ras.one.component.per.worker"]', "should be true or false, got 'yes'"),
        (f'{conf}["topology.scheduler.favored.nodes"]', "should be a list of hosts, got 'host-1'"),
        (f'{conf}["topology.scheduler.unfavored.nodes"]', "should be a list of hosts, got [1]"),
    ]


def test_legacy_resource_names_map_to_storms_normalized_names():
    document = small()
    reported = {"supervisor.cpu.capacity": 200, "supervisor.memory.capacity.mb": 9, "x": 1}
    document["supervisors"][0]["resources"] = reported
    document["supervisors"][0].pop("cpu_hz", None)
    document["topologies"][0]["components"][0]["resources"] = {"topology.component.cpu.pcore.percent": 50, "x": 2}
    problem = problem_from_dict(document)
    node, component = problem.supervisors[0], problem.topologies[0].components[0]
    assert node.resources == {"cpu.pcore.percent": 200, "memory.mb": 9, "x": 1}
    assert node.cpu_hz == 2 * (document["supervisors"][0].get("core_hz") or problem.core_hz)
    assert component.resources == {"cpu.pcore.percent": 50, "x": 2}


@pytest.mark.parametrize("scheduler", [{}, {"storm.scheduler": "stormwright.PlacementScheduler"}])
def test_machines_invalid_in_storm_are_rejected_by_every_reader(scheduler):
    document = small()
    document["conf"] = {"isolation.scheduler.machines": {"a": "two", "b": -1, "c": 2}} | scheduler
    machines = '$.conf["isolation.scheduler.machines"]'
    assert faults(document) == [
        (f"{machines}.a", "should be an integer of at least 1, got 'two'"),
        (f"{machines}.b", "should be an integer of at least 1, got -1"),
    ]
    document["conf"] |= {"isolation.scheduler.machines": 3}
    assert faults(document) == [(machines, "should be an object, got 3")]


def test_component_requests_invalid_in_storm_are_rejected():
    document = small()
    document["conf"] = {"topology.component.cpu.pcore.percent": "much"}
    document["topologies"][0]["conf"] = {"topology.component.resources.map": {"gpu.count": -1}}
    assert faults(document) == [
        ('$.conf["topology.component.cpu.pcore.percent"]', "should be a number from 0 to 1e18, got 'much'"),
        (
            '$.topologies[0].conf["topology.component.resources.map"]["gpu.count"]',
            "should be a number from 0 to 1e18, got -1",
        ),
    ]


def test_component_limits_invalid_in_storm_are_rejected():
    document = small()
    document["conf"] = {"topology.spread.components": "a"}
    document["topologies"][0]["conf"] = {"topology.ras.constraints": {"a": {"maxNodeCoLocationCnt": "many"}}}
    assert faults(document) == [
        ('$.conf["topology.spread.components"]', "should be a list of components, got 'a'"),
        (
            '$.topologies[0].conf["topology.ras.constraints"].a.maxNodeCoLocationCnt',
            "should be an integer, got 'many'",
        ),
    ]
