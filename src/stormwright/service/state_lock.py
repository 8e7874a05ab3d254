"""One service at a time over one state directory."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stormwright.errors import Fault, InputError

LOCK = "service.lock"


@contextmanager
def only_service(state_dir: Path) -> Iterator[None]:
    """Keep other services from a state directory, which is made if there is none, while the `with` block runs.

    Two would take each other's records and both move topologies. The lock ends with this process, however it ends.

    Raises
    ------
    InputError
        Another service has it.
    """
    state_dir.mkdir(parents=True, exist_ok=True)
    path = state_dir / LOCK
    # Never deleted: who waits for a file that is gone would lock nothing.
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = file.read().strip() or "unknown"
            text = f"another service (pid {owner}) uses this directory: stop it, or name another --state"
            raise InputError(str(state_dir), [Fault(text, "$")]) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
