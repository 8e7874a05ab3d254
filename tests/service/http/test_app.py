"""The HTTP endpoints, over real sockets."""

from __future__ import annotations

import logging
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from typing import Any

import orjson
import pytest

from stormwright.errors import ClusterError
from stormwright.formats import problem_from_dict, problem_to_dict
from stormwright.model import Problem
from stormwright.model.problem import CHECKED
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.traits import warm_up
from stormwright.service.http.app import make_app
from stormwright.service.http.deliveries import MAX_DELIVERY_BYTES, BodyRecipient
from stormwright.service.http.metrics import CONTENT_TYPE, metrics_text
from stormwright.service.http.server import HttpServer
from stormwright.storm.bridge import Bridge
from tests.controller.builders import on, problem, topology
from tests.service.http.test_metrics import STATUS

HOST = "127.0.0.1"
CLUSTER = problem([topology("t")])


@pytest.fixture
def delivered() -> list[bytes]:
    return []


@contextmanager
def serving(delivered: list[bytes], scheduler: str) -> Iterator[int]:
    with socket.socket() as free:
        free.bind((HOST, 0))
        number = free.getsockname()[1]
    clusters = iter([None, CLUSTER])
    bridge = Bridge(make_scheduler(scheduler), scheduler)
    assert bridge.warm_up(warm_up, 600)
    app = make_app(bridge, BodyRecipient(delivered.extend), lambda: STATUS, lambda: next(clusters))
    with HttpServer(app, HOST, number):
        yield number


@pytest.fixture
def port(delivered) -> Iterator[int]:
    with serving(delivered, "even") as number:
        yield number


def post(port: int, path: str, body: bytes) -> int:
    return ask(port, path, body)[0]


def ask(port: int, path: str, body: bytes) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(f"http://{HOST}:{port}{path}", data=body)) as answer:
            return int(answer.status), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def snapshot(of: Problem) -> bytes:
    return orjson.dumps({"problem": problem_to_dict(of)})


def test_connection_lost_during_delivery_logs_no_error(port, delivered, caplog):
    with caplog.at_level(logging.ERROR), socket.create_connection((HOST, port)) as broken_off:
        broken_off.sendall(b"POST /v1/perflog HTTP/1.1\r\nHost: service\r\nContent-Length: 1000\r\n\r\nhalf of it")
    assert post(port, "/v1/perflog", b"whole") == 204
    assert delivered == [b"whole"]
    assert not caplog.records


@pytest.mark.parametrize("host", [HOST, "192.0.2.1", "no.such.host.invalid"])
def test_unavailable_listen_address_raises_one_clear_error(
    port: int, host: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    bridge = Bridge(make_scheduler("even"), "even")
    app = make_app(bridge, BodyRecipient(lambda _: None), lambda: STATUS, lambda: None)
    server = HttpServer(app, host, port)
    with pytest.raises(ClusterError, match=rf"{host}:{port}: cannot listen there: .*; ") as error:
        server.__enter__()
    assert (host == HOST) == ("address already in use" in str(error.value))
    assert caplog.records == []
    assert capfd.readouterr().err == ""


def test_status_and_metrics(port):
    with urllib.request.urlopen(f"http://{HOST}:{port}/v1/status") as answer:
        assert orjson.loads(answer.read()) == asdict(STATUS)
    with urllib.request.urlopen(f"http://{HOST}:{port}/metrics") as answer:
        assert answer.headers["content-type"] == CONTENT_TYPE
        assert answer.read() == metrics_text(STATUS)
    with urllib.request.urlopen(f"http://{HOST}:{port}/metrics?detail=worker") as answer:
        assert answer.read() == metrics_text(STATUS)
    with pytest.raises(urllib.error.HTTPError, match="400") as refused:
        urllib.request.urlopen(f"http://{HOST}:{port}/metrics?detail=tuple")
    assert b"topology, component, worker, executor" in refused.value.read()


def test_nonsense_is_refused(port, delivered):
    assert post(port, "/v1/schedule", b"{") == 400
    assert post(port, "/v1/schedule", b'{"problem": 3}') == 400
    with socket.create_connection((HOST, port)) as too_much:
        head = f"POST /v1/perflog HTTP/1.1\r\nHost: service\r\nContent-Length: {MAX_DELIVERY_BYTES + 1}\r\n\r\n"
        too_much.sendall(head.encode())
        assert too_much.recv(100).startswith(b"HTTP/1.1 413")
    # So it is where the length is not said before.
    with socket.create_connection((HOST, port)) as too_much:
        too_much.sendall(b"POST /v1/perflog HTTP/1.1\r\nHost: service\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"100000\r\n" + bytes(2**20) + b"\r\n"
        with suppress(OSError):  # it does not listen to the end
            for _ in range(MAX_DELIVERY_BYTES // 2**20 + 8):
                too_much.sendall(chunk)
        assert too_much.recv(100).startswith(b"HTTP/1.1 413")
    assert not delivered


def test_root_path_lists_endpoints(port):
    with urllib.request.urlopen(f"http://{HOST}:{port}/") as answer:
        named = orjson.loads(answer.read())["endpoints"]
    for endpoint in named:
        method, path = endpoint.split()
        with pytest.raises(urllib.error.HTTPError, match="405"):
            urllib.request.urlopen(urllib.request.Request(f"http://{HOST}:{port}{path}", method="PUT"))
        assert method in {"GET", "POST"}


def test_the_cluster_with_its_measured_load_can_be_had_as_a_problem_file(port):
    address = f"http://{HOST}:{port}/v1/problem"
    with pytest.raises(urllib.error.HTTPError, match="503"):
        urllib.request.urlopen(address)
    with urllib.request.urlopen(address) as answer:
        cluster = problem_from_dict(orjson.loads(answer.read()), source="service")
    assert problem_to_dict(cluster) == problem_to_dict(CLUSTER)


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["even", "tag_aware", "predictive"])
@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ({"stormwright.max.executors.per.worker": "3"}, 'conf["stormwright.max.executors.per.worker"]: should be'),
        ({"stormwright.tag.workers": 5}, 'conf["stormwright.tag.workers"]: should be an object'),
        ({"stormwright.forecast.growth": "x"}, 'conf["stormwright.forecast.growth"]: should be a number'),
        (
            {"topology.ras.constraints": {"b-bolt": {"maxNodeCoLocationCnt": "many"}}},
            'conf["topology.ras.constraints"]["b-bolt"].maxNodeCoLocationCnt: should be an integer',
        ),
    ],
)
def test_a_faulty_configuration_is_the_fault_of_its_topology_alone(
    delivered: list[bytes], scheduler: str, conf: dict[str, Any], expected: str
) -> None:
    bad, good = replace(topology("bad"), conf={"kept": 1, **conf}), topology("good")
    with serving(delivered, scheduler) as port:
        code, body = ask(port, "/v1/schedule", snapshot(replace(problem([]), topologies=(bad, good), parts=CHECKED)))
    assert code == 200, body
    answer = orjson.loads(body)
    assert set(answer["assignments"]) == {good.id}
    assert answer["status"][bad.id].startswith(f"stormwright: 1 fault in its configuration: {expected}")


def test_slot_shown_for_two_topologies_is_resolved_by_answer(
    delivered: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """Nimbus has stored the one and not the other of two that change places, and has ended in between."""
    stays, goes, third = (topology(name, workers=1) for name in "abc")
    shown = problem_to_dict(problem([stays, goes, third], current={stays.id: on("n0"), third.id: on("n1")}))
    question = {**shown, "assignments": {**shown["assignments"], goes.id: shown["assignments"][stays.id]}}
    with serving(delivered, "even") as port:
        code, body = ask(port, "/v1/schedule", orjson.dumps({"problem": question}))
    assert code == 200, body
    ((name, placed),) = orjson.loads(body)["assignments"].items()
    assert name == goes.id
    assert ["n0", 6700] not in placed["slots"]
    assert f"{stays.id} and {goes.id} are both in slot n0:6700" in caplog.text


def test_unusable_snapshot_is_rejected_with_its_faults(delivered: list[bytes]) -> None:
    of = problem([topology("a")])
    priced = tuple(replace(node, scheduler_meta={"price.per.hour": "free"}) for node in of.supervisors)
    with serving(delivered, "cost_aware") as port:
        code, body = ask(port, "/v1/schedule", snapshot(replace(of, supervisors=priced)))
    assert code == 400
    assert "should be a number, at least 0, got 'free'" in orjson.loads(body)["error"]
