"""The alarms that are up and those that have ended, kept on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
from pyspark.sql import DataFrame

from stormwright.files import write_whole
from stormwright.state_files import unless_damaged

#: What happens to an episode.
RAISED, ENDED = "raised", "ended"

#: Ended episodes that are remembered.
KEPT = 100


@dataclass(frozen=True)
class Alarm:
    """An episode that has an alarm.

    Parameters
    ----------
    start_s
        First second over the capacity, since 1970.
    end_s
        First second that is not; of an alarm that is up when it was raised.
    peak_cores, capacity_cores
        The most cores that were in use, and what there is.
    """

    supervisor: str
    start_s: int
    end_s: int
    peak_cores: float
    capacity_cores: float

    def __str__(self) -> str:
        return f"at or over its {self.capacity_cores:g} cores, up to {self.peak_cores:.2f} in use"


class AlarmLog:
    """Takes the batches of events in order; on disk, so that a restart neither forgets an alarm nor raises it again.

    Parameters
    ----------
    path
        Its file. One that is damaged, as after a loss of power, is put aside, and its alarms are forgotten.
    tell
        Called with every alarm that is raised, from the query's thread.
    """

    def __init__(self, path: Path, tell: Callable[[Alarm], None]) -> None:
        self._path, self._tell = path, tell
        self._batch, self.raised = -1, 0
        self.up: dict[str, Alarm] = {}
        self.ended: list[Alarm] = []
        unless_damaged(path, self._load, lambda: None, "alarms before now are forgotten")

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Take one batch of `events`."""
        rows = frame.toArrow().to_pylist()  # runs the query, which a repeated batch needs as well
        if batch <= self._batch:
            return
        # A node's alarm ends before its next one is raised.
        alarms = [(row.pop("event"), Alarm(**row)) for row in sorted(rows, key=_in_time)]
        up, ended = dict(self.up), list(self.ended)
        for event, alarm in alarms:
            if event == RAISED:
                up[alarm.supervisor] = alarm
            else:
                up.pop(alarm.supervisor, None)
                ended.append(alarm)
        new = [alarm for event, alarm in alarms if event == RAISED]
        before = self._batch, self.up, self.ended, self.raised
        self._batch, self.up, self.ended, self.raised = batch, up, ended[-KEPT:], self.raised + len(new)
        try:
            self._save()
        except OSError:
            # The query repeats the batch, whose alarms nobody has been told.
            self._batch, self.up, self.ended, self.raised = before
            raise
        for alarm in new:
            self._tell(alarm)

    def as_dict(self) -> dict[str, Any]:
        """For the status: alarms that are up, those that ended last, and how many there were in all."""
        return {
            "up": [asdict(alarm) for alarm in self.up.values()],
            "ended": [asdict(alarm) for alarm in self.ended],
            "raised": self.raised,
        }

    def _load(self) -> None:
        known = orjson.loads(self._path.read_bytes())
        up = [Alarm(**alarm) for alarm in known["up"]]
        ended = [Alarm(**alarm) for alarm in known["ended"]]
        self._batch, self.raised = known["batch"], known["raised"]
        self.up, self.ended = {alarm.supervisor: alarm for alarm in up}, ended

    def _save(self) -> None:
        write_whole(self._path, orjson.dumps({"batch": self._batch, **self.as_dict()}))


def _in_time(row: Mapping[str, Any]) -> tuple[int, bool]:
    return row["start_s"], row["event"] == ENDED
