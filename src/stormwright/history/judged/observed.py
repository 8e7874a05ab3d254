"""What topologies did, window by window, counted from the records as they arrive.

The pipeline's loads spread what follows the placement by the model of Storm's groupings. To judge that model, what
really crossed between nodes is counted here: a record tells for each target task how many tuples went there. So are
trees completed and how long they took, which tell whether a placement does what was predicted of it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Reversible

from stormwright.clock import WALL, Clock
from stormwright.history.judged.window import JudgedWindow
from stormwright.perflog.crossing import TaskNodes, crossing
from stormwright.perflog.records import MAX_CLOCK_AHEAD_MS, LogRecord

#: Seconds of closed windows that are remembered of a topology, and of those since its youngest worker started.
KEPT_S, YOUNG_S = 600.0, 300.0

#: A window is closed when a record begins so long after its end: what has not come by then is left out.
GRACE_S = 5.0


class ObservedTraffic:
    """Counts records, each once, into windows that do not overlap; safe to use from several threads.

    Parameters
    ----------
    window_s
        Length of a window.
    clock
        Tells what time it is.
    """

    def __init__(self, window_s: float = 10.0, clock: Clock = WALL) -> None:
        self._clock = clock
        self.window_ms = round(window_s * 1000)
        self._kept = round(KEPT_S / window_s)
        self._open: dict[str, dict[int, JudgedWindow]] = {}
        self._closed: dict[str, deque[JudgedWindow]] = {}
        self._young: dict[str, list[JudgedWindow]] = {}
        self._node_of: dict[str, TaskNodes] = {}
        self._lock = threading.Lock()

    def add(self, records: Iterable[LogRecord]) -> None:
        """Count records that have not come before; those of a clock that is ahead would close windows too soon."""
        latest_ms = self._clock.time() * 1000 + MAX_CLOCK_AHEAD_MS
        with self._lock:
            for record in records:
                if record["start_ms"] <= latest_ms:
                    self._count(record)

    def windows(self, topology: str) -> list[JudgedWindow]:
        """Closed windows of a topology, oldest first."""
        with self._lock:
            return list(self._closed.get(topology, ()))

    def since(self, topology: str, start_ms: float) -> list[JudgedWindow]:
        """Closed windows of a topology that begin at `start_ms` or later, oldest first."""
        with self._lock:
            return list(_newest(self._closed.get(topology, ()), start_ms))[::-1]

    def young(self, topology: str) -> list[JudgedWindow]:
        """Closed windows of a topology from when its youngest worker had run for less than `YOUNG_S`, oldest first."""
        with self._lock:
            return list(self._young.get(topology, ()))

    def forget(self, known: Iterable[str]) -> None:
        """Forget all topologies but those."""
        kept = set(known)
        with self._lock:
            for by_topology in (self._open, self._closed, self._young, self._node_of):
                for gone in by_topology.keys() - kept:
                    del by_topology[gone]

    def _count(self, record: LogRecord) -> None:
        topology = record["worker"]["topology"]
        node_of = self._node_of.setdefault(topology, TaskNodes())
        node_of.add(record)
        start_ms = record["start_ms"] // self.window_ms * self.window_ms
        closed = self._closed.get(topology)
        if closed and start_ms <= closed[-1].start_ms:
            return  # it came too late
        window = self._open.setdefault(topology, {}).setdefault(start_ms, JudgedWindow(start_ms))
        window.add(record, crossing(record, node_of))
        self._close(topology, record["start_ms"])

    def _close(self, topology: str, now_ms: int) -> None:
        still_open = self._open[topology]
        latest_ms = now_ms - self.window_ms - GRACE_S * 1000
        for start_ms in sorted(start_ms for start_ms in still_open if start_ms < latest_ms):
            window = still_open.pop(start_ms)
            self._closed.setdefault(topology, deque(maxlen=self._kept)).append(window)
            young = self._young.setdefault(topology, [])
            if young and young[-1].born_ms != window.born_ms:
                young.clear()
            if window.age_s < YOUNG_S:
                young.append(window)


def _newest(windows: Reversible[JudgedWindow], start_ms: float) -> Iterator[JudgedWindow]:
    """From the newest back."""
    for window in reversed(windows):
        if window.start_ms < start_ms:
            return
        yield window
