"""Counts and figures of one topology in one window of time.

Windows represent a placement only while no young JVM loads classes and compiles: the others are not warm.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import sqrt
from typing import Any

from stormwright.model.requests import CHECKPOINT_SPOUT
from stormwright.perflog.crossing import Crossing
from stormwright.perflog.schema import LATENCY_EDGES_MS

#: Seconds of a worker's life that never count: it connects to its peers and works off what has piled up meanwhile.
CONNECTING_S = 10.0

#: Warm-up seconds without data about compilers.
UNTOLD_S = 20.0

#: Of the CPU of warm workers, the most that compilers take; after so many seconds workers are warm in any case.
COMPILING, LONGEST_S = 0.1, 120.0

#: Workers of an age differ in it by no more than this, in seconds.
LIKE_AGE_S = 10.0

#: What a tree in each bucket of complete latency is taken to have needed: the middle, in the sense of ratios.
_STEP = sqrt(LATENCY_EDGES_MS[1] / LATENCY_EDGES_MS[0])
_MIDDLE_MS = (*(edge / _STEP for edge in LATENCY_EDGES_MS), LATENCY_EDGES_MS[-1] * _STEP)

#: What trees are taken to have needed that needed less than the first bucket tells apart.
SHORTEST_MS = _MIDDLE_MS[0]

#: Supervisor and port.
Slot = tuple[str, int]


def is_warm(age_s: float, compiling: float | None) -> bool:
    """Return whether workers have run long enough to count.

    Parameters
    ----------
    age_s
        Age of the youngest, in seconds.
    compiling
        Part of their CPU used by compilers; None if unknown.
    """
    if compiling is None:
        return age_s >= UNTOLD_S
    return age_s >= LONGEST_S or (age_s >= CONNECTING_S and compiling <= COMPILING)


def warm(samples: Iterable[Sample]) -> list[Sample]:
    """Return the warm samples."""
    return [sample for sample in samples if sample.is_warm]


def connected(samples: Iterable[Sample]) -> list[Sample]:
    """Return the samples of workers that are at least `CONNECTING_S` old, warm or not."""
    return [sample for sample in samples if sample.age_s >= CONNECTING_S]


def of_like_age(young: Sequence[Sample], after: Sequence[Sample]) -> tuple[list[Sample], list[Sample]]:
    """Return windows of two generations of workers at the same age.

    Parameters
    ----------
    young
        From when the old workers were young; of other ages as well.
    after
        Of the new workers.

    Returns
    -------
    then, now
        Windows of both, of equally many seconds; empty where none are of one age.
    """
    if not young or not after:
        return [], []
    first, last = (most(sample.age_s for sample in after) for most in (min, max))
    then = [sample for sample in young if first - LIKE_AGE_S / 2 <= sample.age_s <= last + LIKE_AGE_S / 2]
    if abs(_mean_age(then, first) - _mean_age(after, first)) > LIKE_AGE_S:
        return [], []
    return then, list(after)


def _mean_age(samples: Sequence[Sample], otherwise: float) -> float:
    return sum(sample.age_s for sample in samples) / len(samples) if samples else otherwise


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures of one window.

    Parameters
    ----------
    start_ms
        Begin of the window in ms since 1970.
    length_s
        Mean time that the workers cover.
    age_s
        Age of the youngest worker at its first record, at most the time since the topology was resumed after a move.
    acked, failed, received, crossing
        Tuple trees that completed or failed; tuples that executors got, and those that went to another node.
    latency_ms
        Mean complete latency, None where nothing completed.
    pending
        Mean number of pending tuple trees over time; None if a spout does not report it.
    compiling
        Part of the workers' CPU used by compilers; None if unknown.
    p99_ms
        99th percentile of the complete latency, None where nothing completed.
    cores
        CPU of the workers, in cores; None if unknown.
    backlog
        Records that wait at its source at the end of the window; None unless all workers with spouts report it.
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
    p99_ms: float | None = None
    cores: float | None = None
    backlog: int | None = None

    @property
    def is_warm(self) -> bool:
        """Whether all workers had run long enough to count."""
        return is_warm(self.age_s, self.compiling)

    @property
    def acked_tps(self) -> float:
        """Completed tuple trees per second."""
        return self.acked / self.length_s


@dataclass
class EvaluationWindow:
    """Counts of one topology in one window.

    Parameters
    ----------
    start_ms
        Begin of the window in ms since 1970.
    covered_s
        Seconds that the records of each of its workers cover.
    acked, failed, received
        Tuple trees that its spouts completed, and those that failed; tuples that its executors got.
    crossing, unknown
        Tuples that went from one node to another, and to a task whose node no record has reported yet.
    age_s, born_ms
        Least age of a worker, and when the youngest one started.
    starts_ms
        When the workers in each slot started that reported.
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
    starts_ms: dict[Slot, set[int]] = field(default_factory=dict)
    _latency_counts: list[int] = field(default_factory=lambda: [0] * len(_MIDDLE_MS))
    _pending_s: dict[Slot, float] = field(default_factory=dict)
    _has_pending: bool = True
    #: Of workers with spouts: the begin of the newest record, and its backlog.
    _backlogs: dict[Slot, tuple[int, int | None]] = field(default_factory=dict)
    _cpu_ns: int = 0
    _compiler_ns: int | None = 0

    @property
    def length_s(self) -> float:
        """Mean covered time of its workers."""
        return sum(self.covered_s.values()) / len(self.covered_s)

    def add(self, record: Mapping[str, Any], sent: Crossing) -> None:
        """Count a record with its number of crossing tuples."""
        worker, length_s = record["worker"], record["length_ns"] / 1e9
        slot = (worker["supervisor"], worker["port"])
        self.covered_s[slot] = self.covered_s.get(slot, 0.0) + length_s
        self.age_s = min(self.age_s, (record["start_ms"] - worker["start_ms"]) / 1000)
        self.born_ms = max(self.born_ms, worker["start_ms"])
        self.starts_ms.setdefault(slot, set()).add(worker["start_ms"])
        self.crossing += sent.crossing
        self.unknown += sent.unknown
        for executor in record["executors"]:
            self.received += executor["received"]
            if executor["type"] == "spout":
                self._add_spout(executor, slot, length_s)
        for bucket, count in enumerate(record["complete_latency"]["counts"]):
            self._latency_counts[bucket] += count
        if any(each["type"] == "spout" and each["component"] != CHECKPOINT_SPOUT for each in record["executors"]):
            begin_ms, _ = self._backlogs.get(slot, (-1, None))
            if record["start_ms"] > begin_ms:
                self._backlogs[slot] = record["start_ms"], record.get("backlog")
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
            self._has_pending = False
        else:
            self._pending_s[slot] = self._pending_s.get(slot, 0.0) + pending * length_s

    def covers(self, slots: Collection[Slot], window_s: float) -> bool:
        """Return whether workers in exactly these slots reported most of the window."""
        return set(slots) == self.covered_s.keys() and min(self.covered_s.values()) >= window_s / 2

    def sample(self, resumed_ms: float = 0.0) -> Sample:
        """Return its figures; no age is greater than the time since `resumed_ms`."""
        complete = self._has_pending and self._pending_s
        compiling = None if self._compiler_ns is None or not self._cpu_ns else self._compiler_ns / self._cpu_ns
        mean_ms, p99_ms = self._latencies()
        return Sample(
            start_ms=self.start_ms,
            length_s=self.length_s,
            age_s=min(self.age_s, (self.start_ms - resumed_ms) / 1000),
            acked=self.acked,
            failed=self.failed,
            received=self.received,
            crossing=self.crossing,
            latency_ms=mean_ms,
            pending=sum(s / self.covered_s[slot] for slot, s in self._pending_s.items()) if complete else None,
            compiling=compiling,
            p99_ms=p99_ms,
            cores=self._cpu_ns / 1e9 / self.length_s if self._cpu_ns else None,
            backlog=self._backlog(),
        )

    def _backlog(self) -> int | None:
        waiting = [each for _, each in self._backlogs.values()]
        known = [each for each in waiting if each is not None]
        return sum(known) if known and len(known) == len(waiting) else None

    def _latencies(self) -> tuple[float | None, float | None]:
        """Return mean and 99th percentile of the complete latency in ms."""
        counts = self._latency_counts
        if not (total := sum(counts)):
            return None, None
        mean_ms = sum(count * middle for count, middle in zip(counts, _MIDDLE_MS, strict=True)) / total
        slowest = next(bucket for bucket, upto in enumerate(accumulate(counts)) if upto >= 0.99 * total)
        return mean_ms, _MIDDLE_MS[slowest]
