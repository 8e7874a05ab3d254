"""Measured time of each topology since its workers started: decisions need enough of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from stormwright.history.evaluation.window import ObservedTraffic, Slot
from stormwright.model import Problem
from stormwright.model.humanize import counted

#: Windows that there have to be, however long they are.
LEAST_WINDOWS = 4


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


class MeasuredTopologies:
    """Counts the measured time of each topology.

    A new count begins when a worker starts, and when a topology that was paused goes on.

    Parameters
    ----------
    observed
        Windows of topologies.
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

    def waits(self, problem: Problem, least_s: float) -> dict[str, str]:
        """Return a text by running topology about the time still to be measured.

        Parameters
        ----------
        problem
            Problem with the running placement.
        least_s
            Sufficient seconds.
        """
        found = {}
        for topology in problem.topologies:
            placement = problem.current.get(topology.id)
            if placement is None:
                continue
            stretch = self._of.get(topology.id, _Stretch())
            seconds = _seconds(stretch, [(slot.supervisor, slot.port) for slot in placement.slots])
            if seconds < least_s:
                found[topology.id] = f"{seconds:.0f} of {least_s:g} s measured since its workers started and warmed up"
            elif stretch.windows < LEAST_WINDOWS:
                windows = counted(LEAST_WINDOWS, "window")
                found[topology.id] = f"{stretch.windows} of {windows} measured since its workers started and warmed up"
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
