"""Virtual Storm cluster: Nimbus, supervisors and workers on one clock, with an engine for tuples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stormwright.model import Problem, Topology, TopologyAssignment
from stormwright.model.topology_config import number_of
from stormwright.perflog.records import encode
from stormwright.predict.calibration.document import costs_of
from stormwright.simulator.cluster.clock import VirtualClock
from stormwright.simulator.cluster.meters import Meters, NodeUsage
from stormwright.simulator.cluster.nimbus import ACTIVE, Ask, VirtualNimbus
from stormwright.simulator.cluster.records import RecordWriter
from stormwright.simulator.cluster.supervisors import Supervisors, Worker
from stormwright.simulator.cluster.timings import RECORD, REFRESH_POLL, REFRESH_POLL_S, Delay, Timings
from stormwright.simulator.engine import Engine, EngineCounts

#: Receiver of lines of the performance log.
Deliver = Callable[[Sequence[bytes]], None]

#: Maximum ratio of consecutive intervals: a worker that reports less often is considered dead.
_RARER = 4

#: Seconds after its start in which a worker's probe reports the connections to it.
_REPORTED_S = 60.0

#: Receiver of counts during one placement.
Heard = Callable[[EngineCounts], None]


def unavailable(_: Problem) -> Any:
    """Scheduler service that is unavailable.

    Raises
    ------
    ConnectionError
        Always.
    """
    raise ConnectionError("no service is there")


class VirtualStorm:
    """Storm cluster in virtual time.

    Parameters
    ----------
    clock
        Virtual time, which drives everything here.
    problem
        All nodes, and all topologies that will ever be submitted, with their load.
    engine
        Processes tuples of the problem's executors.
    fallback
        Scheduler if no service responds, such as Storm's own.
    timings, delay
        Durations; messages take `Timings.message_s` by default.

    Attributes
    ----------
    nimbus
        Client API.
    deliver
        Receiver of the probes' records; without it they write nothing.
    heard
        Receiver of all counts, immediately; none at first.
    """

    def __init__(
        self,
        clock: VirtualClock,
        problem: Problem,
        engine: Engine,
        fallback: Ask,
        timings: Timings | None = None,
        delay: Delay | None = None,
    ) -> None:
        timings = timings or Timings()
        self.clock, self.problem, self.engine = clock, problem, engine
        self._timings, self._delay = timings, delay or timings.delay
        self.nimbus = VirtualNimbus(clock, problem, unavailable, fallback, timings, self._delay)
        self.supervisors = Supervisors(clock, timings, problem, self.nimbus, engine, self)
        self.nimbus.listener = self.supervisors
        self.deliver: Deliver | None = None
        self._meters = Meters(problem, costs_of(problem)[0])
        self._recording = RecordWriter(problem, self._meters)
        self.heard: Heard = lambda _: None
        self._counted_s = -1.0
        # Start of the next record and length of the last one, in ms, of every worker.
        self._known: dict[int, float] = {}
        self._length_ms: dict[int, float] = {}
        clock.every(timings.probe_s, self._probe)

    def submit(self, topology: Topology, placed: TopologyAssignment | None = None) -> None:
        """Submit a topology of the problem, which Nimbus schedules unless it is already placed."""
        self.nimbus.submit(topology, placed)

    def gateway(self) -> AbstractContextManager[VirtualNimbus]:
        """Return a context manager with Nimbus, as a service opens it."""
        return _StaticNimbus(self.nimbus)

    def used(self) -> NodeUsage:
        """Return the usage of nodes since the start."""
        self.count()
        used = self._meters.used
        return NodeUsage(used.cpu_s.copy(), used.link_bytes.copy())

    def pending_trees(self) -> NDArray[np.int64]:
        """Return the pending trees of every executor when they were last counted, shape (E,)."""
        return self._meters.pending.copy()

    def count(self) -> None:
        """Attribute everything counted so far to the present placement."""
        now_s = self.clock.monotonic()
        if now_s == self._counted_s:
            return
        self._counted_s = now_s
        self.engine.until(now_s)
        counted = self.engine.take()
        self._meters.add(counted, self.supervisors.slots)
        self._meters.stand([worker.slot for worker in self._up()], counted.length_s)
        self.heard(counted)

    def begin(self, worker: Worker) -> None:
        """Start the first interval of a worker that was started or has come up."""
        if worker.pid in self._known:
            self._meters.drop_pending(worker.executors)
        else:
            self._meters.begin(worker.executors)
        self._meters.begin_slot(worker.slot)
        self._known[worker.pid] = self._now_ms()

    def report(self, worker: Worker, *, last: bool = False) -> None:
        """Write a record of a worker, possibly its last one."""
        if self.deliver is None:
            return
        self.count()
        self._ship(self._lines([worker], last=last))

    def _probe(self) -> None:
        """Write records of all live workers that are due; ever less often if nothing changes."""
        due = self._due() if self.deliver else []
        if due:
            self.count()
            lines = self._lines(due)
            self._meters.next_interval([worker.slot for worker in due])
            self._ship(lines)

    def _due(self) -> list[Worker]:
        """Return the workers that are due."""
        now_ms, calm_ms, entries = self._now_ms(), self._timings.calm_s * 1000, self.nimbus.entries
        up = [worker for worker in self._up() if self._known[worker.pid] < now_ms]
        if not calm_ms:
            return up
        all_ = self.supervisors.workers.values()
        restless = {worker.topology for worker in all_ if worker.ending or not worker.up}
        restless |= {topology for topology, entry in entries.items() if entry.status != ACTIVE}
        return [
            worker
            for worker in up
            if worker.topology in restless
            or now_ms - self._known[worker.pid] >= min(calm_ms, _RARER * self._length_ms.get(worker.pid, 0.0))
        ]

    def _up(self) -> list[Worker]:
        return [worker for worker in self.supervisors.workers.values() if worker.up]

    def _lines(self, workers: Sequence[Worker], *, last: bool = False) -> list[bytes]:
        """Return the records of workers, and start their next intervals."""
        now_ms = self._now_ms()
        spans_ms = [(self._known[worker.pid], now_ms) for worker in workers]
        for worker, (begun_ms, _) in zip(workers, spans_ms, strict=True):
            self._known[worker.pid], self._length_ms[worker.pid] = now_ms, now_ms - begun_ms
            worker.connections = self._connections(worker)
        return [*map(encode, self._recording.records(workers, self.supervisors.slots, spans_ms, last=last))]

    def _connections(self, worker: Worker) -> int | None:
        """Return the connections to a worker in its first minute: others learn of it by polling Nimbus's placements."""
        age_s = self.clock.time() - worker.start_ms / 1000
        if age_s > _REPORTED_S:
            return None
        others = [w for w in self._up() if w.topology == worker.topology and w is not worker]
        learned = age_s >= number_of(self.problem.conf, REFRESH_POLL, REFRESH_POLL_S)
        return len(others) if learned else sum(other.start_ms >= worker.start_ms for other in others)

    def _ship(self, lines: Sequence[bytes]) -> None:
        deliver = self.deliver
        if deliver and lines:
            self.clock.after(self._delay(RECORD), lambda: deliver(lines))

    def _now_ms(self) -> float:
        return self.clock.time() * 1000


class _StaticNimbus:
    """Context manager with a Nimbus that needs no start or end."""

    def __init__(self, nimbus: VirtualNimbus) -> None:
        self._nimbus = nimbus

    def __enter__(self) -> VirtualNimbus:
        return self._nimbus

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        pass
