"""JSON of plans: the one form in the database, the API and the command line."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from stormwright.model.assignment import TopologyAssignment
from stormwright.plans.plan import Plan, Step

_STEP: TypeAdapter[Step] = TypeAdapter(Step)
_PLACEMENT = TypeAdapter(TopologyAssignment)

#: Fields of a step that are stored beside it, as they change while it is made.
_PROGRESS = {"number", "stage", "state"}

#: Fields of a plan that are stored beside it: they change, or come from elsewhere.
_ASIDE = {
    *("id", "state", "why", "origin", "goal", "by", "reason", "created_ms", "stage", "decision", "approved_by"),
    *("auto_apply", "rolls_back", "steps", "age_s", "steps_completed", "outdated", "moving", "moving_s", "left_s"),
    *("evaluations", "request", "stop_requested", "rollback_tries"),
}


def plan_to_json(plan: Plan) -> str:
    """Return the constant fields of a plan, except its steps."""
    return plan.model_dump_json(exclude=_ASIDE)


def plan_of_json(text: str) -> Plan:
    """Return a plan from `plan_to_json`; raises ValueError."""
    return Plan.model_validate_json(text)


def step_to_json(step: Step) -> str:
    """Return the constant fields of a step."""
    return _STEP.dump_json(step, exclude=_PROGRESS).decode()


def step_of_json(text: str) -> Step:
    """Return a step from `step_to_json`; raises ValueError."""
    return _STEP.validate_json(text)


def placement_of_dict(raw: object) -> TopologyAssignment:
    """Return a placement from parsed JSON; raises ValueError."""
    return _PLACEMENT.validate_python(raw)


def placement_to_dict(placement: TopologyAssignment) -> dict[str, Any]:
    """Return the placement of a topology as `placement_of_dict` takes it."""
    return dict(_PLACEMENT.dump_python(placement, mode="json"))


def placement_to_json(placement: TopologyAssignment) -> str:
    """Return the placement of a topology."""
    return _PLACEMENT.dump_json(placement).decode()


def placement_of_json(text: str) -> TopologyAssignment:
    """Return a placement from `placement_to_json`; raises ValueError."""
    return _PLACEMENT.validate_json(text)
