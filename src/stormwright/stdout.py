"""Redirection of standard output to standard error while external code runs."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections import Counter
from contextlib import suppress
from typing import TextIO

_STDOUT, _STDERR = 1, 2


class _Turned:
    """Redirection from the first of several threads that want it until the last that ends it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted_by: Counter[int] = Counter()
        self._stream: TextIO = sys.stdout
        self._copy: int | None = None

    def begin(self, thread: int) -> None:
        with self._lock:
            self._wanted_by[thread] += 1
            if self._wanted_by.total() > 1:
                return
            self._stream = sys.stdout
            _flush()
            # Either may be closed: then there is nothing to protect, or nowhere to turn to.
            with suppress(OSError):
                self._copy = os.dup(_STDOUT)
                os.dup2(_STDERR, _STDOUT)
            sys.stdout = sys.stderr

    def end(self, thread: int, times: int) -> None:
        with self._lock:
            known = self._wanted_by[thread]
            self._wanted_by[thread] = max(known - times, 0)
            self._wanted_by += Counter()  # without those that want it no longer
            if not known or self._wanted_by:
                return
            _flush()
            sys.stdout = self._stream
            if self._copy is not None:
                os.dup2(self._copy, _STDOUT)
                os.close(self._copy)
            self._copy = None


_TURNED = _Turned()


def turn_away() -> None:
    """Redirect it to standard error, for child processes too, until this thread has called `turn_back` as often."""
    _TURNED.begin(threading.get_ident())


def turn_back() -> None:
    """End the redirection of the last `turn_away` of this thread, unless the thread was abandoned meanwhile."""
    _TURNED.end(threading.get_ident(), 1)


def leave_alone(thread: threading.Thread) -> None:
    """End the redirection of a thread that hangs: otherwise it would hold standard output for ever."""
    if thread.ident is not None:
        _TURNED.end(thread.ident, sys.maxsize)


def _flush() -> None:
    # The next writer gets the error of standard output.
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    # Output of solvers waits in a buffer of C's if standard output is not a terminal.
    ctypes.CDLL(None).fflush(None)
