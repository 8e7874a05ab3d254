"""The HTTP server, on a thread of its own."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Self

import uvicorn

from stormwright.errors import ClusterError
from stormwright.service.http.app import Endpoints
from stormwright.service.http.connections import Connections, most_connections
from stormwright.service.http.protocol import protocol

#: Seconds after which a thread lets go of the interpreter if another one wants it. The server's thread lets go of it
#: whenever it reads or writes, which it does some hundred times for a question of Nimbus; each time it would wait for
#: as long as this while another thread computes.
SWITCH_S = 0.0005


class HttpServer:
    """Serves endpoints from a thread of its own while the `with` block runs.

    Raises
    ------
    ClusterError
        On entering, where the address cannot be had.
    """

    def __init__(self, endpoints: Endpoints, host: str, port: int) -> None:
        self._address = f"{host}:{port}"
        connections = Connections(most_connections())
        config = uvicorn.Config(
            connections.around(endpoints.app),
            host=host,
            port=port,
            http=protocol(connections, endpoints.deliveries),
            loop="asyncio",  # its transports can be told how much to read at once
            interface="asgi3",
            proxy_headers=False,
            server_header=False,
            log_level="error",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="stormwright-http", daemon=True)
        self._switch_s = sys.getswitchinterval()

    def _run(self) -> None:
        try:
            self._server.run()
        except SystemExit:
            # uvicorn's way of saying that the address is taken; __enter__ reports it.
            return

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.05)
            if not self._thread.is_alive():
                raise ClusterError(
                    f"cannot listen on {self._address}: not an address of this machine, or another service is there"
                )
        sys.setswitchinterval(min(SWITCH_S, self._switch_s))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        sys.setswitchinterval(self._switch_s)
        self._server.should_exit = True
        self._thread.join(10)
