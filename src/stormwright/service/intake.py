"""Processing of delivered records."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import pyarrow as pa

from stormwright.base.clock import WALL, Clock
from stormwright.base.gc_pause import collection_paused
from stormwright.controller.tally import Tally
from stormwright.perflog.columns import ParsedRows, RecordLanding, parsed_rows
from stormwright.perflog.records import LogRecord
from stormwright.service.on_change import OnChange
from stormwright.service.storage.calibration import CostCalibration
from stormwright.service.storage.history import ServiceHistory

log = logging.getLogger(__name__)


class Intake:
    """Stores deliveries on disk, valid or not, and then counts their valid records. Each line is parsed once.

    Parameters
    ----------
    landing
        Directory writer that stores deliveries durably.
    tally, history, calibration
        Count records, each once.
    watchers
        Called with the new records.
    late_s
        Seconds after which a record is late, so that its line is stored as it came.
    clock
        Clock that gives the landing time of each line.
    """

    def __init__(
        self,
        landing: RecordLanding,
        tally: Tally,
        history: ServiceHistory,
        calibration: CostCalibration | None = None,
        watchers: Sequence[Callable[[Sequence[LogRecord]], None]] = (),
        late_s: float = 0.0,
        clock: Clock = WALL,
    ) -> None:
        self._landing = landing
        self._tally = tally
        self._history = history
        self._calibration, self._watchers = calibration, watchers
        self._late_s, self._clock = late_s, clock
        self._log_changed = OnChange(log.error)
        #: Why the last deliveries could not be stored; empty if they could.
        self.storing_error = ""

    def parse(self, bodies: Sequence[bytes]) -> ParsedRows:
        """Parse deliveries, without an effect."""
        lines = [line for body in bodies for line in body.split(b"\n") if line.strip()]
        # Of thousands of records, which are gone at once, there is nothing to collect.
        with collection_paused():
            return parsed_rows(lines, [round(self._clock.time() * 1000)] * len(lines), self._late_s)

    def store(self, parsed: Sequence[ParsedRows]) -> None:
        """Store deliveries; when this returns they are safe on disk.

        Raises
        ------
        OSError
            They could not be stored.
        """
        try:
            self._landing.write(pa.concat_tables(each.table for each in parsed))
        except OSError as error:
            self.storing_error = error.strerror or str(error)
            raise
        self.storing_error = ""

    def count(self, parsed: ParsedRows) -> None:
        """Count durable deliveries; failures are logged, and do not affect durability."""
        try:
            with collection_paused():
                new = self._tally.add(parsed.records)
                self._history.count(new)
                if self._calibration:
                    self._calibration.count(new)
                for watch in self._watchers:
                    watch(new)
        except Exception as error:  # were they refused now, they would come again, and be on disk twice
            self._log_changed(f"records on disk are missing in the live counts: {type(error).__name__}: {error}")
            log.debug("what failed", exc_info=error)
        else:
            self._log_changed.over()
