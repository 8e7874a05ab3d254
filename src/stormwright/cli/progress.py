"""Progress of long work: log messages as lines for people."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from stormwright.cli.lines import say_lines

LOGGER = logging.getLogger("stormwright")


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
        Formats a record.
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
