"""Lock of a directory: one process at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stormwright.errors import StormwrightError


@contextmanager
def exclusive_lock(directory: Path, message: str, lock: str = "lock") -> Iterator[None]:
    """Lock a directory, which is created if needed, until the block ends.

    The lock of a process that ends, however it does, is released.

    Parameters
    ----------
    message
        Error message for the second process; the holder's PID is appended.
    lock
        The lock file, which holds the number of the process. It is never deleted: a process that waits for a deleted
        file would lock nothing.

    Raises
    ------
    StormwrightError
        Another process holds the lock.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(directory / lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StormwrightError(f"{message} (process {file.read().strip() or 'unknown'})") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
