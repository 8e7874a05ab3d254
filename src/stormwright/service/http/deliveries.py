"""Deliveries of probes: those that come together are made durable together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import orjson

from stormwright.service.on_change import OnChange

log = logging.getLogger(__name__)

#: More than a probe ever delivers at once: a record has some 640 bytes, and one more line that holds nothing costs
#: as much to refuse as one that holds much.
MAX_DELIVERY_BYTES = 64 * 2**20
MAX_DELIVERY_LINES = 100_000

#: Bytes of deliveries that are not on disk yet.
MAX_WAITING_BYTES = 4 * MAX_DELIVERY_BYTES


#: Where they are posted to.
PERFLOG = b"/v1/perflog"


@dataclass(frozen=True)
class Refusal:
    """A delivery was not kept: HTTP status, and a sentence."""

    code: int
    reason: str

    def body(self) -> bytes:
        """What is answered, as JSON."""
        return orjson.dumps({"error": self.reason})


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
        self._waiting: list[tuple[bytes, Callable[[Refusal | None], None]]] = []
        self._bytes = 0
        self._working: asyncio.Task[None] | None = None
        self._tell = OnChange(log.error)

    def hand_over(self, body: bytes, told: Callable[[Refusal | None], None]) -> None:
        """Have `told` called once a delivery is safe on disk, or with why it is not.

        To be called on the thread of the event loop, on which `told` is called too.
        """
        if body.count(b"\n") > MAX_DELIVERY_LINES:
            told(Refusal(413, f"a delivery may have {MAX_DELIVERY_LINES:,} lines"))
            return
        if self._bytes + len(body) > MAX_WAITING_BYTES:
            told(Refusal(503, f"{self._bytes:,} bytes of other deliveries are not on disk yet: try again"))
            return
        self._bytes += len(body)
        self._waiting.append((body, told))
        if self._working is None:
            self._working = asyncio.create_task(self._work())

    async def take(self, body: bytes) -> Refusal | None:
        """The same, for who awaits it."""
        done: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()

        def told(refusal: Refusal | None) -> None:
            if not done.done():  # who delivered has hung up
                done.set_result(refusal)

        self.hand_over(body, told)
        return await done

    async def _work(self) -> None:
        while self._waiting:
            deliveries, self._waiting = self._waiting, []
            bodies = [body for body, _ in deliveries]
            refusal = await asyncio.get_running_loop().run_in_executor(self._thread, self._taken, bodies)
            self._bytes -= sum(map(len, bodies))
            for _, told in deliveries:
                told(refusal)
        self._working = None

    def _taken(self, bodies: Sequence[bytes]) -> Refusal | None:
        try:
            self._ingest(bodies)
        except Exception as error:
            self._tell(f"deliveries of probes cannot be kept, and are asked for again: {_told(error)}")
            log.debug("what failed", exc_info=error)
            return Refusal(503, f"not kept: {_told(error)}")
        self._tell.over()
        return None


def _told(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else f"{type(error).__name__}: {error}"
