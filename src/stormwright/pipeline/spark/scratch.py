"""Temporary directories for the duration of a task; leftovers of killed processes are deleted by the next."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from stormwright.base.file_lock import exclusive_lock
from stormwright.errors import StormwrightError

_PREFIX = "stormwright-scratch-"

#: Seconds within which the creator of a directory has locked it.
_YOUNG_S = 60.0


@contextmanager
def scratch(what: str) -> Iterator[Path]:
    """Yield a directory for temporary files, named after its purpose; it is deleted at the end of the block."""
    _tidy_up()
    with (
        TemporaryDirectory(prefix=f"{_PREFIX}{what}-", ignore_cleanup_errors=True) as name,
        exclusive_lock(Path(name), f"{name} is in use"),
    ):
        yield Path(name)


def _tidy_up() -> None:
    """Delete directories of this user's killed processes, recognised by their free lock."""
    for path in Path(gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError, StormwrightError):
            about = path.lstat()
            own = about.st_uid == os.getuid() and not path.is_symlink()
            if own and time.time() - about.st_mtime > _YOUNG_S:
                with exclusive_lock(path, "in use"):
                    shutil.rmtree(path, ignore_errors=True)
