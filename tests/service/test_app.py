"""The HTTP endpoints, over real sockets."""

from __future__ import annotations

import logging
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import orjson
import pytest

from stormwright.formats import problem_from_dict, problem_to_dict
from stormwright.schedulers import make_scheduler
from stormwright.service.app import MAX_DELIVERY_BYTES, HttpServer, make_app
from stormwright.storm.bridge import Bridge
from tests.schedulers.builders import load, nodes, problem, topology

HOST = "127.0.0.1"
CLUSTER = problem(nodes(4.0), (topology("t", 2, 1), load(2, [(0, 1, 5.0)])))


@pytest.fixture
def delivered() -> list[bytes]:
    return []


@pytest.fixture
def port(delivered) -> Iterator[int]:
    with socket.socket() as free:
        free.bind((HOST, 0))
        number = free.getsockname()[1]
    clusters = iter([None, CLUSTER])
    app = make_app(
        Bridge(make_scheduler("even"), "even"), delivered.append, lambda: {"well": True}, lambda: next(clusters)
    )
    with HttpServer(app, HOST, number):
        yield number


def post(port: int, path: str, body: bytes) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(f"http://{HOST}:{port}{path}", data=body)) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_worker_that_ends_within_a_delivery_is_no_error(port, delivered, caplog):
    with caplog.at_level(logging.ERROR), socket.create_connection((HOST, port)) as broken_off:
        broken_off.sendall(b"POST /v1/perflog HTTP/1.1\r\nHost: service\r\nContent-Length: 1000\r\n\r\nhalf of it")
    assert post(port, "/v1/perflog", b"whole") == 204
    assert delivered == [b"whole"]
    assert not caplog.records


def test_nonsense_is_refused(port, delivered):
    assert post(port, "/v1/schedule", b"{") == 400
    assert post(port, "/v1/schedule", b'{"problem": 3}') == 400
    with socket.create_connection((HOST, port)) as too_much:
        head = f"POST /v1/perflog HTTP/1.1\r\nHost: service\r\nContent-Length: {MAX_DELIVERY_BYTES + 1}\r\n\r\n"
        too_much.sendall(head.encode())
        assert too_much.recv(100).startswith(b"HTTP/1.1 413")
    assert not delivered


def test_the_cluster_with_its_measured_load_can_be_had_as_a_problem_file(port):
    address = f"http://{HOST}:{port}/v1/problem"
    with pytest.raises(urllib.error.HTTPError, match="503"):
        urllib.request.urlopen(address)
    with urllib.request.urlopen(address) as answer:
        cluster = problem_from_dict(orjson.loads(answer.read()), source="service")
    assert problem_to_dict(cluster) == problem_to_dict(CLUSTER)
