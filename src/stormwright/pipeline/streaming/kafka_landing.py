"""Landing of messages from Kafka as files, each message exactly once.

A batch lands in three steps, each on disk before the next begins:

1. Its messages are staged as one file.
2. The mark is replaced: it names the file, and for each partition the offset after the file's messages.
3. The file is renamed into the landing directory.

Spark repeats an interrupted batch. So the file that the mark names is renamed first if it is still staged, and messages
before the mark's offsets have landed and are left out. Unlike the number of a batch, offsets also hold if Spark's
checkpoint lost its newest files in a power failure and the repeated batch has other limits.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame

from stormwright.base.files import sync_directory, write_whole
from stormwright.errors import Fault, InputError, StormwrightError
from stormwright.perflog.columns import ParsedRows, as_file, parsed_rows
from stormwright.perflog.landing import COLUMNS_SUFFIX

#: Columns of Spark's Kafka source that are used.
_COLUMNS = ("partition", "offset", "timestamp", "value")

#: How the names of files end that hold messages.
_LANDED = f"-kafka{COLUMNS_SUFFIX}"

#: Files that may wait in the landing directory before the next batch: one is processed meanwhile. All others wait in
#: Kafka, as the stream of loads may take many files at once.
_MAX_WAITING = 2

_POLL_S = 0.1


@dataclass(frozen=True)
class _Mark:
    """The newest file: its name, the batch that staged it, and the offset after its messages by partition."""

    batch: int = -1
    file: str = ""
    ends: Mapping[int, int] = field(default_factory=dict)


class MessageLanding:
    """Lands the messages of batches, each once; the function of a ``foreachBatch``.

    Parameters
    ----------
    landing
        Landing directory, to which finished files are renamed; created if it does not exist.
    directory
        Directory of staged file and mark, on the same file system.
    late_s
        Seconds after which a record is late, so that its line is stored as well.
    on_landed
        Called with the rows of messages that have landed.

    Raises
    ------
    InputError
        The directories are on different file systems, between which no file can be renamed.
    """

    def __init__(self, landing: Path, directory: Path, late_s: float, on_landed: Callable[[ParsedRows], None]) -> None:
        self._landing, self._staging = landing, directory / "staged"
        self._path, self._late_s, self._on_landed = directory / "mark.json", late_s, on_landed
        self._stopping = threading.Event()
        landing.mkdir(parents=True, exist_ok=True)
        self._staging.mkdir(parents=True, exist_ok=True)
        if landing.stat().st_dev != self._staging.stat().st_dev:
            what = f"is on another file system than {self._staging}: files of Kafka cannot be renamed into it"
            raise InputError("landing directory", [Fault(what, str(landing))])

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Land one batch of the query as soon as there is room for another file."""
        while len(list(self._landing.glob(f"*{_LANDED}"))) >= _MAX_WAITING:
            if self._stopping.wait(_POLL_S):
                raise StormwrightError("stopped before the batch")
        self.land(batch, frame.select(*_COLUMNS).toArrow())

    def stop(self) -> None:
        """Wait for no more room; the batch that waits for it fails, and is repeated by the next query."""
        self._stopping.set()

    def land(self, batch: int, messages: pa.Table) -> None:
        """Land messages that have not landed.

        Parameters
        ----------
        batch
            Number of the batch.
        messages
            Messages as the columns ``partition``, ``offset``, ``timestamp`` and ``value``.

        Raises
        ------
        StormwrightError
            Offsets of a new batch are not new.
        """
        mark = self._mark()
        self._rename(mark.file)
        messages = messages.sort_by([("partition", "ascending"), ("offset", "ascending")])
        messages, ends = self._new(messages, batch, mark)
        parsed = _parsed(messages, self._late_s)
        if not parsed.table.num_rows:
            return
        # Names sort in the order of landing, as those of deliveries.
        content = as_file(parsed.table)
        name = f"{time.time_ns():020d}-{os.getpid()}{_LANDED}"
        write_whole(self._staging / name, content)
        self._set_mark(_Mark(max(batch, mark.batch), name, {**mark.ends, **ends}))
        self._rename(name)
        self._on_landed(parsed)

    def _rename(self, name: str) -> None:
        """Let a staged file land, unless it has, and delete those that no mark names."""
        staged = self._staging / name
        if name and staged.exists():
            staged.rename(self._landing / name)
            for directory in (self._landing, self._staging):
                sync_directory(directory)
        for path in self._staging.iterdir():
            path.unlink()

    def _new(self, messages: pa.Table, batch: int, mark: _Mark) -> tuple[pa.Table, Mapping[int, int]]:
        """Return the messages that have not landed, and the offset after them by partition."""
        places = list(zip(messages["partition"].to_pylist(), messages["offset"].to_pylist(), strict=True))
        is_new = [offset >= mark.ends.get(partition, 0) for partition, offset in places]
        if batch > mark.batch and not all(is_new):
            raise StormwrightError(
                f"offsets of the topic begin again: if it was deleted and created again, delete {self._staging.parent} "
                "and restart the service"
            )
        # In the order of offsets: the last one of a partition remains.
        ends = {partition: offset + 1 for (partition, offset), new in zip(places, is_new, strict=True) if new}
        return messages.filter(pa.array(is_new, pa.bool_())), ends

    def _mark(self) -> _Mark:
        try:
            found = orjson.loads(self._path.read_bytes())
            return _Mark(found["batch"], found["file"], {int(key): end for key, end in found["ends"].items()})
        except FileNotFoundError:
            return _Mark()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"is damaged: delete {self._path.parent} to read the topic again, and restart the service"
            raise InputError("mark of Kafka", [Fault(what, str(self._path))]) from error

    def _set_mark(self, mark: _Mark) -> None:
        document = {"batch": mark.batch, "file": mark.file, "ends": mark.ends}
        write_whole(self._path, orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS))


def _parsed(messages: pa.Table, late_s: float) -> ParsedRows:
    """Return the lines of messages; a message landed at its timestamp, unless the clock of its writer is ahead."""
    moments = messages["timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()).to_pylist()
    now_ms = round(time.time() * 1000)
    lines, landed_ms = [], []
    for moment_ms, value in zip(moments, messages["value"].to_pylist(), strict=True):
        for line in (value or b"").split(b"\n"):
            if line.strip():
                lines.append(line)
                landed_ms.append(min(moment_ms, now_ms))
    return parsed_rows(lines, landed_ms, late_s)
