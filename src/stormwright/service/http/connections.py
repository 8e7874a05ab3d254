"""Open connections of the HTTP server, within the limit on open files."""

from __future__ import annotations

import asyncio
import resource
from typing import Any

from stormwright.service.http.asgi import UNKNOWN_PEER, App, Peer, Scope

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
