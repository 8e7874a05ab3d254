"""Bodies of requests, of which anybody may send anything."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request

#: Seconds within which a body has to be there.
BODY_S = 10.0

#: What is answered to who goes on sending: nobody reads it.
_LAST = {"connection": "close"}


async def read_body(request: Request, most_bytes: int) -> bytes:
    """The body of a request.

    Raises
    ------
    HTTPException
        It has more than `most_bytes` bytes (413), is not there in `BODY_S` seconds (408), or is said to have a length
        that is no number (400).
    """
    told = request.headers.get("content-length", "0")
    if not (told.isascii() and told.isdigit()):
        raise HTTPException(400, "content-length is no number", _LAST)
    # Texts are compared before they are made numbers, which may take long.
    if len(told) > len(str(most_bytes)) or int(told) > most_bytes:
        raise _too_much(most_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            # What comes in chunks does not say how long it is.
            async for part in request.stream():
                body += part
                if len(body) > most_bytes:
                    raise _too_much(most_bytes)
    except TimeoutError:
        raise HTTPException(408, f"the body was not there within {BODY_S:g} s", _LAST) from None
    return bytes(body)


def _too_much(most_bytes: int) -> HTTPException:
    return HTTPException(413, f"a body may have {most_bytes:,} bytes", _LAST)
