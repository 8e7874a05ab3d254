"""``stormwright import nimbus`` on the session's cluster, beside what else is known of it."""

from __future__ import annotations

import json

import pytest

from stormwright import cli
from stormwright.formats import problem_from_dict
from stormwright.storm import jvm

pytestmark = pytest.mark.storm


def test_a_running_topology(storm_cluster, eventually, monkeypatch, capsys):
    storm_cluster.run_topology("stormwright.topologies.WordCount", ["name=imported"], {"topology.workers": 2})
    monkeypatch.setattr(jvm, "storm_command", lambda *_: storm_cluster.gateway_command())
    with storm_cluster.gateway() as gateway:
        try:
            (found,) = [topology for topology in gateway.cluster()["topologies"] if topology["name"] == "imported"]
            eventually(lambda: _all_run(gateway.topology(found["id"])["executors"]), "all executors run")
            running = gateway.topology(found["id"])["executors"]
            assert cli.run(["import", "nimbus", "--storm-home", str(storm_cluster.plan.work)]) == 0
            supervisors = {node["id"]: node["num_workers"] for node in gateway.cluster()["supervisors"]}
        finally:
            gateway.kill("imported", 0)
    problem = problem_from_dict(json.loads(capsys.readouterr().out))
    assert {node.id: len(node.ports) for node in problem.supervisors} == supervisors
    topology = problem.topologies[problem.topology_index[found["id"]]]
    numbers = zip(topology.executor_start_task.tolist(), topology.executor_end_task.tolist(), strict=True)
    assert sorted(numbers) == sorted((executor["first_task"], executor["last_task"]) for executor in running)
    ports = {executor["first_task"]: executor["port"] for executor in running}
    placement = problem.current[found["id"]]
    for start, slot in zip(topology.executor_start_task.tolist(), placement.slot_of_executor, strict=True):
        assert placement.slots[slot].port == ports[start]


def _all_run(executors):
    return bool(executors) and all(executor["uptime_s"] for executor in executors)
