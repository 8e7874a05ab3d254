"""Where batches end: quarantine, panes and ledger on disk, the newest measurement in memory."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from pyspark.sql import DataFrame

from stormwright.pipeline.lines.quarantine import Quarantine
from stormwright.pipeline.lines.source import take_away
from stormwright.pipeline.measure.measurement import Measurement, measure
from stormwright.pipeline.panes.windows import with_more, worker_seconds
from stormwright.pipeline.plan import batch_of
from stormwright.pipeline.run import state_files
from stormwright.pipeline.run.closed import ClosedPaneKeeper
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.watch.alarm_feed import SecondsFeed

#: Records whose delay is remembered.
LAGS_KEPT = 5_000

#: The newest measurement is written as JSON at most for this share of the time.
LATEST_SHARE = 0.02


class ProfileSink:
    """Takes the batches of a stream in order; what it knows may be read from other threads.

    A batch writes the quarantine first, then as one step panes, ledger and the names of its files, and then takes those
    files out of the landing directory. Whatever ends the process, `begin` brings it back to between two batches: files
    that count are gone, files that do not are there. Nothing that Spark notes about its progress is needed for that.

    Parameters
    ----------
    landing, raw
        Where files come from, and where those that were processed go if they are kept.
    directory
        Where the state of earlier runs is, and goes.
    latest
        File for the newest measurement as JSON.
    settings
        Of the stream.
    history
        Takes the panes that batches close; None where nobody keeps them.
    feed
        Where the seconds of nodes go for the alarms; None for no alarms.
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
        self._busy = threading.Lock()
        self._turn = 0
        self.quarantine = Quarantine(directory / "quarantine")
        self._lags_ms: deque[float] = deque(maxlen=LAGS_KEPT)
        self.state = state_files.load(self._panes)
        self.closed = history
        if history:
            history.begin(self.state.batch)
        self._seconds = worker_seconds(self.state.facts())
        self.measurement: Measurement | None = measure(self.state.facts(), self._seconds, settings)
        self.updated: float | None = None
        self._feed = feed
        #: Cores of the nodes, by supervisor, as far as somebody has told.
        self.capacity_cores: Mapping[str, float] = {}

    def begin(self) -> Callable[[DataFrame, int], None]:
        """Get ready for a query over what is in the landing directory; the function is for its batches.

        Batches of queries before it are not taken any more.
        """
        self.end()
        turn = self._turn
        take_away(self._landing, self.state.files, self._kept_in())

        def take_in_turn(rows: DataFrame, _: int) -> None:
            with self._busy:
                # A query that was stopped may have one more on its way.
                if turn == self._turn:
                    self.take(rows)

        return take_in_turn

    def end(self) -> None:
        """Wait for the batch that is under way, and take no further one."""
        with self._busy:
            self._turn += 1

    def take(self, rows: DataFrame, again: bool = False) -> None:
        """Take one batch of what is `stormwright.pipeline.plan.prepared`.

        With `again` a state before this one has taken it already: what it closes is in the history.
        """
        batch = self.state.batch + 1
        facts, audit = batch_of(rows, self.state, self._settings)
        self.quarantine.keep(batch, audit)
        state = self.state.after(batch, facts, audit, self._settings)
        seconds = with_more(self._seconds, worker_seconds(facts), self._settings.history_s)
        measurement = measure(state.facts(), seconds, self._settings)
        closed = None if again else self.closed
        if closed:
            closed.close(batch, state.closed)
        state_files.save(state, self._panes)
        # From here on it counts.
        if closed:
            closed.saved()
        self._seconds, self.measurement, self.state = seconds, measurement, state
        if self._feed and measurement:
            self._feed.write(measurement.node_series, self.capacity_cores)
        self.updated = time.time()
        written_ms = audit["written_ms"].filter(audit["new"])
        self._lags_ms.extend(self.updated * 1000 - ms for ms in written_ms.to_pylist())
        if time.monotonic() >= self._latest_due:
            self.write_latest()
        take_away(self._landing, state.files, self._kept_in())

    def lag_ms(self) -> dict[str, float]:
        """Quantiles of the time from a record's writing until a profile held it, over the last records."""
        lags = list(self._lags_ms)
        return {f"p{share}": float(np.percentile(lags, share)) for share in (50, 95)} if lags else {}

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
        # It is for people to look at: a full disk must not end a batch that has been booked.
        with suppress(OSError):
            temporary.write_bytes(orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS))
            temporary.replace(self._latest)
        ended = time.monotonic()
        self._latest_due = ended + (ended - begun) / LATEST_SHARE

    def _kept_in(self) -> Path | None:
        return self._raw if self._settings.keep_raw_s else None
