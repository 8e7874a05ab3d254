"""A small virtual cluster on which topologies run, and of which parts die by schedule."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

import numpy as np

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
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.perflog.records import RejectedLine, parse_lines
from stormwright.predict.queueing.trees import Times
from stormwright.simulator.cluster.clock import VirtualClock
from stormwright.simulator.cluster.nimbus import VirtualNimbus
from stormwright.simulator.cluster.storm import Deliver, VirtualStorm
from stormwright.simulator.cluster.timings import Timings
from stormwright.simulator.steady_engine import SteadyEngine
from stormwright.simulator.steady_flows import Pace, Share
from stormwright.storm.bridge import NimbusAnswer
from tests.exploration.schedule import USUAL_S, Death, Schedule
from tests.simulator.cluster.storms import evenly

#: Trees/s that a topology begins and could complete, and seconds that one takes.
_BEGIN_TPS, _REACH_TPS, _STAY_S = 100.0, 200.0, 0.05

#: Of each topology: an acker, a spout and two bolts, in the order of their tasks.
_EXECUTORS = 4


class Killed(BaseException):
    """The service's process is gone; nothing of it runs any more."""


class MortalClock(VirtualClock):
    """A clock that tells of each time that somebody waits."""

    world: World

    def sleep(self, seconds: float) -> None:
        self.world.step()
        super().sleep(seconds)

    def wait(self, changed: threading.Condition, timeout_s: float) -> None:
        self.world.step()
        super().wait(changed, timeout_s)

    def stopped(self, stop: threading.Event, timeout_s: float) -> bool:
        self.world.step()
        return super().stopped(stop, timeout_s)

    def go_on(self, seconds: float) -> None:
        """Time passes while no service is there."""
        super().sleep(seconds)


class World:
    """The cluster, and what happens to it.

    Parameters
    ----------
    schedule
        What does.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.start, self.wanted = cluster_of(schedule.world)
        self._deaths = {death.step: death for death in schedule.deaths}
        self._late = dict(schedule.late)
        self.steps, self.messages, self.workers_died = 0, 0, 0
        self.dead = False
        self.counting = False
        self.clock = MortalClock(1_795_219_140.0)
        self.clock.world = self
        engine = SteadyEngine(self.start, under=_alike)
        self.engine = engine
        self.storm = VirtualStorm(self.clock, self.start, engine, evenly, Timings(), self._delay)
        self.nimbus: VirtualNimbus = self.storm.nimbus
        self.nimbus.ask = lambda _: NimbusAnswer(self.start.current)
        for topology in self.start.topologies:
            self.storm.submit(topology)
        self.clock.go_on(8.0)

    def step(self) -> None:
        """A moment at which somebody may die."""
        if self.dead:
            raise Killed
        if not self.counting:
            return
        self.steps += 1
        death = self._deaths.get(self.steps - 1)
        if death is not None:
            self._die(death)

    def _die(self, death: Death) -> None:
        if death.who == "service":
            self.away_s, self.dead = death.away_s, True
            raise Killed
        if death.who == "nimbus":
            self.nimbus.die(death.away_s)
        else:
            places = sorted(self.storm.supervisors.workers)
            if places:
                self.workers_died += 1
                self.storm.supervisors.kill(*places[death.which % len(places)])

    def _delay(self, _: str) -> float:
        if not self.counting:
            return USUAL_S
        self.messages += 1
        return self._late.get(self.messages - 1, USUAL_S)

    def lost(self) -> int:
        """Trees that have lost a tuple."""
        self.storm.used()
        return int(self.engine.lost.sum())

    def where(self) -> dict[str, list[WorkerSlot | None]]:
        """Slot of every executor of each topology, as Nimbus has it."""
        return {
            entry.topology.id: [entry.assignment.slots[at] for at in entry.assignment.slot_of_executor]
            for entry in self.nimbus.entries.values()
            if entry.assignment
        }

    def deliver_to(self, take: Deliver) -> None:
        """Let somebody hear what workers tell."""
        self.storm.deliver = take


def read(lines: Sequence[bytes]) -> list[dict[str, object]]:
    """Records that a probe has written."""
    found = list(parse_lines(lines))
    assert not [each for each in found if isinstance(each, RejectedLine)]
    return found  # type: ignore[return-value]


def cluster_of(seed: int) -> tuple[Problem, IntArray]:
    """A cluster on which topologies run, and where they are wished: something is free, and something is to move."""
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
    supervisors = tuple(Supervisor(f"n{i}", f"host{i}", tuple(range(6700, 6700 + slots)), 6e9) for i in range(nodes))
    load = TopologyLoad(
        cpu_hz=np.full(_EXECUTORS, 1e6),
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


def _alike(problem: Problem, slots: IntArray, offered_tps: FloatArray) -> tuple[Pace, Share]:
    """What topologies come to wherever they are."""
    count = len(problem.topologies)
    runs = np.all(slots.reshape(count, _EXECUTORS) >= 0, axis=1)
    pace = Pace(
        np.where(runs, np.minimum(offered_tps, _BEGIN_TPS), 0.0),
        np.where(runs, _REACH_TPS, 0.0),
        np.full(count, _STAY_S),
        Times(np.full(count, _STAY_S), np.full(count, _STAY_S**2)),
    )
    first = np.arange(count)[:, None] * _EXECUTORS
    ends = [(first + np.array(each)).ravel() for each in ([1, 1, 1, 2, 3, 0], [0, 2, 3, 0, 0, 1])]
    tuples = np.tile([1.0, 0.5, 0.5, 0.5, 0.5, 1.0], count)
    handled = np.tile([2.0, 1.0, 0.5, 0.5], count)
    return pace, Share(handled, handled * 1e-5, ends[0], ends[1], tuples)
