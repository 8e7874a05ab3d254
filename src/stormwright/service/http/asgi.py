"""Types of ASGI, bodies of requests, and whether a request comes from a page of this service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request

Scope = MutableMapping[str, Any]

App = Callable[[Scope, Any, Any], Awaitable[None]]

Peer = tuple[str, int]

#: A connection that has no address.
UNKNOWN_PEER: Peer = ("", 0)


#: Seconds within which a body has to be there.
BODY_S = 10.0

#: Headers of the answer to a client that keeps sending and does not read.
_LAST = {"connection": "close"}


class Bodies:
    """Reads bodies; to be used on the thread of the event loop.

    Parameters
    ----------
    most_bytes
        That one body may have.
    most_at_once
        Bytes of all that have begun and are not there yet: many that come slowly may not fill the memory.
    """

    def __init__(self, most_bytes: int, most_at_once: int) -> None:
        self._most_bytes = most_bytes
        self._most_at_once = most_at_once
        self._begun_bytes = 0

    async def read(self, request: Request) -> bytes:
        """The body of a request.

        Raises
        ------
        HTTPException
            It has too many bytes (413), is not there in `BODY_S` seconds (408), has a declared length that is no
            number (400), or comes while there are too many others (503).
        """
        length = request.headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            raise HTTPException(400, "content-length is no number", _LAST)
        # Texts are compared before they are made numbers, which may take long.
        if len(length) > len(str(self._most_bytes)) or int(length) > self._most_bytes:
            raise self._too_much()
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_S):
                # What comes in chunks does not say how long it is.
                async for part in request.stream():
                    body += part
                    self._begun_bytes += len(part)
                    if len(body) > self._most_bytes:
                        raise self._too_much()
                    if self._begun_bytes > self._most_at_once:
                        raise HTTPException(503, "other bodies are being read: try again", _LAST)
        except TimeoutError:
            raise HTTPException(408, f"the body was not there within {BODY_S:g} s", _LAST) from None
        finally:
            self._begun_bytes -= len(body)
        return bytes(body)

    def _too_much(self) -> HTTPException:
        return HTTPException(413, f"a body may have {self._most_bytes:,} bytes", _LAST)


def from_here(request: Request) -> bool:
    """Whether one of our own pages, or a program, sent a request.

    Browsers send the origin of a request, and other pages cannot prevent it; programs send no origin.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host", "")
