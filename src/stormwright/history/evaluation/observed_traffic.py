"""Activity of topologies, window by window, counted from arriving records.

The pipeline's loads spread what follows the placement by the model of Storm's groupings. To evaluate that model, the
tuples that really crossed between nodes are counted here: a record has their number for each target task. Completed
trees and their latencies are counted as well, to compare a placement with its prediction.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Reversible
from dataclasses import dataclass, field

from stormwright.base.clock import WALL, Clock
from stormwright.history.evaluation.window import EvaluationWindow, Slot
from stormwright.perflog.crossing import TaskNodes, crossing
from stormwright.perflog.records import MAX_CLOCK_AHEAD_MS, LogRecord

#: Seconds of closed windows that are kept of a topology, and the age below which a worker is young.
HISTORY_S, YOUNG_S = 600.0, 300.0

#: A window is closed when a record begins so long after its end: what has not come by then is left out.
GRACE_S = 5.0


class ObservedTraffic:
    """Counts records, each once, in windows that do not overlap; thread-safe.

    Parameters
    ----------
    window_s
        Length of a window.
    clock
        Clock of the service.
    """

    def __init__(self, window_s: float = 10.0, clock: Clock = WALL) -> None:
        self._clock = clock
        self.window_ms = round(window_s * 1000)
        self._max_windows = round(HISTORY_S / window_s)
        self._open: dict[str, dict[int, EvaluationWindow]] = {}
        self._closed: dict[str, deque[EvaluationWindow]] = {}
        self._generations: dict[str, dict[int, _Generation]] = {}
        self._node_of: dict[str, TaskNodes] = {}
        self._lock = threading.Lock()

    def add(self, records: Iterable[LogRecord]) -> None:
        """Count new records; those of a clock that is ahead would close windows too soon."""
        latest_ms = self._clock.time() * 1000 + MAX_CLOCK_AHEAD_MS
        with self._lock:
            for record in records:
                if record["start_ms"] <= latest_ms:
                    self._count(record)

    def windows(self, topology: str) -> list[EvaluationWindow]:
        """Return closed windows of a topology, oldest first."""
        with self._lock:
            return list(self._closed.get(topology, ()))

    def since(self, topology: str, start_ms: float) -> list[EvaluationWindow]:
        """Return closed windows of a topology that begin at `start_ms` or later, oldest first."""
        with self._lock:
            return list(_newest(self._closed.get(topology, ()), start_ms))[::-1]

    def crashes_since(self, topology: str, start_ms: float) -> int:
        """Return how often a worker of a topology ended in windows that begin at `start_ms` or later; 0 if it works.

        It is that of the slot with the most; open windows count, too. A topology works if any of its trees completes.
        """
        with self._lock:
            still_open = (each for each in self._open.get(topology, {}).values() if each.start_ms >= start_ms)
            windows = [*_newest(self._closed.get(topology, ()), start_ms), *still_open]
        if any(window.acked for window in windows):
            return 0
        starts_ms: dict[Slot, set[int]] = {}
        for window in windows:
            for slot, started_ms in window.starts_ms.items():
                starts_ms.setdefault(slot, set()).update(started_ms)
        return max((len(each) - 1 for each in starts_ms.values()), default=0)

    def young(self, topology: str) -> list[list[EvaluationWindow]]:
        """Return the closed windows in which the youngest worker was younger than `YOUNG_S`, by generation.

        A generation is the windows with the same youngest worker, oldest window first; the newest generation comes
        first. Generations are retained for `HISTORY_S` after their last window, so that the one before a move is there
        at its end, when windows of new workers may have closed.
        """
        with self._lock:
            generations = self._generations.get(topology, {})
            return [list(generations[born_ms].young) for born_ms in sorted(generations, reverse=True)]

    def forget(self, known: Iterable[str]) -> None:
        """Forget all topologies but the known ones."""
        known_topologies = set(known)
        with self._lock:
            for by_topology in (self._open, self._closed, self._generations, self._node_of):
                for gone in by_topology.keys() - known_topologies:
                    del by_topology[gone]

    def _count(self, record: LogRecord) -> None:
        topology = record["worker"]["topology"]
        node_of = self._node_of.setdefault(topology, TaskNodes())
        node_of.add(record)
        start_ms = record["start_ms"] // self.window_ms * self.window_ms
        closed = self._closed.get(topology)
        if closed and start_ms <= closed[-1].start_ms:
            return  # it came too late
        window = self._open.setdefault(topology, {}).setdefault(start_ms, EvaluationWindow(start_ms))
        window.add(record, crossing(record, node_of))
        self._close(topology, record["start_ms"])

    def _close(self, topology: str, now_ms: int) -> None:
        still_open = self._open[topology]
        latest_ms = now_ms - self.window_ms - GRACE_S * 1000
        for start_ms in sorted(start_ms for start_ms in still_open if start_ms < latest_ms):
            window = still_open.pop(start_ms)
            self._closed.setdefault(topology, deque(maxlen=self._max_windows)).append(window)
            generations = self._generations.setdefault(topology, {})
            generation = generations.setdefault(window.born_ms, _Generation())
            generation.newest_ms = start_ms
            if window.age_s < YOUNG_S:
                generation.young.append(window)
            for born_ms in [each for each, old in generations.items() if old.newest_ms < start_ms - HISTORY_S * 1000]:
                del generations[born_ms]


@dataclass
class _Generation:
    """Windows with the same youngest worker: those in which it was young, and the start of the newest of all."""

    young: list[EvaluationWindow] = field(default_factory=list)
    newest_ms: int = 0


def _newest(windows: Reversible[EvaluationWindow], start_ms: float) -> Iterator[EvaluationWindow]:
    """Yield windows, newest first."""
    for window in reversed(windows):
        if window.start_ms < start_ms:
            return
        yield window
