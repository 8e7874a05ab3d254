"""Runs schedules, and says of each what of the promises did not hold."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from stormwright.client.shapes import ChangeRequest
from stormwright.controller.objectives.outlook import Outlook
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.plans.document import placement_of, where
from stormwright.controller.plans.rollback import WHOLE
from stormwright.controller.policy import Decision
from stormwright.errors import ConflictError
from stormwright.model import Assignment
from stormwright.plan import HALTED_STATES
from stormwright.simulator.cluster.nimbus import ACTIVE
from tests.exploration.schedule import Schedule
from tests.exploration.serving import Serving
from tests.exploration.world import Killed, World

ANNA = ChangeRequest(by="anna", reason="a try")

#: Virtual seconds after which a run should have ended, and for which the cluster is looked at afterwards.
_LONGEST_S, _AFTERWARDS_S = 1_200.0, 45.0


class Over(BaseException):
    """Everything that was to happen has."""


@dataclass
class Found:
    """What came of a run: its steps and messages, and what did not hold, if anything."""

    steps: int
    messages: int
    broken: str = ""


@contextmanager
def unpredicted() -> Iterator[None]:
    """Plans without figures, which nobody looks at here; and it is the process that dies, not the machine."""

    def counted(draft: Any, _: object, stages: list[int] | None) -> dict[str, Any]:
        steps = len(draft.plan.steps)
        return {"step_count": steps, "stages": min(steps, 1) if stages is None else max(stages, default=-1) + 1}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        patch.setattr("stormwright.service.plans.plan_service.plan_document", counted)
        patch.setattr("stormwright.controller.objectives.outlook.Outlooks.promises", lambda *_: {})
        patch.setattr("stormwright.controller.plans.draft.Outlooks.of", lambda *_: Outlook(0.0, "", ""))
        yield


def explore(schedule: Schedule) -> Found:
    """Run a schedule; what is raised, too, is something that did not hold."""
    directory = Path(tempfile.mkdtemp(prefix="exploration-"))
    world = World(schedule)
    run = _Run(world, directory, decides=schedule.world % 3 == 0)
    try:
        run.run()
        broken = run.broken()
    except AssertionError as error:
        broken = str(error)
    except Exception as error:  # of the service, whatever it was
        broken = f"{type(error).__name__}: {error}"
    finally:
        run.end()
        shutil.rmtree(directory, ignore_errors=True)
    return Found(world.steps, world.messages, broken)


class _Run:
    """One run: a plan is applied, or the service moves by itself; what was moved is reverted.

    1. Somebody proposes a plan and applies it; where the service decides by itself, it does.
    2. Plans that wait for a person are resumed.
    3. Once everything is at rest, what was moved is reverted.
    """

    def __init__(self, world: World, directory: Path, *, decides: bool) -> None:
        self._world, self._directory, self._decides = world, directory, decides
        self._before = world.where()
        self._then: dict[str, Any] = {}
        self._plan = self._back = ""
        self._reverting = False
        self._serving: Serving | None = None
        self._states: dict[str, str] = {}
        self._numbers: list[int] = []
        self._reached: dict[str, Any] = {}
        self._until_s = world.clock.monotonic() + _LONGEST_S

    def run(self) -> None:
        """Until everything has happened, with a new service wherever one has died."""
        self._world.counting = True
        while True:
            try:
                self._serving = Serving(self._world, self._directory, self._person, decides=self._decides)
                self._serving.loop.run(Event(), 1.0, self._serving.before_each)
            except Killed:
                self.end()
                self._gone()
            except Over:
                break
        self._world.counting = False
        self._world.clock.go_on(_AFTERWARDS_S)

    def end(self) -> None:
        """The service's process is gone."""
        if self._serving:
            self._serving.end()
            self._serving = None

    def broken(self) -> str:
        """What does not hold in the end."""
        world = self._world
        for entry in world.nimbus.entries.values():
            if entry.status != ACTIVE:
                return f"{entry.topology.name} is left {entry.status}"
        up = {(w.topology, w.supervisor, w.port) for w in world.storm.supervisors.workers.values() if w.up}
        wanted = {(t, *slot) for t, slots in world.where().items() for slot in slots if slot}
        if up != wanted:
            return f"workers {sorted(up ^ wanted)} do not run, or should not"
        if not world.workers_died and (lost := world.lost()):
            return f"{lost} trees have lost a tuple"
        if self._then and self._decides is False and self._told(self._plan) == "done" and self._then != self._reached:
            return f"the plan leads to {self._then}, and led to {self._reached}"
        if self._back and world.where() != self._before:
            return f"everything was at {self._before}, and is at {world.where()} after it was reverted"
        return ""

    def _gone(self) -> None:
        def nobody(_: object) -> Any:
            raise ConnectionError

        world = self._world
        world.nimbus.ask = nobody
        world.deliver_to(lambda _: None)
        world.clock.go_on(world.away_s)
        world.dead = False

    def _told(self, plan: str) -> str:
        return self._states.get(plan, "")

    def _person(self, serving: Serving) -> None:
        if self._world.clock.monotonic() > self._until_s:
            paused = [f"{e.topology.name} is left {e.status}" for e in self._world.nimbus.entries.values()]
            raise AssertionError(f"it does not come to an end: {'; '.join(paused)}; plans {self._states}")
        row = serving.plans.active()
        self._states = {each.id: each.state for each in serving.plans.rows()}
        problem = serving.look()
        if row is not None or problem is None or len(problem.current) < len(problem.topologies):
            return
        try:
            self._do(serving)
        except ConflictError:  # something has changed under it: it is tried again
            return

    def _do(self, serving: Serving) -> None:
        halted = [plan for plan, state in self._states.items() if state in HALTED_STATES]
        if halted:
            serving.plan_service.resume(halted[0], ANNA)
        elif self._reverting:
            self._see_reverted(serving)
        elif self._decides:
            if not serving.decided().plan.steps:
                self._revert(serving)
        elif not self._plan or self._told(self._plan) in ("failed", "discarded"):
            self._propose(serving)
        elif self._told(self._plan) == "proposed":
            serving.plan_service.apply(self._plan, ANNA)
        else:
            self._revert(serving)

    def _propose(self, serving: Serving) -> None:
        problem = serving.problem()
        assert problem is not None
        moves = plan_moves(problem, Assignment(self._world.wanted), WHOLE, cpu_limits=False)
        plan = serving.plan_service.propose(Decision(True, "better", moves))
        if plan is None:
            raise Over
        self._plan, self._then = plan, dict(self._world.where())
        for step in serving.plans.steps(plan):
            for move in step.content["moves"]:
                self._then[move["topology"]] = where(placement_of(move["after"]))

    def _revert(self, serving: Serving) -> None:
        self._reached = dict(self._world.where())
        made = serving.state.read("SELECT n FROM moves ORDER BY n")
        if not made or (not self._plan and not self._decides):
            raise Over
        self._reverting, self._decides = True, False
        self._numbers = sorted({row["n"] for row in made}, reverse=True)
        serving._decides = False  # noqa: SLF001  # a person freezes it before
        self._see_reverted(serving)

    def _see_reverted(self, serving: Serving) -> None:
        """What was moved last is reverted first; one that could not be is tried again."""
        if self._back and self._told(self._back) == "done":
            self._numbers = self._numbers[1:]
        if not self._numbers:
            raise Over
        self._back = serving.plan_service.revert(self._numbers[0], ANNA).id
        # It is made, and started, in a thread of its own: nothing else happens meanwhile.
        while serving.plans.row(self._back).state in ("planning", "planned") and not self._world.dead:
            time.sleep(0.0005)
