"""The operator's function: called once a failure, from a thread of its own, and harmless whatever it does."""

from __future__ import annotations

import queue
import threading
from dataclasses import replace

import pytest

from stormwright.cli.progress import shown
from stormwright.errors import HookError
from stormwright.model import Topology
from stormwright.schedulers import make_scheduler
from stormwright.service.notifications import hook_program
from stormwright.service.notifications.hook_program import FailureHook
from stormwright.storm.bridge import Bridge, Failure
from tests.controller.builders import place, problem, topology

#: Longer than any call takes; whoever waits for one goes on as soon as it comes.
SOON_S = 20.0


def failure(name: str, *reasons: str) -> Failure:
    return Failure(f"{name}-1-0", name, "even", reasons)


A, B = failure("a", "no free worker slot"), failure("b", "no free worker slot")
A_LATER = failure("a", "memory short by 1 MB")


class Calls:
    """A hook that records its events; then waits while it is `held`, and raises what it has to."""

    def __init__(self, raises: BaseException | None = None) -> None:
        self._failures: queue.Queue[Failure] = queue.Queue()
        self._raises = raises
        self._go_on = threading.Event()
        self._go_on.set()

    def __call__(self, received: Failure) -> None:
        self._failures.put(received)
        self._go_on.wait(SOON_S)
        if self._raises:
            raise self._raises

    def next(self) -> Failure:
        return self._failures.get(timeout=SOON_S)

    def hold(self) -> None:
        self._go_on.clear()

    def release(self) -> None:
        self._go_on.set()


def test_each_failure_is_reported_once() -> None:
    calls = Calls()
    with FailureHook(calls) as hook:
        hook.update([A])
        assert calls.next() == A
        hook.update([A])
        hook.update([A, B])
        assert calls.next() == B, "and a was not told again before it"


def test_replaced_hook_receives_all_current_failures() -> None:
    first, other = Calls(), Calls()
    with FailureHook(None) as hook:
        hook.update([A])
        hook.change(first)
        assert first.next() == A, "nobody was told before"
        hook.change(other)
        assert other.next() == A
        hook.change(None)
        hook.update([A, B])
        hook.change(other)
        assert [other.next(), other.next()] == [A, B]


def test_changed_reasons_are_reported_again() -> None:
    calls = Calls()
    with FailureHook(calls) as hook:
        for received in (A, A_LATER, A):
            hook.update([received])
            assert calls.next() == received


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("CPU short by 9.1e+08 Hz on 3 usable nodes together", "CPU short by 93.5 Hz on 2 usable nodes together"),
        ("load -0.91 GHz", "load 12 GHz"),
    ],
)
def test_changed_numbers_alone_are_not_reported_again(first: str, other: str) -> None:
    calls = Calls()
    with FailureHook(calls) as hook:
        hook.update([failure("a", first)])
        assert calls.next().reasons == (first,)
        hook.update([failure("a", other), B])
        assert calls.next() == B, "and a was not told again before it"


@pytest.mark.parametrize(
    ("first", "other"),
    [("waits behind wc-1-17", "waits behind wc-2-18"), ("host 10.0.0.1", "host 10.0.0.2"), ('tag "1"', 'tag "2"')],
)
def test_a_number_in_a_name_is_news(first: str, other: str) -> None:
    calls = Calls()
    with FailureHook(calls) as hook:
        for reason in (first, other):
            hook.update([failure("a", reason)])
            assert calls.next().reasons == (reason,)


def test_recurring_failure_after_placement_is_reported_again() -> None:
    calls = Calls()
    with FailureHook(calls) as hook:
        hook.update([A])
        assert calls.next() == A
        hook.update([])
        hook.update([A])
        assert calls.next() == A


def test_slow_hook_receives_only_newest_unresolved_failures() -> None:
    calls = Calls()
    with FailureHook(calls) as hook:
        calls.hold()
        hook.update([A])
        assert calls.next() == A
        for number in range(1000):
            hook.update([failure("a", str(number)), B])
        hook.update([A_LATER])
        calls.release()
        assert calls.next() == A_LATER
        hook.update([A_LATER, B])
        assert calls.next() == B


@pytest.mark.parametrize("error", [ValueError("no such server"), SystemExit("no such server")])
def test_hook_exception_is_reported_and_next_failure_is_delivered(error: BaseException) -> None:
    calls, lines = Calls(error), queue.Queue[str]()
    with shown(write=lines.put), FailureHook(calls) as hook:
        hook.update([A])
        hook.update([A, B])
        assert [calls.next(), calls.next()] == [A, B]
        text = lines.get(timeout=SOON_S)
    assert text.startswith("--on-failure: hook for a failed: Traceback")
    assert "no such server" in text


def test_failed_hook_call_is_reported_in_one_line() -> None:
    calls, lines = Calls(HookError("exit code 3")), queue.Queue[str]()
    with shown(write=lines.put), FailureHook(calls) as hook:
        hook.update([A])
        assert lines.get(timeout=SOON_S) == "--on-failure: hook for a failed: exit code 3"


def test_broken_output_does_not_stop_delivery_of_failures() -> None:
    def broken(_: str) -> None:
        raise BrokenPipeError

    calls = Calls(HookError("exit code 3"))
    with shown(write=broken), FailureHook(calls) as hook:
        hook.update([A])
        assert calls.next() == A
        hook.update([A, B])
        assert calls.next() == B


def test_hanging_hook_does_not_block_service_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_program, "SHUTDOWN_TIMEOUT_S", 0.0)
    calls = Calls()
    with FailureHook(calls) as hook:
        calls.hold()
        hook.update([A])
        assert calls.next() == A
    calls.release()


def test_nimbus_has_its_answer_while_the_hook_is_busy() -> None:
    """The whole way: a topology whose tag no node has, and one that is in no other topology's way."""
    gpu, plain = tagged("gpu", "gpu"), topology("plain")
    cluster = problem([gpu, plain])
    calls = Calls()
    with FailureHook(calls) as hook:
        bridge = Bridge(make_scheduler("tag_aware"), "tag_aware", hook.update)
        calls.hold()
        for _ in range(3):
            assert set(bridge.answer(cluster).assignments) == {plain.id}
        assert calls.next() == Failure(gpu.id, "gpu", "tag_aware", ('0 of 3 nodes: tag "gpu"',))
        calls.release()
        # EvenScheduler found slots for it, then they are gone.
        bridge.answer(cluster.with_current({gpu.id: place([("n0", 6700), ("n1", 6700)], [0, 1, 0, 1])}))
        bridge.answer(cluster)
        assert calls.next().topology_id == gpu.id


def tagged(name: str, tag: str) -> Topology:
    of = topology(name)
    return replace(of, components=tuple(replace(component, tags=(tag,)) for component in of.components))
