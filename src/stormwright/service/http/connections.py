"""Open connections, of which there may be no more than there are files to be had."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

#: Seconds within which a request has to come once it, or its connection, has begun.
HEAD_S = 10.0

#: Files that are opened for anything else: landing, history, Spark.
_OTHER_FILES = 512
_FEWEST = 64
_MOST_FILES = 65_536

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]
Peer = tuple[str, int]

#: A connection that has no address.
NOBODY: Peer = ("", 0)


def most_connections() -> int:
    """How many connections the limit on open files leaves room for, which is raised as far as this process may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
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
        """A connection is gone; one of TLS no longer tells whose it was."""
        if transport in (self._idle.get(peer), self._busy.get(peer)):
            self._forget(peer)

    def asked(self, peer: Peer) -> None:
        """A request has come, which is answered from now on."""
        if timer := self._limits.pop(peer, None):
            timer.cancel()
        if peer in self._idle:
            self._busy[peer] = self._idle.pop(peer)

    def answered(self, peer: Peer) -> None:
        """It is answered."""
        if peer in self._busy:
            self._idle[peer] = self._busy.pop(peer)

    def around(self, app: App) -> App:
        """An app of which this knows when it answers."""

        async def answer(scope: Scope, receive: Any, send: Any) -> None:
            peer = tuple(scope["client"] or NOBODY)
            self.asked(peer)
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
