"""Virtual time passes only for who waits."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from stormwright.simulator.cluster import clock as clocks
from stormwright.simulator.cluster.clock import VirtualClock


def test_due_events_run_in_order_during_sleep():
    clock, events = VirtualClock(1000.0), list[tuple[float, str]]()
    clock.after(2, lambda: events.append((clock.monotonic(), "b")))
    clock.after(1, lambda: clock.after(1, lambda: events.append((clock.monotonic(), "c"))))
    clock.every(1.5, lambda: events.append((clock.monotonic(), "tick")))
    assert (clock.monotonic(), clock.time()) == (0, 1000)
    clock.sleep(4)
    assert events == [(1.5, "tick"), (2, "b"), (2, "c"), (3, "tick")]
    assert (clock.monotonic(), clock.time()) == (4, 1004)


def test_condition_wait_returns_after_each_instant_with_events():
    clock, changed = VirtualClock(0.0), threading.Condition()
    clock.every(1, lambda: None)
    with changed:
        clock.wait(changed, 0.5)
        assert clock.monotonic() == 0.5
        clock.wait(changed, 10)
    assert 1 <= clock.monotonic() < 2
    stop = threading.Event()
    assert not clock.stopped(stop, 5)
    stop.set()
    before = clock.monotonic()
    assert clock.stopped(stop, 5)
    assert clock.monotonic() == before


def test_virtual_clock_runs_no_faster_than_its_speed():
    clock = VirtualClock(0.0, speed=20)
    began = time.monotonic()
    clock.sleep(4)
    assert time.monotonic() - began >= 0.2


def test_virtual_clock_catches_up_a_bounded_delay_only(monkeypatch):
    """On a machine whose time passes only while it sleeps."""
    now_s = 0.0

    def sleep(seconds):
        nonlocal now_s
        now_s += seconds

    monkeypatch.setattr(clocks, "time", SimpleNamespace(monotonic=lambda: now_s, sleep=sleep))
    clock = VirtualClock(0.0, speed=20)
    clock.after(1, lambda: sleep(1.5))
    clock.sleep(2)
    assert now_s == 1.5
    clock.sleep(24)
    assert now_s == pytest.approx(1.5 + 24 / 20 - 1), "a second of this machine is made up for"
    clock.sleep(4)
    assert now_s == pytest.approx(1.7 + 4 / 20), "and no more"
    before = now_s
    clock.keep_pace(None)
    clock.sleep(1e6)
    assert now_s == before


def test_waiting_for_a_condition_releases_its_lock():
    clock, changed, events = VirtualClock(0.0, speed=2), threading.Condition(), list[float]()

    def other() -> None:
        with changed:
            events.append(clock.monotonic())

    thread = threading.Thread(target=other)
    with changed:
        thread.start()
        clock.wait(changed, 1.0)
        assert events == [1.0]
    thread.join()
