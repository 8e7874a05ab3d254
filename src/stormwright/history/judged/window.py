"""What one topology did in one window of time: counted record by record, then as figures that can be kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

from stormwright.perflog.crossing import Crossing
from stormwright.perflog.schema import LATENCY_EDGES_MS

#: What a tree in each bucket of complete latency is taken to have needed: the middle, in the sense of ratios.
_STEP = sqrt(LATENCY_EDGES_MS[1] / LATENCY_EDGES_MS[0])
_MIDDLE_MS = (*(edge / _STEP for edge in LATENCY_EDGES_MS), LATENCY_EDGES_MS[-1] * _STEP)

#: What trees are taken to have needed that needed less than the first bucket tells apart.
SHORTEST_MS = _MIDDLE_MS[0]

#: Supervisor and port.
Slot = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of one window.

    Parameters
    ----------
    start_ms
        Where it begins.
    length_s
        Mean time that the workers cover.
    age_s
        How long the youngest worker had run when it wrote first.
    acked, failed, received, crossing
        Tuple trees that completed or failed; tuples that executors got, and those that went to another node.
    latency_ms
        Mean complete latency, None where nothing completed.
    pending
        Tuple trees under way, in the mean over time; None where a spout does not tell.
    compiling
        What compilers took of the workers' CPU, in parts; None where it is not told.
    """

    start_ms: int
    length_s: float
    age_s: float
    acked: int
    failed: int
    received: int
    crossing: int
    latency_ms: float | None = None
    pending: float | None = None
    compiling: float | None = None

    @property
    def acked_tps(self) -> float:
        """Tuple trees completed a second."""
        return self.acked / self.length_s


@dataclass
class JudgedWindow:
    """What is counted of one topology in one window.

    Parameters
    ----------
    start_ms
        Where it begins.
    covered_s
        Seconds that the records of each of its workers cover.
    acked, failed, received
        Tuple trees that its spouts completed, and those that failed; tuples that its executors got.
    crossing, unknown
        Tuples that went from one node to another, and to a task of which no record told yet where it runs.
    age_s, born_ms
        Least age of a worker, and when the youngest one started.
    """

    start_ms: int
    covered_s: dict[Slot, float] = field(default_factory=dict)
    acked: int = 0
    failed: int = 0
    received: int = 0
    crossing: int = 0
    unknown: int = 0
    age_s: float = float("inf")
    born_ms: int = 0
    _latency_ms: float = 0.0
    _timed: int = 0
    _pending_s: dict[Slot, float] = field(default_factory=dict)
    _pending_told: bool = True
    _cpu_ns: int = 0
    _compiler_ns: int | None = 0

    @property
    def length_s(self) -> float:
        """Mean time that its workers cover."""
        return sum(self.covered_s.values()) / len(self.covered_s)

    def add(self, record: Mapping[str, Any], sent: Crossing) -> None:
        """Count a record, of whose tuples so many crossed."""
        worker, length_s = record["worker"], record["length_ns"] / 1e9
        slot = (worker["supervisor"], worker["port"])
        self.covered_s[slot] = self.covered_s.get(slot, 0.0) + length_s
        self.age_s = min(self.age_s, (record["start_ms"] - worker["start_ms"]) / 1000)
        self.born_ms = max(self.born_ms, worker["start_ms"])
        self.crossing += sent.crossing
        self.unknown += sent.unknown
        for executor in record["executors"]:
            self.received += executor["received"]
            if executor["type"] == "spout":
                self._add_spout(executor, slot, length_s)
        counts = record["complete_latency"]["counts"]
        self._latency_ms += sum(count * middle for count, middle in zip(counts, _MIDDLE_MS, strict=False) if count)
        self._timed += sum(counts)
        threads = record.get("threads")
        self._cpu_ns += record["process_cpu_ns"]
        if threads is None or self._compiler_ns is None:
            self._compiler_ns = None
        else:
            self._compiler_ns += threads["compiler_ns"]

    def _add_spout(self, executor: Mapping[str, Any], slot: Slot, length_s: float) -> None:
        self.acked += executor["acked"]
        self.failed += executor["failed"]
        pending = executor.get("pending")
        if pending is None:
            self._pending_told = False
        else:
            self._pending_s[slot] = self._pending_s.get(slot, 0.0) + pending * length_s

    def covers(self, slots: Collection[Slot], window_s: float) -> bool:
        """Whether workers in all these slots, and in no others, told of most of it."""
        return set(slots) == self.covered_s.keys() and min(self.covered_s.values()) >= window_s / 2

    def sample(self) -> Sample:
        """Its figures."""
        told = self._pending_told and self._pending_s
        compiling = None if self._compiler_ns is None or not self._cpu_ns else self._compiler_ns / self._cpu_ns
        return Sample(
            start_ms=self.start_ms,
            length_s=self.length_s,
            age_s=self.age_s,
            acked=self.acked,
            failed=self.failed,
            received=self.received,
            crossing=self.crossing,
            latency_ms=self._latency_ms / self._timed if self._timed else None,
            pending=sum(s / self.covered_s[slot] for slot, s in self._pending_s.items()) if told else None,
            compiling=compiling,
        )
