"""Plans as they are kept, and where each stands."""

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
from stormwright.service.plans.journal import Journal
from stormwright.service.storage.database import State

# Expiry -------------------------------------------------------------------------------------------
# What is given up, and what is forgotten, as time goes by.

#: Proposals that nobody has applied after so many seconds are discarded: the load has changed.
PROPOSED_S = 3600.0

_DAY_MS = 86_400_000


class Expiry:
    """Gives up what was proposed long ago; once a day forgets plans and what was done.

    Parameters
    ----------
    plans, ledger
        Keep them.
    keep_days
        For so long.
    """

    def __init__(self, plans: PlanStore, ledger: Journal, keep_days: int) -> None:
        self._plans, self._ledger, self._keep_days, self._last_ms = plans, ledger, keep_days, 0.0

    def tidy(self) -> None:
        """Do what is due; cheap enough for each second."""
        now_ms = self._plans.clock.time() * 1000
        self._plans.give_up(now_ms - PROPOSED_S * 1000, "nobody has applied it for an hour")
        if now_ms - self._last_ms > _DAY_MS:
            before_ms = now_ms - self._keep_days * _DAY_MS
            self._plans.forget(before_ms)
            self._ledger.forget(before_ms)
            self._last_ms = now_ms


# Plans --------------------------------------------------------------------------------------------

#: States in which a plan is under way: nobody else moves anything meanwhile.
UNDER_WAY = ("applying", "judging", "taking back")

#: States in which a plan may be applied for the first time, and those in which it waits for a person.
OPEN, HALTED = ("planned", "proposed"), ("waiting", "stopped")


#: Key of what was asked: it begins by itself once it is made.
BEGINS = "begins"


@dataclass(frozen=True)
class PlanRow:
    """A plan as it is kept: the columns of its table."""

    id: str
    created_ms: int
    kind: str
    goal: str
    who: str
    reason: str
    asked: str
    state: str
    why: str
    document: str
    relied: str
    promises: str
    stage: int
    stop: int
    tries: int
    approved_by: str
    decision: int | None

    @property
    def begins(self) -> bool:
        """Whether it begins by itself once it is made."""
        return self.state in ("planning", "planned") and bool(orjson.loads(self.asked).get(BEGINS))


@dataclass(frozen=True)
class StepRow:
    """A step as it is kept."""

    plan: str
    number: int
    stage: int
    state: str
    document: str

    @property
    def told(self) -> Mapping[str, Any]:
        """As `step_to_dict` gave it."""
        found: Mapping[str, Any] = orjson.loads(self.document)
        return found

    def step(self, problem: Problem) -> Step:
        """The step itself; it raises what `step_of_dict` raises."""
        return step_of_dict(self.told, problem)


#: Columns of a plan in a list.
_LONG = ("document", "relied", "promises")
_SHORT = ", ".join(f"'' AS {each.name}" if each.name in _LONG else each.name for each in fields(PlanRow))


class PlanStore:
    """Keeps plans.

    Parameters
    ----------
    state
        Where.
    """

    def __init__(self, state: State) -> None:
        self._state, self.clock = state, state.clock

    def add(self, kind: str, goal: str, who: str, reason: str, asked: Mapping[str, Any]) -> str:
        """Keep a plan that is yet to be made; its id.

        Parameters
        ----------
        kind
            ``plan`` or ``revert``.
        goal
            What it is to be better in.
        who, reason
            Who asked for it, and why.
        asked
            All that was asked, for people.
        """
        plan = secrets.token_hex(4)
        row = (plan, round(self.clock.time() * 1000), kind, goal, who, reason, orjson.dumps(asked).decode(), "planning")
        with self._state.change() as to:
            to.execute("INSERT INTO plans VALUES (?,?,?,?,?,?,?,?,'','{}','{}','{}',0,0,0,'',NULL)", row)
        return plan

    def made(
        self,
        plan: str,
        state: str,
        why: str,
        document: Mapping[str, Any],
        relied: Mapping[str, Any],
        promises: Mapping[str, Promise],
        steps: Sequence[tuple[int, Mapping[str, Any]]],
    ) -> bool:
        """Keep what was planned; False where the plan was discarded meanwhile.

        Parameters
        ----------
        plan, state, why
            Its id, and where it stands now.
        document
            What people see of it (`stormwright.controller.plans.description.plan_document`).
        relied
            What it relies on (`stormwright.controller.plans.preconditions.relied_on`).
        promises
            Topology → what is predicted of it.
        steps
            Each with its stage, as `stormwright.controller.plans.document.step_to_dict` gives it.
        """
        told = [orjson.dumps(each).decode() for each in (document, relied, {t: asdict(p) for t, p in promises.items()})]
        with self._state.change() as to:
            done = to.execute(
                "UPDATE plans SET state = ?, why = ?, document = ?, relied = ?, promises = ? "
                "WHERE id = ? AND state = 'planning'",
                (state, why, *told, plan),
            )
            if not done.rowcount:
                return False
            for number, (stage, step) in enumerate(steps):
                row = (plan, number, stage, "planned", orjson.dumps(step).decode())
                to.execute("INSERT INTO steps VALUES (?, ?, ?, ?, ?)", row)
        return True

    def change(self, plan: str, of: Collection[str], state: str, why: str = "", **columns: Any) -> bool:
        """Bring a plan from one of some states to another; False where it is in none of them any more.

        Parameters
        ----------
        plan
            Its id.
        of
            The states.
        state, why
            The other one, and what there is to say of it.
        columns
            Of its table, that change with it.
        """
        names = "".join(f", {name} = ?" for name in columns)
        marks = ", ".join("?" * len(of))
        statement = f"UPDATE plans SET state = ?, why = ?{names} WHERE id = ? AND state IN ({marks})"  # noqa: S608 (names are ours)
        with self._state.change() as to:
            done = to.execute(statement, (state, why, *columns.values(), plan, *of))
            return bool(done.rowcount)

    def together(self) -> AbstractContextManager[object]:
        """All changes of plans and of the ledger in the `with` block are kept, or none where it raises."""
        return self._state.change()

    def begin(self, plan: str, decision: int, by: str) -> bool:
        """It is applied from now on, as a decision of the ledger; False where it may not be any more."""
        return self.change(plan, OPEN, "applying", decision=decision, approved_by=by, stage=0, stop=0, tries=0)

    def waits(self, plan: str, state: str, why: str) -> None:
        """One that was to begin by itself does not, and why."""
        asked = orjson.loads(self.row(plan).asked)
        asked.pop(BEGINS, None)
        self.change(plan, ["planned"], state, why, asked=orjson.dumps(asked).decode())

    def set_step(self, plan: str, number: int, state: str) -> None:
        """Note where a step stands."""
        with self._state.change() as to:
            to.execute("UPDATE steps SET state = ? WHERE plan = ? AND number = ?", (state, plan, number))

    def set_stage_back(self, plan: str, stage: int) -> None:
        """The steps of a stage are undone."""
        with self._state.change() as to:
            to.execute(
                "UPDATE steps SET state = 'back' WHERE plan = ? AND stage = ? AND state != 'planned'", (plan, stage)
            )

    def ask_to_stop(self, plan: str) -> None:
        """It is to stop as soon as nobody is half way."""
        with self._state.change() as to:
            to.execute("UPDATE plans SET stop = 1 WHERE id = ?", (plan,))

    def row(self, plan: str) -> PlanRow:
        """One plan.

        Raises
        ------
        NotFoundError
            There is none of this id.
        """
        return self._one("*", plan)

    def line(self, plan: str) -> PlanRow:
        """The same without what is long."""
        return self._one(_SHORT, plan)

    def document(self, plan: str) -> str:
        """What people see of one plan, as JSON; an empty object where it has been forgotten meanwhile."""
        rows = self._state.read("SELECT document FROM plans WHERE id = ?", plan)
        return str(rows[0]["document"]) if rows else "{}"

    def _one(self, columns: str, plan: str) -> PlanRow:
        rows = self._state.read(f"SELECT {columns} FROM plans WHERE id = ?", plan)  # noqa: S608 (columns are ours)
        if not rows:
            raise NotFoundError(f"there is no plan {plan}; `stormwright plan --list` and `GET /v1/plans` list them")
        return PlanRow(**rows[0])

    def rows(self, states: Collection[str] = (), most: int = 100) -> list[PlanRow]:
        """Plans, the newest first; those in some states, or all."""
        return self._some("*", states, most)

    def lines(self, states: Collection[str] = (), most: int = 100) -> list[PlanRow]:
        """The same without what is long: documents, what is relied on, and promises."""
        return self._some(_SHORT, states, most)

    def _some(self, columns: str, states: Collection[str], most: int) -> list[PlanRow]:
        where = f"WHERE state IN ({', '.join('?' * len(states))})" if states else ""
        statement = f"SELECT {columns} FROM plans {where} ORDER BY created_ms DESC, rowid DESC LIMIT ?"  # noqa: S608 (columns and marks)
        return [PlanRow(**row) for row in self._state.read(statement, *states, most)]

    def standing(self, states: Collection[str], most: int = 50) -> list[tuple[str, str, str]]:
        """Id, state and what there is to say, of the newest plans in some states; cheap enough for each second."""
        statement = (
            f"SELECT id, state, iif(why = '', reason, why) FROM plans WHERE state IN ({', '.join('?' * len(states))}) "  # noqa: S608 (marks only)
            "ORDER BY created_ms DESC LIMIT ?"
        )
        return [(plan, state, told) for plan, state, told in self._state.read(statement, *states, most)]

    def proposed(self) -> list[str]:
        """Ids of those that the service has proposed and nobody has decided about."""
        return [row["id"] for row in self._state.read("SELECT id FROM plans WHERE state = 'proposed'")]

    def give_up(self, before_ms: float, why: str) -> None:
        """Discard proposals from before a moment."""
        rows = self._state.read("SELECT id FROM plans WHERE state = 'proposed' AND created_ms < ?", before_ms)
        for row in rows:
            self.change(row["id"], ["proposed"], "discarded", why)

    def forget(self, before_ms: float) -> None:
        """Delete those from before a moment with which nothing goes on."""
        kept = ", ".join(f"'{state}'" for state in ("planning", *UNDER_WAY, *HALTED))
        old = f"FROM plans WHERE created_ms < ? AND state NOT IN ({kept})"
        with self._state.change() as to:
            to.execute(f"DELETE FROM steps WHERE plan IN (SELECT id {old})", (before_ms,))  # noqa: S608 (states are ours)
            to.execute(f"DELETE {old}", (before_ms,))

    def under_way(self) -> PlanRow | None:
        """The plan that is being applied."""
        rows = self.rows(UNDER_WAY, 1)
        return rows[0] if rows else None

    def steps(self, plan: str, most: int = -1) -> list[StepRow]:
        """Its steps in their order, the first of them or all."""
        rows = self._state.read("SELECT * FROM steps WHERE plan = ? ORDER BY number LIMIT ?", plan, most)
        return [StepRow(**row) for row in rows]

    def step_states(self, plan: str, most: int = -1) -> list[tuple[int, int, str]]:
        """Number, stage and state of its steps."""
        rows = self._state.read(
            "SELECT number, stage, state FROM steps WHERE plan = ? ORDER BY number LIMIT ?", plan, most
        )
        return [(row["number"], row["stage"], row["state"]) for row in rows]

    def promises(self, row: PlanRow) -> dict[str, Promise]:
        """Topology → what the plan promises it."""
        return {topology: Promise(**raw) for topology, raw in orjson.loads(row.promises).items()}
