"""Whatever comes in, and whatever hangs: Nimbus is answered, and memory, files and threads are left."""

from __future__ import annotations

import errno
import http.client
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

import orjson
import pytest

from stormwright.formats import problem_to_dict
from stormwright.model import Assignment, Problem
from stormwright.schedulers import make_scheduler
from stormwright.service.http import asgi, connections, deliveries
from stormwright.service.http.app import MAX_QUESTION_BYTES, make_app
from stormwright.service.http.deliveries import BodyRecipient
from stormwright.service.http.probe_protocol import MAX_HEAD_BYTES
from stormwright.service.http.server import HttpServer
from stormwright.storm.bridge import Bridge
from tests.controller.builders import problem, topology
from tests.pipeline.waiting import wait
from tests.service.http.test_app import HOST, ask, snapshot
from tests.service.http.test_metrics import STATUS

QUESTION = snapshot(problem([topology("a")]))


@contextmanager
def serving(bridge: Bridge | None = None, ingest: Any = lambda _: None) -> Iterator[int]:
    with socket.socket() as free:
        free.bind((HOST, 0))
        number = free.getsockname()[1]
    app = make_app(bridge or Bridge(make_scheduler("even"), "even"), BodyRecipient(ingest), lambda: STATUS)
    with HttpServer(app, HOST, number):
        yield number


def send(port: int, head: str, body: bytes = b"") -> bytes:
    """What is answered to a request of which the sender says no more."""
    with socket.create_connection((HOST, port), timeout=20) as there:
        there.sendall(head.replace("\n", "\r\n").encode() + body)
        return there.recv(1000)


@pytest.mark.parametrize("begins", ["GET /", "GET / HTTP/1.1\nx: ", "GET / HTTP/1.1\nx: y\nz"])
def test_endless_request_head_is_cut_off(begins: str) -> None:
    with serving() as port, socket.create_connection((HOST, port), timeout=20) as there:
        there.sendall(begins.replace("\n", "\r\n").encode())
        sent = 0
        with suppress(ConnectionError):
            while sent < 50 * MAX_HEAD_BYTES:
                there.sendall(b"a" * 65_536)
                sent += 65_536
        assert sent < 50 * MAX_HEAD_BYTES, "it is no longer taken"
        assert ask(port, "/v1/schedule", QUESTION)[0] == 200


def test_head_size_limit_applies_to_each_request_separately() -> None:
    with serving() as port, closing(http.client.HTTPConnection(HOST, port, timeout=20)) as there:
        for _ in range(5):
            there.request("GET", "/v1/health", headers={"x": "a" * (MAX_HEAD_BYTES * 3 // 4)})
            answer = there.getresponse()
            assert (answer.status, answer.read()) == (200, b'{"ok":true}')


class Hanging:
    def __init__(self) -> None:
        self.called, self.over, self.ended = threading.Event(), threading.Event(), False

    def schedule(self, problem: Problem) -> Assignment:
        self.called.set()
        self.over.wait(60)
        self.ended = True
        return Assignment(problem.current_slot)


def given_up_after(answer: dict[str, Any]) -> float:
    """Seconds that the scheduler had, as the answer reports: what reading the question took is taken off."""
    assert answer["assignments"] == {}
    match = re.fullmatch(r"slow had no answer within (\d\.\d) s", answer["status"]["a-1-0"])
    assert match, answer["status"]
    return float(match[1])


def took_to_give_up() -> float:
    """Seconds until a question is answered of which the scheduler hangs."""
    hanging = Hanging()
    with serving(Bridge(hanging, "slow")) as port:
        began = time.monotonic()
        answer = orjson.loads(ask(port, "/v1/schedule", QUESTION)[1])
        took_s = time.monotonic() - began
        hanging.over.set()
    assert given_up_after(answer) <= 1.2
    return took_s


@pytest.mark.long
def test_placement_request_is_answered_within_nimbus_timeout():
    """A machine with other work may keep any one answer back; what is slow for its own reasons is so each time."""
    assert any(took_to_give_up() < 1.5 for _ in range(5))


@pytest.mark.long
def test_hanging_scheduler_blocks_no_other_request():
    hanging = Hanging()
    delivered: list[bytes] = []
    with serving(Bridge(hanging, "slow"), delivered.extend) as port:
        assert "no answer" in orjson.loads(ask(port, "/v1/schedule", QUESTION)[1])["status"]["a-1-0"]
        for _ in range(50):  # more than there are threads
            assert "still decides" in orjson.loads(ask(port, "/v1/schedule", QUESTION)[1])["status"]["a-1-0"]
        assert ask(port, "/v1/perflog", b"{}\n")[0] == 204
        assert ask(port, "/v1/status", b"")[0] == 405
        assert not hanging.ended
        hanging.over.set()
    assert delivered == [b"{}\n"]


def test_deadline_in_nimbus_configuration_limits_answer_time():
    hanging = Hanging()
    of = problem_to_dict(problem([topology("a")], conf={"stormwright.service.deadline.ms": 250}))
    with serving(Bridge(hanging, "slow")) as port:
        answer = orjson.loads(ask(port, "/v1/schedule", orjson.dumps({"problem": of}))[1])
        assert given_up_after(answer) <= 0.2
        hanging.over.set()


def test_concurrent_placement_requests_are_rejected_immediately():
    hanging, first = Hanging(), []
    document = problem_to_dict(problem([topology("a")], conf={"stormwright.service.deadline.ms": 60_000}))
    question = orjson.dumps({"problem": document})
    with serving(Bridge(hanging, "slow")) as port:
        asking = threading.Thread(target=lambda: first.append(ask(port, "/v1/schedule", question)[0]))
        asking.start()
        assert hanging.called.wait(20)
        assert [ask(port, "/v1/schedule", question)[0] for _ in range(4)] == [503] * 4
        assert not first
        hanging.over.set()
        asking.join()
    assert first == [200]


def test_blocked_deliveries_do_not_delay_placement_requests():
    sleeping, may, woken = threading.Event(), threading.Event(), threading.Event()

    def take(_: Sequence[bytes]) -> None:
        sleeping.set()
        may.wait(60)
        woken.set()

    with serving(ingest=take) as port:
        probes = [threading.Thread(target=ask, args=(port, "/v1/perflog", b"{}\n")) for _ in range(60)]
        for probe in probes:
            probe.start()
        assert sleeping.wait(20)
        assert ask(port, "/v1/schedule", QUESTION)[0] == 200
        assert not woken.is_set()
        may.set()
        for probe in probes:
            probe.join()


def test_concurrent_deliveries_are_stored_in_one_batch(monkeypatch):
    taken: list[int] = []
    come: list[bytes] = []
    first, go_on = threading.Event(), threading.Event()
    hand_over = deliveries.Deliveries.hand_over

    def note(of: deliveries.Deliveries, body: bytes, reply: Any) -> None:
        hand_over(of, body, reply)
        come.append(body)

    monkeypatch.setattr(deliveries.Deliveries, "hand_over", note)

    def take(bodies: Sequence[bytes]) -> None:
        taken.append(len(bodies))
        first.set()
        go_on.wait(60)

    codes: list[int] = []
    with serving(ingest=take) as port:
        probes = [
            threading.Thread(target=lambda: codes.append(ask(port, "/v1/perflog", b"{}\n")[0])) for _ in range(30)
        ]
        probes[0].start()
        assert first.wait(10)
        for probe in probes[1:]:
            probe.start()
        wait(lambda: len(come) == 30, lambda: f"{len(come)} of 30 have come")
        assert codes == [], "none is answered before it is kept"
        go_on.set()
        for probe in probes:
            probe.join()
    assert codes == [204] * 30
    assert taken == [1, 29]


def test_full_disk_is_reported_once(caplog):
    full: list[bool] = [True]

    def take(_: Sequence[bytes]) -> None:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")

    with caplog.at_level(logging.INFO), serving(ingest=take) as port:
        for _ in range(5):
            code, answer = ask(port, "/v1/perflog", b"{}\n")
            assert (code, orjson.loads(answer)["error"]) == (503, "not kept: No space left on device")
        assert len(caplog.records) == 1
        assert "No space left on device" in caplog.text
        assert "Traceback" not in caplog.text
        full[0] = False
        assert ask(port, "/v1/perflog", b"{}\n")[0] == 204
        full[0] = True
        ask(port, "/v1/perflog", b"{}\n")
        assert len(caplog.records) == 2, "and again when it is full again"


@pytest.mark.parametrize("path", ["/v1/schedule", "/v1/perflog"])
def test_oversized_body_is_rejected_unread(path):
    with serving() as port:
        head = f"POST {path} HTTP/1.1\nHost: x\nContent-Length: {MAX_QUESTION_BYTES + 1}\n\n"
        assert send(port, head).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("length", ["-1", "+5", "1_0", "abc", "5, 6", "9" * 5000])
def test_odd_lengths_are_bad_requests(length):
    with serving() as port:
        answer = send(port, f"POST /v1/perflog HTTP/1.1\nHost: x\nContent-Length: {length}\n\n", b"hello")
        assert answer[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 413")


def test_too_many_empty_lines_are_rejected_cheaply():
    taken: list[bytes] = []
    with serving(ingest=taken.extend) as port:
        began = time.process_time()
        code, answer = ask(port, "/v1/perflog", b"{}\n" * (20 * 2**20))
        assert (code, orjson.loads(answer)["error"]) == (413, "a delivery may have 100,000 lines")
        assert time.process_time() - began < 10
    assert not taken


def test_deliveries_waiting_for_disk_are_limited(monkeypatch):
    monkeypatch.setattr(deliveries, "MAX_WAITING_BYTES", 10)
    with serving() as port:
        assert ask(port, "/v1/perflog", b"short")[0] == 204
        code, answer = ask(port, "/v1/perflog", b"longer than ten bytes")
        assert code == 503
        assert "try again" in orjson.loads(answer)["error"]


@pytest.mark.parametrize(
    "runs", [[[0, 1, 2147483646, 1]], [[0, 1, 20_000_000, 1]], [[0, 1, 1_000_001, 1]]], ids=["2^31", "20e6", "1e6"]
)
def test_excessive_executor_count_is_rejected_before_allocation(runs):
    document = problem_to_dict(problem([topology("a")]))
    component = {"id": "s", "type": "spout", "parallelism": runs[0][2]}
    document["topologies"][0] |= {"components": [component], "executor_runs": runs}
    with serving() as port:
        code, answer = ask(port, "/v1/schedule", orjson.dumps({"problem": document}))
    assert code == 400
    assert f"asks for {runs[0][2]:,} executors" in orjson.loads(answer)["error"]


@pytest.mark.parametrize(
    "body", [b"null", b"3", b"{}", b"[]", b'{"problem": null}', b'{"problem": {"topologies": null}}']
)
def test_invalid_placement_request_gets_one_clear_message(body):
    with serving() as port:
        code, answer = ask(port, "/v1/schedule", body)
    assert code == 400
    assert orjson.loads(answer)["error"].startswith("snapshot of Nimbus: ")
    assert "NoneType" not in answer.decode()


@pytest.mark.parametrize("sent", [b"", b"POST /v1/sch", b"POST /v1/schedule HTTP/1.1\r\nHost: x\r\nContent-Le"])
def test_half_a_head_is_not_waited_for(sent, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_S", 0.3)
    with serving() as port, socket.create_connection((HOST, port), timeout=20) as there:
        there.sendall(sent)
        assert there.recv(100) == b""


@pytest.mark.long
def test_half_a_second_request_is_not_waited_for_either(monkeypatch):
    monkeypatch.setattr(connections, "HEAD_S", 0.3)
    whole = b"POST /v1/perflog HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
    with serving() as port, socket.create_connection((HOST, port), timeout=20) as there:
        for _ in range(2):
            there.sendall(whole)
            assert there.recv(1000).startswith(b"HTTP/1.1 204")
            time.sleep(0.5)  # it may be idle longer than half a request may take
        there.sendall(whole[:20])
        assert there.recv(100) == b""


def test_half_a_body_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(asgi, "BODY_S", 0.3)
    with serving() as port:
        answer = send(port, "POST /v1/schedule HTTP/1.1\nHost: x\nContent-Length: 100\n\n", b"half")
    assert answer.startswith(b"HTTP/1.1 408")


def answers(code: bytes, asking: Callable[[], bytes]) -> None:
    """Once the server has noticed what was sent before, or that somebody has hung up."""
    replies: list[bytes] = []

    def ask_again() -> bool:
        replies.append(asking()[:12])
        return replies[-1] == b"HTTP/1.1 " + code

    wait(ask_again, lambda: replies)


def test_slow_request_bodies_use_bounded_memory(monkeypatch):
    monkeypatch.setattr("stormwright.service.http.app.MAX_WAITING_BYTES", 100_000)
    head = "POST /v1/perflog HTTP/1.1\nHost: x\nContent-Length: 90000\n\n"
    with serving() as port:
        with socket.create_connection((HOST, port), timeout=20) as slow:
            slow.sendall(head.replace("\n", "\r\n").encode() + b"x" * 80_000)
            answers(b"503", lambda: send(port, head, b"x" * 60_000))
            assert ask(port, "/v1/schedule", QUESTION)[0] == 200
        answers(b"204", lambda: send(port, head, b"x" * 90_000))


@pytest.mark.slow
def test_many_idle_connections_do_not_shut_nimbus_out(monkeypatch):
    monkeypatch.setattr("stormwright.service.http.server.most_connections", lambda: 20)
    with serving() as port:
        idle, closed = [socket.create_connection((HOST, port), timeout=20) for _ in range(60)], []
        assert ask(port, "/v1/schedule", QUESTION)[0] == 200
        for each in idle:
            with each:
                each.settimeout(0.2)
                try:
                    closed.append(each.recv(10) == b"")
                except ConnectionResetError:
                    closed.append(True)
                except TimeoutError:
                    closed.append(False)
    assert closed == [True] * 41 + [False] * 19, "those that were idle longest, one of them for Nimbus"
