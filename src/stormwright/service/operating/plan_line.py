"""A plan in a line, as lists of plans have it."""

from __future__ import annotations

from typing import Any

import orjson

from stormwright.service.operating.plans import HALTED, UNDER_WAY, PlanRow, Plans

#: Taken from the plan's document, once it is made.
_KNOWN = ("topologies", "steps", "stages", "score_before", "score_after", "gain")


def plan_line(row: PlanRow, plans: Plans) -> dict[str, Any]:
    """What `shapes.PlanLine` is made of."""
    document = orjson.loads(row.document)
    steps = plans.steps(row.id) if row.state in (*UNDER_WAY, *HALTED) else []
    made = sum(each.state == "moved" for each in steps)
    if row.state == "done":
        made = document.get("steps", 0)
    return {name: document[name] for name in _KNOWN if name in document} | {
        "id": row.id,
        "state": row.state,
        "why": row.why,
        "kind": row.kind,
        "goal": row.goal,
        "by": row.who,
        "reason": row.reason,
        "created_ms": row.created_ms,
        "age_s": max(plans.clock.time() - row.created_ms / 1000, 0.0),
        "steps_made": made,
        "stage": row.stage,
        "decision": row.decision,
        "approved_by": row.approved_by,
        "begins": row.begins,
    }
