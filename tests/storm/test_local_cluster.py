"""What a running local cluster offers, on the session's cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest

from stormwright.errors import ClusterError
from stormwright.storm.local_cluster.network import why_no_namespaces

pytestmark = [pytest.mark.storm, pytest.mark.slow]

_SEND = """
import socket
with socket.create_connection(("{address}", 9000)) as sender:
    sender.sendall(bytes({size}))
    sender.shutdown(socket.SHUT_WR)
    sender.recv(1)
"""

_RECEIVE = """
import socket
with socket.create_server(("{address}", 9000)) as server:
    print("listening", flush=True)
    receiver, _ = server.accept()
    while receiver.recv(1 << 16):
        pass
    receiver.sendall(b".")
"""


def test_links_are_limited(storm_cluster):
    """40 Mbit are 5 MB/s: more cannot get through, whatever the machine does."""
    if not storm_cluster.plan.namespaces:
        assert why_no_namespaces() in storm_cluster.describe_network()
        assert storm_cluster.net_bytes() == {}
        pytest.skip(f"nodes without links: {why_no_namespaces()}")
    for prefix, device in [
        (storm_cluster.command_on_node("node1"), "eth0"),
        (storm_cluster.command_beside_nimbus(), "node1"),
    ]:
        (queue,) = json.loads(_run(*prefix, "tc", "-json", "qdisc", "show", "dev", device))
        assert (queue["kind"], queue["options"]["rate"]) == ("tbf", 5_000_000)

    size = 10_000_000
    sender, receiver = storm_cluster.plan.nodes[:2]
    before = storm_cluster.net_bytes()
    listening = subprocess.Popen(
        [*storm_cluster.command_on_node(receiver.name), "python3", "-c", _RECEIVE.format(address=receiver.address)],
        stdout=subprocess.PIPE,
    )
    assert listening.stdout.readline() == b"listening\n"
    begun = time.monotonic()
    send = _SEND.format(address=receiver.address, size=size)
    _run(*storm_cluster.command_on_node(sender.name), "python3", "-c", send)
    took_s = time.monotonic() - begun
    listening.wait()
    listening.stdout.close()
    after = storm_cluster.net_bytes()

    assert size / took_s < 5_100_000
    assert after[sender.name].sent - before[sender.name].sent > size
    assert after[receiver.name].received - before[receiver.name].received > size


def test_topology_runs_until_killed(storm_cluster, eventually):
    storm_cluster.run_topology("stormwright.topologies.WordCount", ["name=counted"], {"topology.workers": 2})
    with storm_cluster.gateway() as gateway:
        (found,) = [topology for topology in gateway.cluster()["topologies"] if topology["name"] == "counted"]
        eventually(
            lambda: len({(e["host"], e["port"]) for e in gateway.topology(found["id"])["executors"]}) == 2,
            "the executors are on two workers",
        )
        eventually(lambda: "Opened spout" in _logged(storm_cluster.plan.work, found["id"]), "a worker opens its spout")
        gateway.kill("counted", 0)
        eventually(lambda: not _names(gateway) & {"counted"}, "the topology is gone")


def test_terminated_supervisor_is_restarted(storm_cluster, eventually):
    """As Storm's do by themselves when a topology is killed while they fetch its files."""
    eventually(lambda: _running_s(storm_cluster) > 20, "the supervisors have run for long enough")
    before = storm_cluster.daemon_pids()
    os.kill(before["node2"], signal.SIGKILL)
    eventually(lambda: storm_cluster.daemon_pids()["node2"] not in {None, before["node2"]}, "it is started again")
    eventually(lambda: _running_s(storm_cluster) < 20, "Nimbus hears of the new one")
    assert storm_cluster.daemon_pids() | {"node2": before["node2"]} == before


def test_failed_topology_submission_reports_java_error(storm_cluster):
    with pytest.raises(ClusterError, match=r"Nothing: not submitted: .*ClassNotFoundException"):
        storm_cluster.run_topology("stormwright.topologies.Nothing")


def _logged(work, topology_id):
    return "".join(log.read_text() for log in work.glob(f"node*/logs/workers/{topology_id}/*/worker.log"))


def _running_s(cluster):
    with cluster.gateway() as gateway:
        return min(supervisor["uptime_s"] for supervisor in gateway.cluster()["supervisors"])


def _names(gateway):
    return {topology["name"] for topology in gateway.cluster()["topologies"]}


def _run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
