"""Quarantine of invalid or late lines, with the reason, the file and the position."""

from __future__ import annotations

import heapq
import shutil
import time
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from stormwright.base.files import write_whole
from stormwright.errors import Fault, InputError

#: The quarantine table. `line_number` counts the lines of a file from 1, blank ones left out; it is null where a whole
#: file was set aside. `line` is null where only the file has it, and of one that is not UTF-8, which is in
#: `line_base64`.
QUARANTINE = pa.schema(
    [
        ("reason", pa.string()),
        ("file", pa.string()),
        ("line_number", pa.int64()),
        ("landed_ms", pa.int64()),
        ("line", pa.string()),
        ("line_base64", pa.string()),
    ]
)


def rejected(audit: pa.Table) -> pa.Table:
    """Return the rows of the quarantine table from the audit of whole files, as `QUARANTINE`.

    A file's lines are in order of the `block` that they were read in and, in a block, of their `row`, or where that is
    null as they come.
    """
    is_rejected = pc.is_valid(audit["reason"])
    if not pc.any(is_rejected).as_py():
        return QUARANTINE.empty_table()
    came = np.arange(audit.num_rows)
    row = pc.coalesce(audit["row"], pa.array(came))
    order = pc.sort_indices(
        pa.table({"file": audit["file"], "block": audit["block"], "row": row}),
        sort_keys=[("file", "ascending"), ("block", "ascending"), ("row", "ascending")],
    )
    file = audit["file"].take(order).combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    begins = np.flatnonzero(np.diff(file, prepend=-1))
    line_number = came - np.repeat(begins, np.diff(begins, append=len(file))) + 1
    in_order = audit.take(order).append_column("line_number", pa.array(line_number))
    found = in_order.filter(is_rejected.take(order))
    texts = [_text(line) for line in found["line"].cast(pa.binary()).to_pylist()]
    as_base64 = [
        b64encode(line).decode() if line is not None and text is None else None
        for line, text in zip(found["line"].to_pylist(), texts, strict=True)
    ]
    place = found.schema.get_field_index("line")
    found = found.set_column(place, "line", pa.array(texts, pa.string()))
    return (
        found.append_column("line_base64", pa.array(as_base64, pa.string())).select(QUARANTINE.names).cast(QUARANTINE)
    )


def _text(line: bytes | None) -> str | None:
    """Return a line as text, None if it is not UTF-8."""
    with suppress(UnicodeDecodeError):
        return None if line is None else line.decode()
    return None


#: Maximum size: beyond it the oldest files are deleted, down to this part of it.
MAX_BYTES, MAX_FILES = 256 * 2**20, 50_000
_RETAINED_PART = 0.9


class Quarantine:
    """A directory with a JSON-lines file per batch with rejected lines, and files set aside whole.

    A worker that only sends invalid lines would fill the disk, so the oldest files are deleted beyond a limit.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = directory / "files"
        self.files.mkdir(parents=True, exist_ok=True)
        sizes = [size for _, size, _ in self._files()]
        self._count, self._bytes = len(sizes), sum(sizes)

    def keep(self, batch: int, audit: pa.Table) -> None:
        """Write the rejected lines of a batch; the same batch again replaces them."""
        name = f"batch-{batch:010d}.jsonl"
        # Output of the same batch before a crash, when it may have had other files.
        (self.directory / name).unlink(missing_ok=True)
        self._write(name, rejected(audit))

    def archive_batches(self) -> None:
        """Rename the files of all batches, so that a new state can number its batches from 0."""
        now = time.time_ns()
        for path in self.directory.glob("batch-*.jsonl"):
            path.rename(path.with_name(f"until-{now}-{path.name}"))

    def set_aside(self, path: Path, reason: str) -> None:
        """Move a landed file that cannot be processed to the quarantine, and record the reason."""
        landed_ms = path.stat().st_mtime_ns // 1_000_000
        row = dict.fromkeys(QUARANTINE.names) | {"reason": reason, "file": path.name, "landed_ms": landed_ms}
        # The note comes first: a crash in between repeats both.
        self._write(f"file-{path.name}.jsonl", pa.Table.from_pylist([row], QUARANTINE))
        self._add(path.stat().st_size)
        shutil.move(path, self.files / path.name)

    def files_set_aside(self) -> int:
        """Return the number of files set aside whole."""
        return sum(1 for _ in self.files.iterdir())

    def _write(self, name: str, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        body = b"".join(orjson.dumps(row) + b"\n" for row in rows.to_pylist())
        self._add(len(body))
        write_whole(self.directory / name, body)

    def _add(self, size: int) -> None:
        """Add to the size of the quarantine, and delete the oldest files beyond the limit."""
        self._count, self._bytes = self._count + 1, self._bytes + size
        if self._count <= MAX_FILES and self._bytes <= MAX_BYTES:
            return
        # Rewritten and manually deleted files were still counted; now the sizes are read.
        stored = self._files()
        self._count, self._bytes = len(stored) + 1, sum(size for _, size, _ in stored) + size
        for _, freed, path in stored:
            if self._count <= _RETAINED_PART * MAX_FILES and self._bytes <= _RETAINED_PART * MAX_BYTES:
                return
            path.unlink(missing_ok=True)
            self._count, self._bytes = self._count - 1, self._bytes - freed

    def _files(self) -> list[tuple[int, int, Path]]:
        """Return time, size and path of each file, oldest first."""
        found = []
        for path in (*self.directory.glob("[!.]*.jsonl"), *self.files.iterdir()):
            with suppress(FileNotFoundError):
                about = path.stat()
                found.append((about.st_mtime_ns, about.st_size, path))
        return sorted(found)


#: Latest representable moment, in ms.
_LAST_MS = 253_402_300_799_999

#: Checks of the columns of a row.
_RIGHT: dict[str, Callable[[Any], bool]] = {
    "reason": lambda value: type(value) is str,
    "landed_ms": lambda value: type(value) is int and 0 <= value <= _LAST_MS,
    "file": lambda value: type(value) is str,
    "line_number": lambda value: value is None or type(value) is int,
    "line": lambda value: value is None or type(value) is str,
    "line_base64": lambda value: value is None or type(value) is str,
}


@dataclass
class RejectedLines:
    """Lines in quarantine for one reason, and when the first and the last of them landed."""

    lines: int
    first_ms: int
    last_ms: int


class QuarantineContent(NamedTuple):
    """Content of the quarantine: by reason, most frequent first, and the newest rows, newest last."""

    reasons: dict[str, RejectedLines]
    newest: list[dict[str, Any]]


def read_quarantines(directory: Path, newest: int) -> QuarantineContent:
    """Read all quarantine tables below a directory, including those of earlier versions and backfills.

    Raises
    ------
    InputError
        A file there is no part of such a table.
    """
    reasons: dict[str, RejectedLines] = {}
    rows: list[dict[str, Any]] = []
    # What begins with a dot is being written, or a checksum of Hadoop's.
    for path in sorted(directory.rglob("quarantine/[!.]*.json*")):
        for row in _rows_of(path):
            landed_ms = row["landed_ms"]
            stored = reasons.setdefault(row["reason"], RejectedLines(0, landed_ms, landed_ms))
            stored.lines += 1
            stored.first_ms, stored.last_ms = min(stored.first_ms, landed_ms), max(stored.last_ms, landed_ms)
            rows.append(row)
        rows = heapq.nlargest(newest, rows, key=lambda row: (row["landed_ms"], row["file"], row["line_number"] or 0))
    return QuarantineContent(dict(sorted(reasons.items(), key=lambda item: -item[1].lines)), rows[::-1])


def _rows_of(path: Path) -> list[dict[str, Any]]:
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:  # the service or another reader has deleted it meanwhile
        return []
    try:
        rows = [dict.fromkeys(QUARANTINE.names) | orjson.loads(line) for line in lines]
    except (orjson.JSONDecodeError, TypeError) as error:
        raise InputError("quarantine", [Fault(f"is not a quarantine table: {error}", str(path))]) from error
    for number, row in enumerate(rows, 1):
        if wrong := next((name for name, right in _RIGHT.items() if not right(row[name])), None):
            fault = Fault(f"is not a quarantine table: {wrong} of row {number} is missing or wrong", str(path))
            raise InputError("quarantine", [fault])
    return rows
