"""Plans in the service's database, with their states and steps."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import lru_cache
from sqlite3 import Row
from typing import Any

import orjson

from stormwright.errors import NotFoundError
from stormwright.plans.json import plan_of_json, plan_to_json, step_of_json, step_to_json
from stormwright.plans.plan import Origin, Plan, PlanSummary, Step
from stormwright.plans.states import (
    ACTIVE_STATES,
    HALTED_STATES,
    IN_PROGRESS_STATES,
    PlanEvent,
    PlanState,
    StepState,
    next_states,
)
from stormwright.service.plans.journal import Journal
from stormwright.service.storage.database import State

#: Columns of a plan without its document.
_COLUMNS = (
    "id, created_ms, origin, goal, author, reason, request, auto_apply, state, why, stage, stop, tries, approved_by, "
    "decision, rolls_back"
)

#: Fields of a summary that come from the plan's document, once it is made.
_FROM_DOCUMENT = ("topologies", "step_count", "stages", "score_before", "score_after", "gain")

#: Number of cached plans: fields of summaries, and complete ones.
_MAX_SUMMARIES, _MAX_PLANS = 1000, 8

#: Seconds after which a proposal that nobody applied is discarded, because the load has changed.
PROPOSED_S = 3600.0

_DAY_MS = 86_400_000


class PlanStore:
    """Plans in the service's database.

    Parameters
    ----------
    state
        Database of the service, whose clock gives the times.
    """

    def __init__(self, state: State) -> None:
        self._state, self.clock = state, state.clock
        self._moving_since_s: dict[tuple[str, int], float] = {}
        # Documents do not change once a plan is made; those of thousands of topologies are large.
        self._content = lru_cache(maxsize=_MAX_PLANS)(self._read_content)
        self._summary_fields = lru_cache(maxsize=_MAX_SUMMARIES)(self._read_summary_fields)

    @property
    def state(self) -> State:
        """Database of the service."""
        return self._state

    def add(
        self,
        origin: Origin,
        goal: str,
        author: str,
        reason: str,
        request: Mapping[str, Any],
        *,
        auto_apply: bool = False,
        rolls_back: str = "",
    ) -> str:
        """Store a plan that is yet to be made; return its id.

        Parameters
        ----------
        origin, goal, author, reason
            Origin and objectives of the plan, its author and reason, as in `PlanSummary`.
        request
            The request, for people.
        auto_apply
            Whether it is applied as soon as it is made.
        rolls_back
            The plan of which it rolls a stage back.
        """
        plan, now_ms = secrets.token_hex(4), round(self.clock.time() * 1000)
        row = (plan, now_ms, origin, goal, author, reason, orjson.dumps(request).decode(), auto_apply, rolls_back)
        with self._state.change() as to:
            to.execute("INSERT INTO plans VALUES (?,?,?,?,?,?,?,?,'planning','','{}',0,0,0,'',NULL,?)", row)
        return plan

    def save(self, plan: str, made: Plan, event: PlanEvent = "made") -> bool:
        """Store the proposal for a plan (by id); return False if the plan was discarded meanwhile."""
        with self._state.change() as to:
            done = to.execute(
                "UPDATE plans SET state = ?, why = ?, document = ? WHERE id = ? AND state = 'planning'",
                (next_states(event)["planning"], made.why, plan_to_json(made), plan),
            )
            if not done.rowcount:
                return False
            for step in made.steps:
                row = (plan, step.number, step.stage, step.state, step_to_json(step))
                to.execute("INSERT INTO steps VALUES (?, ?, ?, ?, ?)", row)
        return True

    def transition(self, plan: str, event: PlanEvent, why: str = "", **columns: Any) -> bool:
        """Change the state of a plan by an event; return False if the event has no effect in its state.

        Parameters
        ----------
        plan
            Id of the plan to change.
        event, why
            What happens, and the reason.
        columns
            Other columns to change.
        """
        names, moves = "".join(f", {name} = ?" for name in columns), next_states(event)
        states = " ".join("WHEN ? THEN ?" for _ in moves)
        marks = ", ".join("?" * len(moves))
        statement = (
            f"UPDATE plans SET state = CASE state {states} END, why = ?{names} WHERE id = ? AND state IN ({marks})"  # noqa: S608 (names are ours)
        )
        both = [each for pair in moves.items() for each in pair]
        with self._state.change() as to:
            return bool(to.execute(statement, (*both, why, *columns.values(), plan, *moves)).rowcount)

    def note(self, plan: str, why: str, **columns: Any) -> None:
        """Change the reason of the state of a plan, and other columns."""
        names = "".join(f", {name} = ?" for name in columns)
        with self._state.change() as to:
            to.execute(f"UPDATE plans SET why = ?{names} WHERE id = ?", (why, *columns.values(), plan))  # noqa: S608 (names are ours)

    def transaction(self) -> AbstractContextManager[object]:
        """Return a context: all changes of plans and journal in it are stored, or none if it raises."""
        return self._state.change()

    def begin(self, plan: str, decision: int, approved_by: str) -> bool:
        """Start applying a plan under an entry of the journal; return False if it is no longer open."""
        columns: dict[str, Any] = {"decision": decision, "approved_by": approved_by, "stage": 0, "stop": 0, "tries": 0}
        return self.transition(plan, "begun", **columns)

    def set_step(self, plan: str, number: int, state: StepState) -> None:
        """Set the state of a step."""
        with self._state.change() as to:
            to.execute("UPDATE steps SET state = ? WHERE plan = ? AND number = ?", (state, plan, number))
        if state == "moving":
            self._moving_since_s[plan, number] = self.clock.time()
        else:
            self._moving_since_s.pop((plan, number), None)

    def mark_stage_rolled_back(self, plan: str, stage: int) -> None:
        """Mark the steps of a stage as undone."""
        with self._state.change() as to:
            to.execute(
                "UPDATE steps SET state = 'rolled_back' WHERE plan = ? AND stage = ? AND state != 'planned'",
                (plan, stage),
            )

    def stop_requested(self, plan: str) -> bool:
        """Return whether a plan (id) is to stop as soon as no topology is on a detour."""
        return any(row["stop"] for row in self._state.read("SELECT stop FROM plans WHERE id = ?", plan))

    def request_stop(self, plan: str) -> None:
        """Request a plan to stop as soon as no topology is on a detour."""
        with self._state.change() as to:
            to.execute("UPDATE plans SET stop = 1 WHERE id = ?", (plan,))

    def discard_proposals(self, before_ms: float, why: str) -> None:
        """Discard proposals from before a time."""
        for row in self._state.read("SELECT id FROM plans WHERE state = 'proposed' AND created_ms < ?", before_ms):
            self.transition(row["id"], "discarded", why)

    def delete_before(self, before_ms: float) -> None:
        """Delete finished plans from before a time."""
        unfinished = ", ".join(f"'{state}'" for state in (*IN_PROGRESS_STATES, *HALTED_STATES))
        old = f"FROM plans WHERE created_ms < ? AND state NOT IN ({unfinished})"
        with self._state.change() as to:
            to.execute(f"DELETE FROM steps WHERE plan IN (SELECT id {old})", (before_ms,))  # noqa: S608 (names are ours)
            to.execute(f"DELETE {old}", (before_ms,))

    def plan(self, plan: str, max_steps: int = -1) -> Plan:
        """Return one plan with its first steps, or all.

        Raises
        ------
        NotFoundError
            There is no plan with this id.
        """
        return self._whole(self._row(plan), max_steps)

    def request(self, plan: str) -> dict[str, Any]:
        """Return the request of a plan; raises like `plan`."""
        found: dict[str, Any] = orjson.loads(self._row(plan)["request"])
        return found

    def summary(self, plan: str) -> PlanSummary:
        """Return one plan as lists show it; raises like `plan`."""
        return self._summary(self._row(plan))

    def summaries(self, states: Collection[PlanState] = (), most: int = 100) -> list[PlanSummary]:
        """Return plans in some states, or all; newest first."""
        return [self._summary(row) for row in self._rows(states, most)]

    def active(self) -> Plan | None:
        """Return the active plan; of one that is rolled back, the plan by which it is."""
        rows = self._rows(ACTIVE_STATES, 1)
        return self._whole(rows[0]) if rows else None

    def active_summary(self) -> PlanSummary | None:
        """Return `active` as lists show it."""
        rows = self._rows(ACTIVE_STATES, 1)
        return self._summary(rows[0]) if rows else None

    def rollbacks_of(self, plan: str) -> list[PlanSummary]:
        """Return the plans by which a plan was or is rolled back; newest first."""
        statement = f"SELECT {_COLUMNS} FROM plans WHERE rolls_back = ? ORDER BY created_ms DESC, rowid DESC"  # noqa: S608 (names are ours)
        return [self._summary(row) for row in self._state.read(statement, plan)]

    def states(self, states: Collection[PlanState], most: int = 50) -> list[tuple[str, str, str]]:
        """Return id, state and reason of the newest plans in some states; cheap enough for each second."""
        statement = (
            f"SELECT id, state, iif(why = '', reason, why) FROM plans WHERE state IN ({', '.join('?' * len(states))}) "  # noqa: S608 (names are ours)
            "ORDER BY created_ms DESC LIMIT ?"
        )
        return [(plan, state, why) for plan, state, why in self._state.read(statement, *states, most)]

    def proposed(self) -> list[str]:
        """Return the ids of proposals of the service that wait for a person."""
        return [row["id"] for row in self._state.read("SELECT id FROM plans WHERE state = 'proposed'")]

    def moving_s(self, plan: str, number: int) -> float | None:
        """Return for how many seconds a step is under way; None if it is not, or began before this process."""
        since_s = self._moving_since_s.get((plan, number))
        return None if since_s is None else max(self.clock.time() - since_s, 0.0)

    # ------------------------------------------------------------------------------------------------------------------

    def _row(self, plan: str) -> Row:
        rows: list[Row] = self._state.read(f"SELECT {_COLUMNS} FROM plans WHERE id = ?", plan)  # noqa: S608 (names are ours)
        if not rows:
            raise NotFoundError(f"there is no plan {plan}; `stormwright plan --list` and `GET /v1/plans` list them")
        return rows[0]

    def _rows(self, states: Collection[PlanState], most: int) -> list[Row]:
        where = f"WHERE state IN ({', '.join('?' * len(states))})" if states else ""
        statement = f"SELECT {_COLUMNS} FROM plans {where} ORDER BY created_ms DESC, rowid DESC LIMIT ?"  # noqa: S608 (names are ours)
        rows: list[Row] = self._state.read(statement, *states, most)
        return rows

    def _whole(self, row: Row, max_steps: int = -1) -> Plan:
        made, content = (Plan(), ()) if row["state"] == "planning" else self._content(row["id"])
        states = self._step_states(row["id"], max_steps) if content else []
        steps = tuple(replace(content[number], state=state) for number, state in states)
        completed = self._completed(row, made.step_count)
        more = {
            "request": orjson.loads(row["request"]),
            "stop_requested": bool(row["stop"]),
            "rollback_tries": row["tries"],
        }
        return made.model_copy(update={**_columns(row, self.clock.time()), **more, **completed, "steps": steps})

    def _summary(self, row: Row) -> PlanSummary:
        known = {} if row["state"] == "planning" else self._summary_fields(row["id"])
        completed = self._completed(row, known.get("step_count", 0))
        return PlanSummary(**{**known, **_columns(row, self.clock.time()), **completed})

    def _completed(self, row: Row, step_count: int) -> dict[str, int]:
        if row["state"] == "done":
            return {"steps_completed": step_count}
        if row["decision"] is None:  # it was not begun
            return {"steps_completed": 0}
        statement = "SELECT count(*) FROM steps WHERE plan = ? AND state = 'moved'"
        ((completed,),) = self._state.read(statement, row["id"])
        return {"steps_completed": completed}

    def _step_states(self, plan: str, most: int) -> list[tuple[int, StepState]]:
        rows = self._state.read("SELECT number, state FROM steps WHERE plan = ? ORDER BY number LIMIT ?", plan, most)
        return [(row["number"], row["state"]) for row in rows]

    def _read_content(self, plan: str) -> tuple[Plan, tuple[Step, ...]]:
        rows = self._state.read("SELECT document FROM plans WHERE id = ?", plan)
        steps = self._state.read("SELECT number, stage, document FROM steps WHERE plan = ? ORDER BY number", plan)
        return plan_of_json(rows[0]["document"] if rows else "{}"), tuple(
            replace(step_of_json(row["document"]), number=row["number"], stage=row["stage"]) for row in steps
        )

    def _read_summary_fields(self, plan: str) -> dict[str, Any]:
        rows = self._state.read("SELECT document FROM plans WHERE id = ?", plan)
        document = orjson.loads(rows[0]["document"]) if rows else {}
        return {name: document[name] for name in _FROM_DOCUMENT if name in document}


def _columns(row: Row, now_s: float) -> dict[str, Any]:
    """Return the fields of a plan that are columns."""
    fields = ("id", "state", "why", "origin", "goal", "reason", "created_ms", "stage", "decision", "approved_by")
    return {
        **{name: row[name] for name in (*fields, "rolls_back")},
        "by": row["author"],
        "age_s": max(now_s - row["created_ms"] / 1000, 0.0),
        "auto_apply": bool(row["auto_apply"]) and row["state"] in ("planning", "planned"),
    }


class PlanExpiry:
    """Discards old proposals, and once a day deletes old plans and journal entries.

    Parameters
    ----------
    plans, journal
        Stored plans and journal, from which old rows are deleted.
    keep_days
        Days for which plans and journal are retained.
    """

    def __init__(self, plans: PlanStore, journal: Journal, keep_days: int) -> None:
        self._plans, self._journal, self._keep_days, self._last_ms = plans, journal, keep_days, 0.0

    def expire(self) -> None:
        """Discard and delete expired plans; cheap enough to call each second."""
        now_ms = self._plans.clock.time() * 1000
        self._plans.discard_proposals(now_ms - PROPOSED_S * 1000, "not applied within an hour")
        if now_ms - self._last_ms > _DAY_MS:
            before_ms = now_ms - self._keep_days * _DAY_MS
            self._plans.delete_before(before_ms)
            self._journal.delete_before(before_ms)
            self._last_ms = now_ms
