"""Keeps a core of the machine busy, as any other program of it may."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def busy_core() -> Iterator[None]:
    """Keep one core busy with a program of a session of its own."""
    process = multiprocessing.get_context("fork").Process(target=_spin, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _spin() -> None:
    os.setsid()
    while True:
        pass
