"""Runs of schedules in virtual time, and the invariants that do not hold after them."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from stormwright.client.shapes import ChangeRequest
from stormwright.controller.planning.order import UNLIMITED
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.propose import plan_of, propose
from stormwright.controller.requests import Place, PlanInputs
from stormwright.errors import ConflictError, StormwrightError
from stormwright.model import Assignment, Problem
from stormwright.model.assignment import where, without_ports
from stormwright.model.batches import MAX_SPOUT_PENDING
from stormwright.plans.plan import Plan
from stormwright.plans.states import HALTED_STATES
from stormwright.simulator.cluster.nimbus import ACTIVE
from stormwright_lab.chaos.invariants import Invariant, InvariantViolation
from stormwright_lab.chaos.scenarios import Action
from stormwright_lab.chaos.virtual.schedule import Schedule
from stormwright_lab.chaos.virtual.virtual_service import VirtualService
from stormwright_lab.chaos.virtual.world import Killed, VirtualWorld

_PERSON = ChangeRequest(by="chaos", reason="a run in virtual time")

#: Virtual seconds after which a run should have ended, and for which the cluster runs on afterwards.
LONGEST_S, _AFTERWARDS_S = 1_200.0, 45.0

#: Pending trees of the configuration that a plan changes.
_PENDING = 60

#: Directory of temporary files in memory: thousands of runs wait for no disk.
_MEMORY = Path("/dev/shm")  # noqa: S108 (a directory of its own is made there)


class Ended(BaseException):
    """All actions of the run have ended."""


@dataclass(frozen=True)
class Exploration:
    """Result of a run.

    Parameters
    ----------
    steps, messages
        Number of steps of the service, and of messages with a virtual delay.
    violations
        Invariants that do not hold.
    virtual_s
        Virtual seconds that it took.
    plans
        State of each plan by id.
    """

    steps: int
    messages: int
    violations: tuple[InvariantViolation, ...]
    virtual_s: float
    plans: dict[str, str]

    @property
    def text(self) -> str:
        """All violations, or empty."""
        return "; ".join(f"{each.invariant}: {each.text}" for each in self.violations)


def explore(schedule: Schedule, longest_s: float = LONGEST_S) -> Exploration:
    """Run a schedule; an exception of the service is a violation, too.

    Parameters
    ----------
    schedule
        Seed of the cluster, faults, late messages, and the move.
    longest_s
        Virtual seconds after which it should have ended.
    """
    directory = Path(tempfile.mkdtemp(prefix="stormwright-chaos-", dir=_MEMORY if _MEMORY.is_dir() else None))
    world = VirtualWorld(schedule)
    decides = schedule.action is None and schedule.world % 3 == 0
    run = _Run(world, directory, schedule.action, longest_s, decides=decides)
    since_s = world.clock.monotonic()
    try:
        with _quiet_kills():
            run.run()
        found = tuple(run.violations())
    except _UnfinishedError as error:
        found = (InvariantViolation(Invariant.JOURNAL, str(error)),)
    except Exception as error:
        found = (InvariantViolation(Invariant.ERROR, f"{type(error).__name__}: {error}"),)
    finally:
        run.end()
        shutil.rmtree(directory, ignore_errors=True)
    return Exploration(world.steps, world.messages, found, world.clock.monotonic() - since_s, run.states)


@contextmanager
def _quiet_kills() -> Iterator[None]:
    """Let a thread of a killed service end without a trace."""
    usual = threading.excepthook

    def hook(raised: threading.ExceptHookArgs) -> None:
        if raised.exc_type is not Killed:
            usual(raised)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = usual


def _reconfigured(problem: Problem) -> Place:
    """Return the request for another configuration of the first topology."""
    return Place({}, conf={problem.topologies[0].id: {MAX_SPOUT_PENDING: _PENDING}}, origin="person")


class _UnfinishedError(Exception):
    """A run does not come to an end."""


class _Run:
    """One run: a plan is applied, or the service moves automatically; moves are reverted.

    1. A person proposes a plan and applies it, or the service decides.
    2. Plans that wait for a person are resumed.
    3. Once nothing is in progress, moves are reverted, unless the action is a plan alone.
    """

    def __init__(
        self, world: VirtualWorld, directory: Path, action: Action | None, longest_s: float, *, decides: bool
    ) -> None:
        self._world, self._directory, self._action, self._decides = world, directory, action, decides
        self._before = world.where()
        self._target: dict[str, Any] = {}
        self._plan = self._back = ""
        self._reverting = self._to_end = False
        self._service: VirtualService | None = None
        self.states: dict[str, str] = {}
        self._numbers: list[int] = []
        self._reached: dict[str, Any] = {}
        self._until_s = world.clock.monotonic() + longest_s

    def run(self) -> None:
        """Run until all actions have ended, with a new service whenever one was killed."""
        world = self._world
        world.counting = True
        while True:
            try:
                self._start_service()
                assert self._service is not None  # noqa: S101 (for the type checker)
                self._service.loop.run(Event(), 1.0, self._service.before_each)
            except Killed:
                self.end()
                self._wait_for_restart()
            except Ended:
                break
        world.counting = False
        world.clock.advance(_AFTERWARDS_S)

    def _start_service(self) -> None:
        """Start a service; one that cannot, as its disk is full, is started again by its supervision."""
        while True:
            try:
                self._service = VirtualService(self._world, self._directory, self._act, decides=self._decides)
                return
            except (OSError, StormwrightError, sqlite3.Error):
                self._world.disconnect()
                self._world.clock.advance(1.0)
                self._require_time()

    def end(self) -> None:
        """Release the resources of an ended service."""
        if self._service:
            self._service.end()
            self._service = None

    def violations(self) -> Iterator[InvariantViolation]:
        """Yield the invariants that do not hold in the end."""
        world = self._world
        for entry in world.nimbus.entries.values():
            if entry.status != ACTIVE:
                yield InvariantViolation(Invariant.PAUSED, f"{entry.topology.name} is left {entry.status}")
        up = {(w.topology, w.supervisor, w.port) for w in world.storm.supervisors.workers.values() if w.up}
        wanted = {(t, *slot) for t, slots in world.where().items() for slot in slots if slot}
        if up != wanted:
            yield InvariantViolation(Invariant.EXECUTORS, f"workers {sorted(up ^ wanted)} do not run, or should not")
        if not world.workers_killed and (lost := world.lost()):
            yield InvariantViolation(Invariant.TREES, f"{lost} trees have lost a tuple")
        if self._target and not self._decides and self.states.get(self._plan) == "done":
            reached = self._reached or world.where()
            if self._target != reached:
                yield InvariantViolation(Invariant.PLACEMENT, f"the plan leads to {self._target}, and led to {reached}")
        now, then = ({t: without_ports(slots) for t, slots in each.items()} for each in (world.where(), self._before))
        yield from self._of_configurations()
        if self._back and now != then:
            text = f"everything was at {self._before}, and is at {world.where()} after the revert"
            yield InvariantViolation(Invariant.PLACEMENT, text)

    def _of_configurations(self) -> Iterator[InvariantViolation]:
        entries = self._world.nimbus.entries
        for worker in self._world.storm.supervisors.workers.values():
            if worker.up and worker.version != (version := entries[worker.topology].version):
                text = f"{worker.topology} has version {version} of its configuration, its worker {worker.version}"
                yield InvariantViolation(Invariant.CONFIGURATION, text)
        done, back = (self.states.get(plan) == "done" for plan in (self._plan, self._back))
        values = [each.topology.conf.get(MAX_SPOUT_PENDING) for each in entries.values()]
        if self._action is Action.RECONFIGURE and done and (_PENDING in values) == back:
            text = f"the plan is done, {'and reverted' if back else 'not reverted'}, and values are {values}"
            yield InvariantViolation(Invariant.CONFIGURATION, text)

    def _wait_for_restart(self) -> None:
        world = self._world
        world.disconnect()
        world.clock.advance(world.away_s)
        world.dead = False

    def _require_time(self) -> None:
        if self._world.clock.monotonic() > self._until_s:
            paused = [f"{e.topology.name} is {e.status}" for e in self._world.nimbus.entries.values()]
            raise _UnfinishedError(f"the run does not end: {'; '.join(paused)}; plans {self.states}")

    def _act(self, service: VirtualService) -> None:
        """Act as a person, before each round of the service."""
        self._require_time()
        row = service.plans.active_summary()
        self.states = {each.id: each.state for each in service.plans.summaries()}
        problem = service.look()
        if row is not None or problem is None or len(problem.current) < len(problem.topologies):
            return
        if self._to_end and self._world.is_calm():
            raise Ended
        try:
            self._do(service)
        except (ConflictError, sqlite3.OperationalError):  # a change, or a full disk: the next round tries again
            return

    def _do(self, service: VirtualService) -> None:
        halted = [plan for plan, state in self.states.items() if state in HALTED_STATES]
        if halted:
            service.plan_service.resume(halted[0], _PERSON)
        elif self._reverting:
            self._continue_revert(service)
        elif self._decides:
            if not service.next_decision().moves:
                self._revert(service)
        elif not self._plan or self.states.get(self._plan) in ("failed", "discarded"):
            self._propose(service)
        elif self.states.get(self._plan) == "proposed":
            service.plan_service.apply(self._plan, _PERSON)
        elif self._action in (Action.PLAN, Action.SWAP, Action.DRAIN):
            self._to_end = True
        else:
            self._revert(service)

    def _propose(self, service: VirtualService) -> None:
        problem = service.problem()
        if problem is None:
            return
        if self._action is Action.RECONFIGURE:
            found = propose(problem, _reconfigured(problem), PlanInputs(predicts=False))
            plan = service.plan_service.suggest(found) if isinstance(found, Plan) else None
        else:
            moves = plan_moves(problem, Assignment(self._world.wanted), UNLIMITED, cpu_limits=False)
            plan = service.plan_service.suggest(plan_of(problem, moves)) if moves.steps else None
        if plan is None:
            self._to_end = True
            return
        if self._action is not Action.REVERT:
            self._world.begin_move()
        self._plan, self._target = plan, dict(self._world.where())
        for topology, after in service.plans.plan(plan).targets.items():
            self._target[topology] = list(where(after))

    def _revert(self, service: VirtualService) -> None:
        self._reached = dict(self._world.where())
        made = service.state.read("SELECT n FROM moves ORDER BY n")
        if not made or (not self._plan and not self._decides):
            self._to_end = True
            return
        self._reverting, self._decides = True, False
        self._numbers = sorted({row["n"] for row in made}, reverse=True)
        service.decides = False  # a person freezes it before
        if self._action is Action.REVERT:
            self._world.begin_move()
        self._continue_revert(service)

    def _continue_revert(self, service: VirtualService) -> None:
        """Revert the latest entry; one that failed is tried again."""
        if self._back and self.states.get(self._back) == "done":
            self._numbers = self._numbers[1:]
        if not self._numbers:
            self._to_end = True
            return
        self._back = service.plan_service.revert(self._numbers[0], _PERSON).id
        # It is made, and started, in a thread of its own; virtual time stands still meanwhile.
        while service.plans.summary(self._back).state in ("planning", "planned") and not self._world.dead:
            time.sleep(0.0005)
