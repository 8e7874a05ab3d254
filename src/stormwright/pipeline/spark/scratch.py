"""Directories that live as long as a piece of work; those of processes that were killed are deleted by the next."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from stormwright.errors import StormwrightError
from stormwright.file_lock import alone

_PREFIX = "stormwright-scratch-"

#: Seconds in which whoever made a directory has locked it.
_YOUNG_S = 60.0


@contextmanager
def scratch(what: str) -> Iterator[Path]:
    """A directory for temporary files, what for being part of its name; gone when the block ends."""
    _tidy_up()
    with (
        TemporaryDirectory(prefix=f"{_PREFIX}{what}-", ignore_cleanup_errors=True) as name,
        alone(Path(name), f"{name} is in use"),
    ):
        yield Path(name)


def _tidy_up() -> None:
    """Delete what this user's processes left that were killed: nobody holds its lock."""
    for path in Path(gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError, StormwrightError):
            about = path.lstat()
            own = about.st_uid == os.getuid() and not path.is_symlink()
            if own and time.time() - about.st_mtime > _YOUNG_S:
                with alone(path, "in use"):
                    shutil.rmtree(path, ignore_errors=True)
