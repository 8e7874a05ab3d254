"""Nimbus keeps running, and topologies keep their placement, whatever becomes of the service."""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

pytestmark = [pytest.mark.storm, pytest.mark.slow]

#: Nimbus asks every 5 s here, and after three failures only every 20 s.
PATIENCE_S = 60

#: Seconds after the start of a supervisor by which the ZooKeeper session of the one before it has expired: 40 s here.
EXPIRED_S = 50


class Nonsense(socketserver.BaseRequestHandler):
    """Answers with something that is no assignment."""

    def handle(self) -> None:
        head, _, body = self.request.makefile("rb").read1(1 << 16).partition(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if b"content-length" in line)
        while len(body) < length and (more := self.request.recv(1 << 16)):
            body += more
        self.request.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\nConnection: close\r\n\r\n{"answer":42}')


class Silence(socketserver.BaseRequestHandler):
    """Takes the question and never answers."""

    def handle(self) -> None:
        time.sleep(PATIENCE_S)


@contextmanager
def service(cluster, handler: type[socketserver.BaseRequestHandler]) -> Iterator[None]:
    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True
        block_on_close = False

    with Server((cluster.service_host, cluster.service_port), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


@pytest.fixture(scope="module")
def gateway(storm_cluster):
    with storm_cluster.gateway() as gateway:
        yield gateway


@pytest.fixture(scope="module")
def topology_id(storm_cluster, gateway, eventually):
    """A topology submitted while no service is there, all supervisors are, and nothing else holds their slots."""

    def is_free() -> bool:
        # A supervisor ends when a topology is killed while it fetches its files. The next one is missing for a moment
        # when the ZooKeeper session of the last one expires.
        cluster = gateway.cluster()
        stay = [each for each in cluster["supervisors"] if each["uptime_s"] > EXPIRED_S]
        return len(stay) == 3 and not cluster["topologies"]

    eventually(is_free, "all supervisors stay, and killed topologies are gone")
    storm_cluster.run_topology("stormwright.topologies.Exclamation", ["name=survivor", "rate=100"])
    (found,) = [topology["id"] for topology in gateway.cluster()["topologies"] if topology["name"] == "survivor"]
    eventually(lambda: bool(placement(gateway, found)), "it is placed")
    yield found
    gateway.kill("survivor", 0)


def placement(gateway, topology_id):
    return {(e["first_task"], e["host"], e["port"]) for e in gateway.topology(topology_id)["executors"]}


def status_with(gateway, topology_id, words):
    """The status text once it has these words."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        text = gateway.topology(topology_id)["sched_status"] or ""
        if words in text:
            return text
        time.sleep(1)
    raise AssertionError(f"no {words!r} in {text!r}")


def test_even_scheduler_places_new_topologies_without_service(gateway, topology_id):
    text = status_with(gateway, topology_id, "EvenScheduler")
    assert "stormwright" in text
    nodes = {host for _, host, port in placement(gateway, topology_id) if port}
    assert len(nodes) == 3, "EvenScheduler deals workers over all nodes"


@pytest.mark.parametrize(
    ("handler", "why"), [(Nonsense, "the answer's schema is null"), (Silence, "no whole answer within 1500 ms")]
)
def test_faulty_service_leaves_placement_unchanged_with_reason_in_status(
    storm_cluster, gateway, topology_id, handler, why, eventually
):
    before = placement(gateway, topology_id)
    with service(storm_cluster, handler):
        text = status_with(gateway, topology_id, why)
    assert "stormwright" in text
    assert placement(gateway, topology_id) == before
    eventually(lambda: len(gateway.cluster()["supervisors"]) == 3, "Nimbus knows all supervisors")
