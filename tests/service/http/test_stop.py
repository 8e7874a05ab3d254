"""When the server ends, every client that still has a connection is notified at once."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from stormwright.service.http.app import Endpoints
from stormwright.service.http.deliveries import BodyRecipient, Deliveries
from stormwright.service.http.server import HttpServer
from tests.service.http.test_app import HOST


@pytest.fixture
def nothing_collected() -> Iterator[None]:
    """Sockets that are forgotten, not closed, stay open."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.long
@pytest.mark.usefixtures("nothing_collected")
def test_slow_reader_is_disconnected_on_stop() -> None:
    body = bytes(50 * 2**20)

    async def app(_: object, __: object, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    with HttpServer(Endpoints(app, Deliveries(BodyRecipient(lambda _: None))), HOST, port):
        there = socket.create_connection((HOST, port), timeout=5)
        there.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert there.recv(1)
    with there, suppress(ConnectionResetError):  # a timeout otherwise
        while there.recv(2**20):
            pass
