"""Sink of batches: quarantine, panes and ledger on disk, the newest measurement in memory."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import orjson
import pyarrow as pa

from stormwright.base.files import write_whole
from stormwright.perflog.records import MAX_CLOCK_AHEAD_MS
from stormwright.pipeline.measurement.measurement import Measurement, measure
from stormwright.pipeline.measurement.windows import PANES, with_more, worker_seconds
from stormwright.pipeline.monitoring.alarms import SecondsFeed
from stormwright.pipeline.parsing.clean import LineCounts
from stormwright.pipeline.parsing.quarantine import Quarantine
from stormwright.pipeline.parsing.source import remove_files, waiting_files
from stormwright.pipeline.plan import StreamBatch
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.streaming.progress import LiveState, Pane

# Closed panes -------------------------------------------------------------------------------------
# Interface for storing closed panes of a stream.


class ClosedPaneKeeper(Protocol):
    """Delivery of closed panes to the history, exactly once."""

    error: str | None
    """Why complete panes could not be written; None while they can."""

    def begin(self, batch: int) -> None:
        """Continue after `batch`, the last one in the stream's state."""
        ...

    def close(self, batch: int, panes: pa.Table) -> None:
        """Store the panes that a batch closes, before the state without them is saved."""
        ...

    def saved(self) -> None:
        """Confirm that the state is saved; panes closed before are valid."""
        ...


# State on disk ------------------------------------------------------------------------------------
# State of a stream on disk: a file for each table of a pane, and one that lists the valid files.

_MANIFEST = "state.json"
_SUFFIX = ".arrow"


def save(state: LiveState, directory: Path) -> None:
    """Replace the state on disk atomically: changed panes first, then the file that makes them valid.

    Raises
    ------
    OSError
        It cannot be written; the previous state stays valid.
    """
    directory.mkdir(parents=True, exist_ok=True)
    try:
        for start_ms, pane in state.panes.items():
            for table, path in zip(
                (pane.facts, pane.source_records), _paths(directory, start_ms, pane.batch), strict=True
            ):
                # There may be one that a batch of the same number wrote, which then did not come to count.
                if pane.batch == state.batch or not path.exists():
                    _write(table, path)
        about = {
            "batch": state.batch,
            "newest_ms": state.newest_ms,
            "ledger": asdict(state.ledger),
            "files": state.files,
            "panes": [[start_ms, pane.batch] for start_ms, pane in state.panes.items()],
        }
        write_whole(directory / _MANIFEST, orjson.dumps(about))
    finally:
        _tidy(directory)


def load(directory: Path) -> LiveState:
    """Return the state written by `save`; an empty state if there is none.

    Unreadable state (damaged or modified) is set aside, and the state is empty.
    """
    path = directory / _MANIFEST
    if not path.exists():
        return LiveState()
    try:
        return _loaded(directory, orjson.loads(path.read_bytes()))
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
        directory.rename(directory.with_name(f"{directory.name}-damaged-{time.time_ns()}"))
        return LiveState()


def take_over(before: Path, directory: Path) -> None:
    """Continue the state of the version before in `directory`, unless that has state already."""
    if before.is_dir() and not directory.exists():
        before.rename(directory)


def _loaded(directory: Path, about: dict[str, Any]) -> LiveState:
    return LiveState(
        batch=about["batch"],
        panes={
            start_ms: Pane(batch, _with_columns(facts, PANES), source_records)
            for start_ms, batch in about["panes"]
            for facts, source_records in [map(_read, _paths(directory, start_ms, batch))]
        },
        ledger=LineCounts(**about["ledger"]),
        newest_ms=about["newest_ms"],
        files=tuple(about["files"]),
    )


def _paths(directory: Path, start_ms: int, batch: int) -> tuple[Path, Path]:
    return (
        directory / f"{start_ms}-{batch}-facts{_SUFFIX}",
        directory / f"{start_ms}-{batch}-seen{_SUFFIX}",
    )


def _write(table: pa.Table, path: Path) -> None:
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with path.open("wb") as file:
        with pa.ipc.new_file(file, table.schema, options=options) as table_file:
            table_file.write_table(table)
        _to_disk(file)


def _to_disk(file: BinaryIO) -> None:
    """Sync a file to disk; the input of a batch is deleted next."""
    file.flush()
    os.fsync(file.fileno())


def _read(path: Path) -> pa.Table:
    with pa.ipc.open_file(path) as file:
        return file.read_all()


def _with_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with all columns of a schema; those that an older version did not write are null."""
    columns = (
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in schema
    )
    return pa.table(list(columns), schema=schema)


def _tidy(directory: Path) -> None:
    """Delete obsolete files: closed panes, and output of failed batches."""
    with suppress(OSError):  # then it is done next time
        panes = orjson.loads((directory / _MANIFEST).read_bytes())["panes"]
        counting = {path.name for start_ms, batch in panes for path in _paths(directory, start_ms, batch)}
        for path in directory.glob(f"*{_SUFFIX}"):
            if path.name not in counting:
                path.unlink()


# Sink ---------------------------------------------------------------------------------------------

#: Seconds for which the delays of records are stored, and of how many records of a batch at most.
LAGS_S, MAX_LAGS = 60.0, 5_000

#: The newest measurement is written as JSON at most for this share of the time.
LATEST_SHARE = 0.02


class ProfileSink:
    """Sink of the batches of a stream in order; its results can be read from other threads.

    A batch writes the quarantine first, then as one step panes, ledger and the names of its files, and then takes those
    files out of the landing directory. Whatever interrupts it, `waiting` brings it back to between two batches: files
    that count are gone, files that do not are there. Nothing that Spark notes about its progress is needed for that.

    Parameters
    ----------
    landing, raw
        Directory of landed files, and directory of retained processed files.
    directory
        Directory of the stored state.
    latest
        File for the newest measurement as JSON.
    settings
        Settings of the stream.
    history
        Receives closed panes; None to drop them.
    feed
        Receives the seconds of nodes for alarms; None for no alarms.
    """

    def __init__(
        self,
        landing: Path,
        raw: Path,
        directory: Path,
        latest: Path,
        settings: StreamSettings,
        history: ClosedPaneKeeper | None = None,
        feed: SecondsFeed | None = None,
    ) -> None:
        self._settings = settings
        self._landing, self._raw = landing, raw
        self._panes = directory / "panes"
        self._latest = latest
        self._latest_due = 0.0
        self.quarantine = Quarantine(directory / "quarantine")
        #: When a batch was measured (`time.monotonic`), and the delays of its records in ms.
        self._lags: deque[tuple[float, np.ndarray]] = deque()
        was_stored = (self._panes / _MANIFEST).exists()
        # After records of a clock that was ahead all others would be late until then.
        self.state = load(self._panes).until(round(time.time() * 1000) + MAX_CLOCK_AHEAD_MS)
        if was_stored and self.state.batch < 0:
            self.quarantine.archive_batches()
        #: Whether the files of the last batch are gone.
        self._removed = False
        self.closed = history
        if history:
            history.begin(self.state.batch)
        self._seconds = worker_seconds(self.state.facts())
        self.measurement: Measurement | None = measure(self.state.facts(), self._seconds, settings)
        #: When the last batch was measured (`time.monotonic`); None before.
        self.measured_s: float | None = None
        self._feed = feed
        #: Known cores of the nodes, by supervisor.
        self.capacity_cores: Mapping[str, float] = {}

    def waiting(self, most: int) -> list[Path]:
        """Return the landed files that are in no batch yet, the `most` oldest of them.

        Raises
        ------
        OSError
            Files of the last batch cannot be taken out of the landing directory.
        """
        self._remove_files()
        return waiting_files(self._landing, most)

    def take(self, output: StreamBatch, again: bool = False) -> None:
        """Process the output of one batch.

        With `again` an earlier state has included it already: the panes that it closes are in the history.
        """
        batch = self.state.batch + 1
        facts, audit, files = output
        self.quarantine.keep(batch, audit)
        state = self.state.after(batch, facts, audit, files, self._settings)
        seconds = with_more(self._seconds, worker_seconds(facts), self._settings.history_s)
        measurement = measure(state.facts(), seconds, self._settings)
        closed = None if again else self.closed
        if closed:
            closed.close(batch, state.closed)
        save(state, self._panes)
        # From here on it counts: whatever fails now must not repeat it.
        self._seconds, self.measurement, self.state, self._removed = seconds, measurement, state, False
        self.measured_s = time.monotonic()
        if closed:
            closed.saved()
        self._remove_files()
        self._note_lags(audit["written_ms"].filter(audit["new"]).to_numpy())
        if self._feed and measurement:
            self._feed.write(measurement.node_series, self.capacity_cores)
        if time.monotonic() >= self._latest_due:
            self.write_latest()

    def _remove_files(self) -> None:
        """Take the files of the last batch out of the landing directory."""
        if not self._removed:
            remove_files(self._landing, self.state.files, self._raw if self._settings.keep_raw_s else None)
            self._removed = True

    def _note_lags(self, written_ms: np.ndarray) -> None:
        """Store the delays of the records of a batch that has just been measured."""
        some = written_ms[:: 1 + len(written_ms) // MAX_LAGS]
        now_s = time.monotonic()
        self._lags.append((now_s, time.time() * 1000 - some))
        while self._lags[0][0] < now_s - LAGS_S:
            self._lags.popleft()

    def lag_ms(self) -> dict[str, float]:
        """Return quantiles of the time from a record's writing until a profile held it, for the last minute."""
        lags = np.concatenate([[], *(lags for _, lags in list(self._lags))])
        return {f"p{share}": float(np.percentile(lags, share)) for share in (50, 95)} if len(lags) else {}

    def write_latest(self) -> None:
        """Write the newest measurement as JSON."""
        if self.measurement is None:
            return
        begun = time.monotonic()
        document: dict[str, Any] = {
            "batch": self.state.batch,
            "ledger": asdict(self.state.ledger),
            **self.measurement.as_dict(self.capacity_cores),
        }
        temporary = self._latest.with_name(f".{self._latest.name}")
        # The file is informational: a full disk must not fail a completed batch.
        with suppress(OSError):
            temporary.write_bytes(orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS))
            temporary.replace(self._latest)
        ended = time.monotonic()
        self._latest_due = ended + (ended - begun) / LATEST_SHARE
