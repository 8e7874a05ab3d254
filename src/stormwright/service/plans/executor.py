"""Execution of plans: steps, evaluation of stages and rollback. Any restart of the service continues from the database.

::

    applying ──▶ evaluating ──▶ applying … ──▶ done
       │            ├──▶ waiting (unclear)
       ▼            ▼
     stopped     rolling_back ──▶ rolled_back

1. A step is stored as ``moving`` before it moves anything. After a restart its topologies tell how far it came: all
   where they were, and it is made again; all at their targets, and it is complete; anything else, and the stage is
   rolled back. The same happens after a failed move, with its reason, as soon as Nimbus has asked again; if no topology
   is on a detour, the plan is stopped.
2. A rollback is planned from the current placement each time, so it may be interrupted at any point.
3. A stage is evaluated before the next one begins. No topology is in a spare slot between stages.
4. A plan that the service approved itself (mode ``auto``) has one stage: all its steps are made at once, a failed step
   blocks only those that need it, and its topologies are evaluated while the service goes on; a regression leads to
   a plan of origin ``rollback``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import orjson

from stormwright.controller.planning.plan import MovePlan, Step
from stormwright.controller.plans.document import placement_of, where
from stormwright.controller.plans.preconditions import changes
from stormwright.controller.plans.rollback import rollback_moves
from stormwright.controller.plans.stages import unclear
from stormwright.controller.policy import Decision
from stormwright.controller.reports import MoveReport
from stormwright.errors import InputError, MoveError, MoveStoppedError, NimbusError, StormwrightError
from stormwright.history.evaluation.verdict import Promise
from stormwright.model import Problem, TopologyAssignment
from stormwright.plan import ACTIVE_STATES, PlanState, StepState
from stormwright.service.memory import ServiceMemory
from stormwright.service.notifications.notifier import ServiceEvent
from stormwright.service.on_change import OnChange
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.store import PlanRecord, PlanStore, StepRecord
from stormwright.service.safety.move_budget import MoveBudgetKeeper
from stormwright.service.storage.history import ServiceHistory

log = logging.getLogger(__name__)

# Moves --------------------------------------------------------------------------------------------

#: Makes a step, for the reason that Storm's UI shows, unless the event is set before anything has changed.
Move = Callable[[Step, str, threading.Event | None], Sequence[MoveReport]]


@dataclass(frozen=True)
class MoveContext:
    """The plan that steps belong to.

    Parameters
    ----------
    entry
        Its entry in the journal.
    reason
        Reason for Storm's UI.
    promises
        Promise by topology id.
    rolls_back
        Topologies (ids) that return from a placement.
    """

    entry: int
    reason: str
    promises: Mapping[str, Promise] = field(default_factory=dict)
    rolls_back: frozenset[str] = frozenset()


class MoveRunner:
    """Makes steps, and records the results.

    A topology that could not be moved is left alone for some time, longer with each failure; so are those for which it
    should have made room. A move that is given up because the service stops has not failed.

    Parameters
    ----------
    move
        Makes a step.
    memory
        Working memory of the service, updated with every move.
    history
        History with the evaluation of moves.
    scheduler_name
        Scheduler, for Storm's UI.
    cool_down_s
        Time after a move in which measurements are no reference for drift.
    journal
        Journal of the service, which records placements before they change.
    notify
        Called with failed moves and rollbacks.
    budget
        Move budget that adapts to results; None for a constant one.
    """

    def __init__(
        self,
        move: Move,
        memory: ServiceMemory,
        history: ServiceHistory,
        scheduler_name: str,
        cool_down_s: float,
        journal: Journal,
        notify: Callable[[ServiceEvent], None] = lambda _: None,
        budget: MoveBudgetKeeper | None = None,
    ) -> None:
        self._move, self._memory, self._history, self._journal = move, memory, history, journal
        self._scheduler_name, self.cool_down_s = scheduler_name, cool_down_s
        self._notify, self._budget = notify, budget

    def run(
        self,
        steps: Sequence[Step],
        context: MoveContext,
        stop: threading.Event | None = None,
        on_state: Callable[[int, StepState], None] = lambda *_: None,
        failed_before: Collection[str] = (),
    ) -> list[MoveReport]:
        """Make steps in order until `stop` is set.

        Parameters
        ----------
        steps
            Steps of one plan.
        context
            The plan.
        stop
            Ends the run between two steps, or before a step has changed anything.
        on_state
            Called with the number of a step and its new state, before it begins and once it has ended.
        failed_before
            Topologies (ids) that could not be moved by earlier steps of the plan.

        Raises
        ------
        MoveError, NimbusError
            The last failure; later steps that do not need the failed one have been tried nevertheless.
        """
        reports: list[MoveReport] = []
        failure: StormwrightError | None = None
        failed = set(failed_before)
        for number, step in enumerate(steps):
            if stop is not None and stop.is_set():
                break
            moving = {move.topology.id for move in step.moves}
            try:
                _require_room(step, failed)
                on_state(number, "moving")
                reports += self._make(step, context, stop)
                on_state(number, "moved")
            except MoveStoppedError as error:
                on_state(number, "planned")
                log.info("%s", error)
                break
            except (MoveError, NimbusError) as error:
                on_state(number, "failed")
                failure = error
                self._record_failure(moving - failed, error)
                self._journal.record_failure(context.entry, step, str(error))
                failed |= moving
            finally:
                self._record_pause(step, reports)
        if failure:
            raise failure
        return reports

    def _make(self, step: Step, context: MoveContext, stop: threading.Event | None) -> Sequence[MoveReport]:
        self._journal.record_before(context.entry, step, context.promises)
        reports = self._move(step, f"stormwright: placed by {self._scheduler_name}: {context.reason}", stop)
        self._journal.record_moves(context.entry, step, reports)
        for move, report in zip(step.moves, reports, strict=True):
            if not move.arrives:
                continue  # counted and evaluated when it has left the spare slot
            topology, rolled_back = move.topology, move.topology.id in context.rolls_back
            self._history.record_move(topology.id, report)
            self._memory.backoff.forget(topology.id)
            self._memory.counts.moves += 1
            self._memory.counts.rolled_back += rolled_back
            if self._budget:
                self._budget.moved(topology.name, report.pause_s, rolled_back)
            if rolled_back:
                self._notify(ServiceEvent("rolled-back", topology.name, context.reason))
        return reports

    def _record_pause(self, step: Step, reports: Sequence[MoveReport]) -> None:
        """Measurements from the pause are no sample, and those right after it no reference for drift."""
        memory = self._memory
        memory.resumed |= {move.topology.name for move in step.moves}
        memory.last_change_s = memory.time.monotonic()
        memory.drift_watch.restart(int((memory.time.time() + self.cool_down_s) * 1000))
        memory.moves = reports

    def _record_failure(self, topologies: Collection[str], error: StormwrightError) -> None:
        for topology in sorted(topologies):
            self._history.record_move(topology, None, str(error))
            self._memory.backoff.note(topology, self._memory.time.monotonic(), str(error))
            self._memory.counts.failed_moves += 1
            self._notify(ServiceEvent("move-failed", topology, str(error)))
            if self._budget:
                self._budget.failed(topology)


def _require_room(step: Step, failed: set[str]) -> None:
    missing = sorted(step.after & failed)
    if missing:
        names = ", ".join(move.topology.id for move in step.moves)
        raise MoveError(f"{names}: not moved, as {', '.join(missing)} should have made room before")


# Plans --------------------------------------------------------------------------------------------

#: Maximum number of tries to roll a stage back, and seconds between them.
TRIES, AGAIN_S = 5, 30.0


class Outcomes(Protocol):
    """The running cluster, and the outcome of moves."""

    def look(self) -> Problem | None:
        """Return the current problem, observed after the last move, and record it; None while it is unknown."""

    def decide(self, problem: Problem, decision: Decision) -> int:
        """Record a decision in the history, against which its moves are evaluated; return its time in ms."""

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
        Makes steps.
    submit
        Stores a decision of the service as an approved plan; returns its id, or None if it moves nothing.
    """

    def __init__(
        self,
        plans: PlanStore,
        journal: Journal,
        outcomes: Outcomes,
        runner: MoveRunner,
        submit: Callable[[Decision], str | None] = lambda _: None,
    ) -> None:
        self._plans, self._journal, self._outcomes, self._runner = plans, journal, outcomes, runner
        self._submit = submit
        self._noted: tuple[str, int] = ("", -1)
        self._not_before_s = float("-inf")
        self._log_changed = OnChange(log.warning)

    def execute(self, decision: Decision, stop: threading.Event | None = None) -> list[MoveReport]:
        """Execute a decision of the service as a plan that it approves itself.

        Raises
        ------
        ConflictError
            Another plan is active, or everything is frozen.
        MoveError, NimbusError
            The last failure; later steps that do not need the failed one have been tried nevertheless.
        """
        for line in decision.plan.blocked_lines():
            log.info(line)
        plan = self._submit(decision)
        if plan is None:
            return []
        row = self._plans.row(plan)
        self._journal.link_decision(row.decision or 0, self._outcomes.decision_ms)
        self._noted = (plan, row.stage)
        return self._run(row, decision, self._plans.steps(plan), stop)

    def advance(self, stop: threading.Event | None = None) -> bool:
        """Advance the active plan by one step; return whether there is one, so that nothing else may move."""
        row = self._plans.active()
        if row is None:
            self._noted = ("", -1)  # later decisions of the service come in between
            return False
        problem = self._outcomes.look()
        if problem is None or self._plans.clock.monotonic() < self._not_before_s:
            return True
        if row.state == "applying":
            self._apply(row, problem, stop)
        elif row.state == "evaluating":
            self._evaluate(row, problem)
        else:
            self._roll_back(row, problem, stop)
        return True

    def _apply(self, row: PlanRecord, problem: Problem, stop: threading.Event | None) -> None:
        steps = self._stage(row)
        pending = [each for each in steps if each.state in ("planned", "moving")]
        if not pending:
            self._end_stage(row)
            return
        away = _away(each for each in steps if each.state == "moved")
        if pending[0].state == "moving" and not self._settle(row, pending[0], problem, away):
            return
        if row.stop and not away:
            self._plans.change(row.id, ["applying"], "stopped", self._why_stopped(), stop=0)
            return
        if why := "; ".join(changes(orjson.loads(row.preconditions), problem, self._moved(row))):
            self._halt(row, f"the cluster has changed: {why}", back=bool(away))
            return
        if self._waits(row):
            return
        decision = self._note_stage(row, problem, steps)
        try:
            self._run(row, decision, pending if row.is_unattended else pending[:1], stop)
        except (MoveError, NimbusError) as error:
            log.warning("plan %s: %s", row.id, error)

    def _note_stage(self, row: PlanRecord, problem: Problem, steps: Sequence[StepRecord]) -> Decision:
        """Record the stage as a decision in the history, once, and return it."""
        reason = row.reason if row.is_unattended else f"plan {row.id} of {row.author}: {row.reason}"
        moves = MovePlan(tuple(each.step(problem) for each in steps))
        returns = frozenset(move.topology.id for move in moves.moves) if row.origin == "rollback" else frozenset[str]()
        decision = Decision(True, reason, moves, promises=self._plans.promises(row), rolls_back=returns)
        if self._noted != (row.id, row.stage):
            if returns and not row.is_by_service:  # else the decision itself has refused the placement
                self._outcomes.refuse(problem, dict.fromkeys(returns, reason))
            self._journal.link_decision(row.decision or 0, self._outcomes.decide(problem, decision))
            self._noted = (row.id, row.stage)
        return decision

    def _run(
        self, row: PlanRecord, decision: Decision, some: Sequence[StepRecord], stop: threading.Event | None
    ) -> list[MoveReport]:
        """Make steps of a stage; raises the errors of `MoveRunner.run`."""
        context = MoveContext(row.decision or 0, decision.reason, decision.promises, decision.rolls_back)
        stage = self._stage(row)
        position = {each.number: n for n, each in enumerate(stage)}
        steps = [decision.plan.steps[position[each.number]] for each in some]
        failed = {move["topology"] for each in stage if each.state == "failed" for move in each.content["moves"]}
        if not row.is_unattended:
            steps = [replace(step, after=frozenset()) for step in steps]  # those that it waits for have been made

        def store(number: int, state: StepState) -> None:
            # After a failure of an attended plan only the next snapshot tells where its topologies are.
            if state != "failed" or row.is_unattended:
                self._plans.set_step(row.id, some[number].number, state)

        try:
            reports = self._runner.run(steps, context, stop, store, failed)
        except (MoveError, NimbusError) as error:
            self._plans.change(row.id, ["applying"], "failed" if row.is_unattended else "applying", str(error))
            raise
        if row.is_unattended and not (stop is not None and stop.is_set()):
            self._end_stage(row)
        return reports

    def _settle(self, row: PlanRecord, begun: StepRecord, problem: Problem, away: Collection[str]) -> bool:
        """Return whether a step that was begun is to be made again, by where its topologies are."""
        moves = begun.content["moves"]
        if gone := [move["name"] for move in moves if move["topology"] not in problem.topology_index]:
            self._halt(row, f"{', '.join(gone)}: gone as it was moved", back=True)
            return False
        is_at = {move["topology"]: where(problem.current.get(move["topology"])) for move in moves}
        if any(not slots or None in slots for slots in is_at.values()):
            if row.stop:
                self._halt(row, self._why_stopped(), back=True)
            return False  # Nimbus has yet to place them
        if all(is_at[move["topology"]] == where(placement_of(move["after"])) for move in moves):
            self._plans.set_step(row.id, begun.number, "moved")
            self._plans.change(row.id, ["applying"], "applying")
            return False
        if any(is_at[move["topology"]] != where(placement_of(move["before"])) for move in moves):
            self._halt(row, row.why or "a move was broken off half way", back=True)
            return False
        self._plans.set_step(row.id, begun.number, "planned")
        if row.why:
            self._halt(row, row.why, back=bool(away))
        return not row.why

    def _halt(self, row: PlanRecord, why: str, back: bool) -> None:
        """Roll the stage back if a topology is on a detour; else stop, for a person if one approved the plan."""
        stopped: PlanState = "failed" if row.is_unattended else "stopped"
        self._plans.change(row.id, ACTIVE_STATES, "rolling_back" if back else stopped, why, stop=0, tries=0)

    def _end_stage(self, row: PlanRecord) -> None:
        """All steps of the stage are made: evaluate it, or go on if it is not evaluated."""
        if row.origin == "rollback" or row.is_unattended:
            self._plans.change(row.id, ["applying"], self._after_stage(row), stage=row.stage + 1)
        else:
            self._plans.change(row.id, ["applying"], "evaluating", stage=row.stage)

    def _after_stage(self, row: PlanRecord) -> PlanState:
        last = max((each.stage for each in self._plans.steps(row.id)), default=0)
        return "applying" if row.stage < last else "done"

    def _evaluate(self, row: PlanRecord, problem: Problem) -> None:
        names = {move["topology"]: move["name"] for each in self._stage(row) for move in each.content["moves"]}
        worse = {topology: why for topology, why in self._outcomes.worse(problem).items() if topology in names}
        if worse:
            why = "; ".join(f"{names[topology]}: {each}" for topology, each in worse.items())
            self._outcomes.refuse(problem, worse)
            self._plans.change(row.id, ["evaluating"], "rolling_back", why, stop=0, tries=0)
            return
        if row.stop:
            self._plans.change(row.id, ["evaluating"], "stopped", self._why_stopped(), stop=0)
            return
        outcomes, pending = self._journal.evaluations_of(row.decision or 0), self._outcomes.pending()
        if any(topology in pending and topology not in outcomes for topology in names):
            return
        doubts = {name: unclear(outcomes.get(topology, [])) for topology, name in names.items()}
        why = "; ".join(f"{name}: {doubt}" for name, doubt in doubts.items() if doubt)
        if why:
            self._plans.change(row.id, ["evaluating"], "waiting", why)
            return
        self._plans.change(row.id, ["evaluating"], self._after_stage(row), stage=row.stage + 1)

    def _roll_back(self, row: PlanRecord, problem: Problem, stop: threading.Event | None) -> None:
        """Make the next step that brings the topologies of the stage back; those that are gone need not go back."""
        entry = row.decision or 0
        stage = {move["topology"] for each in self._stage(row) for move in each.content["moves"]}
        before = {
            topology: was
            for topology, was in self._journal.placements_before_entry(entry).items()
            if topology in stage and topology in problem.topology_index
        }
        try:
            plan = rollback_moves(problem, before)
            if not plan.steps:
                self._plans.mark_stage_rolled_back(row.id, row.stage)
                self._plans.change(row.id, ["rolling_back"], "rolled_back", row.why)
                return
            if self._waits(row):
                return
            reason = f"plan {row.id} is rolled back: {row.why}"
            step = replace(plan.steps[0], after=frozenset())
            returns = frozenset(move.topology.id for move in step.moves)
            decision = Decision(True, reason, MovePlan((step,)), rolls_back=returns)
            self._journal.link_decision(entry, self._outcomes.decide(problem, decision))
            self._runner.run([step], MoveContext(entry, reason, rolls_back=returns), stop)
        except (InputError, MoveError, NimbusError) as error:
            self._retry_rollback(row, str(error))

    def _retry_rollback(self, row: PlanRecord, why: str) -> None:
        log.warning("plan %s cannot be rolled back now: %s", row.id, why)
        if row.tries + 1 >= TRIES:
            text = f"{row.why}; and it could not be rolled back: {why}; the history has what it moved"
            self._plans.change(row.id, ["rolling_back"], "failed", text)
            return
        self._plans.change(row.id, ["rolling_back"], "rolling_back", row.why, tries=row.tries + 1)
        self._not_before_s = self._plans.clock.monotonic() + AGAIN_S

    def _why_stopped(self) -> str:
        frozen = self._outcomes.frozen()
        return f"as was asked: everything is frozen: {frozen}" if frozen else "as was asked"

    def _waits(self, row: PlanRecord) -> bool:
        """Return whether nothing may be moved now; the plan then continues as soon as moves are allowed."""
        why = self._outcomes.held()
        if why:
            self._log_changed(f"plan {row.id} waits: {why}")
        else:
            self._log_changed.over()
        return bool(why)

    def _stage(self, row: PlanRecord) -> list[StepRecord]:
        return [each for each in self._plans.steps(row.id) if each.stage == row.stage]

    def _moved(self, row: PlanRecord) -> dict[str, TopologyAssignment]:
        """Return the placement to which the plan has brought topologies so far."""
        made = [each for each in self._plans.steps(row.id) if each.state == "moved"]
        return {move["topology"]: placement_of(move["after"]) for each in made for move in each.content["moves"]}


def _away(made: Iterable[StepRecord]) -> set[str]:
    """Return topologies (ids) that steps have left in spare slots, including those that are gone."""
    arrives = {move["topology"]: move["arrives"] for each in made for move in each.content["moves"]}
    return {topology for topology, there in arrives.items() if not there}
