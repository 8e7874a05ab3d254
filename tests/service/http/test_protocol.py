"""Deliveries on the shortest way: stored and answered like all others, whatever their sender does."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from stormwright.service.http import connections, deliveries, probe_protocol
from tests.service.http.test_app import HOST, ask
from tests.service.http.test_limits import QUESTION, serving

STORED = b"HTTP/1.1 204 No Content\r\n\r\n"
STORED_LAST = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"


def delivery(body: bytes, head: str = "", version: str = "1.1") -> bytes:
    lines = f"POST /v1/perflog HTTP/{version}\r\nHost: x\r\nContent-Length: {len(body)}\r\n{head}\r\n"
    return lines.encode() + body


def everything(there: socket.socket) -> bytes:
    """What comes until the other side hangs up."""
    return b"".join(iter(lambda: there.recv(1000), b""))


@pytest.mark.parametrize("pieces", [1, 2, 7, 1000])
def test_delivery_may_arrive_in_fragments(pieces: int) -> None:
    stored: list[bytes] = []
    with serving(ingest=stored.extend) as port, socket.create_connection((HOST, port), timeout=20) as there:
        there.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(3):
            sent = delivery(b'{"seq": %d}\n' % number)
            step = max(1, len(sent) // pieces)
            for begin in range(0, len(sent), step):
                there.sendall(sent[begin : begin + step])
                time.sleep(0.001)
            assert there.recv(1000) == STORED
    assert stored == [b'{"seq": %d}\n' % number for number in range(3)]


@pytest.mark.parametrize(("head", "version"), [("Connection: close\r\n", "1.1"), ("", "1.0")])
def test_connection_close_is_honored_after_reply(head: str, version: str) -> None:
    with serving() as port, socket.create_connection((HOST, port), timeout=20) as there:
        there.sendall(delivery(b"{}\n", head, version))
        assert everything(there) == STORED_LAST


def test_single_placement_request_is_read_in_large_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[bytes, int]] = []
    on_body = probe_protocol.ProbeProtocol.on_body

    def noted(self: probe_protocol.ProbeProtocol, body: bytes) -> None:
        read.append((self.url, self.transport.max_size))
        on_body(self, body)

    monkeypatch.setattr(probe_protocol.ProbeProtocol, "on_body", noted)
    head = b"POST /v1/schedule HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"
    with serving() as port, ExitStack() as open_ones:
        first, second = (open_ones.enter_context(socket.create_connection((HOST, port), timeout=20)) for _ in range(2))
        first.sendall(head + b"12345")
        _until(lambda: len(read) == 1)
        second.sendall(head + b"12345")
        _until(lambda: len(read) == 2)
        first.sendall(b"67890")
        assert first.recv(1000).startswith(b"HTTP/1.1 400")
        second.close()
        third = open_ones.enter_context(socket.create_connection((HOST, port), timeout=20))
        third.sendall(head + b"1234567890")
        assert third.recv(1000).startswith(b"HTTP/1.1 400")
        _until(lambda: len(read) == 4)
        third.sendall(delivery(b"{}\n"))
        _until(lambda: len(read) == 5)
    long, usual = probe_protocol.QUESTION_READ_BYTES, probe_protocol.READ_BYTES
    assert [size for _, size in read] == [long, usual, long, long, usual]


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_pipelined_delivery_gets_no_second_reply() -> None:
    stored: list[bytes] = []
    with serving(ingest=stored.extend) as port, socket.create_connection((HOST, port), timeout=20) as there:
        there.sendall(delivery(b"1\n") + delivery(b"2\n") + b"GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n")
        assert everything(there) == STORED_LAST
    assert stored == [b"1\n"], "the second is not answered, so it is delivered again"


def test_one_connection_serves_deliveries_and_placement_requests() -> None:
    stored: list[bytes] = []
    question = b"POST /v1/schedule HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(QUESTION), QUESTION)
    with serving(ingest=stored.extend) as port, socket.create_connection((HOST, port), timeout=20) as there:
        for _ in range(2):
            there.sendall(delivery(b"{}\n"))
            assert there.recv(1000) == STORED
            there.sendall(question)
            answer = b""
            while not answer.endswith(b"}"):
                answer += there.recv(100_000)
            assert answer.startswith(b"HTTP/1.1 200")
    assert stored == [b"{}\n"] * 2


def test_nonstandard_deliveries_use_general_request_handling() -> None:
    stored: list[bytes] = []
    long = b" " * probe_protocol.MAX_BYTES + b"\n"
    chunked = b"POST /v1/perflog HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n0\r\n\r\n"
    with serving(ingest=stored.extend) as port:
        assert ask(port, "/v1/perflog", long)[0] == 204
        with socket.create_connection((HOST, port), timeout=20) as there:
            there.sendall(chunked)
            answer = b""
            while not answer.endswith(b"\r\n\r\n"):
                answer += there.recv(1000)
            assert answer.startswith(STORED[:12])
            there.sendall(delivery(b"", "Expect: 100-continue\r\n"))
            assert there.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert stored[:2] == [long, b"{}\n"]


def test_half_a_delivery_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.3)
    stored: list[bytes] = []
    with serving(ingest=stored.extend) as port, socket.create_connection((HOST, port), timeout=20) as there:
        there.sendall(delivery(b'{"seq": 1}\n')[:-3])
        assert everything(there) == b""
    assert stored == []


@pytest.mark.long
def test_half_deliveries_of_many_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "MAX_BEGUN_BYTES", 100_000)
    stored: list[bytes] = []
    body = b"x" * 60_000
    with serving(ingest=stored.extend) as port:
        with ExitStack() as closing:
            first, second, whole = (
                closing.enter_context(socket.create_connection((HOST, port), timeout=20)) for _ in range(3)
            )
            first.sendall(delivery(body)[:-1])
            time.sleep(0.3)
            second.sendall(delivery(body)[:-1])
            assert everything(second).startswith(b"HTTP/1.1 503 "), "and is hung up on"
            whole.sendall(delivery(b"{}\n"))
            assert whole.recv(1000) == STORED, "what comes at once needs no such room"
            first.sendall(body[-1:])
            assert first.recv(1000) == STORED
            whole.sendall(delivery(body)[:-1])
            time.sleep(0.3)
        time.sleep(0.3)
        with socket.create_connection((HOST, port), timeout=20) as then:
            then.sendall(delivery(body)[:-1])
            time.sleep(0.3)
            then.sendall(body[-1:])
            assert then.recv(1000) == STORED, "there is room again after one has hung up"
    assert stored == [b"{}\n", body, body]


def test_client_disconnect_during_storage_affects_no_other_delivery() -> None:
    first, go_on = threading.Event(), threading.Event()
    stored: list[bytes] = []

    def take(bodies: list[bytes]) -> None:
        first.set()
        go_on.wait(20)
        stored.extend(bodies)

    with serving(ingest=take) as port:
        with socket.create_connection((HOST, port), timeout=20) as gone:
            gone.sendall(delivery(b"1\n"))
            assert first.wait(20)
        with socket.create_connection((HOST, port), timeout=20) as there:
            there.sendall(delivery(b"2\n"))
            time.sleep(0.2)
            go_on.set()
            assert there.recv(1000) == STORED
            there.sendall(delivery(b"3\n"))
            assert there.recv(1000) == STORED
    assert stored == [b"1\n", b"2\n", b"3\n"]


def test_threads_take_turns_more_often_while_the_server_runs() -> None:
    before = sys.getswitchinterval()
    with serving():
        assert sys.getswitchinterval() == pytest.approx(0.0005)
    assert sys.getswitchinterval() == before
