"""Files of the ledger workload, which ``stormwright.topologies.Ledger`` writes: formats and readers.

All are in one directory; numbers are little-endian. A worker that is killed leaves at most an incomplete end of a file
that it appended to, which is ignored.

``ledger.properties``
    ``NAME=VALUE`` lines: kind, keys, spouts, and for windows window, slide, unit.
``spout-TASK-RUN.journal``
    One run of a spout task: `HEADER`, then two bytes for each number from the header's first one on: how often this run
    has emitted it, and in the highest bit whether it was acked. Numbers before the first were acked earlier.
``sink-TASK-MILLISECONDS.log``
    A `RECORD` for each tuple that a sink received.
``window-TASK-MILLISECONDS.log``
    For each window a `RECORD` with task 65535 whose number is the count of records that follow.
``state/count-TASK.committed``
    The last committed checkpoint: its transaction, then ``KEY<tab>text<tab>TALLY`` lines.
``batch-TASK-MILLISECONDS.log``
    ``TRANSACTION ATTEMPT FROM TO`` for each batch that was emitted, with the numbers from FROM to before TO.
``counts-PARTITION.txt``
    ``KEY<tab>COUNT<tab>TRANSACTION`` lines of Trident's counts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.errors import Fault, InputError

#: A tuple in a file: which emission of which number it was.
RECORD = np.dtype([("number", "<i8"), ("attempt", "<u4"), ("task", "<u2"), ("run", "<u2")])

#: Begin of a journal.
HEADER = np.dtype([("magic", "S8"), ("first", "<i8"), ("started_ms", "<i8"), ("reserved", "<i8")])

#: In an entry of a journal: the number was acked.
ACKED = 0x8000

#: Task of the record that begins a window.
WINDOW = 0xFFFF

PROPERTIES = "ledger.properties"

_MAGIC = b"LEDGER01"
_JOURNAL = re.compile(r"spout-(\d+)-(\d+)\.journal")


class LedgerKind(StrEnum):
    """How the workload processes its numbers."""

    DRAIN = "drain"
    CHECKPOINT = "checkpoint"
    WINDOW = "window"
    BATCH = "batch"


@dataclass(frozen=True)
class LedgerFacts:
    """Arguments with which the workload runs.

    Parameters
    ----------
    kind, keys, spouts
        Processing, number of keys, and number of spout tasks.
    window, slide
        Length and sliding interval of windows, 0 without windows.
    unit
        Their unit, ``ms`` or ``tuples``.
    """

    kind: LedgerKind
    keys: int
    spouts: int
    window: int = 0
    slide: int = 0
    unit: str = ""


class LedgerJournal(NamedTuple):
    """One run of a spout task.

    Attributes
    ----------
    task, run
        Index of the task, and of its run.
    first
        Number of the first entry.
    started_ms
        Start of the run, in ms since 1970.
    emissions
        How often the run has emitted each number from `first` on.
    acked
        Whether it has an ack of that number.
    """

    task: int
    run: int
    first: int
    started_ms: int
    emissions: NDArray[np.int64]
    acked: NDArray[np.bool_]


class WindowLog(NamedTuple):
    """Windows of one instance of a task.

    Attributes
    ----------
    records
        Tuples of all complete windows, one window after the other.
    sizes
        Number of tuples of each window.
    """

    records: np.ndarray
    sizes: NDArray[np.int64]


class LedgerProgress(NamedTuple):
    """Numbers of a spout task that the state of a key has: those of rank below `mark`, and of the ranks in `later`."""

    task: int
    mark: int
    later: tuple[int, ...]


class KeyTally(NamedTuple):
    """Committed state of a key: number of tuples counted, and which numbers they had."""

    tuples: int
    progress: tuple[LedgerProgress, ...]


class KeyCount(NamedTuple):
    """Number of tuples of a key, and the last transaction that has changed it."""

    tuples: int
    transaction: int


class LedgerBatch(NamedTuple):
    """A batch of a spout task: the numbers from `start` to before `stop`."""

    transaction: int
    start: int
    stop: int


def read_facts(directory: Path) -> LedgerFacts:
    """Return the arguments of the workload that writes to a directory.

    Raises
    ------
    InputError
        The directory has no ledger.
    """
    path = directory / PROPERTIES
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(str(directory), [Fault(f"has no ledger: {error.strerror}: {path}", "$")]) from error
    values = dict(line.split("=", 1) for line in lines if "=" in line)
    try:
        return LedgerFacts(
            LedgerKind(values["kind"]),
            int(values["keys"]),
            int(values["spouts"]),
            int(values.get("window", 0)),
            int(values.get("slide", 0)),
            values.get("unit", ""),
        )
    except (KeyError, ValueError) as error:
        raise InputError(str(path), [Fault(f"is not written by a ledger: {error}", "$")]) from error


def read_journals(directory: Path) -> list[LedgerJournal]:
    """Return the journals of all runs, by task and run.

    Raises
    ------
    InputError
        A file has another format.
    """
    journals = []
    for path in directory.glob("spout-*.journal"):
        match = _JOURNAL.fullmatch(path.name)
        content = path.read_bytes()
        if match is None or len(content) < HEADER.itemsize:  # its worker was killed before it had written anything
            continue
        header = np.frombuffer(content, HEADER, 1)[0]
        if header["magic"] != _MAGIC:
            raise InputError(str(path), [Fault("is no journal of a ledger", "$")])
        count = (len(content) - HEADER.itemsize) // 2
        entries = np.frombuffer(content, "<u2", count, HEADER.itemsize)
        emissions = (entries & (ACKED - 1)).astype(np.int64)
        acked = (entries & ACKED) != 0
        journals.append(
            LedgerJournal(
                int(match[1]), int(match[2]), int(header["first"]), int(header["started_ms"]), emissions, acked
            )
        )
    return sorted(journals, key=lambda journal: (journal.task, journal.run))


def read_sinks(directory: Path) -> np.ndarray:
    """Return the records of all sinks, shape (tuples,)."""
    logs = [_records(path) for path in sorted(directory.glob("sink-*.log"))]
    return np.concatenate([np.empty(0, RECORD), *logs])


def read_windows(directory: Path) -> list[WindowLog]:
    """Return the complete windows of every log."""
    return [_windows(_records(path)) for path in sorted(directory.glob("window-*.log"))]


def _records(path: Path) -> np.ndarray:
    content = path.read_bytes()
    return np.frombuffer(content, RECORD, len(content) // RECORD.itemsize)


def _windows(records: np.ndarray) -> WindowLog:
    sizes = []
    at, end = 0, 0
    while at < len(records):
        size = int(records["number"][at])
        at += 1 + size
        if at <= len(records):
            sizes.append(size)
            end = at
    content = records[:end]
    return WindowLog(content[content["task"] != WINDOW], np.array(sizes, np.int64))


def read_tallies(directory: Path) -> dict[int, list[KeyTally]]:
    """Return the committed state by key; several of a key if several tasks have it."""
    tallies = defaultdict(list)
    for path in sorted((directory / "state").glob("count-*.committed")):
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            key, _, text = line.split("\t")
            tallies[int(key)].append(_tally(text))
    return dict(tallies)


def _tally(text: str) -> KeyTally:
    """Parse ``COUNT TASK:MARK:RANK,RANK``."""
    count, *progress = text.split(" ")
    return KeyTally(int(count), tuple(_progress(part) for part in progress))


def _progress(text: str) -> LedgerProgress:
    task, mark, later = text.split(":")
    return LedgerProgress(int(task), int(mark), tuple(int(rank) for rank in later.split(",") if rank))


def read_batches(directory: Path) -> dict[int, list[LedgerBatch]]:
    """Return the batches of each spout task by transaction: of several attempts, the last one is the committed one."""
    return {
        task: [attempts[max(attempts)] for _, attempts in sorted(known.items())]
        for task, known in _batch_attempts(directory).items()
    }


def read_batch_replays(directory: Path) -> int:
    """Return the numbers of all attempts of batches besides the last one of each."""
    return sum(
        batch.stop - batch.start
        for known in _batch_attempts(directory).values()
        for attempts in known.values()
        for number, batch in attempts.items()
        if number != max(attempts)
    )


def _batch_attempts(directory: Path) -> dict[int, dict[int, dict[int, LedgerBatch]]]:
    """Return the attempts (by number) of each transaction of each spout task."""
    found: dict[int, dict[int, dict[int, LedgerBatch]]] = defaultdict(lambda: defaultdict(dict))
    for path in sorted(directory.glob("batch-*.log")):
        for transaction, attempt, start, stop in _lines(path):
            found[int(path.name.split("-")[1])][transaction][attempt] = LedgerBatch(transaction, start, stop)
    return dict(sorted(found.items()))


def _lines(path: Path) -> Iterator[list[int]]:
    """Yield the numbers of each line; the last one is incomplete if its writer was killed."""
    complete, _, _ = path.read_bytes().rpartition(b"\n")
    for line in complete.splitlines():
        yield [int(number) for number in line.split()]


def read_counts(directory: Path) -> dict[int, list[KeyCount]]:
    """Return Trident's counts by key; several of a key if several partitions have it."""
    counts = defaultdict(list)
    for path in sorted(directory.glob("counts-*.txt")):
        for key, count, transaction in _lines(path):
            counts[key].append(KeyCount(count, transaction))
    return dict(counts)
