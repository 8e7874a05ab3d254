"""HTTP protocol of the service, with a fast path for deliveries of records."""

from __future__ import annotations

from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from stormwright.service.auth.middleware import AuthMiddleware
from stormwright.service.auth.settings import certified
from stormwright.service.http.asgi import UNKNOWN_PEER
from stormwright.service.http.connections import Connections
from stormwright.service.http.deliveries import PERFLOG, Deliveries, DeliveryRefusal

#: Maximum size of a delivery on the fast path; others are normal requests, with a limit on slow senders.
MAX_BYTES = 64 * 2**10

#: Buffer size of one read. A larger one, such as asyncio's 256 KiB, is mapped and unmapped for each read, which makes
#: it eight times as expensive.
READ_BYTES = 96 * 2**10

#: The same for the request of Nimbus, of which there is one at a time: between two reads other connections are served,
#: so with small reads it would wait for thousands of deliveries.
QUESTION_READ_BYTES = 4 * 2**20

#: Maximum size of request line and headers, which are in memory until they are complete.
MAX_HEAD_BYTES = 128 * 2**10

#: Path of the scheduling request of Nimbus.
QUESTION = b"/v1/schedule"

#: Headers of requests whose body is encoded or delayed.
_SPECIAL = {b"expect", b"transfer-encoding"}


class ProbeProtocol(HttpToolsProtocol):
    """HTTP protocol of uvicorn, with a fast path for deliveries of probes, of which thousands arrive per second.

    As requests of the app they would cost several times as much as storing them. Such a delivery

    1. has a content length, is short, and its sender is authorized; all others are handled as normal requests;
    2. is answered before anything else on its connection is read, so pipelined requests get no second answer;
    3. may arrive in parts, whose memory is limited for all connections together.

    The request of Nimbus is read in few large parts, one at a time.
    """

    open_connections: ClassVar[Connections]
    deliveries_to: ClassVar[Deliveries]
    auth: ClassVar[AuthMiddleware | None]
    asking: ClassVar[list[object]]

    _body: bytearray | None = None
    _held_bytes = 0
    _unanswered = False
    _last = False
    _certified = ""
    _in_head = True
    _head_bytes = 0

    def connection_made(self, transport) -> None:  # type: ignore[no-untyped-def]
        transport.max_size = READ_BYTES
        super().connection_made(transport)
        self._certified = certified(transport)
        self.open_connections.opened(transport, self.client or UNKNOWN_PEER)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._limit_head(len(data))
        if self._held_bytes or self._body is not None:
            self._hold()
        if not self._unanswered:
            self.open_connections.heard(self.client or UNKNOWN_PEER)

    def connection_lost(self, exc: Exception | None) -> None:
        self._body = None
        self._read_at_once(False)
        self._hold()
        self.open_connections.closed(self.transport, self.client or UNKNOWN_PEER)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        if self._unanswered:
            self._last = True
        elif self._idle_with_tls():
            self.transport.abort()  # the other side may take long to answer the farewell of TLS
        else:
            super().shutdown()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        self.scope["certified"] = self._certified  # type: ignore[typeddict-unknown-key]  # for the auth

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._unanswered:
            self._last = True  # (2)
        elif self._is_delivery():
            self._body = bytearray()
        else:
            self._read_at_once(self.url == QUESTION and self.parser.get_method() == b"POST")
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._body is not None:
            self._body += body
        elif not self._unanswered:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._body is not None:
            body, self._body = bytes(self._body), None
            self._unanswered, self._last = True, not self.parser.should_keep_alive()
            self.open_connections.request_started(self.client or UNKNOWN_PEER)
            self.deliveries_to.hand_over(body, self._answer)
        elif not self._unanswered:
            self._read_at_once(False)
            super().on_message_complete()

    def _limit_head(self, more_bytes: int) -> None:
        if self._in_head and not self.transport.is_closing():
            self._head_bytes += more_bytes
            if self._head_bytes > MAX_HEAD_BYTES:
                self.send_400_response(f"request head exceeds {MAX_HEAD_BYTES:,} bytes")

    def _hold(self) -> None:
        """Count the bytes of an incomplete delivery; refuse it if they are too many (3)."""
        before, self._held_bytes = self._held_bytes, len(self._body or b"")
        if not self.deliveries_to.begun(self._held_bytes - before) and self._body is not None:
            self._body, self._last = None, True
            self._hold()
            self._answer(DeliveryRefusal(503, "delivery buffer full: try again"))

    def _idle_with_tls(self) -> bool:
        idle = self.cycle is None or self.cycle.response_complete
        open_still = self.scheme == "https" and not self.transport.is_closing()
        return idle and open_still and not self.transport.get_write_buffer_size()

    def _read_at_once(self, question: bool) -> None:
        if question and not self.asking:
            self.asking.append(self)
            self.transport.max_size = QUESTION_READ_BYTES  # type: ignore[attr-defined]  # asyncio has it
        elif not question and self in self.asking:
            self.asking.remove(self)
            self.transport.max_size = READ_BYTES  # type: ignore[attr-defined]

    def _is_delivery(self) -> bool:
        if self.url != PERFLOG or self.parser.get_method() != b"POST":
            return False
        headers = dict(self.headers)
        length = headers.get(b"content-length", b"")  # (1)
        short = length.isdigit() and len(length) < 10 and int(length) <= MAX_BYTES
        plain = not headers.keys() & _SPECIAL and not self.parser.should_upgrade()
        free = self.cycle is None or self.cycle.response_complete
        return short and plain and free and (self.auth is None or self.auth.delivers(headers, self._certified))

    def _answer(self, refusal: DeliveryRefusal | None) -> None:
        self._unanswered = False
        if self.transport.is_closing():
            return
        code, body = (refusal.code, refusal.body()) if refusal else (204, b"")
        content = [STATUS_LINE[code]]
        if refusal:
            content.append(b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body))
        content += [b"connection: close\r\n" if self._last else b"", b"\r\n", body]
        self.transport.write(b"".join(content))
        if self._last:
            self.transport.close()
        self.open_connections.answered(self.client or UNKNOWN_PEER)


def protocol(connections: Connections, deliveries: Deliveries, auth: AuthMiddleware | None) -> type[HttpToolsProtocol]:
    """Return the protocol class with connection limits and the fast path for deliveries."""
    middleware = auth

    class Protocol(ProbeProtocol):
        open_connections, deliveries_to, auth = connections, deliveries, middleware
        asking: ClassVar[list[object]] = []

    return Protocol
