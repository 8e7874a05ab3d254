"""Browsers that have logged in: a cookie stands for a token, which the browser does not keep."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from stormwright.service.auth.roles import Visitor
from stormwright.service.auth.tokens import Token, Tokens, digest_of

#: Under TLS its name tells browsers that only this host sets it, and only over TLS.
COOKIE, SECURE_COOKIE = "stormwright", "__Host-stormwright"

#: Seconds that a session lasts, and how many there are at most: of more, the oldest ends.
LASTS_S, MAX_SESSIONS = 12 * 3600.0, 1000

_RANDOM_BYTES = 32


@dataclass(frozen=True)
class _Session:
    token: str
    form_key: str
    until_s: float


class Sessions:
    """Sessions, which end with the process; on the thread of the event loop.

    Parameters
    ----------
    tokens
        Store of valid tokens: with its token a session ends.
    now_s
        Returns the time in seconds by which sessions expire; a monotonic clock by default.
    """

    def __init__(self, tokens: Tokens, now_s: Callable[[], float] = time.monotonic) -> None:
        self._tokens, self._now_s = tokens, now_s
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    def begin(self, token: Token) -> str:
        """Begin a session of a token; the value of its cookie."""
        value = secrets.token_urlsafe(_RANDOM_BYTES)
        form_key = secrets.token_urlsafe(_RANDOM_BYTES)
        self._sessions[digest_of(value)] = _Session(token.digest, form_key, self._now_s() + LASTS_S)
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return value

    def visitor(self, value: str) -> Visitor | None:
        """Return the user of a session cookie; None if it is invalid."""
        session = self._sessions.get(digest_of(value))
        if session is None or self._now_s() >= session.until_s:
            return None
        found = self._tokens.visitor(self._tokens.of_digest(session.token))
        return found and replace(found, form_key=session.form_key)

    def end(self, value: str) -> None:
        """End a session."""
        self._sessions.pop(digest_of(value), None)


def cookie_of(headers: str, name: str) -> str:
    """Return the value of a cookie in request headers; empty if there is none."""
    for part in headers.split(";"):
        found, _, value = part.strip().partition("=")
        if found == name:
            return value
    return ""
