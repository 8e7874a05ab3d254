"""Persistent log of active and ended alarms."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
from pyspark.sql import DataFrame

from stormwright.base.documents import Document, FileDocument, read_or_default

log = logging.getLogger(__name__)


#: Events of an episode.
RAISED, ENDED = "raised", "ended"

#: Number of ended episodes stored.
MAX_ENDED = 100


@dataclass(frozen=True)
class Alarm:
    """An episode that has an alarm.

    Parameters
    ----------
    start_s
        First second over the capacity, since 1970.
    end_s
        First second that is not over; for an active alarm, the time when it was raised.
    peak_cores, capacity_cores
        Maximum cores in use, and capacity.
    """

    supervisor: str
    start_s: int
    end_s: int
    peak_cores: float
    capacity_cores: float

    def __str__(self) -> str:
        return f"at or over its {self.capacity_cores:g} cores, up to {self.peak_cores:.2f} in use"


class AlarmLog:
    """Persistent log of alarms, so that a restart neither loses nor repeats one; takes batches of events in order.

    A batch may come again, even with other events: an alarm is known by its node and its first second.

    Parameters
    ----------
    path
        File of the log. A damaged one, as after a loss of power, is set aside, and its alarms are lost.
    on_alarm
        Called with every new alarm, from the query's thread.
    """

    def __init__(self, path: Path, on_alarm: Callable[[Alarm], None]) -> None:
        self._document: Document = FileDocument(path)
        self._on_alarm = on_alarm
        self.raised = 0
        self.up: dict[str, Alarm] = {}
        self.ended: list[Alarm] = []
        read_or_default(self._document, self._load, lambda: None, "past alarms are lost")

    def __call__(self, frame: DataFrame, batch: int) -> None:  # noqa: ARG002
        """Process one batch of `events`."""
        rows = frame.toArrow().to_pylist()
        # A node's alarm ends before its next one is raised.
        alarms = [(row.pop("event"), Alarm(**row)) for row in sorted(rows, key=_in_time)]
        up, ended = dict(self.up), list(self.ended)
        known = {(alarm.supervisor, alarm.start_s) for alarm in (*up.values(), *ended)}
        past = {(alarm.supervisor, alarm.start_s) for alarm in ended}
        new = []
        for event, alarm in alarms:
            key = alarm.supervisor, alarm.start_s
            if event == RAISED and key not in known:
                up[alarm.supervisor] = alarm
                new.append(alarm)
            elif event == ENDED and key not in past:
                up.pop(alarm.supervisor, None)
                ended.append(alarm)
        before = self.up, self.ended, self.raised
        self.up, self.ended, self.raised = up, ended[-MAX_ENDED:], self.raised + len(new)
        try:
            self._save()
        except OSError:
            # The query repeats the batch, whose alarms were not reported.
            self.up, self.ended, self.raised = before
            raise
        for alarm in new:
            try:
                self._on_alarm(alarm)
            except Exception:  # it is in the log, and others have to be reported
                log.exception("an alarm of %s was not reported", alarm.supervisor)

    def as_dict(self) -> dict[str, Any]:
        """Return active alarms, the most recent ended ones, and the total, for the status page."""
        return {
            "up": [asdict(alarm) for alarm in self.up.values()],
            "ended": [asdict(alarm) for alarm in self.ended],
            "raised": self.raised,
        }

    def _load(self, text: str) -> None:
        known = orjson.loads(text)
        up = [Alarm(**alarm) for alarm in known["up"]]
        ended = [Alarm(**alarm) for alarm in known["ended"]]
        self.raised = known["raised"]
        self.up, self.ended = {alarm.supervisor: alarm for alarm in up}, ended

    def _save(self) -> None:
        self._document.save(orjson.dumps(self.as_dict()).decode())


def _in_time(row: Mapping[str, Any]) -> tuple[int, bool]:
    return row["start_s"], row["event"] == ENDED
