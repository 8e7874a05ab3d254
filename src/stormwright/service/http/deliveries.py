"""Deliveries of probes: those that come together are made durable together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from starlette.exceptions import HTTPException

from stormwright.service.on_change import OnChange

log = logging.getLogger(__name__)

#: More than a probe ever delivers at once: a record has some 640 bytes, and one more line that holds nothing costs
#: as much to refuse as one that holds much.
MAX_DELIVERY_BYTES = 64 * 2**20
MAX_DELIVERY_LINES = 100_000

#: Bytes of deliveries that are not on disk yet.
MAX_WAITING_BYTES = 4 * MAX_DELIVERY_BYTES


class Deliveries:
    """Hands bodies to `ingest` on a thread of its own, all that came while it was busy at once.

    Parameters
    ----------
    ingest
        Takes bodies; returns once they are safe on disk, raises where none of them is.
    """

    def __init__(self, ingest: Callable[[Sequence[bytes]], None]) -> None:
        self._ingest = ingest
        self._thread = ThreadPoolExecutor(1, "stormwright-deliveries")
        self._waiting: list[tuple[bytes, asyncio.Future[Exception | None]]] = []
        self._bytes = 0
        self._working: asyncio.Task[None] | None = None
        self._tell = OnChange(log.error)

    async def take(self, body: bytes) -> None:
        """Return once a delivery is safe on disk.

        Raises
        ------
        HTTPException
            It is not: it has too many lines (413), too much waits already, or it could not be written (503).
        """
        if body.count(b"\n") > MAX_DELIVERY_LINES:
            raise HTTPException(413, f"a delivery may have {MAX_DELIVERY_LINES:,} lines")
        if self._bytes + len(body) > MAX_WAITING_BYTES:
            raise HTTPException(503, f"{self._bytes:,} bytes of other deliveries are not on disk yet: try again")
        done = asyncio.get_running_loop().create_future()
        self._bytes += len(body)
        self._waiting.append((body, done))
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        error = await done
        if error is not None:
            raise HTTPException(503, f"not kept: {_told(error)}")

    async def _work(self) -> None:
        while self._waiting:
            deliveries, self._waiting = self._waiting, []
            bodies = [body for body, _ in deliveries]
            error = await asyncio.get_running_loop().run_in_executor(self._thread, self._taken, bodies)
            self._bytes -= sum(map(len, bodies))
            for _, done in deliveries:
                if not done.done():  # who delivered has hung up
                    done.set_result(error)
        self._working = None

    def _taken(self, bodies: Sequence[bytes]) -> Exception | None:
        try:
            self._ingest(bodies)
        except Exception as error:
            self._tell(f"deliveries of probes cannot be kept, and are asked for again: {_told(error)}")
            log.debug("what failed", exc_info=error)
            return error
        self._tell.over()
        return None


def _told(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else f"{type(error).__name__}: {error}"
