"""Requests that are none, or not quite: bytes as an attacker would send them."""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence

#: Paths that mean something, and some that mean nothing.
PATHS = (
    "/", "/v1/schedule", "/v1/perflog", "/v1/plans", "/v1/plans/x/apply", "/v1/history?limit=1", "/v1/history/1/revert",
    "/v1/modes", "/v1/status", "/v1/problem", "/v1/openapi.json", "/metrics?detail=executor", "/plans", "/login",
    "/live", "/assets/style.css", "/none", "/%00", "/..%2f..%2fetc/passwd", "//", "*", "http://[",
    "/v1/plans/" + "a" * 5000,
)  # fmt: skip

_METHODS = ("GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "CONNECT", "PRI", "get", "G\x00T", "")
_VERSIONS = ("HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/9", "", "HTTP/1.1 x")
_BODIES = (
    b"",
    b"{}",
    b"null",
    b"{",
    b"[" * 2000,
    b"\xff" * 300,
    b'{"a":' * 500,
    b"9" * 2000,
    b"x=1&" * 300,
    b"\n" * 500,
)
_HEADERS = (
    "content-length: 5", "content-length: -1", "content-length: 99999999999999999999", "content-length: 1, 2",
    "transfer-encoding: chunked", "transfer-encoding: gzip, chunked", "expect: 100-continue", "connection: upgrade",
    "upgrade: websocket", "upgrade: h2c", "cookie: stormwright=" + "a" * 3000, "cookie: ;;;=", "origin: null",
    "authorization: Bearer", "authorization: Basic eA==", "authorization: Bearer \xe9", "sec-fetch-site: cross-site",
    "accept: text/html", "host:", "host: [", ": empty", "no colon", "x: " + "y" * 9000, "content-type: \x7f", " folded",
)  # fmt: skip


def malformed(rng: random.Random, secrets: Sequence[str]) -> bytes:
    """One of them; some say who they are by a token that counts."""
    if rng.random() < 0.1:
        return rng.randbytes(rng.randrange(1, 3000))
    # Most come through the parser, since more can go wrong behind it.
    method = rng.choice(_METHODS[:4] if rng.random() < 0.9 else _METHODS)
    version = _VERSIONS[0] if rng.random() < 0.9 else rng.choice(_VERSIONS)
    head = f"{method} {rng.choice(PATHS)} {version}"
    lines = [head, *rng.sample(_HEADERS, rng.choice((0, 0, 1, 2, 4)))]
    if rng.random() < 0.5:
        lines.append(f"authorization: Bearer {rng.choice(secrets)}")
    if rng.random() < 0.7:
        lines.append("host: localhost")
    body = rng.choice(_BODIES)
    if rng.random() < 0.5:
        lines.append(f"content-length: {len(body)}")
    whole = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body
    if rng.random() < 0.2:
        whole = whole[: rng.randrange(1, len(whole))]
    if rng.random() < 0.2:
        torn = bytearray(whole)
        for _ in range(rng.randrange(1, 10)):
            torn[rng.randrange(len(torn))] = rng.randrange(256)
        whole = bytes(torn)
    return whole


def send(address: tuple[str, int], content: bytes, seconds: float = 1.0) -> int:
    """Send it, say that nothing more comes, and read what is answered; its status, 0 for none."""
    with socket.create_connection(address, timeout=10) as there:
        there.settimeout(seconds)
        try:
            there.sendall(content)
            there.shutdown(socket.SHUT_WR)
            answer = there.recv(4096)
        except OSError:  # it was told to go before it had ended, or is let wait for what it did not send
            return 0
    line = answer.split(b"\r\n", 1)[0].split(b" ")
    return int(line[1]) if len(line) > 1 and line[0].startswith(b"HTTP/") else 0
