"""Execution of stored plans: steps, evaluation of stages and rollback. A restarted service continues from the database.

::

    applying ──▶ evaluating ──▶ applying … ──▶ done
       │            ├──▶ waiting (unclear)
       ▼            ▼
     stopped     rolling_back ──▶ rolled_back

1. A step is stored as ``moving`` before it moves anything. After a restart its topologies show how far it came: all
   where they were, and it is made again; all at their targets, and it is complete; anything else, and the stage is
   rolled back. The same happens after a failed move, with its reason, as soon as Nimbus has sent another request; if no
   topology is on a detour, the plan is stopped.
2. A stage is rolled back by a plan of its own, from the placement of now. If that fails, another one is made.
3. A stage is evaluated before the next one begins. No topology is in a spare slot between stages.
4. A plan that the service approved itself (mode ``auto``) has one stage: all its steps are made at once, a failed step
   blocks only those that need it, and its topologies are evaluated while the service goes on; a regression leads to
   a plan of origin ``rollback``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from stormwright.controller.preconditions import changes, has_conf, has_executors
from stormwright.controller.propose import propose
from stormwright.controller.reports import MoveReport
from stormwright.controller.requests import NoPlan, Place, PlanInputs
from stormwright.controller.stages import away_after
from stormwright.errors import InputError, MoveError, NimbusError
from stormwright.history.evaluation.moves import multiple_of
from stormwright.history.evaluation.outcome import unclear
from stormwright.history.evaluation.verdict import Evaluation
from stormwright.model import Problem
from stormwright.model.assignment import where
from stormwright.plans.plan import STOPPED, Plan, Step, TopologyMove
from stormwright.plans.states import PlanEvent, StepState
from stormwright.service.on_change import OnChange
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.move_runner import MoveRunner
from stormwright.service.plans.store import PlanStore

log = logging.getLogger(__name__)

#: Maximum number of tries to roll a stage back, and seconds between them.
TRIES, AGAIN_S = 5, 30.0


class Outcomes(Protocol):
    """The running cluster, and the outcome of moves."""

    def look(self) -> Problem | None:
        """Return the current problem, observed after the last move, and record it; None while it is unknown."""

    def decide(self, problem: Problem, plan: Plan) -> int:
        """Record a plan in the history, against which its moves are evaluated; return its time in ms."""

    @property
    def decision_ms(self) -> int:
        """Time of the decision recorded last."""

    def worse(self, problem: Problem) -> Mapping[str, str]:
        """Return topologies (ids) that perform measurably worse since their move, with the reason."""

    def pending(self) -> Collection[str]:
        """Return topologies (ids) whose moves are still being evaluated."""

    def frozen(self) -> str:
        """Return why everything is frozen; empty if it is not."""

    def held(self) -> str:
        """Return why nothing may be moved now; empty if moves are allowed."""

    def refuse(self, problem: Problem, topologies: Mapping[str, str]) -> None:
        """Refuse the current placement of topologies (ids) for some time, for the given reasons."""


class PlanExecutor:
    """Executes the active plan, evaluates its stages and rolls them back.

    Parameters
    ----------
    plans, journal
        Stored plans, and the journal of changes.
    outcomes
        The running cluster, and the outcome of moves.
    runner
        Runner that makes the steps of a plan in order.
    approve
        Stores a plan of the service as one that it approves itself, and begins it; returns its id.
    """

    def __init__(
        self,
        plans: PlanStore,
        journal: Journal,
        outcomes: Outcomes,
        runner: MoveRunner,
        approve: Callable[[Plan], str] = lambda _: "",
    ) -> None:
        self._plans, self._journal, self._outcomes, self._runner = plans, journal, outcomes, runner
        self._approve = approve
        self._journaled: tuple[str, int] = ("", -1)
        self._not_before_s = float("-inf")
        #: The last plan that should have rolled another one back and failed.
        self._failed_rollback = ""
        self._log_changed = OnChange(log.warning)

    def execute(self, plan: Plan, stop: threading.Event | None = None) -> list[MoveReport]:
        """Store a plan of the service, which it approves itself and has recorded as a decision, and make its steps.

        Raises
        ------
        ConflictError
            Another plan is active, everything is frozen, or a topology has gone since.
        MoveError, NimbusError
            The last failure; later steps that do not need the failed one have been tried nevertheless.
        """
        for line in plan.blocked_lines():
            log.info(line)
        stored = self._plans.plan(self._approve(plan))
        self._journal.link_decision(stored.decision or 0, self._outcomes.decision_ms)
        self._journaled = (stored.id, stored.stage)
        return self._run(stored, stored.steps, stop)

    def advance(self, stop: threading.Event | None = None) -> bool:
        """Advance the active plan by one step; return whether there is one, so that nothing else may move."""
        plan = self._plans.active()
        if plan is None:
            self._journaled = ("", -1)  # later decisions of the service come in between
            return False
        problem = self._outcomes.look()
        if problem is None or self._plans.clock.monotonic() < self._not_before_s:
            return True
        if plan.state == "applying":
            self._apply(plan, problem, stop)
        elif plan.state == "evaluating":
            self._evaluate(plan, problem)
        else:
            self._roll_back(plan, problem)
        return True

    def _apply(self, plan: Plan, problem: Problem, stop: threading.Event | None) -> None:
        steps = plan.steps_of(plan.stage)
        pending = [each for each in steps if each.state in ("planned", "moving")]
        if not pending and any(each.state == "failed" for each in steps):  # the service ended before it could say so
            self._plans.transition(plan.id, "failed", plan.why or "not all of it could be moved")
            return
        if not pending:
            self._end_stage(plan)
            return
        away = away_after(each for each in steps if each.state == "moved")
        if pending[0].state == "moving" and not self._settle(plan, pending[0], problem, away):
            return
        if plan.stop_requested and not away:
            self._plans.transition(plan.id, "stopped", self._why_stopped(), stop=0)
            return
        if why := "; ".join(changes(plan.preconditions, problem, _moved(plan))):
            self._halt(plan, f"the cluster has changed: {why}", back=bool(away))
            return
        if self._waits(plan):
            return
        self._note_stage(plan, problem)
        try:
            self._run(plan, pending if plan.is_unattended else pending[:1], stop)
        except (MoveError, NimbusError) as error:
            log.warning("plan %s: %s", plan.id, error)

    def _note_stage(self, plan: Plan, problem: Problem) -> None:
        """Record the stage as a decision in the history, once."""
        if self._journaled == (plan.id, plan.stage):
            return
        if plan.origin == "rollback" and not plan.is_by_service:  # else the decision itself has refused the placement
            moving = [move.topology for step in plan.steps_of(plan.stage) for move in step.moves]
            self._outcomes.refuse(problem, dict.fromkeys(moving, plan.cause))
        stage = plan.model_copy(update={"steps": tuple(plan.steps_of(plan.stage))})
        self._journal.link_decision(plan.decision or 0, self._outcomes.decide(problem, stage))
        self._journaled = (plan.id, plan.stage)

    def _run(self, plan: Plan, steps: Sequence[Step], stop: threading.Event | None) -> list[MoveReport]:
        """Make steps of a stage; raises the errors of `MoveRunner.run`."""
        failed = {m.topology for step in plan.steps_of(plan.stage) if step.state == "failed" for m in step.moves}
        if not plan.is_unattended:
            steps = [replace(step, depends_on=frozenset()) for step in steps]  # those that it waits for have been made

        earlier = [step for step in plan.steps_of(plan.stage) if step.state == "moved"]

        def stops(made: Sequence[Step]) -> bool:
            # Whether an attended plan stops is decided before each of its steps.
            return plan.is_unattended and self._plans.stop_requested(plan.id) and not away_after([*earlier, *made])

        def store(number: int, state: StepState) -> None:
            # After a failure of an attended plan only the next snapshot tells where its topologies are.
            if state != "failed" or plan.is_unattended:
                self._plans.set_step(plan.id, steps[number].number, state)

        try:
            reports = self._runner.run(plan, steps, stop, store, failed, stops)
        except (MoveError, NimbusError) as error:
            if plan.is_unattended:
                self._plans.transition(plan.id, "failed", str(error))
            else:
                self._plans.note(plan.id, str(error))
            raise
        if plan.is_unattended and not (stop is not None and stop.is_set()):
            if self._plans.stop_requested(plan.id) and any(
                step.state == "planned" for step in self._plans.plan(plan.id).steps
            ):
                self._plans.transition(plan.id, "stopped", self._why_stopped(), stop=0)
            else:
                self._end_stage(plan)
        return reports

    def _settle(self, plan: Plan, begun: Step, problem: Problem, away: Collection[str]) -> bool:
        """Return whether a step that was begun is to be made again, by where its topologies are."""
        if gone := [move.name for move in begun.moves if move.topology not in problem.topology_index]:
            self._halt(plan, f"{', '.join(gone)}: gone as it was moved", back=True)
            return False
        is_at = {move.topology: where(problem.current.get(move.topology)) for move in begun.moves}
        index = problem.topology_index
        of = [(move, problem.topologies[index[move.topology]]) for move in begun.moves]
        changed = all(has_executors(each, move.executors) and has_conf(each, move.conf) for move, each in of)
        if any(not slots or None in slots for slots in is_at.values()):
            if plan.stop_requested:
                self._halt(plan, self._why_stopped(), back=True)
            return False  # Nimbus has yet to place them
        if changed and all(is_at[move.topology] == where(move.after) for move in begun.moves):
            self._plans.set_step(plan.id, begun.number, "moved")
            self._plans.note(plan.id, "")
            return False
        if any(is_at[move.topology] != where(move.before) or not has_conf(each, move.conf_before) for move, each in of):
            self._halt(plan, plan.why or "a move was broken off half way", back=True)
            return False
        self._plans.set_step(plan.id, begun.number, "planned")
        if plan.why:
            self._halt(plan, plan.why, back=bool(away))
        return not plan.why

    def _halt(self, plan: Plan, why: str, back: bool) -> None:
        """Roll the stage back if a topology is on a detour; else stop, for a person if one approved the plan.

        What rolls another plan back is not rolled back itself: its successor begins where it has ended.
        """
        event: PlanEvent = "failed" if plan.is_unattended else "stopped"
        self._plans.transition(plan.id, "to roll back" if back and not plan.rolls_back else event, why, stop=0, tries=0)

    def _end_stage(self, plan: Plan) -> None:
        """All steps of the stage are made: evaluate it, or go on if it is not evaluated."""
        if plan.origin == "rollback" or plan.is_unattended:
            self._next_stage(plan)
        else:
            self._plans.transition(plan.id, "stage made")

    def _next_stage(self, plan: Plan) -> None:
        last = max((each.stage for each in plan.steps), default=0)
        self._plans.transition(plan.id, "next stage" if plan.stage < last else "completed", stage=plan.stage + 1)

    def _evaluate(self, plan: Plan, problem: Problem) -> None:
        names = {move.topology: move.name for step in plan.steps_of(plan.stage) for move in step.moves}
        worse = {topology: why for topology, why in self._outcomes.worse(problem).items() if topology in names}
        if worse:
            why = "; ".join(f"{names[topology]}: {each}" for topology, each in worse.items())
            changed = {move.topology for move in plan.moves if move.executors or move.conf}
            # Not the placement: it may be that of before.
            self._outcomes.refuse(problem, {each: worse[each] for each in worse.keys() - changed})
            self._plans.transition(plan.id, "to roll back", why, stop=0, tries=0)
            return
        if plan.stop_requested:
            self._plans.transition(plan.id, "stopped", self._why_stopped(), stop=0)
            return
        pending = self._outcomes.pending()  # first: what is evaluated meanwhile has an outcome
        outcomes = self._journal.evaluations_of(plan.decision or 0)
        if any(topology in pending and topology not in outcomes for topology in names):
            return
        if plan.trial and any(not _is_better(plan, outcomes.get(topology, [])) for topology in names):
            # Such as after a move that was not complete, or a restart in the middle of it.
            self._plans.transition(plan.id, "to roll back", "whether it is better was not measured", stop=0, tries=0)
            return
        doubts = {} if plan.trial else {name: unclear(outcomes.get(topology, [])) for topology, name in names.items()}
        if why := "; ".join(f"{name}: {doubt}" for name, doubt in doubts.items() if doubt):
            self._plans.transition(plan.id, "unclear", why)
            return
        self._next_stage(plan)

    def _roll_back(self, plan: Plan, problem: Problem) -> None:
        """Begin a plan that brings the topologies of the stage back; those that are gone need not go back."""
        tried = self._plans.rollbacks_of(plan.id)
        if tried and tried[0].state == "done":
            self._end_rollback(plan)
            return
        if tried and tried[0].id != self._failed_rollback:
            self._failed_rollback = tried[0].id
            self._retry_rollback(plan, tried[0].why)
            return
        stage = {move.topology for step in plan.steps_of(plan.stage) for move in step.moves}
        before = self._journal.before_entry(plan.decision or 0).only(stage & problem.topology_index.keys())
        try:
            back = Place(before.placements, before.executors, before.conf, f"plan {plan.id} is rolled back: {plan.why}")
            found = propose(problem, back, PlanInputs(predicts=False))
        except InputError as error:
            self._retry_rollback(plan, str(error))
            return
        if isinstance(found, NoPlan):
            self._end_rollback(plan)
        elif not self._waits(plan):
            self._approve(found.model_copy(update={"rolls_back": plan.id}))

    def _end_rollback(self, plan: Plan) -> None:
        self._plans.mark_stage_rolled_back(plan.id, plan.stage)
        self._plans.transition(plan.id, "rolled back", plan.why)

    def _retry_rollback(self, plan: Plan, why: str) -> None:
        log.warning("plan %s cannot be rolled back now: %s", plan.id, why)
        if plan.rollback_tries + 1 >= TRIES:
            text = f"{plan.why}; and it could not be rolled back: {why}; the history has what it moved"
            self._plans.transition(plan.id, "failed", text)
            return
        self._plans.note(plan.id, plan.why, tries=plan.rollback_tries + 1)
        self._not_before_s = self._plans.clock.monotonic() + AGAIN_S

    # ------------------------------------------------------------------------------------------------------------------

    def _why_stopped(self) -> str:
        frozen = self._outcomes.frozen()
        return f"{STOPPED}: everything is frozen: {frozen}" if frozen else STOPPED

    def _waits(self, plan: Plan) -> bool:
        """Return whether nothing may be moved now; the plan then continues as soon as moves are allowed."""
        why = self._outcomes.held()
        if why:
            self._log_changed(f"plan {plan.id} waits: {why}")
        else:
            self._log_changed.over()
        return bool(why)


def _moved(plan: Plan) -> dict[str, TopologyMove]:
    """Return the moves that the plan has made so far, the last one of each topology."""
    return {move.topology: move for step in plan.steps if step.state == "moved" for move in step.moves}


def _is_better(trial: Plan, evaluations: Sequence[Evaluation]) -> bool:
    """Return whether a topology was measured to be better since a trial."""
    found = multiple_of(trial.aim, evaluations)
    return found is not None and (found.measured or 0.0) > 1.0
