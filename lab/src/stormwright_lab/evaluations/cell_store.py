"""Store of cell results, one JSON line each; the next run resumes after the last whole line."""

from __future__ import annotations

import gzip
import logging
import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from stormwright.base.files import write_whole
from stormwright.errors import Fault, InputError
from stormwright.model.humanize import counted
from stormwright.perflog.records import LogRecord
from stormwright_lab.evaluations.cells import Cell

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CellOutcome:
    """Result of a cell.

    Parameters
    ----------
    figures
        Values of each figure by stretch.
    details
        Further data: full resources, speed of the machine, …
    placement
        Node (from 0 in the order of names) and port of every executor, topology by topology.
    problem
        Snapshot with load (a problem document), of a cell that provides it to others.
    rate_tps
        Rate for the other cells; 0 for the maximum.
    records
        Records of the performance log during the measurement; not part of a stored result.
    """

    figures: Mapping[str, Sequence[float]]
    details: Mapping[str, Any] = field(default_factory=dict)
    placement: Sequence[Sequence[tuple[int, int]]] = ()
    problem: Mapping[str, Any] | None = None
    rate_tps: float = 0.0
    records: Sequence[LogRecord] = field(default=(), compare=False)


class CellStore:
    """Completed cells in a file, and those that failed at their last attempt.

    Parameters
    ----------
    path
        File of JSON lines; created with the first cell. Records of the performance log are beside it, in
        ``records/KEY.jsonl.gz``.
    forgotten
        Keys of cells to measure again; if the file has any of them, its old version remains as ``….old``.

    Raises
    ------
    InputError
        The file cannot be read or replaced.
    """

    def __init__(self, path: Path, forgotten: Collection[str] = ()) -> None:
        self._path = path
        self.found: dict[str, CellOutcome] = {}
        self.errors: dict[str, str] = {}
        try:
            data = path.read_bytes() if path.exists() else b""
            lines = [line for line in data.splitlines() if line.strip()]
            left = [line for line in lines if _key(line) not in forgotten]
            if len(left) < len(lines):
                path.with_name(f"{path.name}.old").write_bytes(data)
                data = b"".join(line + b"\n" for line in left)
                write_whole(path, data)
        except OSError as error:
            raise InputError("experiment", [Fault(error.strerror or str(error), str(path))]) from error
        self._whole = not data or data.endswith(b"\n")
        broken = sum(not self._take(line) for line in left)
        if broken:
            log.warning("%s: %s skipped: incomplete", path, counted(broken, "line"))

    def _take(self, line: bytes) -> bool:
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            document = orjson.loads(line)
            key = str(document["key"])
            if "error" in document:
                self.errors[key] = str(document["error"])
                return True
            figures = {str(name): [float(each) for each in values] for name, values in document["figures"].items()}
            details, rate = dict(document.get("details", {})), float(document.get("rate_tps", 0.0))
            placement = [[(int(n), int(p)) for n, p in each] for each in document.get("placement", ())]
            self.found[key] = CellOutcome(figures, details, placement, document.get("problem"), rate)
            self.errors.pop(key, None)
            return True
        return False

    def add(self, cell: Cell, found: CellOutcome | str) -> None:
        """Store the result of a cell, or its failure; on disk when this returns.

        Raises
        ------
        InputError
            It cannot be written.
        """
        document: dict[str, Any] = {"key": cell.key, "cell": cell.name, "by": cell.placed_by.text, "seed": cell.repeat}
        document |= {"ended_ms": time.time_ns() // 10**6, "load_1min": os.getloadavg()[0]}
        if isinstance(found, str):
            document["error"] = found
        else:
            document |= {"figures": found.figures, "details": found.details, "placement": found.placement}
            document |= {"rate_tps": found.rate_tps, "problem": found.problem}
        line = (b"" if self._whole else b"\n") + orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if not isinstance(found, str) and found.records:
                self._store_records(cell.key, found.records)
            with self._path.open("ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError("experiment", [Fault(error.strerror or str(error), str(self._path))]) from error
        self._whole = True
        self._take(line.strip())

    def records(self, key: str) -> list[LogRecord]:
        """Return the records of the performance log of a cell; none if they are not stored."""
        path = self._records_path(key)
        return [orjson.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()] if path.exists() else []

    def _records_path(self, key: str) -> Path:
        return self._path.parent / "records" / f"{key}.jsonl.gz"

    def _store_records(self, key: str, records: Sequence[LogRecord]) -> None:
        path = self._records_path(key)
        path.parent.mkdir(exist_ok=True)
        write_whole(path, gzip.compress(b"".join(orjson.dumps(each) + b"\n" for each in records)))


def _key(line: bytes) -> str | None:
    with suppress(ValueError, KeyError, TypeError):
        return str(orjson.loads(line)["key"])
    return None
