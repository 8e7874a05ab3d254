"""The audit log: user, action, time, address and result of each change; one JSON object per line."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stormwright.base.escaping import printable
from stormwright.service.on_change import OnChange

log = logging.getLogger(__name__)

#: Below a service's state directory.
FILE = "audit.jsonl"

#: Of one file, and how many older ones are kept beside it (``audit.jsonl.1`` is the newest of those).
MAX_BYTES, MAX_FILES = 16 * 2**20, 8

#: Characters of one value: whoever is refused may send anything.
_LONGEST = 500


class Audit:
    """Writes the log; from any thread, and from several processes.

    Parameters
    ----------
    path
        Log file, created with the first entry; older files get a number as suffix.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._log_failure = OnChange(log.error)

    def note(self, what: str, **entry: Any) -> None:
        """Append a line; if that fails it is logged, and the request is still answered."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = json.dumps({"at": at, "what": _short(what)} | {name: _short(value) for name, value in entry.items()})
        with self._lock:
            try:
                self._turn()
                # One write of one line: lines of several processes do not mix.
                file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
                try:
                    os.write(file, line.encode() + b"\n")
                finally:
                    os.close(file)
                self._log_failure.over()
            except OSError as error:
                self._log_failure(f"{self._path}: changes and refusals cannot be noted: {error.strerror}")

    def _turn(self) -> None:
        """Begin another file where this one is full."""
        try:
            if self._path.stat().st_size < MAX_BYTES:
                return
        except FileNotFoundError:
            return
        files = audit_files(self._path)
        for number in reversed(range(len(files))):
            if number + 1 > MAX_FILES:
                files[number].unlink(missing_ok=True)
            else:
                files[number].rename(_older(self._path, number + 1))


def audit_files(path: Path) -> list[Path]:
    """The files that there are, the newest first."""
    found = [path]
    while (older := _older(path, len(found))).exists():
        found.append(older)
    return [each for each in found if each.exists()]


def audit_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the entries of the log, newest first; an incomplete last line is ignored.

    Raises
    ------
    OSError
        A file cannot be read.
    """
    for file in audit_files(path):
        for line in reversed(file.read_text(encoding="utf-8", errors="replace").splitlines()):
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict):
                yield entry


def _older(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _short(value: Any) -> Any:
    return printable(value)[:_LONGEST] if isinstance(value, str) else value
