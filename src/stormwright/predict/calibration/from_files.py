"""Costs fitted to files of the performance log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from stormwright.errors import Fault, InputError, MissingDependencyError
from stormwright.formats.files.json_files import opened, source_of
from stormwright.perflog.landing import COLUMNS_SUFFIX
from stormwright.perflog.records import LogRecord, RejectedLine, parse_lines
from stormwright.perflog.schema import IDENTITY
from stormwright.predict.calibration.calibration import Calibration, calibrated, learn
from stormwright.predict.calibration.evidence import Evidence
from stormwright.predict.calibration.windows import MIN_COVERED, WARM_S, WINDOW_S, Windows

#: Seconds of windows that are fitted together.
_MINUTE_MS = 60_000


@dataclass(frozen=True)
class FileFit:
    """Result of a fit to files.

    Parameters
    ----------
    calibration
        Fitted costs with intervals.
    lines, rejected, twice
        Number of lines, of lines that are not records, and of duplicate records.
    reason
        Why the first rejected line is invalid; empty if none is.
    """

    calibration: Calibration
    lines: int
    rejected: int
    twice: int
    reason: str


def from_files(files: Iterable[Path]) -> FileFit:
    """Fit costs to all records in files, without duplicates.

    Raises
    ------
    InputError
        A file cannot be read, or the files have no usable records.
    """
    windows, known, reading = Windows(), Evidence(), _RecordReader()
    names = list(files)
    windows.add(reading.records(names))
    over = windows.closed(all_of_them=True)
    for _, minute in groupby(over, lambda window: window.start_ms // _MINUTE_MS):
        learn(known, list(minute))
    if not known.workers:
        source = source_of(names[0]) if len(names) == 1 else "records"
        raise InputError(source, [Fault(_why_nothing(reading, windows), "$")])
    return FileFit(calibrated(known), reading.lines, reading.rejected, reading.twice, reading.reason)


class _RecordReader:
    """Reader of records without duplicates that counts the rest."""

    def __init__(self) -> None:
        self.lines = self.rejected = self.twice = 0
        self.reason = ""
        self._identities: set[tuple[object, ...]] = set()

    def records(self, files: Iterable[Path]) -> Iterator[LogRecord]:
        for path in files:
            for record in _results(path):
                self.lines += 1
                if isinstance(record, RejectedLine):
                    self.rejected += 1
                    self.reason = self.reason or record.reason
                elif self._is_new(record):
                    yield record

    def _is_new(self, record: LogRecord) -> bool:
        identity = (*(record["worker"][name] for name in IDENTITY), record["seq"], record["start_ms"])
        if identity in self._identities:
            self.twice += 1
            return False
        self._identities.add(identity)
        return True


def _results(path: Path) -> Iterator[LogRecord | RejectedLine]:
    with opened(path) as file:
        yield from _landed_results(path) if path.suffix == COLUMNS_SUFFIX else parse_lines(file)


def _landed_results(path: Path) -> Iterator[LogRecord | RejectedLine]:
    try:
        from stormwright.perflog.columns import landed_results
    except ImportError as error:
        raise MissingDependencyError(f"{path} needs pyarrow: pip install 'stormwright[spark]'") from error
    yield from landed_results(path)


def _why_nothing(reading: _RecordReader, windows: Windows) -> str:
    if not reading.lines:
        return "is empty; records of the performance log are expected, a line each"
    if reading.rejected == reading.lines:
        return f"holds no record of the performance log: {reading.reason}"
    if not windows.taken:
        if windows.without_threads:
            return "its records lack threads: they are from an older probe, or not from Linux"
        return "holds only the last records of workers, which are cut short"
    return (
        f"no worker was warm for long enough: {WARM_S:g} s after its start, heard of for {MIN_COVERED:.0%} of "
        f"{WINDOW_S:g} s, with little left to compile"
    )
