"""Processing of delivered records."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from stormwright.controller.tally import Tally
from stormwright.gc_pause import collection_paused
from stormwright.perflog.landing import Landing
from stormwright.perflog.records import LogRecord, RejectedLine, parse_lines
from stormwright.service.on_change import OnChange
from stormwright.service.storage.calibration import CostCalibration
from stormwright.service.storage.history import ServiceHistory

log = logging.getLogger(__name__)


class Intake:
    """Stores deliveries on disk, valid or not, and then counts their valid records.

    Parameters
    ----------
    landing
        Stores the deliveries.
    tally, history, calibration
        Count records, each once.
    watchers
        Called with the new records.
    """

    def __init__(
        self,
        landing: Landing,
        tally: Tally,
        history: ServiceHistory,
        calibration: CostCalibration | None = None,
        watchers: Sequence[Callable[[Sequence[LogRecord]], None]] = (),
    ) -> None:
        self._landing = landing
        self._tally = tally
        self._history = history
        self._calibration, self._watchers = calibration, watchers
        self._log_changed = OnChange(log.error)
        #: Why the last deliveries could not be stored; empty if they could.
        self.storing_error = ""

    def take(self, bodies: Sequence[bytes]) -> None:
        """Store deliveries; when this returns they are safe on disk.

        Raises
        ------
        OSError
            They could not be stored.
        """
        try:
            self._landing.write(_lines(bodies))
        except OSError as error:
            self.storing_error = error.strerror or str(error)
            raise
        self.storing_error = ""

    def count(self, bodies: Sequence[bytes]) -> None:
        """Count durable deliveries; failures are logged, and do not affect durability."""
        try:
            # Of thousands of records, which are gone at once, there is nothing to collect.
            with collection_paused():
                records = (record for record in parse_lines(_lines(bodies)) if not isinstance(record, RejectedLine))
                new = self._tally.add(records)
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


def _lines(bodies: Sequence[bytes]) -> list[bytes]:
    return [line for body in bodies for line in body.split(b"\n")]
