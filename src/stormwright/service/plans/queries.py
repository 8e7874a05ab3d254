"""What is kept of plans, history and modes, as shapes of the API: for a service that stands by, too."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any, Literal, cast

import orjson

from stormwright.client import shapes
from stormwright.controller.plans.description import planned_moves
from stormwright.service.plans.journal import Journal, judged_shapes
from stormwright.service.plans.plans import HALTED, UNDER_WAY, PlanRow, PlanStore

#: Taken from the plan's document, once it is made.
_KNOWN = ("topologies", "steps", "stages", "score_before", "score_after", "gain")

_Moves = tuple[tuple[shapes.PlannedMove, ...], ...]
_NO_MOVES: _Moves = ()

#: Plans of which it is remembered what was planned: in a line, and whole.
_KEPT_IN_SHORT, _KEPT = 1000, 8


class PlanQueries:
    """Tells what is kept, and changes nothing; safe to use from several threads.

    Parameters
    ----------
    plans, ledger
        Keep plans, and what was done.
    modes
        Tells the modes that hold.
    """

    def __init__(self, plans: PlanStore, ledger: Journal, modes: Callable[[], shapes.Modes]) -> None:
        self._plans, self._ledger, self._modes = plans, ledger, modes
        # What was planned of thousands of topologies is read once, and not whenever somebody looks.
        self._in_short = lru_cache(maxsize=_KEPT_IN_SHORT)(self._read_in_short)
        self._whole = lru_cache(maxsize=_KEPT)(self._read_whole)

    def plans(self, states: Collection[str] = (), most: int = 100) -> shapes.Plans:
        """Plans, the newest first."""
        return shapes.Plans(plans=tuple(map(self._line, self._plans.lines(states, most))))

    def plan(self, plan: str, most_steps: int = -1) -> shapes.Plan:
        """One plan, with the first of its steps or all; it raises what `PlanStore.row` raises."""
        row = self._plans.line(plan)
        line = self._line(row)
        whole, moves = (shapes.Plan(**dict(line)), _NO_MOVES) if row.state == "planning" else self._whole(plan)
        judged = self._ledger.came_of(row.decision) if row.decision is not None else {}
        came = tuple(each for topology, some in judged.items() for each in judged_shapes(topology, some))
        made = tuple(
            shapes.PlannedStep(number=number, stage=stage, state=cast(shapes.StepState, state), moves=moves[number])
            for number, stage, state in self._plans.step_states(plan, most_steps if moves else 0)
        )
        return whole.model_copy(update={**dict(line), "made": made, "judged": came})

    def history(self, most: int = 50, before_n: int | None = None) -> shapes.History:
        """What was done, the newest first."""
        return self._ledger.entries(most, before_n)

    def modes(self) -> shapes.Modes:
        """What the service may do by itself."""
        return self._modes()

    def _line(self, row: PlanRow) -> shapes.PlanLine:
        """A plan as lists of plans have it."""
        known = {} if row.state == "planning" else self._in_short(row.id)
        made = known.get("steps", 0) if row.state == "done" else 0
        if row.state in (*UNDER_WAY, *HALTED):
            made = sum(state == "moved" for _, _, state in self._plans.step_states(row.id))
        return shapes.PlanLine(
            **known,
            id=row.id,
            state=cast(shapes.PlanState, row.state),
            why=row.why,
            kind=cast(Literal["plan", "revert"], row.kind),
            goal=row.goal,
            by=row.who,
            reason=row.reason,
            created_ms=row.created_ms,
            age_s=max(self._plans.clock.time() - row.created_ms / 1000, 0.0),
            steps_made=made,
            stage=row.stage,
            decision=row.decision,
            approved_by=row.approved_by,
            begins=row.begins,
        )

    def _read_in_short(self, plan: str) -> dict[str, Any]:
        document = orjson.loads(self._plans.document(plan))
        return {name: document[name] for name in _KNOWN if name in document}

    def _read_whole(self, plan: str) -> tuple[shapes.Plan, _Moves]:
        """A plan that was made, as it does not change any more, and the moves of its steps."""
        row = self._plans.row(plan)
        whole = shapes.Plan(**orjson.loads(row.document) | dict(self._line(row)))
        return whole, tuple(planned_moves(step.told) for step in self._plans.steps(plan))
