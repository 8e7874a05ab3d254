"""What becomes of a delivery of records."""

from __future__ import annotations

from stormwright.controller.tally import Tally
from stormwright.perflog.landing import Landing
from stormwright.perflog.records import Rejected, parse_lines
from stormwright.service.history import History


class Intake:
    """Keeps deliveries: on disk first, whatever they hold, then in the live counts what is valid."""

    def __init__(self, landing: Landing, tally: Tally, history: History) -> None:
        self._landing = landing
        self._tally = tally
        self._history = history

    def take(self, body: bytes) -> None:
        """Take a delivery; when this returns it is safe on disk."""
        lines = body.split(b"\n")
        self._landing.write(lines)
        new = self._tally.add(record for record in parse_lines(lines) if not isinstance(record, Rejected))
        self._history.count(new)
