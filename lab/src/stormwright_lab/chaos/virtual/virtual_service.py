"""One life of the service over a virtual cluster: the parts that decide, move and store."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

from stormwright.base.documents import FileDocument
from stormwright.controller.move import Mover
from stormwright.controller.planning.order import UNLIMITED
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.propose import plan_of
from stormwright.controller.reports import MoveLimits, MoveReport
from stormwright.controller.requests import NoPlan
from stormwright.controller.safety.pauses import Pauses
from stormwright.controller.tally import Tally
from stormwright.defaults import BASELINE
from stormwright.errors import NimbusError
from stormwright.history.evaluation.moves import THROUGHPUT, EvaluatedMove
from stormwright.history.evaluation.verdict import Evaluation
from stormwright.model import Assignment, Problem, Supervisor
from stormwright.model.arrays import IntArray
from stormwright.perflog.records import RejectedLine, parse_lines
from stormwright.plans.plan import Plan, Step
from stormwright.schedulers import make_scheduler
from stormwright.service.decider import SNAPSHOT_S
from stormwright.service.loop import Loop
from stormwright.service.memory import ServiceMemory
from stormwright.service.plans.executor import PlanExecutor
from stormwright.service.plans.guard import Guard
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.move_runner import MoveRunner
from stormwright.service.plans.plan_service import PlanMakers, PlanService
from stormwright.service.plans.store import PlanExpiry, PlanStore
from stormwright.service.storage.database import FILE, State, Transaction
from stormwright.storm.bridge import Bridge
from stormwright_lab.chaos.virtual.world import VirtualWorld

_EVEN = make_scheduler(BASELINE)


class VirtualState(State):
    """Database that is a step before and after each transaction, and may be full."""

    def __init__(self, path: Path, world: VirtualWorld) -> None:
        self._world = world
        super().__init__(path, world.service_clock)
        self._connection.execute("PRAGMA synchronous = OFF")

    @contextmanager
    def change(self, *, replicated: bool = True) -> Iterator[Transaction]:
        """Return the context of a transaction."""
        self._world.step()
        if self._world.disk_full():
            raise sqlite3.OperationalError("database or disk is full")
        with super().change(replicated=replicated) as transaction:
            yield transaction
        self._world.step()


class VirtualDocument:
    """Document in a file of a disk that may be full."""

    def __init__(self, path: Path, world: VirtualWorld) -> None:
        self._file, self._world = FileDocument(path), world

    def load(self) -> str | None:
        """Return the text."""
        return self._file.load()

    def save(self, text: str) -> None:
        """Replace the text."""
        if self._world.disk_full():
            raise OSError(errno.ENOSPC, "No space left on device")
        self._file.save(text)

    def set_aside(self) -> None:
        """Rename a damaged file."""
        self._file.set_aside()


class NimbusCalls:
    """Calls of the service to Nimbus, each with a step before and after it."""

    def __init__(self, world: VirtualWorld) -> None:
        self._world = world

    def cluster(self) -> Mapping[str, Any]:
        """Return supervisors and topologies."""
        return cast(Mapping[str, Any], self._call("cluster"))

    def problem(self) -> Mapping[str, Any]:
        """Return the cluster with its placements."""
        return cast(Mapping[str, Any], self._call("problem"))

    def activate(self, name: str) -> None:
        """Activate a topology."""
        self._call("activate", name)

    def deactivate(self, name: str) -> None:
        """Deactivate a topology."""
        self._call("deactivate", name)

    def configuration(self, topology_id: str) -> str:
        """Return the digest of a topology's configuration."""
        return str(self._call("configuration", topology_id))

    def rebalance(
        self,
        name: str,
        wait_s: int,
        num_workers: int | None = None,
        executors: Mapping[str, int] | None = None,
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        """Rebalance a topology; takes `name`, `wait_s`, `num_workers`, `executors` and `conf`."""
        self._call("rebalance", name, wait_s, num_workers, executors, conf)

    def release(self, topology_id: str, supervisor: Supervisor) -> bool:
        """Notify a supervisor that a topology has left it."""
        return bool(self._call("release", topology_id, supervisor))

    def _call(self, call: str, *args: Any) -> Any:
        self._world.step()
        if self._world.call_fails():
            raise NimbusError(f"{call}: the Nimbus gateway has ended")
        result = getattr(self._world.nimbus, call)(*args)
        self._world.step()
        return result


class _Fixed:
    """Scheduler that returns one placement."""

    def __init__(self, slots: IntArray) -> None:
        self._slots = slots

    def schedule(self, _: Problem) -> Assignment:
        return Assignment(self._slots)


class VirtualService:
    """One life of the service, from its start until it is killed.

    Parameters
    ----------
    world
        Virtual cluster with the clock, the disk and the Nimbus of the service.
    directory
        State directory, which outlives it.
    person
        Called before each round of the loop, for actions of people.
    decides
        Whether it moves automatically towards the wanted placement, or only when a person requests it.
    """

    def __init__(
        self, world: VirtualWorld, directory: Path, person: Callable[[VirtualService], None], *, decides: bool
    ) -> None:
        self._person = person
        self._world, clock = world, world.service_clock
        self.bridge = Bridge(_EVEN, BASELINE, clock=clock)
        self.tally = Tally(clock=clock)
        world.connect(self.bridge.answer, self._count)
        self.pauses = Pauses(VirtualDocument(directory / "paused.json", world))
        self.state = VirtualState(directory / FILE, world)
        self.plans, self.journal = PlanStore(self.state), Journal(self.state)
        self.guard = Guard(self.state, self.plans, self.journal, "auto")
        self.memory, self.decides = ServiceMemory(clock), decides
        self._pending, self._moment = dict[str, int](), 0
        self._nimbus = NimbusCalls(world)
        history = SimpleNamespace(record_move=self._record_move, decision_ms=0)
        runner = MoveRunner(self._move, self.memory, cast(Any, history), "fixed", 0.0, self.journal)
        makers = PlanMakers("traffic", lambda _: _Fixed(world.wanted), _Fixed(world.wanted))
        self.plan_service = PlanService(self.plans, self.journal, self.guard, self.problem, makers)
        executor = PlanExecutor(self.plans, self.journal, self, runner, self.plan_service.approve)
        expiry = PlanExpiry(self.plans, self.journal, 90)
        decider = cast(Any, SimpleNamespace(decide=self.next_decision))
        before_each = (self._resume, expiry.expire)
        self.loop = Loop(decider, self.guard, self.plan_service.suggest, executor, before_each, clock)
        self._resume()

    def before_each(self) -> None:
        """Let a person act."""
        self._person(self)

    def end(self) -> None:
        """Release the resources of the ended process."""
        self.plan_service.close()
        self.state.close()

    def problem(self) -> Problem | None:
        """Return the running cluster; None before Nimbus has called."""
        return self.bridge.snapshot()

    def next_decision(self) -> Plan | NoPlan:
        """Return the moves that it makes automatically."""
        problem = self.look()
        if not self.decides or problem is None:
            return NoPlan("no_trigger", "it moves nothing automatically")
        self._world.begin_move()
        moves = plan_moves(problem, Assignment(self._world.wanted), UNLIMITED, cpu_limits=False)
        return plan_of(problem, moves) if moves.steps else NoPlan("nothing_to_do", "it is there")

    def look(self) -> Problem | None:
        """Return the running cluster; None if Nimbus has not called since the last move, or not recently."""
        age_s, problem = self.bridge.snapshot_age_s(), self.bridge.snapshot()
        since_s = self._world.clock.monotonic() - age_s
        if problem is None or age_s > SNAPSHOT_S or since_s < self.memory.last_change_s:
            return None
        return problem

    def decide(self, problem: Problem, plan: Plan) -> int:  # noqa: ARG002 (for a history with problems)
        """Record a decision; return its number."""
        self._moment += 1
        return self._moment

    @property
    def decision_ms(self) -> int:
        """Number of the last decision."""
        return self._moment

    def pending(self) -> Collection[str]:
        """Return topologies whose moves are being evaluated."""
        return self._pending

    def worse(self, problem: Problem) -> Mapping[str, str]:  # noqa: ARG002 (nothing is measured)
        """Evaluate all moves as predicted, and return that none is worse."""
        while self._pending:
            topology, moment = self._pending.popitem()
            evaluation = Evaluation(THROUGHPUT, 1.0, 1.0, 0.9, 1.1, 9, 9, "as predicted")
            self.journal.record_evaluation(EvaluatedMove(moment, topology, evaluation))
        return {}

    def frozen(self) -> str:
        """Return why everything is frozen."""
        return self.guard.modes.frozen

    def held(self) -> str:
        """Return why nothing may be moved now."""
        hold = self.guard.holds.before_moving()
        return hold.why if hold else ""

    def refuse(self, problem: Problem, topologies: Mapping[str, str]) -> None:
        """Refuse nothing."""

    def _record_move(self, topology: str, report: MoveReport | None, failure: str | None = None) -> None:  # noqa: ARG002
        if report:
            self._pending[topology] = self._moment
            self._world.end_move()

    def _count(self, lines: Sequence[bytes]) -> None:
        self.tally.add([each for each in parse_lines(lines) if not isinstance(each, RejectedLine)])

    def _move(self, step: Step, reason: str, stop: Event | None) -> Sequence[MoveReport]:
        return self._mover().move(step, reason, stop)

    def _resume(self) -> None:
        self.memory.resumed |= set(self._mover().resume())

    def _mover(self) -> Mover:
        return Mover(self._nimbus, self.bridge, self.tally, self.pauses, MoveLimits())
