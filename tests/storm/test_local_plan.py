"""What is decided before a local cluster is started."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
import yaml

from stormwright.errors import InputError
from stormwright.storm.local_cluster import LocalClusterConfig, network
from stormwright.storm.local_cluster.daemons import storm_conf, write_homes
from stormwright.storm.local_cluster.plan import ClusterPlan, make_plan


def test_supervisors_declare_links_that_are_limited(tmp_path):
    limited = make_plan(LocalClusterConfig(link="60mbit"), tmp_path, "java", "")
    assert storm_conf(limited, "node1")["supervisor.scheduler.meta"]["stormwright.link"] == "60mbit"
    for config, reason in ((LocalClusterConfig(link=None), ""), (LocalClusterConfig(link="60mbit"), "no namespaces")):
        meta = storm_conf(make_plan(config, tmp_path, "java", reason), "node1")["supervisor.scheduler.meta"]
        assert "stormwright.link" not in meta


def test_all_configuration_faults_are_reported_at_once():
    with pytest.raises(InputError) as caught:
        LocalClusterConfig(nodes=0, slots=-1, link="fast", cores_per_node=0)
    assert {fault.path for fault in caught.value.faults} == {"$.nodes", "$.slots", "$.link", "$.cores_per_node"}
    with pytest.raises(InputError, match=r"must be 0\.05 to 1024 cores, is nan @ \$\.cores_per_node"):
        LocalClusterConfig(cores_per_node=float("nan"))


def test_local_cluster_without_root_uses_loopback_without_limits(tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    reason = network.why_no_namespaces()
    assert "root" in reason
    plan = make_plan(LocalClusterConfig(nodes=2, slots=3, link="40mbit"), tmp_path, "java", reason)
    assert not plan.namespaces
    assert not plan.limits_links
    assert len({node.address for node in plan.nodes}) == 2
    assert all(node.address.startswith("127.0.0.") for node in plan.nodes)
    ports = [plan.nimbus_port, plan.zookeeper_port]
    for node in plan.nodes:
        ports += [node.thrift_port, *node.ports]
    assert len(set(ports)) == 2 + 2 * (1 + 3)


def test_ports_in_use_are_left_out():
    (port,) = network.free_ports(1, first=20_000)
    with socket.create_server(("127.0.0.1", port)):
        assert network.free_ports(1, first=port) > [port]


def test_plan_survives_being_written(tmp_path):
    config = LocalClusterConfig(nodes=2, link=None, storm_conf={"topology.debug": True})
    plan = make_plan(config, tmp_path, "java", "asked for")
    plan.save()
    assert ClusterPlan.load(tmp_path) == plan


def test_generated_storm_yaml_has_intended_values(tmp_path, monkeypatch):
    jar = tmp_path / "our.jar"
    jar.touch()
    monkeypatch.setattr("stormwright.storm.local_cluster.daemons.STORMWRIGHT_JAR", jar)
    config = LocalClusterConfig(nodes=2, slots=2, cores_per_node=1.5, storm_conf={"nimbus.monitor.freq.secs": 99})
    plan = make_plan(config, tmp_path / "work", "java", "asked for")
    write_homes(plan)
    node = plan.nodes[1]
    read = yaml.safe_load((plan.daemon_dir(node.name) / "conf" / "storm.yaml").read_text())
    assert read == storm_conf(plan, node.name)
    assert read["storm.local.hostname"] == node.address
    assert read["supervisor.slots.ports"] == list(node.ports)
    assert read["supervisor.cpu.capacity"] == 150.0
    assert storm_conf(make_plan(LocalClusterConfig(), tmp_path, "java", ""), "node1")["supervisor.cpu.capacity"] == 200
    assert read["nimbus.monitor.freq.secs"] == 99
    assert read["storm.scheduler"] == "stormwright.PlacementScheduler"


@pytest.mark.parametrize(("cores", "quick"), [(None, False), (0.4, True), (1.0, False)])
def test_workers_on_less_than_a_core_compile_quickly(tmp_path, cores, quick):
    """The second compiler took 20 to 39 % of the CPU of workers on 0.4 cores that had run for a minute."""
    plan = make_plan(LocalClusterConfig(cores_per_node=cores), tmp_path, "java", "")
    assert ("-XX:TieredStopAtLevel=1" in storm_conf(plan, "node1")["worker.childopts"]) is quick


def test_nodes_have_limits_of_their_own(tmp_path):
    config = LocalClusterConfig(
        cores_per_node=(1.5, 0.4, 0.25),
        link=("60mbit", "20mbit", "60mbit"),
        declared_cores=(1.5, 2.0, 0.25),
        racks=("a", "a", "b"),
    )
    plan = make_plan(config, tmp_path, "java", "")
    plan.save()
    assert ClusterPlan.load(tmp_path) == plan
    assert [(node.cores, node.link, node.rack) for node in plan.nodes] == [
        (1.5, "60mbit", "a"),
        (0.4, "20mbit", "a"),
        (0.25, "60mbit", "b"),
    ]
    read = [storm_conf(plan, node.name) for node in plan.nodes]
    assert [conf["supervisor.cpu.capacity"] for conf in read] == [150.0, 200.0, 25.0], "one is declared wrongly"
    assert [conf["supervisor.scheduler.meta"]["stormwright.link"] for conf in read] == list(config.link)
    assert ["-XX:TieredStopAtLevel=1" in conf["worker.childopts"] for conf in read] == [False, True, True]
    assert read[0]["stormwright.racks"] == {node.address: node.rack for node in plan.nodes}


def test_limits_of_nodes_have_one_value_for_each():
    with pytest.raises(InputError) as caught:
        LocalClusterConfig(nodes=4, cores_per_node=(0.7, 0.4, 0.25), link=("60mbit",) * 3, racks=("a",))
    assert {fault.path for fault in caught.value.faults} == {"$.cores_per_node", "$.link", "$.racks"}


def test_own_scheduler_of_storm_can_be_retained(tmp_path):
    plan = make_plan(LocalClusterConfig(scheduler=False), tmp_path, "java", "asked for")
    assert "storm.scheduler" not in storm_conf(plan, "nimbus")


def test_a_cluster_of_an_older_version_is_read(tmp_path: Path) -> None:
    plan = make_plan(LocalClusterConfig(), tmp_path, "java", "asked for")
    plan.save()
    document = json.loads((tmp_path / "plan.json").read_text())
    del document["no_cpu_limit_reason"], document["config"]["cpu_limits"]
    (tmp_path / "plan.json").write_text(json.dumps(document))
    assert ClusterPlan.load(tmp_path) == plan
