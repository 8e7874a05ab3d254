"""Pauses of garbage collection, nested and of several threads."""

from __future__ import annotations

import gc
import threading

import pytest

from stormwright.base.gc_pause import collection_paused


def test_collection_resumes_after_nested_pauses() -> None:
    assert gc.isenabled()
    with collection_paused():
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collection_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_collection_resumes_only_when_the_last_thread_has_ended() -> None:
    """A pause that began while another thread paused left it off for ever."""
    entered, leave, enabled = threading.Event(), threading.Event(), []

    def other() -> None:
        with collection_paused():
            entered.set()
            leave.wait(10)
            enabled.append(gc.isenabled())

    with collection_paused():
        thread = threading.Thread(target=other)
        thread.start()
        entered.wait(10)
    enabled.append(gc.isenabled())
    leave.set()
    thread.join(10)
    assert enabled == [False, False]
    assert gc.isenabled()


def test_collection_resumes_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), collection_paused():
        raise ZeroDivisionError
    assert gc.isenabled()
