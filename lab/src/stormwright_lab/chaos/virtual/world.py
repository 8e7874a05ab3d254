"""A small virtual cluster on which topologies run, and in which faults happen by schedule."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

import numpy as np

from stormwright.defaults import BASELINE
from stormwright.model import (
    Assignment,
    Component,
    Grouping,
    LoadProfile,
    Problem,
    Supervisor,
    Topology,
    TopologyAssignment,
    TopologyLoad,
    WorkerSlot,
    default_executor_runs,
)
from stormwright.model.arrays import IntArray
from stormwright.model.assignment import UNPLACED
from stormwright.model.cluster import DEFAULT_CORE_HZ
from stormwright.schedulers import make_scheduler
from stormwright.simulator.cluster.clock import VirtualClock
from stormwright.simulator.cluster.nimbus import ACTIVE, REBALANCING, Ask, VirtualNimbus
from stormwright.simulator.cluster.storm import Deliver, VirtualStorm, unavailable
from stormwright.simulator.cluster.timings import Timings
from stormwright.simulator.settings import SimulatorSettings
from stormwright.simulator.storm.engine import Events
from stormwright.storm.bridge import NimbusAnswer
from stormwright_lab.chaos.scenarios import FaultKind, FaultTarget, Moment
from stormwright_lab.chaos.virtual.schedule import USUAL_S, Schedule, ScheduledFault

#: Trees/s that a topology begins, and seconds of them that its spout makes up for after a pause; part of a core that
#: each of its bolts uses. A bolt takes 50 ms for a tuple, and a tree a quarter of a second with those that wait: some
#: are always pending, so that trees that are not drained are lost.
_BEGIN_TPS, _BACKLOG_S, _BOLT_CORES = 32.0, 0.1, 0.8

#: Executors of each topology: an acker, a spout and two bolts, in the order of their tasks.
_EXECUTORS = 4

#: Seconds of a message on a slow link, and until supervision has restarted a process.
_SLOW_S, _RESTART_S = 2.0, 4.0

_ORDER = tuple(Moment)

_EVEN = make_scheduler(BASELINE)


class Killed(BaseException):
    """The service's process is gone; no code of it runs any more."""


class WorldClock(VirtualClock):
    """Clock on which every wait of the service is a step, and which can be set."""

    world: VirtualWorld

    def sleep(self, seconds: float) -> None:
        """Advance by some seconds."""
        self.world.step()
        super().sleep(seconds)

    def wait(self, changed: threading.Condition, timeout_s: float) -> None:
        """Advance until an event has run, or the timeout."""
        self.world.step()
        super().wait(changed, timeout_s)

    def stopped(self, stop: threading.Event, timeout_s: float) -> bool:
        """Advance unless the event is set."""
        self.world.step()
        return super().stopped(stop, timeout_s)

    def advance(self, seconds: float) -> None:
        """Advance while no service runs."""
        super().sleep(seconds)


class ServiceClock:
    """Clock of the service's machine: the time of day can be changed, all else is the cluster's time.

    Parameters
    ----------
    clock
        Clock of the cluster.
    """

    def __init__(self, clock: WorldClock) -> None:
        self._clock = clock
        self.ahead_s = 0.0

    def time(self) -> float:
        """Return seconds since 1970, changed."""
        return self._clock.time() + self.ahead_s

    def monotonic(self) -> float:
        """Return seconds since the start."""
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        """Advance by some seconds."""
        self._clock.sleep(seconds)

    def wait(self, changed: threading.Condition, timeout_s: float) -> None:
        """Advance until an event has run, or the timeout."""
        self._clock.wait(changed, timeout_s)

    def stopped(self, stop: threading.Event, timeout_s: float) -> bool:
        """Advance unless the event is set."""
        return self._clock.stopped(stop, timeout_s)


class VirtualWorld:
    """The virtual cluster of a schedule.

    Parameters
    ----------
    schedule
        What happens in it.

    Attributes
    ----------
    steps, messages
        Numbers so far.
    workers_killed
        Number of workers that were killed, so that trees may have been lost.
    dead, away_s
        Whether the service is killed, and seconds until it starts again.
    counting
        Whether steps and messages count.
    clock, service_clock
        Clock of the cluster, and that of the service's machine.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.start, self.wanted = exchange_cluster(schedule.world) if _swaps(schedule) else cluster_of(schedule.world)
        self._pending = list(schedule.faults)
        self._skipped: dict[int, int] = {}
        self._late = dict(schedule.late)
        self.steps, self.messages, self.workers_killed = 0, 0, 0
        self.dead, self.counting, self.alive = False, False, False
        self.away_s = _RESTART_S
        self._moment: Moment | None = None
        self._paused_at: dict[str, list[WorkerSlot | None]] | None = None
        self._no_gateway_until_s = self._no_disk_until_s = self._slow_until_s = self._cut_until_s = 0.0
        self._in_force_until_s = 0.0
        self._undelivered: list[bytes] = []
        self._deliver: Deliver = lambda _: None
        self._ask: Ask = unavailable
        self.clock = WorldClock(1_795_219_140.0)
        self.clock.world = self
        self.service_clock = ServiceClock(self.clock)
        settings = SimulatorSettings.of(
            self.start, backlog_s=_BACKLOG_S, startup_s=Timings().start_s, seed=schedule.world
        )
        self.engine = Events(self.start, np.full(self.start.num_executors, UNPLACED, np.int32), settings)
        self.storm = VirtualStorm(self.clock, self.start, self.engine, evenly, Timings(), self._delay)
        self.nimbus: VirtualNimbus = self.storm.nimbus
        self.nimbus.ask = lambda _: NimbusAnswer(self.start.current)
        for topology in self.start.topologies:
            self.storm.submit(topology)
        self.clock.advance(8.0)
        self.nimbus.ask, self.storm.deliver = self._answer, self._take

    def connect(self, ask: Ask, deliver: Deliver) -> None:
        """Connect a service: it answers Nimbus and receives records."""
        self._ask, self._deliver, self.alive = ask, deliver, True

    def disconnect(self) -> None:
        """The service's process is gone; records that it would have received are lost."""
        self._ask, self._deliver, self.alive = unavailable, lambda _: None, False
        self._undelivered.clear()

    def begin_move(self) -> None:
        """Begin to look for moments."""
        self._moment = Moment.BEFORE

    def end_move(self) -> None:
        """Note that a move was made."""
        if self._moment is not None:
            self._moment, self._paused_at = Moment.EVALUATING, None

    def call_fails(self) -> bool:
        """Return whether a call to Nimbus fails on its way, after waiting for a stopped gateway."""
        return self.clock.monotonic() < max(self._no_gateway_until_s, self._cut_until_s)

    def is_calm(self) -> bool:
        """Return whether no fault is in force or delayed, and no topology is paused."""
        over = self.clock.monotonic() >= self._in_force_until_s
        return over and self.nimbus.up and all(e.status == ACTIVE for e in self.nimbus.entries.values())

    def disk_full(self) -> bool:
        """Return whether the disk of the service is full."""
        return self.clock.monotonic() < self._no_disk_until_s

    def _answer(self, problem: Problem) -> NimbusAnswer:
        if self.clock.monotonic() < self._cut_until_s:
            raise ConnectionError("the service cannot be reached")
        return self._ask(problem)  # type: ignore[return-value]

    def _take(self, lines: Sequence[bytes]) -> None:
        """Pass records on; while the service cannot be reached, probes spool them."""
        self._undelivered += lines
        if self.clock.monotonic() >= self._cut_until_s:
            lines, self._undelivered = self._undelivered, []
            self._deliver(lines)

    def step(self) -> None:
        """Count a step of the service, at which faults may begin."""
        if self.dead:
            raise Killed
        if not self.counting:
            return
        self.steps += 1
        if not self._pending:
            return
        self._see_moment()
        due = [each for each in self._pending if self._is_due(each)]
        self._pending = [each for each in self._pending if each not in due]
        for each in due:
            if each.fault.delay_s:
                self._in_force_until_s = max(self._in_force_until_s, self.clock.monotonic() + each.fault.delay_s + 0.1)
                self.clock.after(each.fault.delay_s, lambda each=each: self._begin(each))  # type: ignore[misc]
            else:
                self._begin(each)

    def _is_due(self, each: ScheduledFault) -> bool:
        if isinstance(each.when, int):
            return each.when == self.steps - 1
        if self._moment is None or _ORDER.index(self._moment) < _ORDER.index(each.when):
            return False
        waited = self._skipped.get(id(each), 0)
        self._skipped[id(each)] = waited + 1
        return waited >= each.skip

    def _see_moment(self) -> None:
        """Update the moment of the current move."""
        if self._moment is None or self._moment is Moment.EVALUATING:
            return
        paused = {e.topology.id: e.status for e in self.nimbus.entries.values() if e.status != ACTIVE}
        if not paused:
            if self._paused_at is not None:
                self._moment, self._paused_at = Moment.RESUMING, None
            return
        where = {topology: slots for topology, slots in self.where().items() if topology in paused}
        if self._paused_at is None:
            self._paused_at, self._moment = where, Moment.PAUSED
        elif REBALANCING in paused.values() or where != self._paused_at:
            self._moment = Moment.SWAPPING if self._has_ended() else Moment.ORDERED

    def _has_ended(self) -> bool:
        """Return whether an old worker of a paused topology has ended."""
        running = {(w.topology, w.supervisor, w.port) for w in self.storm.supervisors.workers.values()}
        old = {(topology, *slot) for topology, slots in (self._paused_at or {}).items() for slot in slots if slot}
        return bool(old - running)

    def _begin(self, each: ScheduledFault) -> None:
        """Begin a fault now."""
        fault, lasts_s = each.fault, each.fault.duration_s or _RESTART_S
        now_s = self.clock.monotonic()
        self._in_force_until_s = max(self._in_force_until_s, now_s + lasts_s)
        match fault.kind, fault.target:
            case FaultKind.KILL | FaultKind.RESTART, FaultTarget.SERVICE:
                self._kill_service(lasts_s)
            case FaultKind.STOP, FaultTarget.SERVICE:
                self._stop_service(lasts_s)
            case FaultKind.CUT | FaultKind.REFUSE, FaultTarget.SERVICE:
                self._cut_until_s = now_s + lasts_s
            case FaultKind.FILL_DISK, _:
                self._no_disk_until_s = now_s + lasts_s
            case FaultKind.SET_CLOCK, _:
                seconds = float(fault.parameters.get("seconds", -3600))
                self.service_clock.ahead_s += seconds
                self.clock.after(lasts_s, lambda: self._change_clock(-seconds))
            case FaultKind.SLOW_LINK, _:
                self._slow_until_s = now_s + lasts_s
            case FaultKind.REFUSE, FaultTarget.NIMBUS:
                for node in self.start.supervisors:
                    self.storm.supervisors.suspend(node.id, lasts_s)
            case _, FaultTarget.NIMBUS | FaultTarget.ZOOKEEPER:
                self.nimbus.die(lasts_s)
            case _, FaultTarget.GATEWAY:
                self._no_gateway_until_s = now_s + (lasts_s if fault.kind is FaultKind.STOP else 0.1)
            case FaultKind.KILL, FaultTarget.SOURCE_NODE | FaultTarget.TARGET_NODE | FaultTarget.OTHER_NODE:
                self._kill_node(self._node(each), lasts_s)
            case _, FaultTarget.SOURCE_SUPERVISOR | FaultTarget.TARGET_SUPERVISOR:
                self.storm.supervisors.suspend(self._node(each), lasts_s)
            case FaultKind.CUT, _:
                self.storm.supervisors.suspend(self._node(each), lasts_s)
            case FaultKind.KILL, FaultTarget.MOVING_WORKER | FaultTarget.UNCHANGED_WORKER:
                self._kill_worker(each)

    def _change_clock(self, seconds: float) -> None:
        self.service_clock.ahead_s += seconds

    def _kill_service(self, away_s: float) -> None:
        if self.alive:
            self.away_s, self.dead, self.alive = away_s, True, False
            raise Killed

    def _stop_service(self, seconds: float) -> None:
        """Let time pass without the service; Nimbus gets no answers, and probes spool their records."""
        if self.alive:
            self.alive, self._cut_until_s = False, self.clock.monotonic() + seconds
            self.clock.advance(seconds)
            self.alive = True

    def _kill_node(self, node: str, lasts_s: float) -> None:
        supervisors = self.storm.supervisors
        self.workers_killed += sum(place[0] == node for place in supervisors.workers)
        supervisors.node(node, up=False)
        self.clock.after(lasts_s, lambda: supervisors.node(node, up=True))

    def _kill_worker(self, each: ScheduledFault) -> None:
        places = sorted(self.storm.supervisors.workers)
        if isinstance(each.when, Moment):
            moved = self._moved_slots()
            moving = each.fault.target is FaultTarget.MOVING_WORKER
            places = [place for place in places if (place in moved) is moving] or places
        if places:
            self.workers_killed += 1
            self.storm.supervisors.kill(*places[each.which % len(places)])

    def _node(self, each: ScheduledFault) -> str:
        """Return the node that a target means."""
        left, taken = ({slot[0] for slot in slots} for slots in (self._left(), self._taken()))
        others = {node.id for node in self.start.supervisors} - left - taken
        source, target = FaultTarget.SOURCE_NODE, FaultTarget.TARGET_NODE
        meant = {source: left, FaultTarget.SOURCE_SUPERVISOR: left, target: taken, FaultTarget.TARGET_SUPERVISOR: taken}
        nodes = sorted(meant.get(each.fault.target, others) or {node.id for node in self.start.supervisors})
        return nodes[each.which % len(nodes)]

    def _moved_slots(self) -> set[tuple[str, int]]:
        return self._left() | self._taken()

    def _left(self) -> set[tuple[str, int]]:
        return self._slots(self.start.current_slot) - self._slots(self.wanted)

    def _taken(self) -> set[tuple[str, int]]:
        return self._slots(self.wanted) - self._slots(self.start.current_slot)

    def _slots(self, placed: IntArray) -> set[tuple[str, int]]:
        return {tuple(self.start.slots[slot]) for slot in placed.tolist()}

    def _delay(self, _: str) -> float:
        if not self.counting:
            return USUAL_S
        self.messages += 1
        late_s = self._late.get(self.messages - 1, USUAL_S)
        return max(late_s, _SLOW_S) if self.clock.monotonic() < self._slow_until_s else late_s

    def lost(self) -> int:
        """Return the number of trees that have lost a tuple."""
        self.storm.used()
        return int(self.engine.lost.sum())

    def where(self) -> dict[str, list[WorkerSlot | None]]:
        """Return the slot of every executor of each topology, as Nimbus has it."""
        return {
            entry.topology.id: [entry.assignment.slots[at] for at in entry.assignment.slot_of_executor]
            for entry in self.nimbus.entries.values()
            if entry.assignment
        }


def evenly(problem: Problem) -> NimbusAnswer:
    """Place topologies without slots by Even, as Storm does without an answer."""
    placed = _EVEN.schedule(problem).by_topology(problem)
    nowhere = [np.any(problem.current_slot[problem.executors_of(i)] < 0) for i in range(len(problem.topologies))]
    lacking = [t.id for t, lacks in zip(problem.topologies, nowhere, strict=True) if lacks]
    return NimbusAnswer({each: placed[each] for each in lacking if UNPLACED not in placed[each].slot_of_executor})


def _swaps(schedule: Schedule) -> bool:
    return schedule.action == "swap"


def exchange_cluster(seed: int) -> tuple[Problem, IntArray]:
    """Return a cluster without free slots, and a placement in which two topologies exchange theirs."""
    rng = random.Random(seed)  # noqa: S311 (no secret)
    slots = rng.randint(1, 2)
    empty = _problem(2, slots, tuple(_topology(f"t{number}", 1) for number in range(2 * slots)))
    order = rng.sample(range(2 * slots), 2 * slots)
    other = next(n for n in range(1, 2 * slots) if empty.slot_node[order[n]] != empty.slot_node[order[0]])
    then = [*order]
    then[0], then[other] = order[other], order[0]
    now, wanted = (np.repeat(np.array(each, np.int32), _EXECUTORS) for each in (order, then))
    return empty.with_current(Assignment(now).by_topology(empty)), wanted


def cluster_of(seed: int) -> tuple[Problem, IntArray]:
    """Return a cluster on which topologies run, and a placement to move to: some slots are free."""
    rng = random.Random(seed)  # noqa: S311 (no secret)
    while True:
        nodes, slots = rng.randint(2, 3), rng.randint(2, 3)
        count = rng.randint(1, 3)
        workers = [rng.randint(1, 2) for _ in range(count)]
        if sum(workers) >= nodes * slots:
            continue
        topologies = tuple(_topology(f"t{number}", each) for number, each in enumerate(workers))
        empty = _problem(nodes, slots, topologies)
        now, wanted = (_placed(rng, nodes * slots, workers) for _ in range(2))
        if np.any(empty.slot_node[now] != empty.slot_node[wanted]):
            return empty.with_current(Assignment(now).by_topology(empty)), wanted


def _placed(rng: random.Random, slots: int, workers: Sequence[int]) -> IntArray:
    free, placed = rng.sample(range(slots), slots), list[int]()
    for count in workers:
        own = [free.pop() for _ in range(count)]
        placed += [own[number * count // _EXECUTORS] for number in range(_EXECUTORS)]
    return np.array(placed, dtype=np.int32)


def _topology(name: str, workers: int) -> Topology:
    components = (
        Component("__acker", "system", 1, (Grouping("a-spout", kind="fields"), Grouping("b-bolt", kind="fields"))),
        Component("a-spout", "spout", 1),
        Component("b-bolt", "bolt", 2, (Grouping("a-spout", kind="fields"),)),
    )
    conf = {"topology.max.spout.pending": 100}
    return Topology(f"{name}-1-0", name, workers, components, default_executor_runs(components), conf=conf)


def _problem(nodes: int, slots: int, topologies: tuple[Topology, ...]) -> Problem:
    supervisors = tuple(
        Supervisor(f"n{i}", f"host{i}", tuple(range(6700, 6700 + slots)), 8 * DEFAULT_CORE_HZ) for i in range(nodes)
    )
    load = TopologyLoad(
        cpu_hz=np.array([1e6, 1e6, *[_BOLT_CORES * DEFAULT_CORE_HZ] * 2]),
        memory_mb=np.full(_EXECUTORS, 128.0),
        pair_source=np.array([1, 1, 1, 2, 3, 0]),
        pair_target=np.array([0, 2, 3, 0, 0, 1]),
        pair_tps=np.array([1.0, 0.5, 0.5, 0.5, 0.5, 1.0]) * _BEGIN_TPS,
        flow_source=np.zeros(0, np.int32),
        flow_component=np.zeros(0, np.int32),
        flow_tps=np.zeros(0),
        flow_grouping=(),
    )
    one = TopologyAssignment((WorkerSlot("n0", 6700),), (0,) * _EXECUTORS)
    return Problem(
        supervisors,
        topologies,
        load=LoadProfile({each.id: load for each in topologies}),
        measured={each.id: one for each in topologies},
    )
