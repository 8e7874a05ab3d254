"""Counts and figures of one topology in one window of time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Reversible, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

from stormwright.base.clock import WALL, Clock
from stormwright.perflog.crossing import Crossing, TaskNodes, crossing
from stormwright.perflog.records import MAX_CLOCK_AHEAD_MS, LogRecord
from stormwright.perflog.schema import LATENCY_EDGES_MS

# Observation --------------------------------------------------------------------------------------
# Activity of topologies, window by window, counted from arriving records.
#
# The pipeline's loads spread what follows the placement by the model of Storm's groupings. To judge that model, what
# really crossed between nodes is counted here: a record has the number of tuples for each target task. Completed trees
# and their latencies are counted as well, to compare a placement with its prediction.

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


# Warm-up ------------------------------------------------------------------------------------------
# Windows that represent a placement: not those in which young JVMs load classes and compile.

#: Seconds of a worker's life that never count: it connects to its peers and works off what has piled up meanwhile.
CONNECTING_S = 10.0

#: Warm-up seconds without data about compilers.
UNTOLD_S = 20.0

#: Of the CPU of warm workers, the most that compilers take; after so many seconds workers are warm in any case.
COMPILING, LONGEST_S = 0.1, 120.0

#: Workers of an age differ in it by no more than this, in seconds.
LIKE_AGE_S = 10.0


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


# Window -------------------------------------------------------------------------------------------

#: What a tree in each bucket of complete latency is taken to have needed: the middle, in the sense of ratios.
_STEP = sqrt(LATENCY_EDGES_MS[1] / LATENCY_EDGES_MS[0])
_MIDDLE_MS = (*(edge / _STEP for edge in LATENCY_EDGES_MS), LATENCY_EDGES_MS[-1] * _STEP)

#: What trees are taken to have needed that needed less than the first bucket tells apart.
SHORTEST_MS = _MIDDLE_MS[0]

#: Supervisor and port.
Slot = tuple[str, int]


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
    _has_pending: bool = True
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
        return Sample(
            start_ms=self.start_ms,
            length_s=self.length_s,
            age_s=min(self.age_s, (self.start_ms - resumed_ms) / 1000),
            acked=self.acked,
            failed=self.failed,
            received=self.received,
            crossing=self.crossing,
            latency_ms=self._latency_ms / self._timed if self._timed else None,
            pending=sum(s / self.covered_s[slot] for slot, s in self._pending_s.items()) if complete else None,
            compiling=compiling,
        )
