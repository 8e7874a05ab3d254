"""A life of the service over a virtual cluster: everything of it that decides what moves, and keeps what has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

from stormwright.controller.move import Mover
from stormwright.controller.planning.plan import MovePlan, Step
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.plans.rollback import WHOLE
from stormwright.controller.policy import Decision
from stormwright.controller.reports import MoveLimits, MoveReport
from stormwright.controller.safety.pauses import Pauses
from stormwright.controller.tally import Tally
from stormwright.documents import FileDocument
from stormwright.history.evaluation.moves import THROUGHPUT, EvaluatedMove
from stormwright.history.evaluation.verdict import Evaluation
from stormwright.model import Assignment, Problem, Supervisor
from stormwright.service.decider import SNAPSHOT_S
from stormwright.service.loop import Loop
from stormwright.service.memory import ServiceMemory
from stormwright.service.plans.executor import MoveRunner, PlanExecutor
from stormwright.service.plans.guard import Guard
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.plan_service import PlanMakers, PlanService
from stormwright.service.plans.store import PlanExpiry, PlanStore
from stormwright.service.storage.database import FILE, State, Transaction
from stormwright.storm.bridge import Bridge
from tests.exploration.world import World, read
from tests.service.plans.nimbus import Forced
from tests.simulator.cluster.storms import EVEN


class MortalState(State):
    """Ends, by schedule, right before or right after a transaction."""

    def __init__(self, path: Path, world: World) -> None:
        self._world = world
        super().__init__(path, world.clock)
        self._connection.execute("PRAGMA synchronous = OFF")

    @contextmanager
    def change(self, *, replicated: bool = True) -> Iterator[Transaction]:
        self._world.step()
        with super().change(replicated=replicated) as transaction:
            yield transaction
        self._world.step()


class Calls:
    """Nimbus as the service calls it: before a call and after it somebody may die."""

    def __init__(self, world: World) -> None:
        self._world = world

    def cluster(self) -> Mapping[str, Any]:
        return self._called("cluster")  # type: ignore[no-any-return]

    def activate(self, name: str) -> None:
        self._called("activate", name)

    def deactivate(self, name: str) -> None:
        self._called("deactivate", name)

    def rebalance(self, name: str, wait_s: int, num_workers: int | None = None) -> None:
        self._called("rebalance", name, wait_s, num_workers)

    def release(self, topology_id: str, supervisor: Supervisor) -> bool:
        return bool(self._called("release", topology_id, supervisor))

    def _called(self, call: str, *args: Any) -> Any:
        self._world.step()
        result = getattr(self._world.nimbus, call)(*args)
        self._world.step()
        return result


class Serving:
    """One life of the service, from its start until it is killed.

    Parameters
    ----------
    world
        The cluster.
    directory
        What outlives it.
    person
        Does something now and then.
    decides
        Whether it moves by itself where everything is wanted, or only as people say.
    """

    def __init__(self, world: World, directory: Path, person: Callable[[Serving], None], *, decides: bool) -> None:
        self._person = person
        self._world, clock = world, world.clock
        self.bridge = Bridge(EVEN, "even", clock=clock)
        self.tally = Tally(clock=clock)
        world.deliver_to(lambda lines: cast(None, self.tally.add(read(lines))))
        world.nimbus.ask = self.bridge.answer
        self.pauses = Pauses(FileDocument(directory / "paused.json"))
        self.state = MortalState(directory / FILE, world)
        self.plans, self.journal = PlanStore(self.state), Journal(self.state)
        self.guard = Guard(self.state, self.plans, self.journal, "auto")
        self.memory, self._decides = ServiceMemory(clock), decides
        self._pending, self._moment = dict[str, int](), 0
        self._nimbus = Calls(world)
        history = SimpleNamespace(record_move=self._note, decision_ms=0)
        runner = MoveRunner(self._move, self.memory, cast(Any, history), "forced", 0.0, self.journal)
        makers = PlanMakers("traffic", lambda _: Forced(world.wanted), Forced(world.wanted))
        self.plan_service = PlanService(self.plans, self.journal, self.guard, self.problem, makers)
        executor = PlanExecutor(self.plans, self.journal, self, runner, self.plan_service.approve)
        expiry = PlanExpiry(self.plans, self.journal, 90)
        decider = cast(Any, SimpleNamespace(decide=self.decided))
        before_each = (self._resume, expiry.expire)
        self.loop = Loop(decider, self.guard, self.plan_service.propose, executor, before_each, clock)
        self._resume()

    def before_each(self) -> None:
        """Before each round of the loop a person may do something."""
        self._person(self)

    def end(self) -> None:
        """Its process is gone."""
        self.plan_service.close()
        self.state.close()

    def problem(self) -> Problem | None:
        """What runs now; None before Nimbus has asked."""
        return self.bridge.snapshot()

    # What the loop asks --------------------------------------------------------------------------------

    def decided(self) -> Decision:
        """What it would move by itself."""
        problem = self.look()
        if not self._decides or problem is None:
            return Decision(False, "it moves nothing automatically")
        moves = plan_moves(problem, Assignment(self._world.wanted), WHOLE, cpu_limits=False)
        return Decision(True, "better", moves if moves.steps else MovePlan(()))

    # What a plan asks ------------------------------------------------------------------------------------

    def look(self) -> Problem | None:
        """What runs now; None where Nimbus has not asked since the last move, or not for long."""
        age_s, problem = self.bridge.snapshot_age_s(), self.bridge.snapshot()
        since_s = self._world.clock.monotonic() - age_s
        if problem is None or age_s > SNAPSHOT_S or since_s < self.memory.last_change_s:
            return None
        return problem

    def decide(self, problem: Problem, decision: Decision) -> int:
        self._moment += 1
        return self._moment

    @property
    def decision_ms(self) -> int:
        return self._moment

    def pending(self) -> Collection[str]:
        return self._pending

    def worse(self, problem: Problem) -> Mapping[str, str]:
        """As soon as it is asked, everything is judged."""
        while self._pending:
            topology, moment = self._pending.popitem()
            judged = Evaluation(THROUGHPUT, 1.0, 1.0, 0.9, 1.1, 9, 9, "as predicted")
            self.journal.record_evaluation(EvaluatedMove(moment, topology, judged))
        return {}

    def held(self) -> str:
        hold = self.guard.holds.before_moving()
        return hold.why if hold else ""

    def refuse(self, problem: Problem, topologies: Mapping[str, str]) -> None:
        pass

    def _note(self, topology: str, report: MoveReport | None, failure: str | None = None) -> None:
        if report:
            self._pending[topology] = self._moment

    def _move(self, step: Step, reason: str, stop: Event | None) -> Sequence[MoveReport]:
        mover = Mover(self._nimbus, self.bridge, self.tally, self.pauses, MoveLimits())
        return mover.move(step, reason, stop)

    def _resume(self) -> None:
        self.memory.resumed |= set(self.pauses.resume(self._nimbus.activate))
