"""One process at a time at what is kept in a directory."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stormwright.errors import StormwrightError


@contextmanager
def alone(directory: Path, told: str) -> Iterator[None]:
    """Keep others from a directory until the block ends; the lock of a process that ends, however it does, is gone.

    Parameters
    ----------
    told
        What one hears who comes second.

    Raises
    ------
    StormwrightError
        Another one is at it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StormwrightError(told) from error
        yield
