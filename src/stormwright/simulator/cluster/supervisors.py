"""Virtual supervisors, and the workers that they start and end."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Protocol

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import IntArray
from stormwright.simulator.cluster.clock import VirtualClock
from stormwright.simulator.cluster.kept import ACTIVE, Entry
from stormwright.simulator.cluster.nimbus import VirtualNimbus
from stormwright.simulator.cluster.timings import Timings
from stormwright.simulator.engine import NOWHERE, Engine


@dataclass(eq=False)
class Worker:
    """One life of one worker.

    Parameters
    ----------
    topology
        Its id.
    supervisor, port, slot
        Where it is; the last is the number of its slot.
    executors
        Which it holds, numbered over the problem.
    pid
        No other life has it.
    start_ms
        When it was started, in ms since 1970.
    up
        Whether its executors run.
    ending
        Whether it was told to end.
    seq
        Number of its next record.
    """

    topology: str
    supervisor: str
    port: int
    slot: int
    executors: IntArray
    pid: int
    start_ms: int
    up: bool = False
    ending: bool = False
    seq: int = 0


class Probes(Protocol):
    """What counts for workers."""

    def count(self) -> None:
        """What was done until now was done where everything is now."""

    def tell(self, worker: Worker, *, last: bool = False) -> None:
        """A worker tells of what its executors did; it may be the last time."""


class Supervisors:
    """All supervisors of a cluster.

    Parameters
    ----------
    clock, timings
        Virtual time, and how long things take.
    problem
        With all nodes, and all topologies that will ever be there: it numbers executors and slots.
    nimbus
        Tells what should run.
    engine
        Makes tuples flow.
    probes
        Count what workers do, each time before anything of that changes.

    Attributes
    ----------
    workers
        By supervisor and port.
    slots
        Slot of every executor, `NOWHERE` for those that do not run, shape (E,).
    """

    def __init__(
        self,
        clock: VirtualClock,
        timings: Timings,
        problem: Problem,
        nimbus: VirtualNimbus,
        engine: Engine,
        probes: Probes,
    ) -> None:
        self._clock, self._timings, self._problem = clock, timings, problem
        self._nimbus, self._engine, self._probes = nimbus, engine, probes
        self.workers: dict[tuple[str, int], Worker] = {}
        self.slots = np.full(problem.num_executors, NOWHERE, np.int32)
        self._pids = count(1000)
        self._down: set[str] = set()
        nodes = [node.id for node in problem.supervisors]
        for number, node in enumerate(nodes):
            first_s = timings.sync_s * (number + 1) / len(nodes)
            clock.every(timings.sync_s, lambda node=node: self.assigned(node), first_s)  # type: ignore[misc]

    # What Nimbus tells ----------------------------------------------------------------------------------

    def assigned(self, supervisor: str) -> None:
        """Let run what Nimbus has there now, and nothing else."""
        if supervisor in self._down:
            return
        wanted = self._wanted(supervisor)
        for (node, port), worker in list(self.workers.items()):
            if node == supervisor and not worker.ending and wanted.get(port) != _told(worker):
                self._end(worker)
        for port, told in wanted.items():
            if (supervisor, port) not in self.workers:
                self._start(supervisor, port, *told)

    def status(self, topology: str) -> None:
        """Spouts hear whether they may emit."""
        entry, number = self._nimbus.entries.get(topology), self._problem.topology_index[topology]
        self._engine.until(self._clock.monotonic())
        self._engine.activate(number, entry is not None and entry.status == ACTIVE)

    def gone(self, topology: str) -> None:
        """A topology was killed: its workers end."""
        for supervisor in {worker.supervisor for worker in self.workers.values() if worker.topology == topology}:
            self.assigned(supervisor)

    # What happens to them ------------------------------------------------------------------------------

    def kill(self, supervisor: str, port: int) -> None:
        """A worker dies, without another word; it is found dead and started again."""
        self._probes.count()
        worker = self.workers.pop((supervisor, port), None)
        if worker is not None:
            self._leave(worker)
            self._clock.after(self._timings.restart_s, lambda: self.assigned(supervisor))

    def node(self, supervisor: str, up: bool) -> None:
        """A node goes down with all its workers, or comes back."""
        if up:
            self._down.discard(supervisor)
            self._nimbus.find(supervisor)
            self.assigned(supervisor)
            return
        self._down.add(supervisor)
        self._probes.count()
        for place in [place for place in self.workers if place[0] == supervisor]:
            self._leave(self.workers.pop(place))
        self._clock.after(self._timings.supervisor_s, lambda: self._silent(supervisor))

    def _silent(self, supervisor: str) -> None:
        if supervisor in self._down:
            self._nimbus.lose(supervisor)

    def _wanted(self, supervisor: str) -> dict[int, tuple[str, tuple[int, ...]]]:
        """Port → topology and its executors there, by what ZooKeeper has."""
        wanted: dict[int, tuple[str, tuple[int, ...]]] = {}
        for topology, entry in self._nimbus.entries.items():
            for port, executors in self._of(entry, supervisor).items():
                wanted[port] = topology, executors
        return wanted

    def _of(self, entry: Entry, supervisor: str) -> dict[int, tuple[int, ...]]:
        if entry.assignment is None:
            return {}
        first = self._problem.executors_of(self._problem.topology_index[entry.topology.id]).start
        found: dict[int, list[int]] = {}
        for executor, at in enumerate(entry.assignment.slot_of_executor):
            slot = entry.assignment.slots[at]
            if slot.supervisor == supervisor:
                found.setdefault(slot.port, []).append(first + executor)
        return {port: tuple(executors) for port, executors in found.items()}

    def _start(self, supervisor: str, port: int, topology: str, executors: tuple[int, ...]) -> None:
        slot = self._problem.cluster.slot_index[supervisor, port]  # type: ignore[index]  # equal to a worker slot
        start_ms = round(self._clock.time() * 1000)
        worker = Worker(topology, supervisor, port, slot, np.array(executors, np.int32), next(self._pids), start_ms)
        self._probes.count()
        for other in list(self.workers.values()):
            if other.up and np.any(np.isin(other.executors, executors) & (self.slots[other.executors] == other.slot)):
                self._probes.tell(other)
        self.workers[supervisor, port] = worker
        self.slots[worker.executors] = slot
        self._engine.until(self._clock.monotonic())
        self._engine.place(self.slots)
        self._clock.after(self._timings.start_s, lambda: self._come_up(worker))

    def _come_up(self, worker: Worker) -> None:
        if self.workers.get((worker.supervisor, worker.port)) is worker and not worker.ending:
            worker.up = True
            self.status(worker.topology)

    def _end(self, worker: Worker) -> None:
        worker.ending = True
        self._clock.after(self._timings.stop_s, lambda: self._has_ended(worker))

    def _has_ended(self, worker: Worker) -> None:
        if self.workers.get((worker.supervisor, worker.port)) is not worker:
            return  # it has died before
        if worker.up:
            self._probes.tell(worker, last=True)
        del self.workers[worker.supervisor, worker.port]
        self._leave(worker)
        self.assigned(worker.supervisor)

    def _leave(self, worker: Worker) -> None:
        """Its executors run no longer, unless they were started elsewhere."""
        own = worker.executors[self.slots[worker.executors] == worker.slot]
        self._engine.until(self._clock.monotonic())
        self.slots[own] = NOWHERE
        self._engine.place(self.slots)


def _told(worker: Worker) -> tuple[str, tuple[int, ...]]:
    return worker.topology, tuple(worker.executors.tolist())
