"""A local cluster comes up, is refused a second time, and leaves nothing behind, however it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from stormwright.storm.jvm import STORMWRIGHT_JAR

pytestmark = [pytest.mark.storm, pytest.mark.slow]


def test_up_status_down(place):
    up = place.command("up", "--nodes", "2", "--slots", "3", "--json")
    assert up.returncode == 0, up.stderr

    status = place.command("status", "--json")
    found = json.loads(status.stdout)
    assert status.returncode == 0
    assert [daemon["name"] for daemon in found["daemons"]] == ["zookeeper", "nimbus", "node1", "node2"]
    assert {daemon["pid"] for daemon in found["daemons"]} <= place.processes()
    assert [(node["registered"], len(node["ports"]), node["used_workers"]) for node in found["nodes"]] == [
        (True, 3, 0),
        (True, 3, 0),
    ]
    assert found["topologies"] == []
    assert "node2" in place.command("status").stdout

    submitted = place.command("submit", "exclamation:name=tried,workers=1")
    assert (submitted.returncode, submitted.stdout) == (0, "tried is submitted\n"), submitted.stderr
    assert [t["name"] for t in json.loads(place.command("status", "--json").stdout)["topologies"]] == ["tried"]
    twice = place.command("submit", "exclamation:name=tried")
    assert twice.returncode == 2
    assert "already exists" in twice.stderr

    own = place.command("submit", str(STORMWRIGHT_JAR), "stormwright.topologies.Exclamation", "name=own", "workers=1")
    assert (own.returncode, own.stdout) == (0, "stormwright.topologies.Exclamation is submitted\n"), own.stderr
    killed = place.command("kill", "own", "--json")
    assert json.loads(killed.stdout) == {"killed": "own"}
    assert "own" in place.command("kill", "own2").stderr

    again = place.command("up")
    assert again.returncode == 2
    assert "a local cluster is up already" in again.stderr
    assert "stormwright cluster down" in again.stderr

    down = place.command("down")
    assert down.returncode == 0
    assert not place.processes()
    assert not list(place.directory.iterdir())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_serve_attaches_to_local_cluster_and_shuts_down_alone(place, eventually):
    assert place.command("up", "--nodes", "1").returncode == 0
    serving = place.start(*place.argv("serve"))
    lines = iter(serving.stdout.readline, "")
    address = next(re.findall(r"dashboard at (\S+);", line)[0] for line in lines if "dashboard at" in line)
    eventually(lambda: urllib.request.urlopen(f"{address}/v1/status").status == 200, "it answers")  # noqa: S310
    serving.send_signal(signal.SIGTERM)
    assert serving.wait(60) == 0
    assert place.command("status").returncode == 0, "the cluster goes on"
    assert place.command("down").returncode == 0
    assert not list(place.directory.iterdir())


def test_nothing_is_up(place):
    status, down = place.command("status"), place.command("down")
    assert (status.returncode, status.stdout) == (1, "no local cluster is up: `stormwright cluster up` starts one\n")
    assert (down.returncode, down.stdout) == (0, "no local cluster is up\n")


def test_owner_is_killed(place, network):
    owner = place.start_owner(network)
    assert owner.stdout.readline() == "up\n"
    assert len(place.processes()) > 4
    owner.kill()
    # The fixture waits until nothing is left; no command helps here.


def test_warden_is_killed(place, network, eventually):
    owner = place.start_owner(network)
    assert owner.stdout.readline() == "up\n"
    owner.send_signal(signal.SIGSTOP)  # it shall not clear up
    state = json.loads(next(place.directory.glob("stormwright-*/cluster.json")).read_text())
    os.kill(state["keeper_pid"], signal.SIGKILL)
    eventually(lambda: place.command("status").returncode == 1, "the next command sees that the cluster has ended")
    assert place.processes() == {owner.pid}


@pytest.mark.parametrize("reached", ["work", "work/nimbus/logs/daemon.log"])
def test_interrupted_while_coming_up(place, eventually, reached):
    up = place.start(*place.argv("up"))
    eventually(lambda: any(place.directory.glob(f"stormwright-*/{reached}")), f"{reached} appears")
    up.send_signal(signal.SIGINT)
    up.communicate()
    assert up.returncode != 0
    # A process that was just being started sees by itself that its owner has ended.
    eventually(lambda: not place.processes(), "nothing is left")
    eventually(lambda: not list(place.directory.iterdir()), "no file is left")


def test_two_start_at_once(place):
    both = [place.start(*place.argv("up", "--nodes", "1")) for _ in range(2)]
    outputs = [process.communicate()[0] for process in both]
    assert sorted(process.returncode for process in both) == [0, 2]
    assert any("a local cluster is up already" in text for text in outputs)
    assert place.command("down").returncode == 0


def test_failed_daemon_start_is_reported_with_its_log(place):
    program = (
        "from stormwright.storm.local_cluster import *\n"
        "with LocalCluster(LocalClusterConfig(nodes=1, storm_conf={'nimbus.thrift.port': 'none'})): pass"
    )
    failed = subprocess.run(
        [sys.executable, "-c", program], env=place.environment, capture_output=True, text=True, check=False
    )
    assert failed.returncode == 1
    assert "ended with exit code" in failed.stderr
    assert "nimbus.thrift.port" in failed.stderr.lower() or "NIMBUS_THRIFT_PORT" in failed.stderr
