"""Plans in the service's database, with their states and steps."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields
from typing import Any

import orjson

from stormwright.controller.planning.plan import Step
from stormwright.controller.plans.document import step_of_dict
from stormwright.errors import NotFoundError
from stormwright.history.evaluation.verdict import Promise
from stormwright.model import Problem
from stormwright.plan import (
    ACTIVE_STATES,
    HALTED_STATES,
    IN_PROGRESS_STATES,
    OPEN_STATES,
    Origin,
    PlanState,
    StepState,
)
from stormwright.service.plans.journal import Journal
from stormwright.service.storage.database import State

# Plans --------------------------------------------------------------------------------------------

#: Author of plans that the service makes, and who approves them in mode ``auto``.
SERVICE = "stormwright"


@dataclass(frozen=True)
class PlanRecord:
    """A row of the table of plans; `document` is the JSON of a `stormwright.plan.Plan` without its state."""

    id: str
    created_ms: int
    origin: Origin
    goal: str
    author: str
    reason: str
    request: str
    auto_apply: int
    state: PlanState
    why: str
    document: str
    preconditions: str
    promised: str
    stage: int
    stop: int
    tries: int
    approved_by: str
    decision: int | None

    @property
    def is_by_service(self) -> bool:
        """Whether the service proposed it."""
        return self.author == SERVICE

    @property
    def is_unattended(self) -> bool:
        """Whether the service itself approved it."""
        return self.approved_by == SERVICE

    @property
    def applies_itself(self) -> bool:
        """Whether it is applied as soon as it is made."""
        return bool(self.auto_apply) and self.state in ("planning", "planned")


@dataclass(frozen=True)
class StepRecord:
    """A row of the table of steps."""

    plan: str
    number: int
    stage: int
    state: StepState
    document: str

    @property
    def content(self) -> Mapping[str, Any]:
        """The step as `stormwright.controller.plans.document.step_to_dict` returns it."""
        found: Mapping[str, Any] = orjson.loads(self.document)
        return found

    def step(self, problem: Problem) -> Step:
        """Return the step in the current cluster; raises the errors of `step_of_dict`."""
        return step_of_dict(self.content, problem)


#: Columns of a plan in a list.
_LONG = ("document", "preconditions", "promised")
_SHORT = ", ".join(f"'' AS {each.name}" if each.name in _LONG else each.name for each in fields(PlanRecord))


class PlanStore:
    """Plans in the service's database.

    Parameters
    ----------
    state
        The database.
    """

    def __init__(self, state: State) -> None:
        self._state, self.clock = state, state.clock
        self._moving_since_s: dict[tuple[str, int], float] = {}

    def add(
        self,
        origin: Origin,
        goal: str,
        author: str,
        reason: str,
        request: Mapping[str, Any],
        *,
        auto_apply: bool = False,
    ) -> str:
        """Store a plan that is yet to be made; return its id.

        Parameters
        ----------
        origin, goal, author, reason
            As in `stormwright.plan.PlanSummary`.
        request
            The request, for people.
        auto_apply
            Whether it is applied as soon as it is made.
        """
        plan, now_ms = secrets.token_hex(4), round(self.clock.time() * 1000)
        row = (plan, now_ms, origin, goal, author, reason, orjson.dumps(request).decode(), auto_apply)
        with self._state.change() as to:
            to.execute("INSERT INTO plans VALUES (?,?,?,?,?,?,?,?,'planning','','{}','{}','{}',0,0,0,'',NULL)", row)
        return plan

    def save(
        self,
        plan: str,
        state: PlanState,
        why: str,
        document: Mapping[str, Any],
        preconditions: Mapping[str, Any],
        promises: Mapping[str, Promise],
        steps: Sequence[tuple[int, Mapping[str, Any]]],
    ) -> bool:
        """Store a computed plan; return False if the plan was discarded meanwhile.

        Parameters
        ----------
        plan, state, why
            Its id, its new state, and the reason.
        document
            Result of `stormwright.controller.plans.description.plan_document`.
        preconditions
            Result of `stormwright.controller.plans.preconditions.preconditions`.
        promises
            Promise by topology id.
        steps
            Stage and content of every step (`stormwright.controller.plans.document.step_to_dict`).
        """
        promised = {topology: asdict(promise) for topology, promise in promises.items()}
        texts = [orjson.dumps(each).decode() for each in (document, preconditions, promised)]
        with self._state.change() as to:
            done = to.execute(
                "UPDATE plans SET state = ?, why = ?, document = ?, preconditions = ?, promised = ? "
                "WHERE id = ? AND state = 'planning'",
                (state, why, *texts, plan),
            )
            if not done.rowcount:
                return False
            for number, (stage, step) in enumerate(steps):
                row = (plan, number, stage, "planned", orjson.dumps(step).decode())
                to.execute("INSERT INTO steps VALUES (?, ?, ?, ?, ?)", row)
        return True

    def change(self, plan: str, states: Collection[PlanState], state: PlanState, why: str = "", **columns: Any) -> bool:
        """Change the state of a plan; return False if it is in none of the expected states.

        Parameters
        ----------
        plan
            Its id.
        states
            Expected states.
        state, why
            New state, and its reason.
        columns
            Other columns to change.
        """
        names = "".join(f", {name} = ?" for name in columns)
        marks = ", ".join("?" * len(states))
        statement = f"UPDATE plans SET state = ?, why = ?{names} WHERE id = ? AND state IN ({marks})"  # noqa: S608 (names are ours)
        with self._state.change() as to:
            done = to.execute(statement, (state, why, *columns.values(), plan, *states))
            return bool(done.rowcount)

    def transaction(self) -> AbstractContextManager[object]:
        """Return a context: all changes of plans and journal in it are stored, or none if it raises."""
        return self._state.change()

    def begin(self, plan: str, decision: int, approved_by: str) -> bool:
        """Start applying a plan under an entry of the journal; return False if it is no longer open."""
        columns: dict[str, Any] = {"decision": decision, "approved_by": approved_by, "stage": 0, "stop": 0, "tries": 0}
        return self.change(plan, OPEN_STATES, "applying", **columns)

    def require_approval(self, plan: str, state: PlanState, why: str) -> None:
        """A plan that should apply itself does not, for a reason; it is in another state from now on."""
        self.change(plan, ["planned"], state, why, auto_apply=0)

    def set_step(self, plan: str, number: int, state: StepState) -> None:
        """Set the state of a step."""
        with self._state.change() as to:
            to.execute("UPDATE steps SET state = ? WHERE plan = ? AND number = ?", (state, plan, number))
        if state == "moving":
            self._moving_since_s[plan, number] = self.clock.time()
        else:
            self._moving_since_s.pop((plan, number), None)

    def moving_s(self, plan: str, number: int) -> float | None:
        """Return for how many seconds a step is under way; None if it is not, or began before this process."""
        since_s = self._moving_since_s.get((plan, number))
        return None if since_s is None else max(self.clock.time() - since_s, 0.0)

    def mark_stage_rolled_back(self, plan: str, stage: int) -> None:
        """Mark the steps of a stage as undone."""
        with self._state.change() as to:
            to.execute(
                "UPDATE steps SET state = 'rolled_back' WHERE plan = ? AND stage = ? AND state != 'planned'",
                (plan, stage),
            )

    def request_stop(self, plan: str) -> None:
        """Request a plan to stop as soon as no topology is on a detour."""
        with self._state.change() as to:
            to.execute("UPDATE plans SET stop = 1 WHERE id = ?", (plan,))

    def row(self, plan: str) -> PlanRecord:
        """Return one plan.

        Raises
        ------
        NotFoundError
            There is no plan with this id.
        """
        return self._one("*", plan)

    def summary_row(self, plan: str) -> PlanRecord:
        """Return one plan without its long columns."""
        return self._one(_SHORT, plan)

    def document(self, plan: str) -> str:
        """Return the description of a plan as JSON; an empty object if it was deleted meanwhile."""
        rows = self._state.read("SELECT document FROM plans WHERE id = ?", plan)
        return str(rows[0]["document"]) if rows else "{}"

    def _one(self, columns: str, plan: str) -> PlanRecord:
        rows = self._state.read(f"SELECT {columns} FROM plans WHERE id = ?", plan)  # noqa: S608 (names are ours)
        if not rows:
            raise NotFoundError(f"there is no plan {plan}; `stormwright plan --list` and `GET /v1/plans` list them")
        return PlanRecord(**rows[0])

    def rows(self, states: Collection[PlanState] = (), most: int = 100) -> list[PlanRecord]:
        """Return plans in some states, or all; newest first."""
        return self._some("*", states, most)

    def summary_rows(self, states: Collection[PlanState] = (), most: int = 100) -> list[PlanRecord]:
        """Return plans without their long columns: descriptions, preconditions and promises."""
        return self._some(_SHORT, states, most)

    def _some(self, columns: str, states: Collection[PlanState], most: int) -> list[PlanRecord]:
        where = f"WHERE state IN ({', '.join('?' * len(states))})" if states else ""
        statement = f"SELECT {columns} FROM plans {where} ORDER BY created_ms DESC, rowid DESC LIMIT ?"  # noqa: S608 (names are ours)
        return [PlanRecord(**row) for row in self._state.read(statement, *states, most)]

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

    def discard_proposals(self, before_ms: float, why: str) -> None:
        """Discard proposals from before a time."""
        rows = self._state.read("SELECT id FROM plans WHERE state = 'proposed' AND created_ms < ?", before_ms)
        for row in rows:
            self.change(row["id"], ["proposed"], "discarded", why)

    def delete_before(self, before_ms: float) -> None:
        """Delete finished plans from before a time."""
        unfinished = ", ".join(f"'{state}'" for state in (*IN_PROGRESS_STATES, *HALTED_STATES))
        old = f"FROM plans WHERE created_ms < ? AND state NOT IN ({unfinished})"
        with self._state.change() as to:
            to.execute(f"DELETE FROM steps WHERE plan IN (SELECT id {old})", (before_ms,))  # noqa: S608 (names are ours)
            to.execute(f"DELETE {old}", (before_ms,))

    def active(self) -> PlanRecord | None:
        """Return the active plan."""
        rows = self.rows(ACTIVE_STATES, 1)
        return rows[0] if rows else None

    def steps(self, plan: str, most: int = -1) -> list[StepRecord]:
        """Return the first steps of a plan, or all, in order."""
        rows = self._state.read("SELECT * FROM steps WHERE plan = ? ORDER BY number LIMIT ?", plan, most)
        return [StepRecord(**row) for row in rows]

    def step_states(self, plan: str, most: int = -1) -> list[tuple[int, int, StepState]]:
        """Return number, stage and state of steps."""
        rows = self._state.read(
            "SELECT number, stage, state FROM steps WHERE plan = ? ORDER BY number LIMIT ?", plan, most
        )
        return [(row["number"], row["stage"], row["state"]) for row in rows]

    def promises(self, row: PlanRecord) -> dict[str, Promise]:
        """Return the promise by topology id."""
        return {topology: Promise(**raw) for topology, raw in orjson.loads(row.promised).items()}


# Expiry -------------------------------------------------------------------------------------------

#: Seconds after which a proposal that nobody applied is discarded, because the load has changed.
PROPOSED_S = 3600.0

_DAY_MS = 86_400_000


class PlanExpiry:
    """Discards old proposals, and once a day deletes old plans and journal entries.

    Parameters
    ----------
    plans, journal
        What expires.
    keep_days
        Days for which plans and journal are kept.
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
