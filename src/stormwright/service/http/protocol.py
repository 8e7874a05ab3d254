"""What is spoken on a connection: HTTP, and deliveries on the shortest way."""

from __future__ import annotations

from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from stormwright.service.access.certificates import certified
from stormwright.service.access.door import Door
from stormwright.service.http.connections import NOBODY, Connections
from stormwright.service.http.deliveries import PERFLOG, Deliveries, DeliveryRefusal

#: Longer ones go the way of all requests, on which whoever sends slowly is told so.
MOST_BYTES = 64 * 2**10

#: Room for what is read at once. More, as asyncio's own 256 KiB, is mapped and unmapped for each read, at eight times
#: the cost of a read.
READ_BYTES = 96 * 2**10

#: The same of Nimbus's question, of which there is one at a time: between two reads others are heard, so that it would
#: wait for thousands of deliveries.
QUESTION_READ_BYTES = 4 * 2**20

#: Of what comes before a body; as far as the end of it has not come, it is kept in memory.
MOST_HEAD_BYTES = 128 * 2**10

#: Where Nimbus asks.
QUESTION = b"/v1/schedule"

#: Of requests whose body is not simply what follows.
_SPECIAL = {b"expect", b"transfer-encoding"}


class ProbeProtocol(HttpToolsProtocol):
    """HTTP as uvicorn speaks it, but that of a probe's delivery, of which thousands come each second.

    To make it a request of the app would cost several times what keeping it costs. Such a delivery

    1. has a length, is short, and comes from who may deliver; all others go the way of all requests;
    2. is answered before anything else that comes on its connection is read: who does not wait for the answer gets
       no second one;
    3. may come in parts, for which there is so much memory for all together.

    A question of Nimbus is read in few pieces, if no other one is.
    """

    open_connections: ClassVar[Connections]
    kept_by: ClassVar[Deliveries]
    door: ClassVar[Door | None]
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
        self.open_connections.opened(transport, self.client or NOBODY)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._limit_head(len(data))
        if self._held_bytes or self._body is not None:
            self._hold()
        if not self._unanswered:
            self.open_connections.heard(self.client or NOBODY)

    def connection_lost(self, exc: Exception | None) -> None:
        self._body = None
        self._read_at_once(False)
        self._hold()
        self.open_connections.closed(self.transport, self.client or NOBODY)
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
        self.scope["certified"] = self._certified  # type: ignore[typeddict-unknown-key]  # for the door

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
            self.open_connections.asked(self.client or NOBODY)
            self.kept_by.hand_over(body, self._answer)
        elif not self._unanswered:
            self._read_at_once(False)
            super().on_message_complete()

    def _limit_head(self, more_bytes: int) -> None:
        if self._in_head and not self.transport.is_closing():
            self._head_bytes += more_bytes
            if self._head_bytes > MOST_HEAD_BYTES:
                self.send_400_response(f"what comes before a body may have {MOST_HEAD_BYTES:,} bytes")

    def _hold(self) -> None:
        """Keep count of what there is of a delivery that is not whole; where there is too much it is refused (3)."""
        before, self._held_bytes = self._held_bytes, len(self._body or b"")
        if not self.kept_by.begun(self._held_bytes - before) and self._body is not None:
            self._body, self._last = None, True
            self._hold()
            self._answer(DeliveryRefusal(503, "parts of too many other deliveries are here: try again"))

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
        short = length.isdigit() and len(length) < 10 and int(length) <= MOST_BYTES
        plain = not headers.keys() & _SPECIAL and not self.parser.should_upgrade()
        free = self.cycle is None or self.cycle.response_complete
        return short and plain and free and (self.door is None or self.door.delivers(headers, self._certified))

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
        self.open_connections.answered(self.client or NOBODY)


def protocol(connections: Connections, deliveries: Deliveries, door: Door | None) -> type[HttpToolsProtocol]:
    """The protocol of connections that are counted, and of deliveries that are kept of those whom a door lets in."""
    lets_in = door

    class Protocol(ProbeProtocol):
        open_connections, kept_by, door = connections, deliveries, lets_in
        asking: ClassVar[list[object]] = []

    return Protocol
