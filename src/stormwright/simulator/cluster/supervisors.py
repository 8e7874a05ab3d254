"""Virtual supervisors, and the workers that they start and stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Protocol

import numpy as np

from stormwright.model import Problem, TopologyAssignment
from stormwright.model.arrays import IntArray
from stormwright.model.topology_config import BLOB_POLL, BLOB_POLL_S, number_of
from stormwright.simulator.cluster.clock import VirtualClock
from stormwright.simulator.cluster.nimbus import ACTIVE, VirtualNimbus
from stormwright.simulator.cluster.timings import REFRESH_POLL, REFRESH_POLL_S, Timings
from stormwright.simulator.engine import NOWHERE, Engine

#: Seconds for which a supervisor goes on to fetch the configuration of a topology after a worker was to end, at least.
_HELD_S = 3.0

#: Port → topology and executors.
Ports = Mapping[int, tuple[str, tuple[int, ...]]]


class DesiredWorkers:
    """Cache of the desired workers by supervisor, as all supervisors poll them.

    Parameters
    ----------
    problem
        Problem with the numbering of executors.
    nimbus
        Nimbus with the assignments; each of its `changes` renews the cache.
    """

    def __init__(self, problem: Problem, nimbus: VirtualNimbus) -> None:
        self._problem, self._nimbus, self._changes = problem, nimbus, -1
        self._routed: dict[str, TopologyAssignment | None] = {}
        self._on: dict[str, dict[str, Ports]] = {}

    def on(self, supervisor: str) -> Ports:
        """Return the desired workers of a supervisor."""
        if self._changes != self._nimbus.changes:
            self._renew()
            self._changes = self._nimbus.changes
        wanted: dict[int, tuple[str, tuple[int, ...]]] = {}
        for ports in self._on.get(supervisor, {}).values():
            wanted |= ports
        return wanted

    def _renew(self) -> None:
        entries = self._nimbus.entries
        now = {topology: entry.assignment for topology, entry in entries.items()}
        for topology, before in self._routed.items():
            if before is not None and now.get(topology) is not before:
                for supervisor in {slot.supervisor for slot in before.slots}:
                    self._on[supervisor].pop(topology, None)
        for topology, placed in now.items():
            if placed is not None and self._routed.get(topology) is not placed:
                for supervisor, ports in self._of(topology, placed).items():
                    self._on.setdefault(supervisor, {})[topology] = ports
        self._routed = now

    def _of(self, topology: str, placed: TopologyAssignment) -> dict[str, Ports]:
        first = self._problem.executors_of(self._problem.topology_index[topology]).start
        found: dict[int, list[int]] = {}
        for executor, at in enumerate(placed.slot_of_executor):
            found.setdefault(at, []).append(first + executor)
        on: dict[str, dict[int, tuple[str, tuple[int, ...]]]] = {}
        for at, executors in found.items():
            slot = placed.slots[at]
            on.setdefault(slot.supervisor, {})[slot.port] = topology, tuple(executors)
        return on  # type: ignore[return-value]  # it is never modified


@dataclass(eq=False)
class Worker:
    """One run of a worker process.

    Parameters
    ----------
    topology
        Id of its topology.
    supervisor, port, slot
        Location of the worker; the last is the number of its slot.
    executors
        Its executors, numbered over the problem.
    pid
        Process id, different for every start of a worker.
    start_ms
        Start time, in ms since 1970.
    up
        Whether its executors run.
    ending
        Whether it is stopping.
    seq
        Number of its next record.
    connections
        Connections of other workers to it, as its probe reports them after the start; None if it does not.
    version
        Version of its topology's configuration that it runs with.
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
    connections: int | None = None
    version: int = 0


class Probes(Protocol):
    """Interface of the probes of workers."""

    def count(self) -> None:
        """Attribute everything counted so far to the present placement."""

    def begin(self, worker: Worker) -> None:
        """Start the first interval of a worker that was started or has come up."""

    def report(self, worker: Worker, *, last: bool = False) -> None:
        """Write a record of a worker, possibly its last one."""


class Supervisors:
    """All supervisors of a cluster.

    Parameters
    ----------
    clock, timings
        Virtual time, and durations.
    problem
        Problem with all nodes, and all topologies that will ever exist, which numbers executors and slots.
    nimbus
        Nimbus with the assignments, which records lost supervisors and their return.
    engine
        Engine that processes tuples.
    probes
        Probes of workers, called before every change.

    Attributes
    ----------
    workers
        Workers by supervisor and port.
    slots
        Slot of every executor, `NOWHERE` for those that do not run, shape (E,).
    running
        Whether its worker is up, shape (E,).
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
        self.running = np.zeros(problem.num_executors, dtype=bool)
        self._wanted, self._places = DesiredWorkers(problem, nimbus), problem.slots
        self._ports = {node.id: node.ports for node in problem.supervisors}
        self._pids = count(1000)
        self._down: set[str] = set()
        self._suspended: dict[str, int] = {}
        # Version of the files of topologies that nodes have, and downloads.
        self._has, self._downloads = dict[tuple[str, str], int](), set[tuple[str, str]]()
        self._blob_poll_s = number_of(problem.conf, BLOB_POLL, BLOB_POLL_S)
        # Slots to which the tuples of executors are sent, and workers to which they will be: moment and seconds since
        # the start → workers.
        self._routed = self.slots.copy()
        self._unrouted: dict[tuple[float, float], list[Worker]] = {}
        self._refresh_s = number_of(problem.conf, REFRESH_POLL, REFRESH_POLL_S)
        nodes = [node.id for node in problem.supervisors]
        for number, node in enumerate(nodes):
            first_s = timings.sync_s * (number + 1) / len(nodes)
            clock.every(timings.sync_s, lambda node=node: self.assigned(node), first_s)  # type: ignore[misc]

    def assigned(self, supervisor: str) -> None:
        """Start and stop workers according to Nimbus's assignments."""
        if supervisor in self._down or supervisor in self._suspended:
            return
        wanted = self._wanted.on(supervisor)
        for port in self._ports[supervisor]:
            worker = self.workers.get((supervisor, port))
            if worker is not None and not worker.ending and wanted.get(port) != _assignment_of(worker):
                self._end(worker)
        for port, assignment in wanted.items():
            if (supervisor, port) not in self.workers and self._has_files(supervisor, assignment[0]):
                self._start(supervisor, port, *assignment)

    def status(self, topology: str) -> None:
        """Pass a topology's status to its spouts."""
        entry, number = self._nimbus.entries.get(topology), self._problem.topology_index[topology]
        self._engine.until(self._clock.monotonic())
        self._engine.activate(number, entry is not None and entry.status == ACTIVE)

    def gone(self, topology: str) -> None:
        """Stop the workers of a killed topology."""
        for supervisor in {worker.supervisor for worker in self.workers.values() if worker.topology == topology}:
            self.assigned(supervisor)

    def configured(self, topology: str) -> None:
        """Fetch the new configuration of a topology where its workers run, at each supervisor's next look for blobs."""
        used = {worker.supervisor for worker in self.workers.values() if worker.topology == topology}
        nodes = [node.id for node in self._problem.supervisors]
        for number, node in enumerate(nodes):
            delay_s = self._blob_poll_s * (number + 1) / len(nodes)
            if node in used:
                held = delay_s <= _HELD_S
                self._clock.after(delay_s, lambda node=node, held=held: self._fetch(node, topology, held))  # type: ignore[misc]

    def _fetch(self, supervisor: str, topology: str, held: bool = False) -> None:
        """Fetch the configuration of a topology; its workers with an earlier one end, and start again.

        Where none of them needs it, and none has ended only just (`held`), Storm leaves an earlier one there.
        """
        if supervisor in self._down or supervisor in self._suspended:
            self._clock.after(self._blob_poll_s, lambda: self._fetch(supervisor, topology))
            return
        entry = self._nimbus.entries.get(topology)
        if entry is None:
            return
        here = [w for w in self.workers.values() if (w.supervisor, w.topology) == (supervisor, topology)]
        if not here and not held:
            return
        self._has[supervisor, topology] = entry.version
        for worker in here:
            if worker.version != entry.version and not worker.ending:
                self._end(worker)

    def kill(self, supervisor: str, port: int) -> None:
        """Kill a worker abruptly; its supervisor detects that and restarts it."""
        self._probes.count()
        worker = self.workers.pop((supervisor, port), None)
        if worker is not None:
            self._leave(worker)
            self._clock.after(self._timings.restart_s, lambda: self.assigned(supervisor))

    def node(self, supervisor: str, up: bool) -> None:
        """Stop a node with all its workers, or bring it back."""
        if up:
            self._down.discard(supervisor)
            self._nimbus.find(supervisor)
            self.assigned(supervisor)
            return
        self._down.add(supervisor)
        self._probes.count()
        for place in [place for place in self.workers if place[0] == supervisor]:
            self._leave(self.workers.pop(place))
        self._clock.after(self._timings.session_s, lambda: self._silent(supervisor))

    def suspend(self, supervisor: str, seconds: float) -> None:
        """Stop a supervisor for some seconds; its workers run on."""
        self._suspended[supervisor] = self._suspended.get(supervisor, 0) + 1
        self._clock.after(self._timings.session_s, lambda: self._silent(supervisor))
        self._clock.after(seconds, lambda: self._resume(supervisor))

    def _resume(self, supervisor: str) -> None:
        self._suspended[supervisor] -= 1
        if not self._suspended[supervisor]:
            del self._suspended[supervisor]
            if supervisor not in self._down:
                self._nimbus.find(supervisor)
            self.assigned(supervisor)

    def _silent(self, supervisor: str) -> None:
        if supervisor in self._down or supervisor in self._suspended:
            self._nimbus.lose(supervisor)

    def _has_files(self, supervisor: str, topology: str) -> bool:
        """Return whether a node has the files of a topology; else begin to download them."""
        if (supervisor, topology) in self._has:
            return True
        if not self._timings.localize_s:
            self._has[supervisor, topology] = self._nimbus.entries[topology].version
            return True
        if (supervisor, topology) not in self._downloads:
            self._downloads.add((supervisor, topology))
            self._clock.after(self._timings.localize_s, lambda: self._downloaded(supervisor, topology))
        return False

    def _downloaded(self, supervisor: str, topology: str) -> None:
        self._downloads.remove((supervisor, topology))
        entry = self._nimbus.entries.get(topology)
        self._has[supervisor, topology] = entry.version if entry else 0
        self.assigned(supervisor)

    def _start(self, supervisor: str, port: int, topology: str, executors: tuple[int, ...]) -> None:
        slot = self._problem.cluster.slot_index[supervisor, port]  # type: ignore[index]  # equal to a worker slot
        start_ms = round(self._clock.time() * 1000)
        worker = Worker(topology, supervisor, port, slot, np.array(executors, np.int32), next(self._pids), start_ms)
        worker.version = self._has[supervisor, topology]
        if worker.version != self._nimbus.entries[topology].version:
            self._clock.after(self._blob_poll_s, lambda: self._fetch(supervisor, topology))
        self._probes.count()
        delay_s = 0.0
        for held in set(self.slots[worker.executors].tolist()) - {NOWHERE}:
            other = self.workers.get((self._places[held].supervisor, self._places[held].port))
            if other is not None and other.up:
                self._probes.report(other)
                delay_s = max(delay_s, self._until_refresh_s(worker, other))
        self.workers[supervisor, port] = worker
        self.slots[worker.executors] = slot
        self.running[worker.executors] = False
        self._probes.begin(worker)
        self._route_after(worker, delay_s)
        self._clock.after(self._timings.start_s, lambda: self._come_up(worker))

    def _until_refresh_s(self, worker: Worker, before: Worker) -> float:
        """Return the seconds until others of a topology send to a worker instead of the one before.

        They poll Nimbus's assignments, each since its own start; the one before works on as long.
        """
        others = [w for w in self.workers.values() if w.topology == worker.topology and w.up and w is not before]
        if not others:
            return 0.0
        since_s = self._clock.time() - min(other.start_ms for other in others) / 1000
        return min(self._refresh_s - since_s % self._refresh_s, self._timings.start_s)

    def _route_after(self, worker: Worker, delay_s: float) -> None:
        """Send tuples to a worker after a delay; one engine call for all workers at one instant."""
        due = self._clock.monotonic() + delay_s, delay_s
        if due not in self._unrouted:
            self._unrouted[due] = []
            self._clock.after(delay_s, lambda: self._route(due))
        self._unrouted[due].append(worker)

    def _route(self, due: tuple[float, float]) -> None:
        for worker in self._unrouted.pop(due):
            own = worker.executors[self.slots[worker.executors] == worker.slot]
            self._routed[own] = worker.slot
        self._place(due[1])

    def _place(self, started_s: float = 0.0) -> None:
        self._engine.until(self._clock.monotonic())
        self._engine.place(self._routed, started_s)

    def _come_up(self, worker: Worker) -> None:
        if self.workers.get((worker.supervisor, worker.port)) is worker and not worker.ending:
            worker.up = True
            self._probes.count()
            self.running[worker.executors[self.slots[worker.executors] == worker.slot]] = True
            self._probes.begin(worker)
            self.status(worker.topology)

    def _end(self, worker: Worker) -> None:
        worker.ending = True
        self._clock.after(self._timings.stop_s, lambda: self._has_ended(worker))

    def _has_ended(self, worker: Worker) -> None:
        if self.workers.get((worker.supervisor, worker.port)) is not worker:
            return  # it is already dead
        if worker.up:
            self._probes.report(worker, last=True)
        del self.workers[worker.supervisor, worker.port]
        self._leave(worker)
        self.assigned(worker.supervisor)

    def _leave(self, worker: Worker) -> None:
        """Stop a worker's executors, unless they were started elsewhere."""
        own = worker.executors[self.slots[worker.executors] == worker.slot]
        self.slots[own], self.running[own] = NOWHERE, False
        self._routed[worker.executors[self._routed[worker.executors] == worker.slot]] = NOWHERE
        self._place()


def _assignment_of(worker: Worker) -> tuple[str, tuple[int, ...]]:
    return worker.topology, tuple(worker.executors.tolist())
