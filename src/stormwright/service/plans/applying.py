"""Applies a plan, one step at a time; whatever ends in between, the next service goes on from what is kept.

::

    applying ──▶ judging ──▶ applying … ──▶ done
       │            ├──▶ waiting (unclear)
       ▼            ▼
     stopped     taking back ──▶ taken back

1. Before a step moves anything it is kept that it does. A service that finds such a step looks where its topologies
   are: all where they were, and it is made again; all where they go to, and it is made; anything else, and the stage is
   taken back.
   So it is where a move fails, for a reason that is kept, as soon as Nimbus has asked again: where nobody is half way
   the plan is stopped.
2. What is taken back is planned anew from where everything is, each time: so it does not matter how often it is begun.
3. A stage is judged before the next begins. Nobody is in a spare slot between stages.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

import orjson

from stormwright.controller.planning.plan import MovePlan, Step
from stormwright.controller.plans.document import placement_of, where
from stormwright.controller.plans.preconditions import changes
from stormwright.controller.plans.rollback import moves_back
from stormwright.controller.plans.stages import unclear
from stormwright.controller.policy import Decision
from stormwright.controller.reports import MoveReport
from stormwright.errors import InputError, MoveError, NimbusError
from stormwright.model import Problem, TopologyAssignment
from stormwright.service.on_change import OnChange
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.plans import UNDER_WAY, PlanRow, PlanStore, StepRow

log = logging.getLogger(__name__)

#: Tries to take a stage back, and seconds between them.
TRIES, AGAIN_S = 5, 30.0


class _Cluster(Protocol):
    """What is asked of the cluster and of its history."""

    def look(self) -> Problem | None:
        """What runs now, no older than the last move; None while that is not known. It is noted in the history."""

    def decide(self, problem: Problem, decision: Decision) -> int:
        """Note a decision in the history, by which its moves are judged; its moment."""

    def worse(self, problem: Problem) -> Mapping[str, str]:
        """Topologies that do measurably worse since they were moved → why."""

    def judging(self) -> Collection[str]:
        """Topologies of which it is still measured what came of their moves."""

    def held(self) -> str:
        """Why nothing may be moved right now, whoever wants it; empty where things may."""

    def refuse(self, problem: Problem, topologies: Mapping[str, str]) -> None:
        """Topologies are not brought again soon to where they are now; with the reason."""


#: Makes the moves of a decision, which has a number in the ledger, unless the event is set; raises what
#: `stormwright.service.executor.MoveExecutor.act` raises.
Act = Callable[[Decision, threading.Event | None, int], Sequence[MoveReport]]


class PlanExecutor:
    """Brings the plan that is under way on by a step.

    Parameters
    ----------
    plans, ledger
        Keep where it stands, and what was done.
    cluster
        Tells what runs, and what came of it.
    act
        Makes moves.
    """

    def __init__(self, plans: PlanStore, ledger: Journal, cluster: _Cluster, act: Act) -> None:
        self._plans, self._ledger, self._cluster, self._act = plans, ledger, cluster, act
        self._decided: tuple[str, int] = ("", -1)
        self._not_before_s = float("-inf")
        self._say = OnChange(log.warning)

    def advance(self, stop: threading.Event | None = None) -> bool:
        """Do what is next of the plan under way; whether there is one, so that nobody else moves anything."""
        row = self._plans.under_way()
        if row is None:
            self._decided = ("", -1)  # the service decides for itself: what goes on later is a decision of its own
            return False
        problem = self._cluster.look()
        if problem is None or self._plans.clock.monotonic() < self._not_before_s:
            return True
        {"applying": self._go_on, "judging": self._judge, "taking back": self._take_back}[row.state](row, problem, stop)
        return True

    def _go_on(self, row: PlanRow, problem: Problem, stop: threading.Event | None) -> None:
        steps = [each for each in self._plans.steps(row.id) if each.stage == row.stage]
        left = [each for each in steps if each.state != "moved"]
        if not left:
            state = "judging" if row.kind == "plan" else self._after_stage(row)
            self._plans.change(row.id, ["applying"], state, stage=row.stage + (row.kind != "plan"))
            return
        nxt, away = left[0], _away(each for each in steps if each.state == "moved")
        if nxt.state == "moving" and not self._settle(row, nxt, problem, away):
            return
        if row.stop and not away:
            self._plans.change(row.id, ["applying"], "stopped", "as was asked", stop=0)
            return
        if why := "; ".join(changes(orjson.loads(row.relied), problem, self._moved(row))):
            self._halt(row, f"the cluster has changed: {why}", back=bool(away))
            return
        self._move(row, nxt, problem, stop)

    def _settle(self, row: PlanRow, found: StepRow, problem: Problem, away: Collection[str]) -> bool:
        """A step that was begun: whether it is to be made (again), by where its topologies are."""
        told = found.told["moves"]
        if gone := [move["name"] for move in told if move["topology"] not in problem.topology_index]:
            self._halt(row, f"{', '.join(gone)}: gone as it was moved", back=True)
            return False
        is_at = {move["topology"]: where(problem.current.get(move["topology"])) for move in told}
        if any(not slots or None in slots for slots in is_at.values()):
            if row.stop:
                self._halt(row, "as was asked", back=True)
            return False  # Nimbus has yet to place them
        if all(is_at[move["topology"]] == where(placement_of(move["after"])) for move in told):
            self._plans.set_step(row.id, found.number, "moved")
            self._plans.change(row.id, ["applying"], "applying")
            return False
        if any(is_at[move["topology"]] != where(placement_of(move["before"])) for move in told):
            self._halt(row, row.why or "a move was broken off half way", back=True)
            return False
        self._plans.set_step(row.id, found.number, "planned")
        if row.why:
            self._halt(row, row.why, back=bool(away))
        return not row.why

    def _move(self, row: PlanRow, found: StepRow, problem: Problem, stop: threading.Event | None) -> None:
        if self._waits(row):
            return
        n, reason = row.decision or 0, f"plan {row.id} of {row.who}: {row.reason}"
        step, promises = found.step(problem), self._plans.promises(row)
        if self._decided != (row.id, row.stage):
            stage = [each.step(problem) for each in self._plans.steps(row.id) if each.stage == row.stage]
            back = _topologies(stage) if row.kind == "revert" else frozenset()
            decision = Decision(True, reason, MovePlan(tuple(stage)), promises=promises, takes_back=back)
            if back:
                self._cluster.refuse(problem, dict.fromkeys(back, reason))
            self._ledger.joins(n, self._cluster.decide(problem, decision))
            self._decided = (row.id, row.stage)
        self._plans.set_step(row.id, found.number, "moving")
        decision = Decision(True, reason, MovePlan((_alone(step),)), promises=promises)
        try:
            made = self._act(decision, stop, n)
        except (MoveError, NimbusError) as error:
            # Where its topologies are then is not known before Nimbus asks again.
            log.warning("plan %s: %s", row.id, error)
            self._plans.change(row.id, ["applying"], "applying", str(error))
        else:
            # Nothing was made where the service is being stopped.
            self._plans.set_step(row.id, found.number, "moved" if made else "planned")

    def _halt(self, row: PlanRow, why: str, back: bool) -> None:
        """Take the stage back where somebody is half way; else wait for a person."""
        self._plans.change(row.id, UNDER_WAY, "taking back" if back else "stopped", why, stop=0, tries=0)

    def _judge(self, row: PlanRow, problem: Problem, _: threading.Event | None) -> None:
        n = row.decision or 0
        steps = [each for each in self._plans.steps(row.id) if each.stage == row.stage]
        names = {move["topology"]: move["name"] for each in steps for move in each.told["moves"]}
        worse = {topology: why for topology, why in self._cluster.worse(problem).items() if topology in names}
        if worse:
            why = "; ".join(f"{names[topology]}: {each}" for topology, each in worse.items())
            self._cluster.refuse(problem, worse)
            self._plans.change(row.id, ["judging"], "taking back", why, stop=0, tries=0)
            return
        if row.stop:
            self._plans.change(row.id, ["judging"], "stopped", "as was asked", stop=0)
            return
        came, more = self._ledger.came_of(n), self._cluster.judging()
        if any(topology in more and topology not in came for topology in names):
            return
        doubts = {name: unclear(came.get(topology, [])) for topology, name in names.items()}
        why = "; ".join(f"{name}: {doubt}" for name, doubt in doubts.items() if doubt)
        if why:
            self._plans.change(row.id, ["judging"], "waiting", why)
            return
        self._plans.change(row.id, ["judging"], self._after_stage(row), stage=row.stage + 1)

    def _after_stage(self, row: PlanRow) -> str:
        last = max((each.stage for each in self._plans.steps(row.id)), default=0)
        return "applying" if row.stage < last else "done"

    def _take_back(self, row: PlanRow, problem: Problem, stop: threading.Event | None) -> None:
        stage = {
            move["topology"]
            for each in self._plans.steps(row.id)
            if each.stage == row.stage
            for move in each.told["moves"]
        }
        n = row.decision or 0
        # What is gone need not go back.
        back = stage & problem.topology_index.keys()
        before = {topology: was for topology, was in self._ledger.moved_in(n).items() if topology in back}
        try:
            plan = moves_back(problem, before)
            if not plan.steps:
                self._plans.set_stage_back(row.id, row.stage)
                self._plans.change(row.id, ["taking back"], "taken back", row.why)
                return
            if self._waits(row):
                return
            reason = f"plan {row.id} is taken back: {row.why}"
            step = _alone(plan.steps[0])
            decision = Decision(True, reason, MovePlan((step,)), takes_back=_topologies([step]))
            self._ledger.joins(n, self._cluster.decide(problem, decision))
            self._act(decision, stop, n)
        except (InputError, MoveError, NimbusError) as error:
            self._again(row, str(error))

    def _waits(self, row: PlanRow) -> bool:
        """Whether nothing may be moved right now; the plan then goes on where it is as soon as things may."""
        why = self._cluster.held()
        if why:
            self._say(f"plan {row.id} waits: {why}")
        else:
            self._say.over()
        return bool(why)

    def _again(self, row: PlanRow, why: str) -> None:
        log.warning("plan %s cannot be taken back now: %s", row.id, why)
        if row.tries + 1 >= TRIES:
            text = f"{row.why}; and it could not be taken back: {why}; what it has moved is in the history"
            self._plans.change(row.id, ["taking back"], "failed", text)
            return
        self._plans.change(row.id, ["taking back"], "taking back", row.why, tries=row.tries + 1)
        self._not_before_s = self._plans.clock.monotonic() + AGAIN_S

    def _moved(self, row: PlanRow) -> dict[str, TopologyAssignment]:
        """Where the plan has brought topologies up to now."""
        made = [each for each in self._plans.steps(row.id) if each.state == "moved"]
        return {move["topology"]: placement_of(move["after"]) for each in made for move in each.told["moves"]}


def _alone(step: Step) -> Step:
    """A step that waits for no other: those before it have been made."""
    return Step(step.moves)


def _away(made: Iterable[StepRow]) -> set[str]:
    """Topologies (ids) that steps have left in spare slots, also such that are gone."""
    arrives = {move["topology"]: move["arrives"] for each in made for move in each.told["moves"]}
    return {topology for topology, there in arrives.items() if not there}


def _topologies(steps: Sequence[Step]) -> frozenset[str]:
    return frozenset(move.topology.id for step in steps for move in step.moves)
