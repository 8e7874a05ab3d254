"""One process at a time at what is kept in a directory."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stormwright.errors import StormwrightError


@contextmanager
def alone(directory: Path, told: str, lock: str = "lock") -> Iterator[None]:
    """Keep others from a directory, which is made if there is none, until the block ends.

    The lock of a process that ends, however it does, is gone.

    Parameters
    ----------
    told
        What one hears who comes second; who came first is added.
    lock
        The file that stands for it, which holds the number of the process. It is never deleted: who waits for a file
        that is gone would lock nothing.

    Raises
    ------
    StormwrightError
        Another one is at it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(directory / lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StormwrightError(f"{told} (process {file.read().strip() or 'unknown'})") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
