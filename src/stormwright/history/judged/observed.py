"""Traffic between nodes as it was, window by window, counted from the records as they arrive.

The pipeline's loads spread what follows the placement by the model of Storm's groupings. To judge that model, what
really crossed between nodes is counted here: a record tells for each target task how many tuples went there.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stormwright.perflog.crossing import TaskNodes, crossing
from stormwright.perflog.records import MAX_CLOCK_AHEAD_MS

Record = Mapping[str, Any]

#: Closed windows of a topology that are remembered.
WINDOWS_KEPT = 60

#: A window is closed when a record begins so long after its end: what has not come by then is left out.
GRACE_S = 5.0


@dataclass
class Window:
    """What one topology did in one window.

    Parameters
    ----------
    start_ms
        Where it begins.
    covered_s
        Seconds that the records of each of its workers cover.
    acked, received
        Tuple trees that its spouts completed; tuples that its executors got.
    crossing
        Tuples that went from one node to another.
    unknown
        Tuples to a task of which no record told yet where it runs.
    """

    start_ms: int
    covered_s: dict[tuple[str, int], float] = field(default_factory=dict)
    acked: int = 0
    received: int = 0
    crossing: int = 0
    unknown: int = 0

    @property
    def length_s(self) -> float:
        """Mean time that its workers cover."""
        return sum(self.covered_s.values()) / len(self.covered_s)


class ObservedTraffic:
    """Counts records, each once, into windows that do not overlap; safe to use from several threads.

    Parameters
    ----------
    window_s
        Length of a window.
    """

    def __init__(self, window_s: float = 10.0) -> None:
        self.window_ms = round(window_s * 1000)
        self._open: dict[str, dict[int, Window]] = {}
        self._closed: dict[str, deque[Window]] = {}
        self._node_of: dict[str, TaskNodes] = {}
        self._lock = threading.Lock()

    def add(self, records: Iterable[Record]) -> None:
        """Count records that have not come before; those of a clock that is ahead would close windows too soon."""
        latest_ms = time.time() * 1000 + MAX_CLOCK_AHEAD_MS
        with self._lock:
            for record in records:
                if record["start_ms"] <= latest_ms:
                    self._count(record)

    def windows(self, topology: str) -> list[Window]:
        """Closed windows of a topology, oldest first."""
        with self._lock:
            return list(self._closed.get(topology, ()))

    def forget(self, known: Iterable[str]) -> None:
        """Forget all topologies but those."""
        kept = set(known)
        with self._lock:
            for by_topology in (self._open, self._closed, self._node_of):
                for gone in by_topology.keys() - kept:
                    del by_topology[gone]

    def _count(self, record: Record) -> None:
        worker = record["worker"]
        topology, node = worker["topology"], worker["supervisor"]
        node_of = self._node_of.setdefault(topology, TaskNodes())
        node_of.add(record)
        start_ms = record["start_ms"] // self.window_ms * self.window_ms
        closed = self._closed.get(topology)
        if closed and start_ms <= closed[-1].start_ms:
            return  # it came too late
        window = self._open.setdefault(topology, {}).setdefault(start_ms, Window(start_ms))
        slot = (node, worker["port"])
        window.covered_s[slot] = window.covered_s.get(slot, 0.0) + record["length_ns"] / 1e9
        for executor in record["executors"]:
            window.received += executor["received"]
            if executor["type"] == "spout":
                window.acked += executor["acked"]
        sent = crossing(record, node_of)
        window.crossing += sent.crossing
        window.unknown += sent.unknown
        self._close(topology, record["start_ms"])

    def _close(self, topology: str, now_ms: int) -> None:
        still_open = self._open[topology]
        latest_ms = now_ms - self.window_ms - GRACE_S * 1000
        for start_ms in sorted(start_ms for start_ms in still_open if start_ms < latest_ms):
            window = still_open.pop(start_ms)
            self._closed.setdefault(topology, deque(maxlen=WINDOWS_KEPT)).append(window)
