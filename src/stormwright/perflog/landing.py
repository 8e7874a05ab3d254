"""The landing directory: where performance log lines wait for the pipeline, one whole file at a time."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path

#: Readers ignore what starts with a dot, so a file is seen only when it is whole.
TEMPORARY_PREFIX = "."
SUFFIX = ".jsonl"


class Landing:
    """Writes batches of lines into a directory, each as one file that appears at once; safe to use from threads.

    Names sort in the order of writing. A file is on disk, not only in memory, before it appears: a probe forgets what
    it has delivered.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._last_ns = 0

    def write(self, lines: Iterable[bytes]) -> Path | None:
        """Land lines as one file and return its path; None where every line is blank."""
        body = b"".join(line.rstrip(b"\r\n") + b"\n" for line in lines if line.strip())
        if not body:
            return None
        path = self.directory / self._next_name()
        temporary = path.with_name(TEMPORARY_PREFIX + path.name)
        with temporary.open("xb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
        return path

    def files(self) -> list[Path]:
        """What has landed and was not pruned yet, oldest first."""
        return sorted(p for p in self.directory.glob(f"*{SUFFIX}") if not p.name.startswith(TEMPORARY_PREFIX))

    def _next_name(self) -> str:
        with self._lock:
            # Two writes within one tick of the clock, or after it was set back, still get names in order.
            self._last_ns = max(time.time_ns(), self._last_ns + 1)
            return f"{self._last_ns:020d}-{os.getpid()}{SUFFIX}"
