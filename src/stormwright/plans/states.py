"""States of a plan and of its steps, and the events that lead from one to another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

#: State of a plan.
#:
#: ``planning`` (being made), ``planned`` (may be applied), ``proposed`` (by the service, waits for a person),
#: ``applying``, ``evaluating`` (a stage has moved and is compared with its prediction), ``waiting`` (the outcome is
#: unclear and needs a person), ``stopped``, ``rolling_back`` (by a plan of its own); and the final ones ``done``,
#: ``rolled_back``, ``failed`` and ``discarded``.
PlanState = Literal[
    "planning",
    "planned",
    "proposed",
    "applying",
    "evaluating",
    "waiting",
    "stopped",
    "rolling_back",
    "done",
    "rolled_back",
    "failed",
    "discarded",
]

#: State of a step.
StepState = Literal["planned", "moving", "moved", "failed", "rolled_back"]

#: What happens to a plan.
PlanEvent = Literal[
    "made",
    "suggested",
    "begun",
    "nothing to do",
    "stage made",
    "next stage",
    "completed",
    "unclear",
    "stopped",
    "to roll back",
    "rolled back",
    "failed",
    "discarded",
]

#: State and event → next state. An event that is not listed for a state has no effect in it.
TRANSITIONS: Final[Mapping[tuple[PlanState, PlanEvent], PlanState]] = {
    ("planning", "made"): "planned",
    ("planning", "suggested"): "proposed",
    ("planning", "failed"): "failed",
    ("planning", "discarded"): "discarded",
    ("planned", "begun"): "applying",
    ("planned", "nothing to do"): "done",
    ("planned", "failed"): "failed",
    ("planned", "discarded"): "discarded",
    ("proposed", "begun"): "applying",
    ("proposed", "nothing to do"): "done",
    ("proposed", "discarded"): "discarded",
    ("applying", "stage made"): "evaluating",
    ("applying", "next stage"): "applying",
    ("applying", "completed"): "done",
    ("applying", "stopped"): "stopped",
    ("applying", "to roll back"): "rolling_back",
    ("applying", "failed"): "failed",
    ("evaluating", "next stage"): "applying",
    ("evaluating", "completed"): "done",
    ("evaluating", "unclear"): "waiting",
    ("evaluating", "stopped"): "stopped",
    ("evaluating", "to roll back"): "rolling_back",
    ("waiting", "next stage"): "applying",
    ("waiting", "completed"): "done",
    ("waiting", "discarded"): "discarded",
    ("stopped", "next stage"): "applying",
    ("stopped", "completed"): "done",
    ("stopped", "discarded"): "discarded",
    ("rolling_back", "rolled back"): "rolled_back",
    ("rolling_back", "failed"): "failed",
}

#: States in which a plan is active: nothing else may move meanwhile, except what rolls it back.
ACTIVE_STATES: tuple[PlanState, ...] = ("applying", "evaluating", "rolling_back")

#: States in which a plan may be applied for the first time.
OPEN_STATES: tuple[PlanState, ...] = ("planned", "proposed")

#: States in which a plan waits for a person to go on.
HALTED_STATES: tuple[PlanState, ...] = ("waiting", "stopped")

#: States that a plan leaves without a person.
IN_PROGRESS_STATES: tuple[PlanState, ...] = ("planning", *ACTIVE_STATES)

#: States that a plan does not leave.
FINAL_STATES: tuple[PlanState, ...] = ("done", "rolled_back", "failed", "discarded")


def next_states(event: PlanEvent) -> dict[PlanState, PlanState]:
    """Return the state that an event leads to from each state in which it has an effect."""
    return {state: to for (state, each), to in TRANSITIONS.items() if each == event}
