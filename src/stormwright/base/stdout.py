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

#: C's library, loaded once: each load also defines a class, which takes longer than the flush.
_LIBC = ctypes.CDLL(None)


class _Redirection:
    """Redirection from the first `begin` of several threads until the last `end`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun_by: Counter[int] = Counter()
        self._stream: TextIO = sys.stdout
        self._copy: int | None = None

    def begin(self, thread: int) -> None:
        with self._lock:
            self._begun_by[thread] += 1
            if self._begun_by.total() > 1:
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
            known = self._begun_by[thread]
            self._begun_by[thread] = max(known - times, 0)
            self._begun_by += Counter()  # without those that want it no longer
            if not known or self._begun_by:
                return
            _flush()
            sys.stdout = self._stream
            if self._copy is not None:
                os.dup2(self._copy, _STDOUT)
                os.close(self._copy)
            self._copy = None


_REDIRECTION = _Redirection()


def redirect_to_stderr() -> None:
    """Redirect standard output to standard error, for child processes too.

    It ends when this thread has called `end_redirection` as often.
    """
    _REDIRECTION.begin(threading.get_ident())


def end_redirection() -> None:
    """End the last `redirect_to_stderr` of this thread, unless the thread was released (`release_thread`)."""
    _REDIRECTION.end(threading.get_ident(), 1)


def release_thread(thread: threading.Thread) -> None:
    """End the redirection of a thread that hangs: otherwise it would hold standard output for ever."""
    if thread.ident is not None:
        _REDIRECTION.end(thread.ident, sys.maxsize)


def _flush() -> None:
    # The next writer gets the error of standard output.
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    # Output of solvers waits in a buffer of C's if standard output is not a terminal.
    _LIBC.fflush(None)
