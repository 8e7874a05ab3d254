"""A virtual Storm cluster: Nimbus, supervisors and workers on one clock, over an engine that makes tuples flow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from stormwright.model import Problem, Topology, TopologyAssignment
from stormwright.perflog.records import encode
from stormwright.predict.calibration.document import costs_of
from stormwright.simulator.cluster.clock import VirtualClock
from stormwright.simulator.cluster.meters import Meters, NodeUsage
from stormwright.simulator.cluster.nimbus import ACTIVE, Ask, VirtualNimbus
from stormwright.simulator.cluster.records import Recording
from stormwright.simulator.cluster.supervisors import Supervisors, Worker
from stormwright.simulator.cluster.timings import RECORD, Delay, Timings
from stormwright.simulator.engine import Engine, EngineCounts

#: Takes lines of the performance log as they arrive.
Deliver = Callable[[Sequence[bytes]], None]

#: An interval may be so many times as long as the one before: a worker that tells still more rarely is taken for dead.
_RARER = 4

#: Takes what was counted while nothing changed where executors run.
Heard = Callable[[EngineCounts], None]


def nobody(_: Problem) -> Any:
    """A scheduler's service that is not there.

    Raises
    ------
    ConnectionError
        Always.
    """
    raise ConnectionError("no service is there")


class VirtualStorm:
    """A Storm cluster in virtual time.

    Parameters
    ----------
    clock
        Virtual time; as it passes everything here goes on.
    problem
        All nodes, and all topologies that will ever be submitted, with the load that they have.
    engine
        Makes tuples flow among the problem's executors.
    fallback
        Places topologies where no service answers, as Storm's own scheduler would.
    timings, delay
        How long things take; what is told takes `Timings.message_s` where nobody says else.

    Attributes
    ----------
    nimbus
        What clients call.
    deliver
        Takes what probes write, which write nothing as long as nobody does.
    heard
        Takes what is counted, at once and whole; nobody at first.
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
        self.nimbus = VirtualNimbus(clock, problem, nobody, fallback, timings, self._delay)
        self.supervisors = Supervisors(clock, timings, problem, self.nimbus, engine, self)
        self.nimbus.hears = self.supervisors
        self.deliver: Deliver | None = None
        self._meters = Meters(problem, costs_of(problem)[0])
        self._recording = Recording(problem, self._meters)
        self.heard: Heard = lambda _: None
        self._counted_s = -1.0
        # Of every life of a worker: when its next record begins, and how long the last one was, in ms.
        self._known: dict[int, float] = {}
        self._length_ms: dict[int, float] = {}
        clock.every(timings.probe_s, self._probe)

    def submit(self, topology: Topology, placed: TopologyAssignment | None = None) -> None:
        """Submit a topology of the problem, which Nimbus places where that was not done already."""
        self.nimbus.submit(topology, placed)

    def gateway(self) -> AbstractContextManager[VirtualNimbus]:
        """Nimbus as a service opens it."""
        return _Open(self.nimbus)

    def used(self) -> NodeUsage:
        """What nodes have used since the beginning."""
        self.count()
        used = self._meters.used
        return NodeUsage(used.cpu_s.copy(), used.link_bytes.copy())

    def count(self) -> None:
        """What was done until now was done where everything is now."""
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
        """A worker was started, or has come up: its next record begins now."""
        if worker.pid not in self._known:
            self._meters.begin(worker.executors)
        self._known[worker.pid] = self._now_ms()

    def tell(self, worker: Worker, *, last: bool = False) -> None:
        """A worker tells of what its executors did; it may be the last time."""
        if self.deliver is None:
            return
        self.count()
        self._ship(self._lines([worker], last=last))

    def _probe(self) -> None:
        """Every worker that is up writes a record; where nothing changes, less and less often."""
        told = self._due() if self.deliver else []
        if told:
            self.count()
            lines = self._lines(told)
            self._meters.next_interval([worker.slot for worker in told])
            self._ship(lines)

    def _due(self) -> list[Worker]:
        """Workers that tell now."""
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
        """The records of workers, whose next ones begin now."""
        now_ms = self._now_ms()
        spans_ms = [(self._known[worker.pid], now_ms) for worker in workers]
        for worker, (begun_ms, _) in zip(workers, spans_ms, strict=True):
            self._known[worker.pid], self._length_ms[worker.pid] = now_ms, now_ms - begun_ms
        return [*map(encode, self._recording.records(workers, self.supervisors.slots, spans_ms, last=last))]

    def _ship(self, lines: Sequence[bytes]) -> None:
        deliver = self.deliver
        if deliver and lines:
            self.clock.after(self._delay(RECORD), lambda: deliver(lines))

    def _now_ms(self) -> float:
        return self.clock.time() * 1000


class _Open:
    """Nimbus, which nobody needs to start or end."""

    def __init__(self, nimbus: VirtualNimbus) -> None:
        self._nimbus = nimbus

    def __enter__(self) -> VirtualNimbus:
        return self._nimbus

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        pass
