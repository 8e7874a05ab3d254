"""Middleware: authentication, authorisation, rate limits, audit."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlsplit

import orjson

from stormwright.service.auth.audit import Audit
from stormwright.service.auth.roles import BRIDGE_PATHS, DELIVER, LOGIN, LOGOUT, Role, Roles, Visitor, allowed
from stormwright.service.auth.sessions import COOKIE, SECURE_COOKIE, Sessions, cookie_of
from stormwright.service.auth.settings import AccessSettings, is_loopback
from stormwright.service.auth.tokens import Tokens
from stormwright.service.http.asgi import App, Scope

# Rate limits --------------------------------------------------------------------------------------

#: Maximum number of names or addresses remembered; the one unused for longest is forgotten first.
MAX_REMEMBERED = 10_000


@dataclass
class _Left:
    times: float
    at_s: float


class TokenBucket:
    """Token bucket per name; used on the thread of the event loop.

    Parameters
    ----------
    burst
        Maximum number of requests at once.
    every_s
        Seconds after which one more is allowed.
    now_s
        Returns the time in seconds.
    """

    def __init__(self, burst: int, every_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self._burst, self._every_s, self._now_s = burst, every_s, now_s
        self._left: OrderedDict[str, _Left] = OrderedDict()

    def wait_s(self, name: str) -> float:
        """Take a token of a name; return 0, or the seconds until there is one."""
        now_s = self._now_s()
        left = self._left.setdefault(name, _Left(self._burst, now_s))
        self._left.move_to_end(name)
        if len(self._left) > MAX_REMEMBERED:
            self._left.popitem(last=False)
        left.times = min(left.times + (now_s - left.at_s) / self._every_s, self._burst)
        left.at_s = now_s
        if left.times < 1:
            return (1 - left.times) * self._every_s
        left.times -= 1
        return 0.0


# Middleware ---------------------------------------------------------------------------------------

#: Failed logins per address: burst, and seconds per further attempt. Valid tokens are not limited, so a client that
#: guesses does not lock out others at the same address.
FAILURES, FAILURE_S = 20, 3.0

#: Expensive requests per user (or address, without authentication): burst, and seconds per further request.
COSTLY, COSTLY_S = 60, 0.5

#: Expensive requests: documents of the whole cluster, and those that start a computation.
_COSTLY = frozenset(
    {
        ("GET", "/v1/problem"),
        ("POST", "/v1/plans"),
        ("POST", "/plans"),
        ("POST", "/try/compare"),
        ("POST", "/try/what-if"),
    }
)

_READING = ("GET", "HEAD")

_WHO = "a token is required: --token-file or STORMWRIGHT_TOKEN, or authorization: Bearer"


@dataclass(frozen=True)
class _Refusal:
    """A refusal: HTTP status, message, and seconds after which to retry."""

    status: int
    error: str
    wait_s: float = 0.0


class AuthMiddleware:
    """Authenticates and authorizes requests, on the thread of the event loop.

    Parameters
    ----------
    tokens
        Known tokens; None without authentication.
    audit
        Audit log of changes and refusals.
    secure
        Whether connections use TLS.
    certificates
        Whether Nimbus and probes need client certificates; tokens alone do not suffice.
    only_here
        Whether the service listens on localhost alone. Without authentication it then refuses requests that name
        another host: a foreign page can make its own name resolve to this machine (DNS rebinding).
    """

    def __init__(
        self,
        tokens: Tokens | None,
        audit: Audit,
        secure: bool = False,
        certificates: bool = False,
        only_here: bool = False,
    ) -> None:
        self.tokens, self.audit, self.secure = tokens, audit, secure
        self._certificates, self._only_here = certificates, only_here and tokens is None
        self.sessions = Sessions(tokens) if tokens else None
        self._headers = [(b"x-content-type-options", b"nosniff")]
        if secure:
            self._headers.append((b"strict-transport-security", b"max-age=31536000"))
        self.failures = TokenBucket(FAILURES, FAILURE_S)
        self.costly = TokenBucket(COSTLY, COSTLY_S)

    @classmethod
    def of(cls, access: AccessSettings, host: str, audit: Path) -> Self:
        """Return the middleware for access settings, a listening address and an audit log."""
        certificates = access.tls is not None and access.tls.client_authority is not None
        tokens = Tokens(access.tokens) if access.tokens else None
        return cls(tokens, Audit(audit), access.tls is not None, certificates, is_loopback(host))

    @property
    def cookie(self) -> str:
        """Name of the cookie of sessions."""
        return SECURE_COOKIE if self.secure else COOKIE

    def delivers(self, headers: Mapping[bytes, bytes], certified: str) -> bool:
        """Return whether a probe's delivery is accepted; otherwise `wrap` answers with the reason.

        Parameters
        ----------
        headers
            Headers of the request, with names in lower case.
        certified
            Name in the certificate that was shown; empty for none.
        """
        if _of_browser(headers):
            return False
        if self._certificates:
            return bool(certified)
        if self.tokens is None:
            return True
        secret = _secret(headers)
        visitor = self.tokens.visitor(self.tokens.find_token(secret)) if secret else None
        return visitor is not None and visitor.role in DELIVER

    def wrap(self, app: App) -> App:
        """Wrap an app so that only authorised requests reach it.

        The scope's ``visitor`` identifies the user, None if anonymous; the app adds details for the audit log to its
        ``noted``.
        """

        async def answer(scope: Scope, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            no, visitor = self._authorize(scope)
            scope["visitor"], scope["noted"] = visitor, {}
            # One that is refused too often is noted no more, or it could fill the disk.
            to_note = no.status != 429 if no else _changes(scope)

            async def sent(message: dict[str, Any]) -> None:
                nonlocal to_note
                if message["type"] == "http.response.start":
                    if to_note:
                        to_note = False
                        self._note(scope, visitor, message["status"], no)
                    there = [*message.get("headers", ())]
                    names = {name for name, _ in there}
                    message = message | {"headers": [*there, *(each for each in self._headers if each[0] not in names)]}
                await send(message)

            if no is None:
                await app(scope, receive, sent)
            else:
                await self._refuse(scope, sent, no)

        return answer

    def _authorize(self, scope: Scope) -> tuple[_Refusal | None, Visitor | None]:
        method, path = scope["method"], scope["path"]
        headers = dict(scope["headers"])
        if path in BRIDGE_PATHS and _of_browser(headers):
            return _Refusal(403, "a browser is neither Nimbus nor a probe"), None
        if self._only_here and path not in BRIDGE_PATHS and not _names_here(headers):
            return _Refusal(403, "this service is reached as localhost only, or with a token"), None
        roles = allowed(method, path)
        visitor, failed = self._visitor(scope, headers)
        if roles is not None and self._asks(path):
            if visitor is None:
                if failed and (wait_s := self.failures.wait_s(address_of(scope))):
                    return _Refusal(429, "too many invalid tokens came from this address", wait_s), None
                return _Refusal(401, failed or self._who(path)), None
            if visitor.role not in roles:
                refusal = f"{visitor.name} is {_one(visitor.role)}: only {_one_of(roles)} may do this"
                return _Refusal(403, refusal), visitor
            if visitor.form_key and path.startswith("/v1/") and method not in _READING:
                return _Refusal(403, "a browser changes things by its pages' forms; programs send a token"), visitor
        if (method, path) in _COSTLY:
            wait_s = self.costly.wait_s(visitor.name if visitor else address_of(scope))
            if wait_s:
                return _Refusal(429, "rate limit exceeded", wait_s), visitor
        return None, visitor

    def _asks(self, path: str) -> bool:
        """Return whether credentials are required."""
        return self.tokens is not None or (self._certificates and path in BRIDGE_PATHS)

    def _who(self, path: str) -> str:
        if self._certificates and path in BRIDGE_PATHS:
            return "show a certificate: stormwright.tls.cert and stormwright.tls.key"
        return _WHO

    def _visitor(self, scope: Scope, headers: Mapping[bytes, bytes]) -> tuple[Visitor | None, str]:
        """Return the user of a request, and the reason if its credentials are invalid."""
        if self._certificates and scope["path"] in BRIDGE_PATHS:
            certified = scope.get("certified", "")
            return (Visitor(certified, "bridge") if certified else None), ""
        if self.tokens is None or self.sessions is None:
            return None, ""
        if secret := _secret(headers):
            token = self.tokens.find_token(secret)
            visitor = self.tokens.visitor(token)
            if visitor:
                return visitor, ""
            return None, f"the token of {token.name} has expired or was revoked" if token else "there is no such token"
        if value := cookie_of(headers.get(b"cookie", b"").decode("latin-1"), self.cookie):
            visitor = self.sessions.visitor(value)
            return visitor, "" if visitor else "the session is over: log in again"
        return None, ""

    async def _refuse(self, scope: Scope, send: Any, no: _Refusal) -> None:
        headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
        status, body = no.status, orjson.dumps({"error": no.error})
        accepts = dict(scope["headers"]).get(b"accept", b"")
        if status == 401 and scope["method"] == "GET" and b"text/html" in accepts:
            status, body = 303, b""
            headers.append((b"location", f"{LOGIN}?next={quote(_target(scope), safe='')}".encode()))
        elif status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if no.wait_s:
            headers.append((b"retry-after", b"%d" % (no.wait_s + 1)))
        if scope["method"] not in _READING:
            headers.append((b"connection", b"close"))  # nobody reads what comes with it
        headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _note(self, scope: Scope, visitor: Visitor | None, status: int, no: _Refusal | None) -> None:
        refusal: dict[str, Any] = {"who": visitor.name if visitor else "", "role": visitor.role if visitor else ""}
        refusal |= {"from": address_of(scope), "status": status}
        refusal |= {"why": no.error} if no else scope["noted"]
        self.audit.note(f"{scope['method']} {scope['path']}", **refusal)


def visitor_of(scope: Scope) -> Visitor | None:
    """Return the user of a request; None if authentication is disabled."""
    found: Visitor | None = scope.get("visitor")
    return found


def _one(role: Role) -> str:
    return f"an {role}" if role[0] in "aeiou" else f"a {role}"


def _one_of(roles: Roles) -> str:
    *others, last = map(_one, sorted(roles))
    return f"{', '.join(others)} or {last}" if others else last


def _changes(scope: Scope) -> bool:
    return (
        scope["method"] not in _READING and scope["path"] not in BRIDGE_PATHS and scope["path"] not in (LOGIN, LOGOUT)
    )


def _of_browser(headers: Mapping[bytes, bytes]) -> bool:
    return b"origin" in headers or b"sec-fetch-site" in headers


def _names_here(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a request names this machine in a way that DNS cannot rebind."""
    try:
        host = urlsplit(b"//" + headers.get(b"host", b"")).hostname or b""
        return host == b"localhost" or host.endswith(b".localhost") or ip_address(host.decode("ascii")).is_loopback
    except ValueError:
        return False


def _secret(headers: Mapping[bytes, bytes]) -> str:
    scheme, _, secret = headers.get(b"authorization", b"").partition(b" ")
    return secret.strip().decode("latin-1") if scheme.lower() == b"bearer" else ""


def address_of(scope: Scope) -> str:
    """Where a request comes from."""
    return str((scope.get("client") or ("unknown",))[0])


def _target(scope: Scope) -> str:
    query = scope.get("query_string", b"").decode("latin-1")
    return f"{scope['path']}?{query}" if query else str(scope["path"])
