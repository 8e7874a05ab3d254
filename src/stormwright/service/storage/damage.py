"""Damaged rows of the database: found before the service starts, set aside, and named.

A row is damaged if a text in it is not the JSON that it should be, as after a failure of the disk or a change by hand.
It is moved to the table ``damaged``, whole, so that nothing is lost; all other rows are used as they are. Without its
row

- a plan is gone, also if a step of it is damaged: topologies stay where they are, and one that was paused is activated;
- an entry of the history cannot be rolled back, and its outcome is unknown here; the history's tables still have both;
- the modes are those of a new service, which moves nothing until a person says so;
- a drained node is schedulable;
- what a document held is measured again.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from stormwright.controller.plans.document import placement_of
from stormwright.errors import Fault, InputError
from stormwright.history.evaluation.verdict import Evaluation, Promise
from stormwright.modes import Modes
from stormwright.plan import FINAL_STATES, Plan
from stormwright.service.plans.store import PlanRecord, StepRecord
from stormwright.service.storage.database import State

log = logging.getLogger(__name__)

_PLAN, _STEP, _EVALUATION = TypeAdapter(PlanRecord), TypeAdapter(StepRecord), TypeAdapter(Evaluation)
_PROMISES = TypeAdapter(dict[str, Promise])


@dataclass(frozen=True)
class DamagedRow:
    """A row that cannot be read.

    Parameters
    ----------
    table, key
        The table, and the primary key as text.
    why
        What is wrong.
    rowid, content
        Its number in the table, and all of its values by column.
    """

    table: str
    key: str
    why: str
    rowid: int
    content: Mapping[str, Any]

    def __str__(self) -> str:
        """Return table, key and reason."""
        return f"{self.table} {self.key}: {self.why}".replace(" :", ":")


def set_aside_damaged(state: State) -> list[str]:
    """Move damaged rows to the table ``damaged``; return a text for each that is there, also of former starts."""
    with state.change() as to:
        found = list(_damaged_rows(state.read))
        for row in found:
            log.warning("%s: %s; it is set aside in the table damaged", state, row)
            values = (round(state.clock.time() * 1000), row.table, row.key, row.why, _as_json(row.content))
            to.execute("INSERT INTO damaged VALUES (?, ?, ?, ?, ?)", values)
            if row.table in ("plans", "steps"):
                plan = row.content["id" if row.table == "plans" else "plan"]
                to.execute("DELETE FROM steps WHERE plan = ?", (plan,))
                to.execute("DELETE FROM plans WHERE id = ?", (plan,))
            else:
                to.execute(f"DELETE FROM {row.table} WHERE rowid = ?", (row.rowid,))  # noqa: S608 (tables are ours)
    return [f"{each['source']} {each['key']}: {each['why']}" for each in state.read("SELECT * FROM damaged")]


def check_database(path: Path) -> None:
    """Check a database without changing it.

    Raises
    ------
    InputError
        The file is damaged, or rows of it are.
    """
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            (whole,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if whole != "ok":
                raise InputError("--state", [Fault(f"is damaged ({whole}): restore it from a backup", str(path))])
            rows = list(_damaged_rows(lambda *query: connection.execute(query[0], query[1:]).fetchall()))
    except sqlite3.DatabaseError as error:
        message = f"cannot be used ({error}): restore it from a backup, or move it away"
        raise InputError("--state", [Fault(message, str(path))]) from error
    if rows:
        raise InputError(
            "--state", [Fault(f"is damaged; a start sets the row aside: {row}", str(path)) for row in rows]
        )


# Checks -------------------------------------------------------------------------------------------


#: Rows that are in memory at once.
_BATCH = 500

#: Table → condition for rows that are checked. Finished plans, of which there may be a gigabyte, are checked only for
#: the syntax of their JSON, by SQLite.
_FINISHED = ", ".join(f"'{state}'" for state in FINAL_STATES)
_CHECKED = {
    "plans": f"state NOT IN ({_FINISHED}) OR NOT (json_valid(request) AND json_valid(document) "
    "AND json_valid(preconditions) AND json_valid(promised))",
    "steps": f"NOT json_valid(document) OR plan IN (SELECT id FROM plans WHERE state NOT IN ({_FINISHED}))",  # noqa: S608 (states are ours)
}


def _damaged_rows(read: Callable[..., list[sqlite3.Row]]) -> Iterator[DamagedRow]:
    """Yield the rows that cannot be read; `read` runs a query with its values."""
    there = {row["name"] for row in read("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table, (keys, check) in _CHECKS.items():
        if table not in there:
            continue
        checked = _CHECKED.get(table, "TRUE")
        last = -1
        while rows := read(
            f"SELECT rowid AS rowid_, * FROM {table} WHERE rowid > ? AND ({checked}) ORDER BY rowid LIMIT {_BATCH}",  # noqa: S608 (tables are ours)
            last,
        ):
            for row in rows:
                last = row["rowid_"]
                content = {name: row[name] for name in tuple(row.keys()) if name != "rowid_"}
                try:
                    check(content)
                except (ValueError, TypeError, KeyError, AttributeError) as error:
                    key = " ".join(str(content[name]) for name in keys)
                    yield DamagedRow(table, key, _reason(error), last, content)


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _check_plan(row: Mapping[str, Any]) -> None:
    plan = _PLAN.validate_python(row)
    for name in ("request", "preconditions"):
        _object(row[name], name)
    _PROMISES.validate_json(row["promised"])
    line = {"id": plan.id, "state": plan.state, "why": plan.why, "origin": plan.origin, "goal": plan.goal}
    line |= {"by": plan.author, "reason": plan.reason}
    Plan(**_object(row["document"], "document") | line | {"created_ms": plan.created_ms, "age_s": 0.0})


def _check_step(row: Mapping[str, Any]) -> None:
    _STEP.validate_python(row)
    for move in _object(row["document"], "document")["moves"]:
        placement_of(move["before"])
        placement_of(move["after"])


def _check_move(row: Mapping[str, Any]) -> None:
    for name in ("before", "after"):
        if row[name] is not None:
            placement_of(_object(row[name], name))
    _object(row["promised"], "promised")


def _check_evaluation(row: Mapping[str, Any]) -> None:
    _EVALUATION.validate_python(_object(row["document"], "document"))


def _check_drain(row: Mapping[str, Any]) -> None:
    TypeAdapter(list[str]).validate_json(row["nodes"])


def _check_document(row: Mapping[str, Any]) -> None:
    if row["document"] and not str(row["name"]).endswith(".damaged"):
        orjson.loads(row["document"])


def _object(text: str, column: str) -> dict[str, Any]:
    """Return the object in a column; raises ValueError."""
    try:
        found = orjson.loads(text)
    except (orjson.JSONDecodeError, TypeError) as error:
        raise ValueError(f"{column} is no JSON ({error})") from error
    if not isinstance(found, dict):
        raise ValueError(f"{column} is no JSON object")
    return found


def _as_json(content: Mapping[str, Any]) -> str:
    return orjson.dumps(content, default=repr).decode()


#: Table → columns of its key, and the check of a row, which raises for a damaged one.
_CHECKS: Mapping[str, tuple[tuple[str, ...], Callable[[Mapping[str, Any]], object]]] = {
    "plans": (("id",), _check_plan),
    "steps": (("plan", "number"), _check_step),
    "moves": (("n", "topology"), _check_move),
    "evaluations": (("n", "topology", "quantity"), _check_evaluation),
    "modes": ((), lambda row: Modes.model_validate_json(row["document"])),
    "drains": (("host",), _check_drain),
    "documents": (("name",), _check_document),
    "local_documents": (("name",), _check_document),
}
