"""Waiting for what other threads do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from stormwright.pipeline.streaming.stream import LoadStream


def wait(reached: Callable[[], bool], about: Callable[[], Any], most_s: float = 60) -> None:
    """Until something is reached; `about` describes why it is not."""
    deadline = time.monotonic() + most_s
    while not reached():
        assert time.monotonic() < deadline, about()
        time.sleep(0.02)


def wait_for(stream: LoadStream, reached: Callable[[], bool]) -> None:
    """Until a stream has reached something; it must run meanwhile."""
    deadline = time.monotonic() + 60
    while not reached():
        progress = stream.progress()
        assert progress["running"], progress["error"]
        assert time.monotonic() < deadline, progress
        time.sleep(0.05)


def wait_until_read(stream: LoadStream, lines: int) -> None:
    """Until a stream has read that many lines."""
    wait_for(stream, lambda: stream.progress()["ledger"]["read"] >= lines)
