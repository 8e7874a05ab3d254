"""Deliveries on their way to the disk: every sender that waits for an answer gets one, and Nimbus comes first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from stormwright.service.http import deliveries
from stormwright.service.http.deliveries import BodyRecipient, Deliveries, DeliveryRefusal, Take


class Counting(BodyRecipient):
    def __init__(self, take: Take, count: Take) -> None:
        super().__init__(take)
        object.__setattr__(self, "count", count)


def run_with(ingest: Take, use: Callable[[Deliveries], Any], count: Take = lambda _: None) -> Any:
    async def run() -> Any:
        return await asyncio.wait_for(use(Deliveries(Counting(ingest, count))), 20)

    return asyncio.run(run())


def test_every_delivery_gets_a_reply_despite_failures(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A thread that cannot be started, an error that is no Exception: all waiting get an answer; the next is stored."""

    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    def fail_once(bodies: Sequence[bytes]) -> None:
        if bodies[0] == b"odd":
            raise SystemExit(3)

    async def use(of: Deliveries) -> list[DeliveryRefusal | None]:
        with monkeypatch.context() as patched:
            patched.setattr(ThreadPoolExecutor, "submit", no_thread)
            refusals = await asyncio.gather(of.take(b"1"), of.take(b"2"))
        return [*refusals, *await asyncio.gather(of.take(b"odd"), of.take(b"too")), await of.take(b"3")]

    refusals = run_with(fail_once, use)
    assert [refusal and refusal.code for refusal in refusals] == [503, 503, 503, 503, None]
    assert "can't start new thread" in caplog.text
    assert "SystemExit: 3" in caplog.text


def test_failed_reply_does_not_affect_other_deliveries(caplog: pytest.LogCaptureFixture) -> None:
    def gone(_: DeliveryRefusal | None) -> None:
        raise ConnectionResetError("gone")

    async def use(of: Deliveries) -> DeliveryRefusal | None:
        of.hand_over(b"1", gone)
        return await of.take(b"2")

    assert run_with(lambda _: None, use) is None
    assert "cannot be answered: ConnectionResetError: gone" in caplog.text


def test_placement_requests_take_priority_over_deliveries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "HELD_S", 5.0)
    came: list[bytes] = []

    async def use(of: Deliveries) -> tuple[float, list[bytes]]:
        begin = time.monotonic()
        with of.held():
            waiting = asyncio.create_task(of.take(b"1"))
            with of.held():
                await asyncio.sleep(0.2)
            await asyncio.sleep(0.1)
            before = list(came)
        await waiting
        return time.monotonic() - begin, before

    seconds, before = run_with(came.extend, use)
    assert before == []
    assert came == [b"1"]
    assert 0.3 <= seconds < 3, "and as soon as it is through they go on"


def test_held_deliveries_are_released_after_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "HELD_S", 0.2)

    async def use(of: Deliveries) -> DeliveryRefusal | None:
        with of.held():
            return await of.take(b"1")

    assert run_with(lambda _: None, use) is None


def test_stored_deliveries_are_counted_and_acknowledged_in_parts() -> None:
    """While some are counted or answered the interpreter is taken, and Nimbus may ask."""
    came: list[tuple[str, int]] = []

    async def use(of: Deliveries) -> None:
        answered: list[DeliveryRefusal | None] = []
        for number in range(600):
            of.hand_over(b"%d" % number, answered.append)
        while len(answered) < 600:
            before = len(answered)
            await asyncio.sleep(0)
            if len(answered) > before:
                came.append(("answered", len(answered) - before))
        assert answered == [None] * 600

    run_with(
        lambda bodies: came.append(("kept", len(bodies))), use, lambda bodies: came.append(("counted", len(bodies)))
    )
    parts = [(what, some) for some in (250, 250, 100) for what in ("counted", "answered")]
    assert [each for each in came if each[0] != "answered"] == [("kept", 600), *parts[::2]]
    assert [each for each in came if each[0] == "answered"] == parts[1::2]


@pytest.mark.long
def test_placement_requests_run_between_parts_of_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "HELD_S", 5.0)
    monkeypatch.setattr(deliveries, "TAKEN_AT_ONCE", 1)
    counted: list[bytes] = []

    async def use(of: Deliveries) -> int:
        waiting = asyncio.gather(*(of.take(b"%d" % number) for number in range(20)))
        while not counted:
            await asyncio.sleep(0.001)
        with of.held():
            await asyncio.sleep(0.1)
            before = len(counted)
            await asyncio.sleep(0.3)
            assert len(counted) == before
        await waiting
        return before

    def count(bodies: Sequence[bytes]) -> None:
        counted.extend(bodies)
        time.sleep(0.02)

    assert run_with(lambda _: None, use, count) < 20
    assert len(counted) == 20


def test_unstored_delivery_is_not_counted() -> None:
    def full(_: Sequence[bytes]) -> None:
        raise OSError(28, "No space left on device")

    counted: list[bytes] = []
    refusal = run_with(full, lambda of: of.take(b"1"), counted.extend)
    assert refusal.code == 503
    assert counted == []


def test_stored_delivery_is_acknowledged_despite_counting_failure(caplog: pytest.LogCaptureFixture) -> None:
    def count(_: Sequence[bytes]) -> None:
        raise MemoryError("too much")

    assert run_with(lambda _: None, lambda of: of.take(b"1"), count) is None
    assert "missing in the live counts: MemoryError: too much" in caplog.text


def test_continuous_placement_requests_do_not_delay_each_part_of_deliveries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "HELD_S", 0.2)
    monkeypatch.setattr(deliveries, "TAKEN_AT_ONCE", 1)

    async def use(of: Deliveries) -> float:
        begin = time.monotonic()
        with of.held():
            await asyncio.gather(*(of.take(b"%d" % number) for number in range(50)))
        return time.monotonic() - begin

    assert run_with(lambda _: None, use, lambda _: None) < 3


def test_deliveries_stored_during_shutdown_are_acknowledged() -> None:
    stored: list[bytes] = []
    refusals: list[DeliveryRefusal | None] = []

    async def end_while_nimbus_asks() -> None:
        deliveries = Deliveries(BodyRecipient(stored.extend))

        async def ask() -> None:
            with deliveries.held():
                await asyncio.sleep(60)

        for body in (b"1", b"2", b"3"):
            deliveries.hand_over(body, refusals.append)
        while not stored:
            await asyncio.sleep(0)
        asking = asyncio.create_task(ask())
        await asyncio.sleep(0.05)
        assert not asking.done()

    asyncio.run(end_while_nimbus_asks())
    assert (stored, refusals) == ([b"1", b"2", b"3"], [None] * 3)
