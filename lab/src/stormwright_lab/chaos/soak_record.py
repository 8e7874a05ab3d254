"""Record of a soak: samples of the service and its Spark JVM as lines of a file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

from stormwright.errors import Fault, InputError
from stormwright.storm.local_cluster.processes import stat
from stormwright_lab.chaos.faults import FILLING

#: File of the record, in the output directory.
RECORD = "soak.jsonl"

#: Processes of a soak.
PROCESSES = ("service", "spark")


class ProcessSample(NamedTuple):
    """A process at a moment.

    Attributes
    ----------
    life
        Identifies the process: its id and start.
    memory_mb
        Resident memory; shared pages count in part (PSS).
    files, threads
        Number of open files and of threads.
    """

    life: str
    memory_mb: float
    files: int
    threads: int


@dataclass(frozen=True)
class SoakSample:
    """Processes and state directory at a moment.

    Parameters
    ----------
    elapsed_s
        Seconds of soaking before, over all sessions.
    session
        Number of the session, from 1.
    processes
        Name → sample; processes that do not run are missing.
    state_mb
        Part of the state directory → its size.
    rate_tps
        Rate of the ledger.
    """

    elapsed_s: float
    session: int
    processes: Mapping[str, ProcessSample]
    state_mb: Mapping[str, float]
    rate_tps: float

    def to_dict(self) -> dict[str, Any]:
        """Return the sample as JSON."""
        processes = {name: each._asdict() for name, each in self.processes.items()}
        return {**asdict(self), "processes": processes, "type": "sample"}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Return the sample of a JSON object."""
        processes = {name: ProcessSample(**each) for name, each in raw["processes"].items()}
        return cls(raw["elapsed_s"], raw["session"], processes, raw["state_mb"], raw["rate_tps"])


@dataclass(frozen=True)
class SoakEvent:
    """Something that was done to the cluster.

    Parameters
    ----------
    elapsed_s, session
        Seconds of soaking before it, over all sessions, and the session's number from 1.
    kind
        ``rate``, ``plan``, ``fault`` or ``note``.
    text
        Description of the event for people, such as the injected fault.
    """

    elapsed_s: float
    session: int
    kind: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return the event as JSON."""
        return {**asdict(self), "type": "event"}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Return the event of a JSON object."""
        return cls(raw["elapsed_s"], raw["session"], raw["kind"], raw["text"])


@dataclass(frozen=True)
class LedgerResult:
    """The ledger of a session.

    Parameters
    ----------
    session
        Number of the session.
    emitted, acked, replays
        Numbers emitted and acked, and emissions besides the first of each number.
    violations
        All that the oracle has found.
    ended
        Whether it was drained at the end; an interrupted one is read as it is.
    """

    session: int
    emitted: int
    acked: int
    replays: int
    violations: tuple[str, ...] = ()
    ended: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {**asdict(self), "type": "ledger"}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Return the result of a JSON object."""
        return cls(raw["session"], raw["emitted"], raw["acked"], raw["replays"], tuple(raw["violations"]), raw["ended"])


def sample_of(pid: int) -> ProcessSample | None:
    """Return the sample of a process; None if it has ended."""
    home = Path(f"/proc/{pid}")
    try:
        life = f"{pid}-{stat(pid)[19]}"
        fields = dict(line.split(":", 1) for line in (home / "smaps_rollup").read_text().splitlines()[1:])
        return ProcessSample(
            life,
            int(fields["Pss"].split()[0]) / 1024,
            len(list((home / "fd").iterdir())),
            len(list((home / "task").iterdir())),
        )
    except (OSError, KeyError, ValueError):
        return None


def state_sizes(directory: Path) -> dict[str, float]:
    """Return the size in MB of each part of a directory, without the file that a fault fills the disk with."""
    return {part.name: _size(part) / 2**20 for part in sorted(directory.iterdir()) if part.name != FILLING}


def _size(path: Path) -> int:
    found = 0
    with suppress(OSError):  # it was removed meanwhile
        if not path.is_dir():
            return path.stat().st_size
        for at, _, files in os.walk(path):
            for name in files:
                with suppress(OSError):
                    found += (Path(at) / name).stat().st_size
    return found


@dataclass
class SoakRecord:
    """All samples, events and results of a soak, in a directory.

    Parameters
    ----------
    directory
        The directory; created with the first line.
    """

    directory: Path
    samples: list[SoakSample] = field(default_factory=list)
    events: list[SoakEvent] = field(default_factory=list)
    ledgers: dict[int, LedgerResult] = field(default_factory=dict)

    @classmethod
    def read(cls, directory: Path) -> SoakRecord:
        """Return the record in a directory; empty if there is none.

        Raises
        ------
        InputError
            It cannot be read.
        """
        record = cls(directory)
        try:
            content = (directory / RECORD).read_bytes() if (directory / RECORD).exists() else b""
        except OSError as error:
            raise InputError("soak", [Fault(error.strerror or str(error), str(directory / RECORD))]) from error
        for line in content.splitlines():
            with suppress(ValueError, KeyError, TypeError):  # the last line of an interrupted soak is incomplete
                record._take(_parsed(json.loads(line)))
        return record

    def add(self, entry: SoakSample | SoakEvent | LedgerResult) -> None:
        """Store an entry."""
        self._take(entry)
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / RECORD).open("ab") as file:
            if file.tell() and not _is_whole(self.directory / RECORD):
                file.write(b"\n")
            file.write(json.dumps(entry.to_dict()).encode() + b"\n")

    @property
    def elapsed_s(self) -> float:
        """Seconds of soaking so far."""
        return max((each.elapsed_s for each in self.samples), default=0.0)

    @property
    def sessions(self) -> int:
        """Number of sessions so far."""
        known = {each.session for each in self.samples} | {each.session for each in self.events}
        return max(known, default=0)

    def _take(self, entry: SoakSample | SoakEvent | LedgerResult) -> None:
        if isinstance(entry, SoakSample):
            self.samples.append(entry)
        elif isinstance(entry, SoakEvent):
            self.events.append(entry)
        else:
            self.ledgers[entry.session] = entry


def _parsed(raw: Mapping[str, Any]) -> SoakSample | SoakEvent | LedgerResult:
    types: dict[str, type[SoakSample | SoakEvent | LedgerResult]] = {
        "sample": SoakSample,
        "event": SoakEvent,
        "ledger": LedgerResult,
    }
    return types[raw["type"]].from_dict(raw)


def _is_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
