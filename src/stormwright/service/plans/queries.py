"""Read access to plans, history and modes in shapes of the API; a standby service has it, too."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any

import orjson

from stormwright.client import shapes
from stormwright.controller.plans.description import planned_moves
from stormwright.modes import Modes
from stormwright.plan import ACTIVE_STATES, Plan, PlannedMove, PlannedStep, PlanState, PlanSummary
from stormwright.service.plans.journal import Journal, evaluation_shapes
from stormwright.service.plans.store import PlanRecord, PlanStore

#: Fields of a summary that come from the plan's document, once it is made.
_FROM_DOCUMENT = ("topologies", "step_count", "stages", "score_before", "score_after", "gain")

_Moves = tuple[tuple[PlannedMove, ...], ...]
_NO_MOVES: _Moves = ()

#: Number of cached plans: summaries, and complete ones.
_MAX_SUMMARIES, _MAX_PLANS = 1000, 8


class PlanQueries:
    """Queries that change nothing; safe to use from several threads.

    Parameters
    ----------
    plans, journal
        Stored plans, and the journal of changes.
    modes
        Returns the current modes.
    """

    def __init__(self, plans: PlanStore, journal: Journal, modes: Callable[[], Modes]) -> None:
        self._plans, self._journal, self._modes = plans, journal, modes
        # The document of a plan with thousands of topologies is parsed once, as it does not change.
        self._summary_fields = lru_cache(maxsize=_MAX_SUMMARIES)(self._read_summary_fields)
        self._whole = lru_cache(maxsize=_MAX_PLANS)(self._read_whole)

    def plans(self, states: Collection[PlanState] = (), most: int = 100) -> shapes.Plans:
        """Return plans, newest first."""
        return shapes.Plans(plans=tuple(map(self._line, self._plans.summary_rows(states, most))))

    def plan(self, plan: str, most_steps: int = -1) -> Plan:
        """Return one plan with its first steps or all; raises the errors of `PlanStore.row`."""
        row = self._plans.summary_row(plan)
        line = self._line(row)
        whole, moves = (Plan(**dict(line)), _NO_MOVES) if row.state == "planning" else self._whole(plan)
        known = self._journal.evaluations_of(row.decision) if row.decision is not None else {}
        evaluations = tuple(each for topology, some in known.items() for each in evaluation_shapes(topology, some))
        steps = tuple(
            PlannedStep(number=number, stage=stage, state=state, moves=moves[number])
            for number, stage, state in self._plans.step_states(plan, most_steps if moves else 0)
        )
        update = {**dict(line), "steps": steps, "evaluations": evaluations}
        if row.state in ACTIVE_STATES:
            update |= self._progress(whole, steps, line)
        return whole.model_copy(update=update)

    def _progress(self, plan: Plan, steps: Sequence[PlannedStep], line: PlanSummary) -> dict[str, Any]:
        """Return the fields of a plan about its current steps."""
        moving = [step for step in steps if step.state == "moving"]
        known = [self._plans.moving_s(plan.id, step.number) for step in moving]
        left = 1 - line.steps_completed / line.step_count if line.step_count else 0.0
        return {
            "moving": tuple(dict.fromkeys(move.topology for step in moving for move in step.moves)),
            "moving_s": max((seconds for seconds in known if seconds is not None), default=None),
            "left_s": left * plan.duration_s,
        }

    def history(self, most: int = 50, before_n: int | None = None) -> shapes.History:
        """Return the history, newest first."""
        return self._journal.entries(most, before_n)

    def modes(self) -> Modes:
        """Return the current modes."""
        return self._modes()

    def _line(self, row: PlanRecord) -> PlanSummary:
        """Return the summary of a plan."""
        known = {} if row.state == "planning" else self._summary_fields(row.id)
        completed = known.get("step_count", 0) if row.state == "done" else 0
        if row.state != "done" and row.decision is not None:  # it was begun
            completed = sum(state == "moved" for _, _, state in self._plans.step_states(row.id))
        return PlanSummary(
            **known,
            id=row.id,
            state=row.state,
            why=row.why,
            origin=row.origin,
            goal=row.goal,
            by=row.author,
            reason=row.reason,
            created_ms=row.created_ms,
            age_s=max(self._plans.clock.time() - row.created_ms / 1000, 0.0),
            steps_completed=completed,
            stage=row.stage,
            decision=row.decision,
            approved_by=row.approved_by,
            auto_apply=row.applies_itself,
        )

    def _read_summary_fields(self, plan: str) -> dict[str, Any]:
        document = orjson.loads(self._plans.document(plan))
        return {name: document[name] for name in _FROM_DOCUMENT if name in document}

    def _read_whole(self, plan: str) -> tuple[Plan, _Moves]:
        """Return a plan that was made, with the moves of its steps."""
        row = self._plans.row(plan)
        whole = Plan(**orjson.loads(row.document) | dict(self._line(row)))
        return whole, tuple(planned_moves(step.content) for step in self._plans.steps(plan))
