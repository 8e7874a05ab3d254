"""What is kept of plans, history and modes, as shapes of the API: for a service that stands by, too."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import cast

import orjson

from stormwright.client import shapes
from stormwright.controller.plans.told import planned_step
from stormwright.service.operating.ledger import Ledger, judged_shapes
from stormwright.service.operating.plan_line import plan_line
from stormwright.service.operating.plans import Plans


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
            plans=tuple(shapes.PlanLine(**plan_line(row, self._plans)) for row in self._plans.rows(states, most))
        )

    def plan(self, plan: str) -> shapes.Plan:
        """One plan; it raises what `Plans.row` raises."""
        row = self._plans.row(plan)
        judged = self._ledger.came_of(row.decision) if row.decision is not None else {}
        document = orjson.loads(row.document)
        rows = self._plans.steps(plan)
        steps = [planned_step(each.told, each.number, each.stage, cast(shapes.StepState, each.state)) for each in rows]
        came = [each for topology, some in judged.items() for each in judged_shapes(topology, some)]
        return shapes.Plan(**document | plan_line(row, self._plans) | {"made": tuple(steps), "judged": tuple(came)})

    def history(self, most: int = 50, before_n: int | None = None) -> shapes.History:
        """What was done, the newest first."""
        return self._ledger.entries(most, before_n)

    def modes(self) -> shapes.Modes:
        """What the service may do by itself."""
        return self._modes()
