"""A virtual Nimbus under the part of the service that applies plans, which is killed wherever that is wanted."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from stormwright.base.documents import FileDocument
from stormwright.client.shapes import ChangeRequest
from stormwright.controller.configuration import with_conf
from stormwright.controller.planning.order import UNLIMITED
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.propose import plan_of
from stormwright.controller.reports import MoveReport
from stormwright.controller.safety.pauses import Pauses
from stormwright.defaults import REPAIR_SCHEDULER
from stormwright.errors import MoveError, NimbusError
from stormwright.history.evaluation.moves import THROUGHPUT, EvaluatedMove
from stormwright.history.evaluation.verdict import Evaluation
from stormwright.model import Assignment, Problem, TopologyAssignment, WorkerSlot
from stormwright.model.arrays import IntArray
from stormwright.model.assignment import where, without_ports
from stormwright.plans.plan import Plan, Step
from stormwright.plans.states import ACTIVE_STATES
from stormwright.schedulers.toolkit.resolve import scheduler_keeping_running
from stormwright.service.memory import ServiceMemory
from stormwright.service.plans.executor import PlanExecutor
from stormwright.service.plans.guard import Guard
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.move_runner import MoveRunner
from stormwright.service.plans.plan_service import PlanMakers, PlanService
from stormwright.service.plans.store import PlanStore
from stormwright.service.storage.database import FILE, State, Transaction
from tests.controller.builders import problem, topology

ANNA = ChangeRequest(by="anna", reason="a try")

#: Places what has no slot, as a service has it.
KEEPS = scheduler_keeping_running(REPAIR_SCHEDULER)

Where = Mapping[str, Sequence[WorkerSlot | None]]


class Killed(BaseException):
    """The service's process is gone; nothing of it runs any more."""


class MortalState(State):
    """Ends, where that is wanted, right before or right after a transaction."""

    def __init__(self, path: Path, nimbus: Nimbus) -> None:
        self._nimbus = nimbus
        super().__init__(path)
        self._connection.execute("PRAGMA synchronous = OFF")

    @contextmanager
    def change(self, *, replicated: bool = True) -> Iterator[Transaction]:
        self._nimbus.tick()
        if self._nimbus.disk_full:
            raise sqlite3.OperationalError("database or disk is full")
        with super().change(replicated=replicated) as transaction:
            yield transaction
        self._nimbus.tick()


class Nimbus:
    """Topologies that run in slots, as Nimbus keeps them whichever process is killed.

    Parameters
    ----------
    state
        Directory of the service.
    start
        What runs at first.
    seed
        Where Nimbus places what a service that was killed has left without slots.
    """

    def __init__(self, state: Path, start: Problem, seed: int = 0) -> None:
        self._directory, self._start = state, start
        self.runs: dict[str, TopologyAssignment] = dict(start.current)
        self._first = dict(start.current)
        #: What the scheduler of plans wants.
        self.wants: IntArray = start.current_slot
        self.paused: set[str] = set()
        self.moved: list[str] = []
        self.until_killed: int | None = None
        self.ticks = 0
        self.kills = 0
        self.fails: set[str] = set()
        self.does_worse: set[str] = set()
        self.verdict = "as predicted"
        self.refused: list[str] = []
        #: Names of topologies that somebody else rebalances.
        self.rebalanced: list[str] = []
        #: Whether the service's disk is full; whether Nimbus answers, and moments of moves until it does no longer.
        self.disk_full = False
        self.away = False
        self.until_away: int | None = None
        self._random = random.Random(seed)  # noqa: S311 (no secret)
        # What is on disk of the history, whoever is killed.
        self._moment, self._pending = 0, dict[str, int]()
        self.begin()

    def begin(self) -> None:
        """A service starts."""
        self._dead = False
        self._open()
        self.plans, self.journal = PlanStore(self.state), Journal(self.state)
        self.guard = Guard(self.state, self.plans, self.journal, rebalancing=lambda: self.rebalanced)
        history = SimpleNamespace(record_move=self._note, decision_ms=0)
        runner = MoveRunner(self.move, ServiceMemory(), cast(Any, history), "forced", 0.0, self.journal)
        makers = PlanMakers("traffic", lambda _: Forced(self.wants), KEEPS)
        self.plan_service = PlanService(self.plans, self.journal, self.guard, self.now, makers)
        self._polled = True
        self.executor = PlanExecutor(self.plans, self.journal, self, runner, self.plan_service.approve)

    def _open(self) -> None:
        """What a service keeps."""
        self.pauses = Pauses(FileDocument(self._directory / "paused.json"))
        self.state = MortalState(self._directory / FILE, self)

    def end(self) -> None:
        self.plan_service.close()
        self.state.close()

    def now(self) -> Problem:
        return self.guard.drains.on(self._start.with_current(self.runs))

    def look(self) -> Problem | None:
        """After each move, made or not, Nimbus has sent no request at first."""
        polled, self._polled = self._polled, True
        self.guard.holds.look(self.now())
        return self.now() if polled and not self.away else None

    def decide(self, problem: Problem, plan: Plan) -> int:
        self._moment += 1
        return self._moment

    @property
    def decision_ms(self) -> int:
        return self._moment

    def pending(self) -> Collection[str]:
        return self._pending

    def _note(self, topology: str, report: MoveReport | None, failure: str | None = None) -> None:
        if report:
            self._pending[topology] = self._moment

    def worse(self, problem: Problem) -> Mapping[str, str]:
        """As soon as a verdict is requested, everything is evaluated."""
        while self._pending:
            topology, moment = self._pending.popitem()
            low, high = (0.9, 1.1) if self.verdict == "as predicted" else (0.5, 1.5)
            evaluation = Evaluation(THROUGHPUT, 1.0, 1.0, low, high, 9, 9, self.verdict)
            self.journal.record_evaluation(EvaluatedMove(moment, topology, evaluation))
        return dict.fromkeys(self.does_worse, "each tree takes longer")

    def frozen(self) -> str:
        return self.guard.modes.frozen

    def held(self) -> str:
        hold = self.guard.holds.before_moving()
        return hold.why if hold else ""

    def refuse(self, problem: Problem, topologies: Mapping[str, str]) -> None:
        self.refused += topologies

    def move(self, step: Step, reason: str, stop: Event | None) -> Sequence[MoveReport]:
        """The safe move, which may be broken off anywhere."""
        names = [move.name for move in step.moves]
        ids = {move.topology for move in step.moves}
        self.tick()
        self._polled = False
        if self.disk_full:
            raise OSError("No space left on device")
        with self.pauses.around(names, self.activate):
            self._answer()
            self.paused.update(names)
            self.tick()
            if ids & self.fails:
                raise MoveError(f"{names[0]} does not drain")
            for number in range(max(len(move.legs) for move in step.moves)):
                self._answer()
                for move in step.moves:
                    before = move.legs[number - 1].after if number else move.before
                    assert where(self.runs.pop(move.topology, None)) == (where(before) if before.slots else ())
                    if move.conf and number == 0:
                        self._start = with_conf(self._start, {move.topology: move.conf})
                self.tick()
                self._answer()
                taken = {slot for placement in self.runs.values() for slot in placement.slots}
                for move in step.moves:
                    wanted = move.legs[number].after
                    assert not taken & set(wanted.slots), "a slot is given to two topologies"
                    taken |= set(wanted.slots)
                    if wanted.slots:
                        self.runs[move.topology] = wanted
                self.tick()
        self.moved += names
        return [MoveReport(t, 4, 1, 1, 0, 1.0, 2.0, 1.0, 0, 0, complete=True) for t in sorted(ids)]

    def activate(self, name: str) -> None:
        if self._dead:
            raise Killed
        self._answer()
        self.tick()
        self.paused.discard(name)

    def _answer(self) -> None:
        """Nimbus answers a call, or is away, from one moment of a move on."""
        if self.until_away is not None:
            self.until_away -= 1
            if self.until_away < 0:
                self.until_away, self.away = None, True
        if self.away:
            raise NimbusError("no answer from Nimbus within 60 s")

    def tick(self) -> None:
        """A moment at which the service may be killed."""
        self.ticks += 1
        if self._dead:
            raise Killed
        if self.until_killed is not None:
            self.until_killed -= 1
            if self.until_killed < 0:
                self.until_killed, self._dead = None, True
                raise Killed

    def kill(self, topology: str) -> None:
        """Somebody kills a topology."""
        self.runs.pop(topology)
        left = tuple(each for each in self._start.topologies if each.id != topology)
        self._start = replace(self._start, topologies=left, current=self.runs)

    def back(self) -> None:
        """Nimbus answers again: it places what has no slots, and the service activates what is paused."""
        self.away = False
        self._place()
        self.pauses.resume(self.activate)

    def lose_node(self, node: str) -> None:
        """A node is gone with all that runs there; Nimbus places that elsewhere, where there is room."""
        left = tuple(each for each in self._start.supervisors if each.id != node)
        self._start = replace(self._start, supervisors=left, current={})
        for each, placement in list(self.runs.items()):
            if any(slot.supervisor == node for slot in placement.slots):
                del self.runs[each]
        self._place()

    def lose(self, topology: str) -> None:
        """A topology is left without slots, and there are none for it."""
        del self.runs[topology]

    def again(self) -> None:
        """The service was killed: Nimbus places what has no slots, and it starts again."""
        self.kills += 1
        self.end()
        self._place()
        self.begin()
        self.pauses.resume(self.activate)

    def _place(self) -> None:
        """What has no slots gets some, where there are as many."""
        taken = {slot for placement in self.runs.values() for slot in placement.slots}
        for each in self._start.topologies:
            if each.id not in self.runs:
                was = self._first[each.id]
                free = [slot for slot in self._start.slots if slot not in taken]
                if len(free) >= len(was.slots):
                    slots = tuple(self._random.sample(free, len(was.slots)))
                    taken |= set(slots)
                    self.runs[each.id] = TopologyAssignment(slots, was.slot_of_executor)

    def run(self, most: int = 400) -> None:
        """Bring the plan under way to where it goes no further, with a new service wherever one is killed."""
        for _ in range(most):
            try:
                if not self.executor.advance():
                    return
            except Killed:
                self.again()
        raise AssertionError(f"still under way: {self.plans.summaries(ACTIVE_STATES)}")

    def requested(self, ask: Any) -> Plan:
        """What a person gets, of a service that is killed at that moment once it is back."""
        try:
            return cast(Plan, ask())
        except Killed:
            self.again()
            return self.plan_service.plan(self.plans.summaries()[0].id)

    def propose(self, wanted: IntArray) -> str:
        """A plan that leads to a placement."""
        now = self.now()
        moves = plan_moves(now, Assignment(wanted), UNLIMITED, cpu_limits=False)
        proposed = plan_of(now, moves).model_copy(update={"reason": "better"})
        plan = self.plan_service.suggest(proposed) if moves.steps else None
        assert plan is not None
        return plan

    def where(self) -> Where:
        return {each: where(placement) for each, placement in sorted(self.runs.items())}

    def is_back(self, before: Where, topology: str = "") -> bool:
        """Whether all, or one topology, is on the nodes and in the workers of then: a port may be another one."""
        now, then = ({t: without_ports(slots) for t, slots in each.items()} for each in (self.where(), before))
        return now[topology] == then[topology] if topology else now == then


class Forced:
    """Wants one placement."""

    def __init__(self, slots: IntArray) -> None:
        self._slots = slots

    def schedule(self, of: Problem) -> Assignment:
        return Assignment(self._slots)


def settled(nimbus: Nimbus, plan: str) -> Plan:
    """A plan once it is made."""
    until = time.monotonic() + 30
    while (found := nimbus.plan_service.plan(plan)).state == "planning":
        assert time.monotonic() < until
        time.sleep(0.001)
    return found


def random_cluster(seed: int) -> tuple[Problem, IntArray]:
    """A cluster on which topologies run, and where they are wished: some slots are free, so that none is stuck."""
    rng = random.Random(seed)  # noqa: S311 (no secret)
    nodes, slots = rng.randint(2, 4), rng.randint(2, 3)
    total, topologies, used = nodes * slots, [], 0
    while len(topologies) < 6:
        workers = rng.randint(1, 2)
        if used + workers > total - 1:
            break
        topologies.append(topology(f"t{len(topologies)}", workers=workers))
        used += workers
    empty = problem(topologies, nodes=nodes, slots=slots)
    placements = []
    for _ in range(2):
        free, placed = rng.sample(range(total), total), []
        for each in topologies:
            own = [free.pop() for _ in range(each.num_workers)]
            placed += [own[number * len(own) // 4] for number in range(4)]
        placements.append(np.array(placed, dtype=np.int32))
    now, wanted = placements
    return empty.with_current(Assignment(now).by_topology(empty)), wanted
