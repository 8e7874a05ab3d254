"""What becomes of a delivery of records."""

from __future__ import annotations

from collections.abc import Sequence

from stormwright.controller.tally import Tally
from stormwright.perflog.landing import Landing
from stormwright.perflog.records import Rejected, parse_lines
from stormwright.service.kept.history import History


class Intake:
    """Keeps deliveries: on disk first, whatever they hold, then in the live counts what is valid."""

    def __init__(self, landing: Landing, tally: Tally, history: History) -> None:
        self._landing = landing
        self._tally = tally
        self._history = history

    def take(self, bodies: Sequence[bytes]) -> None:
        """Take deliveries; when this returns they are safe on disk.

        Raises
        ------
        OSError
            They are not.
        """
        lines = [line for body in bodies for line in body.split(b"\n")]
        self._landing.write(lines)
        new = self._tally.add(record for record in parse_lines(lines) if not isinstance(record, Rejected))
        self._history.count(new)
