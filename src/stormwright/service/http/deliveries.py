"""Deliveries of probes: those that come together are made durable together."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol, TypeAlias, TypeVar

import orjson

from stormwright.service.on_change import OnChange

log = logging.getLogger(__name__)

#: Limits of one delivery, above what a probe sends: a record has about 640 bytes, and each invalid line costs as much
#: as a valid one.
MAX_DELIVERY_BYTES = 64 * 2**20
MAX_DELIVERY_LINES = 100_000

#: Maximum bytes of deliveries that are not on disk yet.
MAX_WAITING_BYTES = 4 * MAX_DELIVERY_BYTES

#: Maximum bytes of incomplete short deliveries, over all connections.
MAX_BEGUN_BYTES = MAX_DELIVERY_BYTES

#: Deliveries that are parsed, or counted and answered, at once; more would delay a request of Nimbus.
TAKEN_AT_ONCE = 250

#: Maximum seconds that deliveries wait while a request of Nimbus is answered: probes can wait longer, but a client
#: that imitates Nimbus must not block them.
HELD_S = 0.5

#: Path of deliveries.
PERFLOG = b"/v1/perflog"


@dataclass(frozen=True)
class DeliveryRefusal:
    """A refused delivery: HTTP status and message."""

    code: int
    reason: str

    def body(self) -> bytes:
        """Return the response as JSON."""
        return orjson.dumps({"error": self.reason})


#: Takes why a delivery is not kept, or None once it is.
_Reply: TypeAlias = Callable[[DeliveryRefusal | None], None]
_Delivery: TypeAlias = tuple[bytes, _Reply]
#: Takes bodies of deliveries.
Take: TypeAlias = Callable[[Sequence[bytes]], None]

_Parsed = TypeVar("_Parsed")


class _TakingError(Exception):
    """A recipient failed, in any way."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Recipient(Protocol[_Parsed]):
    """Recipient of deliveries. Few are parsed or counted at once, as a request of Nimbus may wait."""

    def parse(self, bodies: Sequence[bytes]) -> _Parsed:
        """Parse deliveries, without an effect."""

    def store(self, parsed: Sequence[_Parsed]) -> None:
        """Store deliveries; return once they are safe on disk, raise if none of them is."""

    def count(self, parsed: _Parsed) -> None:
        """Count stored deliveries."""


@dataclass(frozen=True)
class BodyRecipient:
    """Recipient of bodies as they are.

    Parameters
    ----------
    take
        Takes bodies; returns once they are safe on disk, raises if none of them is.
    """

    take: Take

    def parse(self, bodies: Sequence[bytes]) -> Sequence[bytes]:
        """Return the bodies."""
        return bodies

    def store(self, parsed: Sequence[Sequence[bytes]]) -> None:
        """Take the bodies."""
        self.take(list(chain.from_iterable(parsed)))

    def count(self, parsed: Sequence[bytes]) -> None:
        """Count nothing."""


class Deliveries:
    """Passes deliveries to a recipient on a thread of its own: all that came while it was busy are stored at once.

    Parameters
    ----------
    recipient
        Parses, stores and counts deliveries, several at once.
    """

    def __init__(self, recipient: Recipient[Any]) -> None:
        self._recipient = recipient
        self._thread = ThreadPoolExecutor(1, "stormwright-deliveries")
        self._waiting: list[_Delivery] = []
        self._bytes = 0
        self._begun_bytes = 0
        self._holding = 0
        self._go_on = asyncio.Event()
        self._go_on.set()
        self._working: asyncio.Task[None] | None = None
        self._log_failure = OnChange(log.error)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delay deliveries while the block runs, for up to `HELD_S`."""
        self._holding += 1
        self._go_on.clear()
        try:
            yield
        finally:
            self._holding -= 1
            if not self._holding:
                self._go_on.set()

    def begun(self, more_bytes: int) -> bool:
        """Count bytes of a delivery that is not whole yet, back once it is; whether there is room for them."""
        self._begun_bytes += more_bytes
        return self._begun_bytes <= MAX_BEGUN_BYTES

    def hand_over(self, body: bytes, reply: _Reply) -> None:
        """Call `reply` once a delivery is stored, or with the reason why it is not.

        To be called on the thread of the event loop, on which `reply` is called too.
        """
        if body.count(b"\n") > MAX_DELIVERY_LINES:
            reply(DeliveryRefusal(413, f"a delivery may have {MAX_DELIVERY_LINES:,} lines"))
            return
        if self._bytes + len(body) > MAX_WAITING_BYTES:
            reply(DeliveryRefusal(503, f"{self._bytes:,} bytes of other deliveries are not on disk yet: try again"))
            return
        self._bytes += len(body)
        self._waiting.append((body, reply))
        if self._working is None:
            self._working = asyncio.create_task(self._work())

    async def take(self, body: bytes) -> DeliveryRefusal | None:
        """Store a delivery; return None, or why it is refused."""
        done: asyncio.Future[DeliveryRefusal | None] = asyncio.get_running_loop().create_future()

        def reply(refusal: DeliveryRefusal | None) -> None:
            if not done.done():  # who delivered has hung up
                done.set_result(refusal)

        self.hand_over(body, reply)
        return await done

    async def _work(self) -> None:
        taken: list[_Delivery] = []
        stored = False
        try:
            while self._waiting:
                await self._give_way(HELD_S)
                taken, self._waiting, stored = self._waiting, [], False
                parsed, refusal = await self._stored([body for body, _ in taken])
                stored = refusal is None
                until = time.monotonic() + HELD_S
                while taken:
                    await self._give_way(until - time.monotonic())
                    some, taken = taken[:TAKEN_AT_ONCE], taken[TAKEN_AT_ONCE:]
                    if not refusal:
                        await self._counted(parsed.pop(0))
                    self._answer(some, refusal)
        except Exception as error:  # no thread can be had
            self._say(error)
        finally:
            # Whatever ended this, nobody is left waiting.
            left, self._waiting, self._working = self._waiting, [], None
            refused = DeliveryRefusal(503, "not kept: the service could not, or ends")
            self._answer(taken, None if stored else refused)
            self._answer(left, refused)

    async def _stored(self, bodies: Sequence[bytes]) -> tuple[list[Any], DeliveryRefusal | None]:
        """Store deliveries; return them parsed, `TAKEN_AT_ONCE` each, or why they are refused."""
        parsed: list[Any] = []
        until = time.monotonic() + HELD_S
        try:
            for begin in range(0, len(bodies), TAKEN_AT_ONCE):
                await self._give_way(until - time.monotonic())
                parsed.append(await self._run(self._recipient.parse, bodies[begin : begin + TAKEN_AT_ONCE]))
            await self._run(self._recipient.store, parsed)
        except _TakingError as error:
            self._say(error.cause)
            return [], DeliveryRefusal(503, f"not kept: {_reply_text(error.cause)}")
        self._log_failure.over()
        return parsed, None

    async def _run(self, call: Callable[[Any], Any], given: Any) -> Any:
        def attempt() -> Any:
            try:
                return call(given)
            except BaseException as error:  # whatever it was, those who wait get a reply
                raise _TakingError(error) from error

        return await asyncio.get_running_loop().run_in_executor(self._thread, attempt)

    async def _counted(self, parsed: Any) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._recipient.count, parsed)
        except Exception as error:  # were they refused now, they would come again, and be on disk twice
            log.error("deliveries on disk are missing in the live counts: %s", _reply_text(error))

    async def _give_way(self, limit_s: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._go_on.wait(), max(limit_s, 0.0))

    def _answer(self, deliveries: Sequence[_Delivery], refusal: DeliveryRefusal | None) -> None:
        for body, reply in deliveries:
            self._bytes -= len(body)
            try:
                reply(refusal)
            except Exception as error:  # it is nobody else's
                log.error("who made a delivery cannot be answered: %s", _reply_text(error))

    def _say(self, error: BaseException) -> None:
        self._log_failure(f"deliveries of probes cannot be kept, and are asked for again: {_reply_text(error)}")
        log.debug("what failed", exc_info=error)


def _reply_text(error: BaseException) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else f"{type(error).__name__}: {error}"
