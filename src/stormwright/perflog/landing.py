"""Landing directories: rows that wait for the pipeline, in complete files."""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from stormwright.base.clock import WALL, Clock
from stormwright.base.files import delete_abandoned, write_whole

#: Prefix of partial files: readers ignore names that start with a dot.
TEMPORARY_PREFIX = "."
SUFFIX = ".jsonl"

#: How the names of landed files end: of JSON lines, and of columns (`stormwright.perflog.columns`).
COLUMNS_SUFFIX = ".parquet"
SUFFIXES = (SUFFIX, COLUMNS_SUFFIX)

#: Seconds between files: deliveries in between share one. Rare deliveries never wait.
GAP_S = 0.05


Rows = TypeVar("Rows")


class LandingDirectory(ABC, Generic[Rows]):
    """Writer of rows into a directory, as files that appear atomically; thread-safe.

    Names sort in the order of writing. A file is on disk, not only in memory, before it appears: a probe forgets
    delivered lines. Rows that come from several threads at once share a file.

    Parameters
    ----------
    directory
        The directory; created if it does not exist.
    clock
        Clock by which files get their modification times.
    """

    #: How the names of the files end.
    suffix: str

    def __init__(self, directory: Path, clock: Clock = WALL) -> None:
        self.directory = directory
        self._modified_s = None if clock is WALL else clock.time
        directory.mkdir(parents=True, exist_ok=True)
        delete_abandoned(directory)
        self._adding, self._writing = threading.Lock(), threading.Lock()
        self._waiting: list[_Delivery[Rows]] = []
        self._last_ns = 0
        self._next_s = 0.0

    @abstractmethod
    def _content(self, rows: Sequence[Rows]) -> bytes:
        """Return the content of a file."""

    def _land(self, rows: Rows) -> Path:
        delivery = _Delivery(rows)
        with self._adding:
            self._waiting.append(delivery)
        with self._writing:
            # The previous writer may have included it.
            if delivery.path is None and delivery.error is None:
                time.sleep(max(0.0, self._next_s - time.monotonic()))
                self._land_waiting()
        if delivery.error is not None:
            raise delivery.error
        assert delivery.path is not None  # noqa: S101 (for the type checker)
        return delivery.path

    def files(self) -> list[Path]:
        """Return the landed files that were not pruned yet, oldest first."""
        return sorted(p for p in self.directory.glob(f"*{self.suffix}") if not p.name.startswith(TEMPORARY_PREFIX))

    def _land_waiting(self) -> None:
        with self._adding:
            deliveries, self._waiting = self._waiting, []
        path, error = None, None
        try:
            content = self._content([delivery.rows for delivery in deliveries])
            # As late as possible: readers rely on files appearing in the order of their names.
            path = self.directory / self._next_name()
            write_whole(path, content, self._modified_s() if self._modified_s else None)
        except BaseException as raised:  # waiting threads get any error
            error = raised
        self._next_s = time.monotonic() + GAP_S
        for delivery in deliveries:
            delivery.path, delivery.error = (path, None) if error is None else (None, error)

    def _next_name(self) -> str:
        # Two writes within one tick of the clock, or after it was set back, still get names in order.
        self._last_ns = max(time.time_ns(), self._last_ns + 1)
        return f"{self._last_ns:020d}-{os.getpid()}{self.suffix}"


@dataclass
class _Delivery(Generic[Rows]):
    """Rows on their way into a file."""

    rows: Rows
    path: Path | None = None
    error: BaseException | None = None


class Landing(LandingDirectory[bytes]):
    """Writer of lines, as they are, into files of JSON lines."""

    suffix = SUFFIX

    def write(self, lines: Iterable[bytes]) -> Path | None:
        """Land lines and return the path of their file; None if every line is blank.

        Raises
        ------
        OSError
            They could not be written, or may not survive a power failure: deliver them again.
        """
        body = b"".join(line.rstrip(b"\r\n") + b"\n" for line in lines if line.strip())
        return self._land(body) if body else None

    def _content(self, rows: Sequence[bytes]) -> bytes:
        return b"".join(rows)
