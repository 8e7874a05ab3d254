"""Atomic file writes: the previous content is valid until all of the new is on disk."""

from __future__ import annotations

import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EINVAL, ELOOP, ENOTSUP
from pathlib import Path
from typing import IO

#: Most links that are followed before it is an endless loop, as in Linux.
_MAX_LINKS = 40

#: Directories of the kernel, without shared memory: nothing there is ever replaced.
_KERNEL, _SHARED_MEMORY = (Path("/proc"), Path("/dev"), Path("/sys")), Path("/dev/shm")  # noqa: S108 (a place to write)

#: Name of a partial file: readers ignore names with a dot in front.
_PARTIAL = ".{name}.{token}.partial"
_PARTIAL_NAME = re.compile(r"\..+\.[0-9a-f]{16}\.partial")

#: Age in seconds beyond which a partial file is abandoned: its writer was killed.
_ABANDONED_S = 3600.0


def write_whole(path: Path, data: bytes, modified_s: float | None = None) -> None:
    """Write `data` to `path` as `writing` does.

    Parameters
    ----------
    path, data
        The file and its content.
    modified_s
        Its modification time, in seconds since 1970; None for now.

    Raises
    ------
    OSError
        It cannot be written; see `writing`.
    """
    with writing(path) as file:
        file.write(data)
        if modified_s is not None:
            file.flush()
            os.utime(file.fileno(), (modified_s, modified_s))


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing, which replaces the one at `path` when the block ends, and is on disk then.

    1. A link is written through: its target is replaced, with its mode and, if permitted, its owner.
    2. Pipes, devices, standard output under any name (``/dev/stdout``, ``/proc/self/fd/1``), files with several hard
       links and those in a directory that takes no new file are written to in place, since they cannot be replaced.

    Raises
    ------
    OSError
        It cannot be written; in the first case the previous file is unchanged. Errors of the block likewise.
    """
    target = target_of(path)
    descriptor = _own_descriptor(target)
    if descriptor is not None:
        # If reopened it would begin at its beginning, over the previous output.
        if sys.stdout is not None:
            sys.stdout.flush()
        with open(os.dup(descriptor), "wb") as file:  # noqa: PTH123 (a descriptor has no path)
            yield file
        return
    known = _status(target)
    if _in_place(target, known):
        with target.open("wb") as file:
            yield file
        return
    partial = target.with_name(_PARTIAL.format(name=target.name[:200], token=os.urandom(8).hex()))
    # With the rights of what it replaces from the first byte on; a new file has those that the user's mask leaves.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    number = os.open(partial, flags, 0o666 if known is None else 0o600)
    try:
        with open(number, "wb") as file:  # noqa: PTH123
            if known is not None:
                _take_over(number, known)
            yield file
            file.flush()
            os.fsync(number)
        partial.replace(target)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # the error of a full disk has no name
        raise
    sync_directory(target.parent)


def target_of(path: Path) -> Path:
    """Return where writing to `path` ends: links are followed, also to missing files, but not those of the kernel.

    Raises
    ------
    OSError
        They form a cycle.
    """
    for _ in range(_MAX_LINKS):
        path = Path(os.path.realpath(path.parent)) / path.name
        if path.is_relative_to(_KERNEL[0]) or not path.is_symlink():
            return path
        path = path.parent / path.readlink()
    raise OSError(ELOOP, os.strerror(ELOOP), str(path))


def is_standard_output(path: Path) -> bool:
    """Return whether `path` is the standard output of this process."""
    try:
        return _own_descriptor(target_of(path)) == 1
    except OSError:
        return False


def name_of_output(path: Path) -> str:
    """Return the name for people of the file that is written at `path`."""
    return "standard output" if is_standard_output(path) else str(path)


def sync_directory(directory: Path) -> None:
    """Wait until names in `directory` are on disk, too: before, a power failure may undo a rename.

    Raises
    ------
    OSError
        The disk failed.
    """
    try:
        number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:  # names may be written there, and not listed: then all disks are waited for
        os.sync()
        return
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in (EINVAL, ENOTSUP):  # some file systems know no such thing
            raise
    finally:
        os.close(number)


def delete_abandoned(directory: Path) -> None:
    """Delete partial files of killed processes in `directory`, as far as permitted."""
    for path in directory.glob(".*.partial"):
        with suppress(OSError):
            if _PARTIAL_NAME.fullmatch(path.name) and time.time() - path.lstat().st_mtime > _ABANDONED_S:
                path.unlink()


def _own_descriptor(target: Path) -> int | None:
    """Return N of ``/proc/self/fd/N``."""
    own = target.parent == Path(f"/proc/{os.getpid()}/fd") and target.name.isdecimal()
    return int(target.name) if own else None


def _status(target: Path) -> os.stat_result | None:
    try:
        return target.stat()
    except FileNotFoundError:
        return None


def _in_place(target: Path, known: os.stat_result | None) -> bool:
    kernels = any(target.is_relative_to(root) for root in _KERNEL) and not target.is_relative_to(_SHARED_MEMORY)
    if known is None:
        return kernels
    single = stat.S_ISREG(known.st_mode) and known.st_nlink == 1
    return kernels or not single or not os.access(target.parent, os.W_OK | os.X_OK)


def _take_over(number: int, known: os.stat_result) -> None:
    """Give the file the owner and the mode of the one that it replaces."""
    new = os.fstat(number)
    if (new.st_uid, new.st_gid) != (known.st_uid, known.st_gid):
        with suppress(OSError):  # only root gives files away
            os.fchown(number, known.st_uid, known.st_gid)
    os.fchmod(number, stat.S_IMODE(known.st_mode))
