"""Measured time of each topology since its workers started: decisions need enough of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from stormwright.history.evaluation.observed_traffic import ObservedTraffic
from stormwright.history.evaluation.window import Slot
from stormwright.model import Problem
from stormwright.model.humanize import counted, listed

#: Windows that there have to be, however long they are.
MIN_WINDOWS = 4

#: Maximum number of topologies that are named while they are measured.
_NAMED = 3


@dataclass
class _Stretch:
    """Measurements of one generation of workers.

    `born_ms` is when the youngest one started, `from_ms` before when nothing counts, `counted_ms` up to where windows
    were counted, and `covered_s` what records of warm workers cover, by slot.
    """

    born_ms: int = 0
    from_ms: float = 0.0
    counted_ms: float = -1.0
    windows: int = 0
    covered_s: dict[Slot, float] = field(default_factory=dict)


@dataclass(frozen=True)
class MeasurementWait:
    """A topology of which more has to be measured before it may move.

    Parameters
    ----------
    measured_s, least_s
        Seconds measured since its workers started and warmed up, and sufficient seconds.
    windows
        Windows measured, where only these are too few; None otherwise.
    """

    measured_s: float
    least_s: float
    windows: int | None = None

    def __str__(self) -> str:
        """Return the reason as text."""
        measured = f"{self.measured_s:.0f} of {self.least_s:g} s"
        if self.windows is not None:
            measured = f"{self.windows} of {counted(MIN_WINDOWS, 'window')}"
        return f"{measured} measured since its workers started and warmed up"


def wait_texts(waits: Mapping[str, MeasurementWait | str]) -> list[str]:
    """Return why topologies (names) do not move yet, a sentence for each kind of reason."""
    return list(_wait_texts(waits))


def _wait_texts(waits: Mapping[str, MeasurementWait | str]) -> Iterator[str]:
    others: dict[str, list[str]] = {}
    measuring: list[str] = []
    left_s = 0.0
    for name, why in waits.items():
        if isinstance(why, MeasurementWait):
            measuring.append(name)
            left_s = max(left_s, why.least_s - why.measured_s)
        else:
            others.setdefault(why, []).append(name)
    if measuring:
        subject = listed(measuring) if len(measuring) <= _NAMED else counted(len(measuring), "topology")
        is_one = len(measuring) == 1
        yield f"{subject} {'is' if is_one else 'are'} being measured, about {max(left_s, 1.0):.0f} s to go"
    for why, names in others.items():
        yield f"{listed(names)}: {why}"


class MeasuredTopologies:
    """Counts the measured time of each topology.

    A new count begins when a worker starts, and when a topology that was paused goes on.

    Parameters
    ----------
    observed
        Counts of records in windows, from which measured time is summed.
    stored
        Result of `state`, possibly before a restart of the service; running workers were measured then.
    """

    def __init__(self, observed: ObservedTraffic, stored: Mapping[str, Any] | None = None) -> None:
        self._observed = observed
        self._of: dict[str, _Stretch] = {topology: _stretch(raw) for topology, raw in (stored or {}).items()}

    def update(self, problem: Problem) -> None:
        """Count new measurements since the last call."""
        for gone in self._of.keys() - problem.topology_index.keys():
            del self._of[gone]
        for topology in problem.topologies:
            stretch = self._of.setdefault(topology.id, _Stretch())
            for window in self._observed.since(topology.id, stretch.counted_ms + 1):
                stretch.counted_ms = window.start_ms
                if window.born_ms > stretch.born_ms:
                    stretch.born_ms, stretch.windows, stretch.covered_s = window.born_ms, 0, {}
                if window.start_ms >= stretch.from_ms and window.received and window.sample().is_warm:
                    stretch.windows += 1
                    for slot, seconds in window.covered_s.items():
                        stretch.covered_s[slot] = stretch.covered_s.get(slot, 0.0) + seconds

    def reset_topology(self, topology: str, now_ms: float) -> None:
        """Reset a topology's measurements, as it was paused."""
        known = self._of.get(topology, _Stretch())
        self._of[topology] = _Stretch(known.born_ms, now_ms, known.counted_ms)

    def waits(self, problem: Problem, least_s: float) -> dict[str, MeasurementWait]:
        """Return running topologies (ids) that have to be measured for longer.

        Parameters
        ----------
        problem
            Problem with the running placement.
        least_s
            Measured seconds after which a topology no longer waits.
        """
        found: dict[str, MeasurementWait] = {}
        for topology in problem.topologies:
            placement = problem.current.get(topology.id)
            if placement is None:
                continue
            stretch = self._of.get(topology.id, _Stretch())
            seconds = _seconds(stretch, [(slot.supervisor, slot.port) for slot in placement.slots])
            if seconds < least_s:
                found[topology.id] = MeasurementWait(seconds, least_s)
            elif stretch.windows < MIN_WINDOWS:
                found[topology.id] = MeasurementWait(seconds, least_s, stretch.windows)
        return found

    def state(self) -> dict[str, Any]:
        """Return the state for a restart of the service, as a JSON object."""
        return {
            topology: asdict(stretch) | {"covered_s": [[*slot, seconds] for slot, seconds in stretch.covered_s.items()]}
            for topology, stretch in self._of.items()
        }


def _seconds(stretch: _Stretch, slots: Collection[Slot]) -> float:
    return min((stretch.covered_s.get(slot, 0.0) for slot in slots), default=0.0)


def _stretch(raw: Mapping[str, Any]) -> _Stretch:
    covered_s = {(supervisor, int(port)): float(seconds) for supervisor, port, seconds in raw["covered_s"]}
    return _Stretch(**{**raw, "covered_s": covered_s})
