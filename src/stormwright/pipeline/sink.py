"""Where batches end: quarantine, panes and ledger on disk, the newest measurement in memory."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from stormwright.pipeline.alarm_feed import SecondsFeed
from stormwright.pipeline.live import LiveState
from stormwright.pipeline.measurement import Measurement, measure
from stormwright.pipeline.plan import unpacked
from stormwright.pipeline.quarantine import Quarantine
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.windows import with_history, worker_seconds

#: Records whose delay is remembered.
LAGS_KEPT = 5_000


class ProfileSink:
    """Takes the batches of the stream in order; what it knows may be read from other threads.

    Each batch writes the quarantine first and then, in one file, panes and ledger. So a batch that is repeated after
    a crash either finds no trace of itself but a quarantine file that it replaces, or is known and changes nothing.

    Parameters
    ----------
    directory
        Where the state of earlier runs is, and goes.
    fresh
        Forget it.
    latest
        File for the newest measurement as JSON.
    feed
        Where the seconds of nodes go for the alarms.
    """

    def __init__(
        self,
        directory: Path,
        fresh: bool,
        latest: Path,
        settings: StreamSettings,
        feed: SecondsFeed | None = None,
    ) -> None:
        self._settings = settings
        self._state_path = directory / "panes.arrow"
        self._latest = latest
        self.quarantine = Quarantine(directory / "quarantine")
        self._lags_ms: deque[float] = deque(maxlen=LAGS_KEPT)
        self.state = LiveState() if fresh else LiveState.load(self._state_path)
        self._seconds = worker_seconds(self.state.panes)
        self.measurement: Measurement | None = measure(self.state.panes, self._seconds, settings)
        self.updated: float | None = None
        self._feed = feed
        #: Cores of the nodes, by supervisor, as far as somebody has told.
        self.capacity_cores: Mapping[str, float] = {}

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Take one batch of `stormwright.pipeline.plan.packed`."""
        # Collecting runs Spark's stateful operators: a batch that is known already has to be collected as well.
        facts, audit = unpacked(frame.toArrow())
        if batch <= self.state.batch:
            return
        audit = self.state.routed(audit, self._settings)
        self.quarantine.keep(batch, audit)
        state = self.state.after(batch, facts, audit, self._settings)
        state.save(self._state_path)
        self._seconds = with_history(worker_seconds(state.panes), self._seconds, self._settings.history_s)
        self.measurement = measure(state.panes, self._seconds, self._settings)
        self.state = state
        if self._feed and self.measurement:
            self._feed.write(self.measurement.node_series, self.capacity_cores)
        self._write_latest()
        self.updated = time.time()
        self._note_lags(audit)

    def lag_ms(self) -> dict[str, float]:
        """Quantiles of the time from a record's writing until a profile held it, over the last records."""
        lags = list(self._lags_ms)
        return {f"p{share}": float(np.percentile(lags, share)) for share in (50, 95)} if lags else {}

    def _write_latest(self) -> None:
        if self.measurement is None:
            return
        document: dict[str, Any] = {
            "batch": self.state.batch,
            "ledger": asdict(self.state.ledger),
            **self.measurement.as_dict(self.capacity_cores),
        }
        temporary = self._latest.with_name(f".{self._latest.name}")
        temporary.write_bytes(orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS))
        temporary.replace(self._latest)

    def _note_lags(self, audit: pa.Table) -> None:
        now_ms = time.time() * 1000
        written: Iterable[int] = audit.filter(pc.is_valid(audit["start_ms"]))["written_ms"].to_pylist()
        self._lags_ms.extend(now_ms - written_ms for written_ms in written)
