"""Live heap of workers and their executors, from the performance log.

A record has the heap in use at its end, garbage included, which is an upper bound of the live objects, and a close one
after a garbage collection. So the live heap of a worker is the minimum over its records with a collection in the last
`WINDOW_MIN` minutes, or the newest such record before. Records of a worker's first `WARM_S` seconds do not count: its
state is not built up yet. Young collections leave dead objects of the old generation behind, so the minimum may be too
high by these until an old collection, never too low.

Of the live heap of a worker `WORKER_BASE_MB` are its own, and the rest is that of its executors in proportion to the
memory on the heap that they request. An executor in a new worker has the live heap that it had in the one before, until
there is a collection; one that was never measured has the mean of its component, or else of its topology.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from stormwright.base.clock import WALL, Clock
from stormwright.model import UNPLACED, LoadProfile, Problem, WorkerSlot
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.model.constraints.constraint import PlacedExecutors
from stormwright.model.constraints.heaps import WORKER_BASE_MB, WorkerHeaps
from stormwright.model.constraints.requests import requested_amounts
from stormwright.model.requests import ON_HEAP
from stormwright.perflog.records import LogRecord, WorkerId, worker_id

log = logging.getLogger(__name__)

#: Minutes over which the minimum is taken.
WINDOW_MIN = 10

#: Seconds from the start of a worker in which its records do not count.
WARM_S = 60

#: Part by which a heap may differ from its option: some collectors report it without one of the survivor spaces, and
#: sizes are rounded.
SIZE_TOLERANCE = 0.1

#: Seconds of silence after which a worker is forgotten, and seconds between checks for that.
FORGOTTEN_S = 3600.0
SWEEP_S = 60.0

#: Seconds after which the live heap of executors is computed again for the same problem.
REFRESH_S = 15.0


@dataclass
class _Worker:
    """Heap of one worker: its minimum in MB by minute since 1970, and its size, None if it is not reported."""

    heard_s: float
    tasks: tuple[tuple[int, int], ...] = ()
    lowest: deque[tuple[int, float]] = field(default_factory=deque)
    size_mb: float | None = None

    def add(self, record: LogRecord) -> None:
        if len(record["executors"]) > len(self.tasks):
            self.tasks = tuple((each["first_task"], each["last_task"]) for each in record["executors"])
        used_mb = record["heap_bytes"] / 2**20
        limit_bytes = record.get("heap_limit_bytes")
        self.size_mb = self.size_mb if limit_bytes is None else limit_bytes / 2**20
        age_ms = record["start_ms"] - record["worker"]["start_ms"]
        if not (record.get("gc") or {}).get("collections") or age_ms < WARM_S * 1000:
            return
        minute = record["start_ms"] // 60_000
        if not self.lowest or minute > self.lowest[-1][0]:
            self.lowest.append((minute, used_mb))
        elif minute == self.lowest[-1][0]:
            self.lowest[-1] = (minute, min(used_mb, self.lowest[-1][1]))
        while self.lowest[0][0] <= self.lowest[-1][0] - WINDOW_MIN:
            self.lowest.popleft()

    @property
    def live_mb(self) -> float | None:
        """Live heap; None if no collection has counted."""
        return min(mb for _, mb in self.lowest) if self.lowest else None


class _Life(NamedTuple):
    """One life of a worker: its executors, numbered over the problem, live heap and size in MB."""

    worker: WorkerId
    executors: IndexArray
    live_mb: float | None
    size_mb: float | None


class LiveHeaps:
    """Live heaps of workers by the newest records; thread-safe.

    Parameters
    ----------
    clock
        Clock for the arrival of records.
    """

    def __init__(self, clock: Clock = WALL) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._workers: dict[WorkerId, _Worker] = {}
        self._next_sweep_s = 0.0
        self._warned: set[str] = set()
        self._found: tuple[Problem, float, dict[str, FloatArray]] | None = None
        self._cache: tuple[LoadProfile, Problem, LoadProfile] | None = None

    def count(self, records: Iterable[LogRecord]) -> None:
        """Count new records."""
        now_s = self._clock.monotonic()
        with self._lock:
            for record in records:
                worker = self._workers.setdefault(worker_id(record), _Worker(now_s))
                worker.heard_s = now_s
                worker.add(record)
            if now_s >= self._next_sweep_s:
                self._next_sweep_s = now_s + SWEEP_S
                old = [each for each, worker in self._workers.items() if now_s - worker.heard_s > FORGOTTEN_S]
                for each in old:
                    del self._workers[each]

    def with_heaps(self, load: LoadProfile, problem: Problem) -> LoadProfile:
        """Return a load with the live heap of executors, of topologies of which any worker is known.

        A topology is left out if a worker reports another heap than it should have: then the options of its supervisor
        are not those of Nimbus, so that sizes are unknown.

        Parameters
        ----------
        load
            The load; the same one gives the same result.
        problem
            Problem with the topologies of the load and their current placement.
        """
        cached = self._cache
        if cached is None or cached[0] is not load or cached[1] is not problem:
            heaps = self._of_executors(problem)
            loads = {
                name: replace(each, live_heap_mb=heaps[name]) if name in heaps else each
                for name, each in load.topologies.items()
            }
            result = replace(load, topologies=loads) if heaps.keys() & loads.keys() else load
            self._cache = cached = (load, problem, result)
        return cached[2]

    def _of_executors(self, problem: Problem) -> Mapping[str, FloatArray]:
        """Return the live heap of executors by topology id; of one problem the same for `REFRESH_S` seconds."""
        now_s = self._clock.monotonic()
        known = self._found
        if known is None or known[0] is not problem or now_s - known[1] >= REFRESH_S or not known[2]:
            self._found = known = (problem, now_s, self._measured(problem))
        return known[2]

    def _measured(self, problem: Problem) -> dict[str, FloatArray]:
        with self._lock:
            known = [(each, worker.tasks, worker.live_mb, worker.size_mb) for each, worker in self._workers.items()]
        if all(live_mb is None for _, _, live_mb, _ in known):
            return {}
        of_topology: dict[str, list[_Life]] = {}
        names = {worker.topology for worker, *_ in known if worker.topology in problem.topology_index}
        executor_of = {name: _executor_of_tasks(problem, name) for name in names}
        for worker, tasks, live_mb, size_mb in sorted(known, key=lambda each: each[0].start_ms):
            numbers = executor_of.get(worker.topology, {})
            own = np.array([numbers[each] for each in tasks if each in numbers], np.intp)
            if len(own):
                of_topology.setdefault(worker.topology, []).append(_Life(worker, own, live_mb, size_mb))
        requested_mb, sizes = requested_amounts(problem, ON_HEAP), _sizes(problem)
        found = {}
        for topology, lives in of_topology.items():
            live = _by_executor(problem, problem.topology_index[topology], lives, requested_mb)
            if live is not None and not self._has_other_size(problem, topology, lives, sizes):
                found[topology] = live
        return found

    def _has_other_size(self, problem: Problem, topology: str, lives: list[_Life], sizes: Mapping[int, float]) -> bool:
        """Return whether a current worker reports another heap than it should have; a warning is logged once."""
        own = problem.executors_of(problem.topology_index[topology])
        slots = problem.current_slot[own]
        for life in lives:
            slot = problem.slot_index.get(WorkerSlot(life.worker.supervisor, life.worker.port), UNPLACED)
            there = np.flatnonzero(slots == slot) + own.start
            is_current = slot != UNPLACED and np.array_equal(there, np.sort(life.executors))
            size_mb = sizes.get(slot, np.inf) if is_current else np.inf
            if life.size_mb is None or not np.isfinite(size_mb):
                continue
            if abs(life.size_mb - size_mb) > SIZE_TOLERANCE * size_mb:
                if topology not in self._warned:
                    text = "%s: heaps are unknown: that of a worker is %.0f MB, but by the options of Nimbus %.0f MB"
                    log.warning(text, topology, life.size_mb, size_mb)
                self._warned.add(topology)
                return True
        return False


def _executor_of_tasks(problem: Problem, topology: str) -> dict[tuple[int, int], int]:
    """Return first and last task → executor, numbered over the problem."""
    index = problem.topology_index[topology]
    of, first = problem.topologies[index], problem.executors_of(index).start
    tasks = zip(of.executor_start_task.tolist(), of.executor_end_task.tolist(), strict=True)
    return {each: first + number for number, each in enumerate(tasks)}


def _sizes(problem: Problem) -> dict[int, float]:
    """Return slot → heap in MB, of current workers."""
    heaps = WorkerHeaps.of(PlacedExecutors(problem, problem.current_slot))
    return dict(zip(heaps.workers.slot.tolist(), heaps.size_mb.tolist(), strict=True))


def _by_executor(
    problem: Problem,
    index: int,
    lives: list[_Life],
    requested_mb: FloatArray,
) -> FloatArray | None:
    """Return the live heap of each executor of a topology (by index); None if none is known.

    Parameters
    ----------
    problem, index
        The problem, and the topology in it.
    lives
        Its workers, oldest first: later ones take precedence.
    requested_mb
        Requests of all executors of the problem, shape (E,).
    """
    executors = problem.executors_of(index)
    live = np.full(executors.stop - executors.start, np.nan)
    for life in lives:
        if life.live_mb is not None:
            own = requested_mb[life.executors]
            weights = own if own.any() else np.ones(len(own))
            live[life.executors - executors.start] = max(life.live_mb - WORKER_BASE_MB, 0.0) * weights / weights.sum()
    unknown = np.isnan(live)
    if unknown.all():
        return None
    component = problem.topologies[index].executor_component
    for executor in np.flatnonzero(unknown).tolist():
        others = ~unknown & (component == component[executor])
        live[executor] = live[others].mean() if others.any() else live[~unknown].mean()
    return live
