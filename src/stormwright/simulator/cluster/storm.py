"""A virtual Storm cluster: Nimbus, supervisors and workers on one clock, over an engine that makes tuples flow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from stormwright.model import Problem, Topology
from stormwright.perflog.records import encode
from stormwright.predict.fit.file import costs_of
from stormwright.simulator.cluster.clock import VirtualClock
from stormwright.simulator.cluster.kept import Ask
from stormwright.simulator.cluster.meters import Meters, Used
from stormwright.simulator.cluster.nimbus import VirtualNimbus
from stormwright.simulator.cluster.records import Recording
from stormwright.simulator.cluster.supervisors import Supervisors, Worker
from stormwright.simulator.cluster.timings import RECORD, Delay, Timings
from stormwright.simulator.engine import Engine

#: Takes lines of the performance log as they arrive.
Deliver = Callable[[Sequence[bytes]], None]


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
        Takes what probes write; nobody at first.
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
        self.deliver: Deliver = lambda _: None
        self._meters = Meters(problem, costs_of(problem)[0])
        self._recording = Recording(problem, self._meters)
        self._known: dict[int, float] = {}
        clock.every(timings.probe_s, self._probe)

    def submit(self, topology: Topology) -> None:
        """Submit a topology of the problem."""
        self.nimbus.submit(topology)

    def gateway(self) -> AbstractContextManager[VirtualNimbus]:
        """Nimbus as a service opens it."""
        return _Open(self.nimbus)

    def used(self) -> Used:
        """What nodes have used since the beginning."""
        self.count()
        used = self._meters.used
        return Used(used.cpu_s.copy(), used.link_bytes.copy())

    def count(self) -> None:
        """What was done until now was done where everything is now."""
        for worker in self.supervisors.workers.values():
            if worker.pid not in self._known:
                self._meters.begin(worker.executors)
            if worker.pid not in self._known or not worker.up:
                self._known[worker.pid] = self._now_ms()
        self.engine.until(self.clock.monotonic())
        counted = self.engine.take()
        self._meters.add(counted, self.supervisors.slots)
        self._meters.stand([worker.slot for worker in self._up()], counted.length_s)

    def tell(self, worker: Worker, *, last: bool = False) -> None:
        """A worker tells of what its executors did; it may be the last time."""
        self.count()
        self._ship([self._line(worker, last=last)])

    def _probe(self) -> None:
        """Every worker that is up writes a record."""
        self.count()
        lines = [self._line(worker) for worker in self._up()]
        self._meters.next_interval()
        self._ship(lines)

    def _up(self) -> list[Worker]:
        return [worker for worker in self.supervisors.workers.values() if worker.up]

    def _line(self, worker: Worker, *, last: bool = False) -> bytes:
        span_ms = self._known[worker.pid], self._now_ms()
        self._known[worker.pid] = span_ms[1]
        return encode(self._recording.record(worker, self.supervisors.slots, span_ms, last=last))

    def _ship(self, lines: Sequence[bytes]) -> None:
        if lines:
            self.clock.after(self._delay(RECORD), lambda: self.deliver(lines))

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
