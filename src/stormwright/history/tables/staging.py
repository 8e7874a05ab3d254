"""Staging of rows on local disk: many small files, no Spark.

::

    DIRECTORY/staging/TABLE/vVERSION/NAME.parquet     rows as they came
    DIRECTORY/chunks/TABLE/vVERSION/NUMBER/           rows that become chunk NUMBER of the table
    DIRECTORY/damaged/                                files that cannot be read

A chunk is fixed by renaming its files, before Spark writes any row. So an interrupted chunk is written again from the
same files, replacing whatever was written of it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stormwright.base.file_lock import exclusive_lock
from stormwright.base.files import write_whole, writing
from stormwright.history.tables.definitions import TABLES, Table

#: Rows that become one chunk: they pass through the driver's memory, and as one task through the session of the stream,
#: whose batches wait meanwhile.
MAX_CHUNK_ROWS = 500_000

_SUFFIX = ".parquet"

#: A file that is being written, or that does not count yet.
_HIDDEN = "."


@dataclass(frozen=True)
class Chunk:
    """Rows of one version of a table that are written together."""

    table: Table
    version: int
    number: int
    directory: Path

    def rows(self) -> pa.Table:
        """Return all rows, as staged."""
        return pa.concat_tables([pq.read_table(path, partitioning=None) for path in _visible(self.directory)])

    def remove(self) -> None:
        """Delete the rows after they were written to the table."""
        shutil.rmtree(self.directory)


class Staging:
    """Files of rows below a directory; thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(
        self, table: Table, name: str, rows: pa.Table | Sequence[Mapping[str, Any]], hidden: bool = False
    ) -> None:
        """Stage rows of the newest version as one file, atomically; the same name replaces it.

        Parameters
        ----------
        table
            Name of the table.
        name
            Name of the file without extension. Files are ingested in the order of their names.
        rows
            With all columns of the table, others are left out; or a mapping each, in which a missing column is null.
        hidden
            Whether the file is ingested only after `publish`.
        """
        if not isinstance(rows, pa.Table):
            rows = pa.Table.from_pylist([dict(row) for row in rows], table.arrow)
        path = self._staged(table) / f"{_HIDDEN if hidden else ''}{name}{_SUFFIX}"
        path.parent.mkdir(parents=True, exist_ok=True)
        with writing(path) as file:
            pq.write_table(rows.select(table.arrow.names).cast(table.arrow), file)

    def hidden(self, table: Table) -> list[str]:
        """Return the names of hidden files."""
        found = self._staged(table).glob(f"{_HIDDEN}*{_SUFFIX}")
        return sorted(path.name.removeprefix(_HIDDEN).removesuffix(_SUFFIX) for path in found)

    def publish(self, table: Table, name: str) -> None:
        """Publish a hidden file."""
        path = self._staged(table) / f"{_HIDDEN}{name}{_SUFFIX}"
        path.rename(path.with_name(path.name.removeprefix(_HIDDEN)))

    def discard(self, table: Table, name: str) -> None:
        """Delete a hidden file."""
        (self._staged(table) / f"{_HIDDEN}{name}{_SUFFIX}").unlink()

    @contextmanager
    def exclusive_lock(self) -> Iterator[None]:
        """Lock the tables of this directory against other processes until the block ends.

        Two ingesting processes would give the same number to different rows, and a compaction would delete rows that
        another process writes to the day meanwhile.

        Raises
        ------
        StormwrightError
            Another process holds the lock.
        """
        message = f"another process is working on the tables of {self._directory}; try again when it has ended"
        with exclusive_lock(self._directory, message):
            yield

    def waiting(self) -> tuple[int, int]:
        """Return the number of staged files, and their size in bytes."""
        sizes = []
        for path in [*self._files("staging"), *self._files("chunks")]:
            with suppress(FileNotFoundError):  # it is being taken in
                sizes.append(path.stat().st_size)
        return len(sizes), sum(sizes)

    def pending(self, table: Table) -> list[tuple[int | None, Path]]:
        """Return the files whose rows may not be in the table yet, with the number of their chunk, or None.

        Rows move on meanwhile: from staging to a chunk, whose rows may be in the table as well, and then to the table.
        Each file is returned once; read the table after this, so that no row is missed.
        """
        versions = self._directory.glob(f"staging/{table.name}/v*")
        staged = [path for directory in versions for path in _visible(directory)]
        begun = [(int(chunk.name), path) for chunk in self._begun(table.name) for path in _visible(chunk)]
        moved = {path.name for _, path in begun}
        return [*begun, *((None, path) for path in sorted(staged) if path.name not in moved)]

    def chunks(self, table: Table) -> Iterator[Chunk]:
        """Yield the chunks to write: unfinished ones, then all staged rows."""
        for directory in self._begun(table.name):
            yield from self._chunk(table, directory)
        for staged in sorted(filter(_version, self._directory.glob(f"staging/{table.name}/v*"))):
            while files := self._some(_visible(staged)):
                directory = self._new_chunk(table, staged.name)
                for path in files:
                    path.rename(directory / path.name)
                yield from self._chunk(table, directory)

    def _begun(self, table: str) -> list[Path]:
        """Return directories of chunks by number; other entries are ignored."""
        found = self._directory.glob(f"chunks/{table}/v*/*")
        return sorted(
            (path for path in found if path.name.isdecimal() and _version(path.parent)), key=lambda path: int(path.name)
        )

    def _chunk(self, table: Table, directory: Path) -> Iterator[Chunk]:
        version = _version(directory.parent)
        for path in _visible(directory):
            if not _is_of(path, table, version):
                self._set_aside(path)
        chunk = Chunk(table, version, int(directory.name), directory)
        if _visible(directory):
            yield chunk
        else:
            chunk.remove()

    def _some(self, files: list[Path]) -> list[Path]:
        """Return the first files that form a chunk; at least one."""
        rows, number = 0, 0
        for path in files:
            rows += _rows_in(path) or 0
            if number and rows > MAX_CHUNK_ROWS:
                break
            number += 1
        return files[:number]

    def _new_chunk(self, table: Table, version: str) -> Path:
        """Create a directory with a number above all earlier ones, even if the clock was set back.

        It begins with the time of day because the tables may outlive this directory.
        """
        last = self._directory / "last-chunk"
        begun = [int(path.name) for name in TABLES for path in self._begun(name)]
        number = max(time.time_ns() // 1_000_000, 1 + max(begun, default=-1), 1 + _number_in(last))
        write_whole(last, str(number).encode())
        directory = self._directory / "chunks" / table.name / version / str(number)
        directory.mkdir(parents=True)
        return directory

    def _set_aside(self, path: Path) -> None:
        damaged = self._directory / "damaged"
        damaged.mkdir(exist_ok=True)
        path.rename(damaged / f"{path.parent.name}-{path.name}")

    def _staged(self, table: Table) -> Path:
        return self._directory / "staging" / table.name / f"v{table.version}"

    def _files(self, part: str) -> Iterator[Path]:
        for name in TABLES:
            yield from self._directory.glob(f"{part}/{name}/**/[!.]*{_SUFFIX}")


def _version(directory: Path) -> int:
    """Return the version of the rows in a directory; 0 if it is not a staging directory."""
    number = directory.name.removeprefix("v")
    return int(number) if number.isdecimal() else 0


def _number_in(path: Path) -> int:
    """Return the number in a file; -1 if missing or damaged."""
    try:
        text = path.read_text("ascii")
    except (FileNotFoundError, UnicodeDecodeError):
        return -1
    return int(text) if text.isdecimal() else -1


def _visible(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob(f"*{_SUFFIX}") if not path.name.startswith(_HIDDEN))


def _is_of(path: Path, table: Table, version: int) -> bool:
    """Return whether a file is readable and, for the newest version, has the columns of the table."""
    try:
        columns = pq.read_schema(path)
        return version != table.version or bool(columns.equals(table.arrow))
    except pa.ArrowException:
        return False


def _rows_in(path: Path) -> int | None:
    """Return the number of rows in a file; None if it is not Parquet, or damaged."""
    try:
        return int(pq.read_metadata(path).num_rows)
    except pa.ArrowException:
        return None
