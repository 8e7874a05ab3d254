"""The HTTP server, on a thread of its own."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
import threading
from types import TracebackType
from typing import Any, Self

import uvicorn

from stormwright.errors import ClusterError
from stormwright.service.auth.middleware import AuthMiddleware
from stormwright.service.auth.settings import Tls, tls_context
from stormwright.service.http.app import Endpoints
from stormwright.service.http.connections import HEAD_S, KEEP_ALIVE_S, Connections, most_connections
from stormwright.service.http.probe_protocol import protocol

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
