"""Read access to plans, history and modes for the API; a standby service has it, too."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from stormwright.client import shapes
from stormwright.plans.modes import Modes
from stormwright.plans.plan import Plan, PlanSummary
from stormwright.plans.states import ACTIVE_STATES, PlanState
from stormwright.service.plans.journal import Journal, evaluation_shapes
from stormwright.service.plans.store import PlanStore


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

    def plans(self, states: Collection[PlanState] = (), most: int = 100) -> shapes.Plans:
        """Return plans, newest first."""
        return shapes.Plans(plans=tuple(map(self._as_of_now, self._plans.summaries(states, most))))

    def plan(self, plan: str, most_steps: int = -1) -> Plan:
        """Return one plan with its first steps or all; raises like `PlanStore.plan`."""
        found = self._plans.plan(plan, most_steps)
        known = self._journal.evaluations_of(found.decision) if found.decision is not None else {}
        evaluations = tuple(each for topology, some in known.items() for each in evaluation_shapes(topology, some))
        update: dict[str, Any] = {"evaluations": evaluations, "outdated": self._as_of_now(found).outdated}
        if found.state in ACTIVE_STATES:
            update |= self._progress(found)
        return found.model_copy(update=update)

    def _progress(self, plan: Plan) -> dict[str, Any]:
        """Return the fields of a plan about its current steps."""
        moving = [step for step in plan.steps if step.state == "moving"]
        known = [self._plans.moving_s(plan.id, step.number) for step in moving]
        left = 1 - plan.steps_completed / plan.step_count if plan.step_count else 0.0
        return {
            "moving": tuple(dict.fromkeys(move.name for step in moving for move in step.moves)),
            "moving_s": max((seconds for seconds in known if seconds is not None), default=None),
            "left_s": left * plan.duration_s,
        }

    def history(self, most: int = 50, before_n: int | None = None) -> shapes.History:
        """Return the history, newest first."""
        return self._journal.entries(most, before_n)

    def modes(self) -> Modes:
        """Return the current modes."""
        return self._modes()

    def _as_of_now(self, plan: PlanSummary) -> PlanSummary:
        """Return a plan as it is in the cluster of now."""
        return plan
