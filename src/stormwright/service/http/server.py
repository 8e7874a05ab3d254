"""The HTTP server, on a thread of its own."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
import sys
import threading
from types import TracebackType
from typing import Any, ClassVar, Self

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from stormwright.errors import ClusterError
from stormwright.service.auth.middleware import AuthMiddleware
from stormwright.service.auth.settings import Tls, certified, tls_context
from stormwright.service.http.app import Endpoints
from stormwright.service.http.asgi import UNKNOWN_PEER, App, Peer, Scope
from stormwright.service.http.deliveries import PERFLOG, Deliveries, DeliveryRefusal

# Protocol -----------------------------------------------------------------------------------------
# HTTP, with a fast path for deliveries of records.

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


# Connections --------------------------------------------------------------------------------------
# Open connections, of which there may be no more than there are files to be had.

#: Seconds within which a request has to come once it, or its connection, has begun.
HEAD_S = 10.0

#: Seconds for which an idle connection stays open: longer than the JVMs of Nimbus and probes, 30 s, leave one
#: idle. A request that meets a connection at its end fails, and a move that waits for it takes seconds longer.
KEEP_ALIVE_S = 60

#: Files that are opened for anything else: landing, history, Spark.
_OTHER_FILES = 512
_FEWEST = 64
_MAX_FILES = 65_536


def most_connections() -> int:
    """Return the maximum number of connections, raising the limit on open files as far as allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(_FEWEST, wanted - _OTHER_FILES)


class Connections:
    """Closes connections on which no request comes, and the ones idle longest where there are too many.

    So who opens connections and says nothing, or half a request, keeps neither Nimbus nor probes out. To be used on
    the thread of the event loop.

    Parameters
    ----------
    most
        Connections that may be open.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._idle: dict[Peer, asyncio.Transport] = {}
        self._busy: dict[Peer, asyncio.Transport] = {}
        self._limits: dict[Peer, asyncio.TimerHandle] = {}

    def opened(self, transport: asyncio.Transport, peer: Peer) -> None:
        """A connection has been made by somebody, as the app's scope names him."""
        if len(self._idle) + len(self._busy) >= self._most and self._idle:
            longest = next(iter(self._idle))
            self._idle[longest].abort()
            self._forget(longest)
        self._idle[peer] = transport
        self._limit(peer)

    def heard(self, peer: Peer) -> None:
        """Something came, which may be the beginning of a request."""
        if peer in self._idle and peer not in self._limits:
            self._limit(peer)

    def closed(self, transport: asyncio.Transport, peer: Peer) -> None:
        """Count a closed connection; one with TLS no longer knows its peer."""
        if transport in (self._idle.get(peer), self._busy.get(peer)):
            self._forget(peer)

    def request_started(self, peer: Peer) -> None:
        """Count a connection as busy with a request."""
        if timer := self._limits.pop(peer, None):
            timer.cancel()
        if peer in self._idle:
            self._busy[peer] = self._idle.pop(peer)

    def answered(self, peer: Peer) -> None:
        """It is answered."""
        if peer in self._busy:
            self._idle[peer] = self._busy.pop(peer)

    def wrap(self, app: App) -> App:
        """An app of which this knows when it answers."""

        async def answer(scope: Scope, receive: Any, send: Any) -> None:
            peer = tuple(scope["client"] or UNKNOWN_PEER)
            self.request_started(peer)
            try:
                await app(scope, receive, send)
            finally:
                self.answered(peer)

        return answer

    def _limit(self, peer: Peer) -> None:
        self._limits[peer] = asyncio.get_running_loop().call_later(HEAD_S, self._idle[peer].close)

    def _forget(self, peer: Peer) -> None:
        self._idle.pop(peer, None)
        self._busy.pop(peer, None)
        if timer := self._limits.pop(peer, None):
            timer.cancel()


# Server -------------------------------------------------------------------------------------------

#: Seconds after which a thread lets go of the interpreter if another one wants it. The server's thread lets go of it
#: whenever it reads or writes, which it does some hundred times for a question of Nimbus; each time it would wait for
#: as long as this while another thread computes.
SWITCH_S = 0.0005


class ServerLoop(asyncio.SelectorEventLoop):
    """Waits for the beginning of TLS no longer than for that of a request."""

    async def create_server(self, *args: Any, **kwargs: Any) -> asyncio.Server:
        """See asyncio; where the address cannot be had that is a ClusterError, which uvicorn does not log."""
        if kwargs.get("ssl"):
            kwargs["ssl_handshake_timeout"] = HEAD_S
        try:
            return await super().create_server(*args, **kwargs)
        except (OSError, UnicodeError) as error:
            where = f"{kwargs.get('host')}:{kwargs.get('port')}"
            raise ClusterError(f"{where}: {cannot_listen(error)}") from error


def cannot_listen(error: Exception) -> str:
    """Return the message for an address that cannot be bound."""
    why = str(error)
    if isinstance(error, OSError):
        # asyncio rewrites the message, and gives no number if no address of a name belongs to this machine.
        number = errno.EADDRNOTAVAIL if error.errno is None else error.errno
        why = os.strerror(number) if number > 0 else error.strerror or why
    in_use = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
    remedy = "stop the other process, or pass" if in_use else "pass"
    return f"cannot listen there: {why[:1].lower()}{why[1:]}; {remedy} another --host or --port"


class _Server(uvicorn.Server):
    """Leaves no connection open when it has ended."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn, which forgets those that do not end by themselves in time, and those that came last."""
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            if connection.transport:
                connection.transport.abort()
        await asyncio.sleep(0)  # a transport closes its socket in the round after


class HttpServer:
    """Serves endpoints from a thread of its own while the `with` block runs.

    Parameters
    ----------
    endpoints
        App, and handler of the deliveries that bypass it.
    host, port
        Address and port to listen on.
    auth
        Whom it lets in; None for everybody.
    tls
        The certificate that it shows, and whose it asks for; None for HTTP as it is.

    Raises
    ------
    InputError
        The certificate or its key cannot be used.
    ClusterError
        On entering, where the address cannot be had.
    """

    def __init__(
        self, endpoints: Endpoints, host: str, port: int, auth: AuthMiddleware | None = None, tls: Tls | None = None
    ) -> None:
        self._failed: ClusterError | None = None
        self._tls = tls
        self._context = context = tls_context(tls) if tls else None
        connections = Connections(most_connections())
        config = uvicorn.Config(
            connections.wrap(auth.wrap(endpoints.app) if auth else endpoints.app),
            host=host,
            port=port,
            http=protocol(connections, endpoints.deliveries, auth),
            ssl_context_factory=(lambda *_: context) if context else None,
            # Its transports can be told how much to read at once.
            loop="stormwright.service.http.server:ServerLoop",
            interface="asgi3",
            proxy_headers=False,
            server_header=False,
            log_level="error",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        self._server = _Server(config)
        self._thread = threading.Thread(target=self._run, name="stormwright-http", daemon=True)
        self._switch_s = sys.getswitchinterval()

    def renew(self) -> None:
        """Show the certificate that the files have now on connections that begin from now on.

        Raises
        ------
        InputError
            It or its key cannot be used; the one before is shown on.
        """
        if self._context and self._tls:
            tls_context(self._tls)  # of a pair that does not fit half would be taken
            self._context.load_cert_chain(self._tls.certificate, self._tls.key)

    def _run(self) -> None:
        try:
            self._server.run()
        except ClusterError as error:
            self._failed = error  # __enter__ reports it

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.05)
            if not self._thread.is_alive():
                raise self._failed or ClusterError("the HTTP server did not start")
        sys.setswitchinterval(min(SWITCH_S, self._switch_s))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        sys.setswitchinterval(self._switch_s)
        self._server.should_exit = True
        self._thread.join(10)
