"""Progress of long work: log messages as lines for people."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Timer

from stormwright.cli.lines import say, say_lines

LOGGER = logging.getLogger("stormwright")

#: Compilation of machine code, which any verb may need.
COMPILER = logging.getLogger("stormwright.jit.compilation")

#: Seconds after which work that is still under way is reported.
REPORTED_AFTER_S = 2.0


@contextmanager
def working(what: str) -> Iterator[None]:
    """Print a line on standard error if the block takes longer than `REPORTED_AFTER_S`.

    Parameters
    ----------
    what
        The work, as in ``searching a placement``.
    """
    timer = Timer(REPORTED_AFTER_S, _say_quietly, (f"{what} …",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _say_quietly(line: str) -> None:
    with suppress(OSError, ValueError):  # standard error is full or closed
        say(line, err=True)


@contextmanager
def compilation_shown() -> Iterator[None]:
    """Print on standard error that machine code is compiled, unless `shown` prints all log messages."""
    handler = _Unless(_say_quietly, logging.LogRecord.getMessage)
    level = COMPILER.level
    COMPILER.addHandler(handler)
    COMPILER.setLevel(logging.INFO)
    try:
        yield
    finally:
        COMPILER.removeHandler(handler)
        COMPILER.setLevel(level)


@contextmanager
def shown(
    err: bool = False,
    write: Callable[[str], None] | None = None,
    shape: Callable[[logging.LogRecord], str] = logging.LogRecord.getMessage,
) -> Iterator[None]:
    """Print log messages while the block runs, one line each.

    Parameters
    ----------
    err
        Whether to print to standard error, as standard output has JSON.
    write
        Receives the lines instead of printing them.
    shape
        Returns the line of a log record; its message by default.
    """
    handler = _Lines(write or partial(say_lines, err=err), shape)
    level = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)


class _Lines(logging.Handler):
    def __init__(self, write: Callable[[str], None], shape: Callable[[logging.LogRecord], str]) -> None:
        super().__init__()
        self._write, self._shape = write, shape

    def emit(self, record: logging.LogRecord) -> None:
        # A service goes on if the reader of its standard output ends.
        with suppress(OSError):
            self._write(self._shape(record))


class _Unless(_Lines):
    """Leaves messages to another handler of `LOGGER`, if it has one."""

    def emit(self, record: logging.LogRecord) -> None:
        if not LOGGER.handlers:
            super().emit(record)
