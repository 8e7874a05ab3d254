"""Server-sent events: pages hear that something has changed, and fetch themselves anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

#: Listeners at most, seconds from one look to the next, and after which a line goes out although nothing has changed.
MOST_LISTENERS, LOOK_S, BEAT_S = 64, 2.0, 20.0

#: A stream ends after so long; browsers begin the next one by themselves.
_LENGTH_S = 600.0


class Live:
    """Tells listeners of changes; to be used on the thread of the event loop.

    Parameters
    ----------
    version
        Changes when something has; it is asked once for all listeners.
    """

    def __init__(self, version: Callable[[], str]) -> None:
        self._version = version
        self._listeners = 0
        self._last = ""
        self._asked_s = float("-inf")
        self._asking = asyncio.Lock()

    async def listen(self, request: Request) -> Response:
        """The stream of events of one listener; 503 where there are too many."""
        if self._listeners >= MOST_LISTENERS:
            return Response("too many pages listen: this one refreshes less often\n", 503, {"retry-after": "30"})
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self._events(request), headers=headers, media_type="text/event-stream")

    async def _events(self, request: Request) -> AsyncIterator[str]:
        self._listeners += 1
        try:
            told, beat_s = await self._now(), 0.0
            yield f"retry: 5000\nevent: version\ndata: {told}\n\n"
            for _ in range(round(_LENGTH_S / LOOK_S)):
                await asyncio.sleep(LOOK_S)
                if await request.is_disconnected():
                    return
                now, beat_s = await self._now(), beat_s + LOOK_S
                if now != told:
                    told, beat_s = now, 0.0
                    yield f"event: version\ndata: {told}\n\n"
                elif beat_s >= BEAT_S:
                    beat_s = 0.0
                    yield ": still here\n\n"
        finally:
            self._listeners -= 1

    async def _now(self) -> str:
        async with self._asking:
            loop = asyncio.get_running_loop()
            if loop.time() - self._asked_s >= LOOK_S / 2:
                self._last = await run_in_threadpool(self._version)
                self._asked_s = loop.time()
            return self._last
