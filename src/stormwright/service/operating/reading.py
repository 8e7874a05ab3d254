"""What is kept of plans, history and modes, as shapes of the API: for a service that stands by, too."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, cast

import orjson

from stormwright.client import shapes
from stormwright.controller.plans.told import planned_step
from stormwright.service.operating.ledger import Ledger, judged_shapes
from stormwright.service.operating.plans import HALTED, UNDER_WAY, PlanRow, Plans

#: Taken from the plan's document, once it is made.
_KNOWN = ("topologies", "steps", "stages", "score_before", "score_after", "gain")


class Reading:
    """Tells what is kept, and changes nothing; safe to use from several threads.

    Parameters
    ----------
    plans, ledger
        Keep plans, and what was done.
    modes
        Tells the modes that hold.
    """

    def __init__(self, plans: Plans, ledger: Ledger, modes: Callable[[], shapes.Modes]) -> None:
        self._plans, self._ledger, self._modes = plans, ledger, modes

    def plans(self, states: Collection[str] = (), most: int = 100) -> shapes.Plans:
        """Plans, the newest first."""
        return shapes.Plans(
            plans=tuple(shapes.PlanLine(**_plan_line(row, self._plans)) for row in self._plans.rows(states, most))
        )

    def plan(self, plan: str, most_steps: int = -1) -> shapes.Plan:
        """One plan, with the first of its steps or all; it raises what `Plans.row` raises."""
        row = self._plans.row(plan)
        judged = self._ledger.came_of(row.decision) if row.decision is not None else {}
        document = orjson.loads(row.document)
        rows = self._plans.steps(plan, most_steps)
        steps = [planned_step(each.told, each.number, each.stage, cast(shapes.StepState, each.state)) for each in rows]
        came = [each for topology, some in judged.items() for each in judged_shapes(topology, some)]
        return shapes.Plan(**document | _plan_line(row, self._plans) | {"made": tuple(steps), "judged": tuple(came)})

    def history(self, most: int = 50, before_n: int | None = None) -> shapes.History:
        """What was done, the newest first."""
        return self._ledger.entries(most, before_n)

    def modes(self) -> shapes.Modes:
        """What the service may do by itself."""
        return self._modes()


def _plan_line(row: PlanRow, plans: Plans) -> dict[str, Any]:
    """What `shapes.PlanLine` is made of: a plan in a line, as lists of plans have it."""
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
