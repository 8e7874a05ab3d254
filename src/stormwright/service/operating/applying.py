"""Applies a plan, one step at a time; whatever ends in between, the next service goes on from what is kept.

::

    applying ──▶ judging ──▶ applying … ──▶ done
       │            ├──▶ waiting (unclear)
       ▼            ▼
     stopped     taking back ──▶ taken back

1. Before a step moves anything it is kept that it does. A service that finds such a step looks where its topologies
   are: all where they were, and it is made again; all where they go to, and it is made; anything else, and the stage is
   taken back.
2. What is taken back is planned anew from where everything is, each time: so it does not matter how often it is begun.
3. A stage is judged before the next begins. Nobody is in a spare slot between stages.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

import numpy as np
import orjson

from stormwright.controller.planning.plan import MovePlan, Step
from stormwright.controller.plans.back import moves_back
from stormwright.controller.plans.outcome import unclear
from stormwright.controller.plans.relied import changes
from stormwright.controller.plans.saved import placement_of, where
from stormwright.controller.plans.stages import away_after
from stormwright.controller.policy import Decision
from stormwright.controller.reports import MoveReport
from stormwright.errors import InputError, MoveError, NimbusError
from stormwright.model import UNPLACED, Problem, TopologyAssignment
from stormwright.service.operating.ledger import Ledger
from stormwright.service.operating.plans import UNDER_WAY, PlanRow, Plans, StepRow

log = logging.getLogger(__name__)

#: Tries to take a stage back, and seconds between them.
TRIES, AGAIN_S = 5, 30.0


class Cluster(Protocol):
    """What is asked of the cluster and of its history."""

    def look(self) -> Problem | None:
        """What runs now, no older than the last move; None while that is not known. It is noted in the history."""

    def decide(self, problem: Problem, decision: Decision) -> int:
        """Note a decision in the history, by which its moves are judged; its moment."""

    def worse(self, problem: Problem) -> Mapping[str, str]:
        """Topologies that do measurably worse since they were moved → why."""

    def judging(self) -> Collection[str]:
        """Topologies of which it is still measured what came of their moves."""

    def refuse(self, problem: Problem, topologies: Mapping[str, str]) -> None:
        """Topologies are not brought again soon to where they are now; with the reason."""


#: Makes the moves of a decision, which has a number in the ledger, unless the event is set; raises what
#: `stormwright.service.acting.Acting.act` raises.
Act = Callable[[Decision, threading.Event | None, int], Sequence[MoveReport]]


class Applying:
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

    def __init__(self, plans: Plans, ledger: Ledger, cluster: Cluster, act: Act) -> None:
        self._plans, self._ledger, self._cluster, self._act = plans, ledger, cluster, act
        self._decided: tuple[str, int] = ("", -1)
        self._not_before_s = float("-inf")

    def advance(self, stop: threading.Event | None = None) -> bool:
        """Do what is next of the plan under way; whether there is one, so that nobody else moves anything."""
        row = self._plans.under_way()
        if row is None:
            return False
        problem = self._cluster.look()
        if problem is None or time.monotonic() < self._not_before_s:
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
        nxt = left[0]
        if nxt.state == "moving" and not self._settle(row, nxt, problem):
            return
        made = [each for each in steps if each.state == "moved"]
        away = away_after(each.step(problem) for each in made) if made else set()
        if row.stop and not away:
            self._plans.change(row.id, ["applying"], "stopped", "as was asked", stop=0)
            return
        if why := "; ".join(changes(orjson.loads(row.relied), problem, self._moved(row))):
            self._halt(row, f"the cluster has changed: {why}", back=bool(away))
            return
        self._move(row, nxt, problem, stop, bool(away))

    def _settle(self, row: PlanRow, found: StepRow, problem: Problem) -> bool:
        """A step that was begun: whether it is to be made (again), by where its topologies are."""
        told = found.told["moves"]
        now = {move["topology"]: problem.current.get(move["topology"]) for move in told}
        if any(each is not None and UNPLACED in each.slot_of_executor for each in now.values()) or None in now.values():
            return False  # Nimbus has yet to place them
        is_at = {t: where(each) for t, each in now.items()}
        if all(is_at[move["topology"]] == where(placement_of(move["after"])) for move in told):
            self._plans.set_step(row.id, found.number, "moved")
            return False
        if all(is_at[move["topology"]] == where(placement_of(move["before"])) for move in told):
            self._plans.set_step(row.id, found.number, "planned")
            return True
        self._halt(row, "a move was broken off half way", back=True)
        return False

    def _move(self, row: PlanRow, found: StepRow, problem: Problem, stop: threading.Event | None, away: bool) -> None:
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
            self._failed(row, found, str(error), away)
        else:
            # Nothing was made where the service is being stopped.
            self._plans.set_step(row.id, found.number, "moved" if made else "planned")

    def _failed(self, row: PlanRow, found: StepRow, why: str, back: bool) -> None:
        """A step was given up: its topologies are where they were, or some of them half way."""
        log.warning("plan %s: %s", row.id, why)
        problem = self._cluster.look()
        told = found.told["moves"]
        there = problem is not None and all(
            where(problem.current.get(move["topology"])) == where(placement_of(move["before"])) for move in told
        )
        if there:
            self._plans.set_step(row.id, found.number, "planned")
        self._halt(row, why, back=back or not there)

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
        before = {topology: was for topology, was in self._ledger.moved_in(n).items() if topology in stage}
        own = [problem.executors_of(problem.topology_index[t]) for t in before if t in problem.topology_index]
        if any(np.any(problem.current_slot[each] == UNPLACED) for each in own):
            return  # Nimbus has yet to place them
        try:
            plan = moves_back(problem, before)
            if not plan.steps:
                self._plans.set_stage_back(row.id, row.stage)
                self._plans.change(row.id, ["taking back"], "taken back", row.why)
                return
            reason = f"plan {row.id} is taken back: {row.why}"
            step = _alone(plan.steps[0])
            decision = Decision(True, reason, MovePlan((step,)), takes_back=_topologies([step]))
            self._ledger.joins(n, self._cluster.decide(problem, decision))
            self._act(decision, stop, n)
        except (InputError, MoveError, NimbusError) as error:
            self._again(row, str(error))

    def _again(self, row: PlanRow, why: str) -> None:
        log.warning("plan %s cannot be taken back now: %s", row.id, why)
        if row.tries + 1 >= TRIES:
            text = f"{row.why}; and it could not be taken back: {why}; what it has moved is in the history"
            self._plans.change(row.id, ["taking back"], "failed", text)
            return
        self._plans.change(row.id, ["taking back"], "taking back", row.why, tries=row.tries + 1)
        self._not_before_s = time.monotonic() + AGAIN_S

    def _moved(self, row: PlanRow) -> dict[str, TopologyAssignment]:
        """Where the plan has brought topologies up to now."""
        made = [each for each in self._plans.steps(row.id) if each.state == "moved"]
        return {move["topology"]: placement_of(move["after"]) for each in made for move in each.told["moves"]}


def _alone(step: Step) -> Step:
    """A step that waits for no other: those before it have been made."""
    return Step(step.moves)


def _topologies(steps: Sequence[Step]) -> frozenset[str]:
    return frozenset(move.topology.id for step in steps for move in step.moves)
