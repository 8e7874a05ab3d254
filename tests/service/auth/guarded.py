"""A service that asks who is there, with a token for each role, over real sockets."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import orjson
from starlette.applications import Starlette

from stormwright.schedulers import make_scheduler
from stormwright.service.auth.audit import FILE as AUDIT
from stormwright.service.auth.audit import audit_lines
from stormwright.service.auth.middleware import AuthMiddleware
from stormwright.service.auth.roles import Role
from stormwright.service.auth.settings import AccessSettings, Tls
from stormwright.service.auth.tokens import FILE as TOKENS
from stormwright.service.auth.tokens import Tokens
from stormwright.service.dashboard.site import Site
from stormwright.service.dashboard.sources import Sources
from stormwright.service.dashboard.state import DashboardState
from stormwright.service.http.api import api_routes
from stormwright.service.http.app import make_app
from stormwright.service.http.deliveries import BodyRecipient
from stormwright.service.http.server import HttpServer
from stormwright.storm.bridge import Bridge
from tests.service.dashboard.sites import SERVED, Parrot
from tests.service.plans.nimbus import Nimbus, random_cluster

#: An address of this machine that is not the one that services listen at by default.
HOST = "127.0.0.2"

Answer = tuple[int, Mapping[str, str], bytes]


@dataclass
class Guarded:
    """A service.

    Parameters
    ----------
    secrets
        Role → a token of it, find_token name is that of the role.
    """

    directory: Path
    door: AuthMiddleware
    nimbus: Nimbus
    app: Starlette
    host: str
    port: int
    context: ssl.SSLContext | None
    delivered: list[bytes] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, token: str | None = None, body: Any = None, **headers: str) -> Answer:
        """Status, headers and body of an answer; `body` is sent as it is where it is bytes, else as JSON."""
        kind = http.client.HTTPSConnection if self.context else http.client.HTTPConnection
        more = {"context": self.context} if self.context else {}
        connection = kind(self.host, self.port, timeout=60, **more)
        bearing = {"authorization": f"Bearer {token}"} if token is not None else {}
        content = body if isinstance(body, bytes | None) else orjson.dumps(body)
        try:
            extra = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, content, bearing | extra)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def as_role(self, role: Role, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """The same with the token of a role."""
        return self.ask(method, path, self.secrets[role], body, **headers)

    def noted(self) -> list[Mapping[str, Any]]:
        """The audit log, the newest first."""
        return list(audit_lines(self.directory / AUDIT))

    def look_again(self) -> None:
        """Have a changed file of tokens looked at now."""
        assert self.door.tokens
        self.door.tokens.look()


@contextmanager
def guarded(
    directory: Path,
    host: str = HOST,
    tls: Tls | None = None,
    context: ssl.SSLContext | None = None,
    asks: bool = True,
) -> Iterator[Guarded]:
    """A service over a virtual Nimbus; `context` is what `Guarded.ask` speaks TLS by."""
    with socket.socket() as free:
        free.bind((host, 0))
        port = free.getsockname()[1]
    tokens = Tokens(directory / TOKENS)
    secrets: dict[str, str] = {role: tokens.create(role, role) for role in get_args(Role)} if asks else {}
    nimbus = Nimbus(directory, random_cluster(1)[0])
    door = AuthMiddleware.of(AccessSettings(tokens.path if asks else None, tls), host, directory / AUDIT)
    delivered: list[bytes] = []
    sources = Sources(nimbus.look, lambda: SERVED, lambda: 4.0, dict, nimbus.plan_service, Parrot())
    try:
        with DashboardState(sources) as known:
            pages = Site(known, door)
            made = make_app(
                Bridge(make_scheduler("even"), "even"),
                BodyRecipient(delivered.extend),
                lambda: SERVED,
                nimbus.look,
                operating=api_routes(nimbus.plan_service, pages.overview),
                pages=pages,
            )
            with HttpServer(made, host, port, door, tls):
                assert isinstance(made.app, Starlette)
                yield Guarded(directory, door, nimbus, made.app, host, port, context, delivered, secrets)
    finally:
        nimbus.end()


def until(true: Any, seconds: float = 30.0) -> Any:
    """What a function gives once it is true."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found
