"""Damaged rows of the database: found before the service starts, set aside, and named.

A row is damaged if a value in it has another type than its column, is no UTF-8, or is not the JSON that it should be,
or if a row that it refers to is missing, as after a failure of the disk or a change by hand. It is moved to the table
``damaged`` with all rows that are of no use without it; all others are used as they are. Without its row

- a plan is gone with all of its steps, also if only a step is damaged: topologies stay where they are, and one that was
  paused is activated;
- an entry of the history is gone with its moves; one of its moves cannot be rolled back, and its outcome is unknown
  here; the history's tables still have both;
- the modes are those of a new service, which moves nothing until a person says so;
- a drained node is schedulable;
- what a document held is measured again.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import orjson
from pydantic import TypeAdapter, ValidationError

from stormwright.base.escaping import is_text
from stormwright.client import shapes
from stormwright.errors import Fault, InputError, StormwrightError
from stormwright.history.evaluation.verdict import Evaluation
from stormwright.plans.json import placement_of_json, plan_of_json, step_of_json
from stormwright.plans.modes import Modes
from stormwright.plans.plan import Origin, PlanSummary
from stormwright.plans.states import FINAL_STATES, StepState
from stormwright.service.storage.database import ENTRY_TABLES, State, decode_lossless, is_utf8

log = logging.getLogger(__name__)

_EVALUATION, _STEP_STATE = TypeAdapter(Evaluation), TypeAdapter(StepState)

#: Runs a query with its values; texts are decoded by `decode_lossless`.
_Read = Callable[..., list[sqlite3.Row]]


@dataclass(frozen=True)
class DamagedRow:
    """A row that cannot be read.

    Parameters
    ----------
    table, key
        The table, and the primary key as text.
    why
        Reason why the row cannot be read, as text.
    content
        All of its values by column.
    """

    table: str
    key: str
    why: str
    content: Mapping[str, Any]

    def __str__(self) -> str:
        """Return table, key and reason."""
        return f"{self.table} {self.key}: {self.why}"


def set_aside_damaged(state: State) -> list[str]:
    """Move damaged rows to the table ``damaged``; return a text for each that is there, also of former starts.

    Raises
    ------
    StormwrightError
        The file itself is damaged.
    """
    try:
        for row in list(_damaged_rows(state.read_lossless)):
            with state.change(replicated=row.table != "local_documents") as to:
                where = _lost_with(row)
                content = {table: _contents(state.read_lossless, table, rows) for table, rows in where.items()}
                if not any(content.values()):
                    continue  # set aside with an earlier row
                log.warning("%s: %s; it is set aside in the table damaged", state, row)
                # JSON with escapes: texts may have bytes that are no UTF-8, as lone surrogates.
                values = (
                    round(state.clock.time() * 1000),
                    row.table,
                    row.key,
                    row.why,
                    json.dumps(content, default=repr),
                )
                to.execute("INSERT INTO damaged VALUES (?, ?, ?, ?, ?)", values)
                for table, rows in where.items():
                    to.execute(f"DELETE FROM {table} WHERE {rows}")  # noqa: S608 (tables are ours)
        return set_aside_before(state.read_lossless)
    except sqlite3.DatabaseError as error:
        message = f"cannot be read ({error}): restore it from a backup, or move it away"
        raise StormwrightError(f"{state} {message}") from error


def set_aside_before(read: _Read) -> list[str]:
    """Return a text for each row of the table ``damaged``."""
    return [
        _printable(f"{each['source']} {each['key']}: {each['why']}")
        for each in read("SELECT * FROM damaged ORDER BY rowid")
    ]


def check_database(path: Path) -> list[str]:
    """Check a database without changing it; return `set_aside_before`.

    Raises
    ------
    InputError
        The file is damaged, or rows of it are.
    """

    def read(statement: str, *values: Any) -> list[sqlite3.Row]:
        return connection.execute(statement, values).fetchall()

    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            connection.row_factory, connection.text_factory = sqlite3.Row, decode_lossless
            connection.create_function("is_utf8", 1, is_utf8, deterministic=True)
            (whole,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if whole != "ok":
                raise InputError("--state", [Fault(f"is damaged ({whole}): restore it from a backup", str(path))])
            rows = list(_damaged_rows(read))
            before = set_aside_before(read) if "damaged" in _tables(read) else []
    except sqlite3.DatabaseError as error:
        message = f"cannot be used ({error}): restore it from a backup, or move it away"
        raise InputError("--state", [Fault(message, str(path))]) from error
    if rows:
        raise InputError(
            "--state", [Fault(f"is damaged; a start sets the row aside: {row}", str(path)) for row in rows]
        )
    return before


def _lost_with(row: DamagedRow) -> dict[str, str]:
    """Return table → SQL condition of the rows that are of no use without a row, itself included."""
    if row.table in ("plans", "steps"):
        plan = _literal(row.content["id" if row.table == "plans" else "plan"])
        return {"steps": f"plan IS {plan}", "plans": f"id IS {plan}"}
    keys = _CHECKS[row.table][0]
    condition = " AND ".join(f"{key} IS {_literal(row.content[key])}" for key in keys)
    return dict.fromkeys(ENTRY_TABLES if row.table == "decisions" else (row.table,), condition)


def _contents(read: _Read, table: str, where: str) -> list[dict[str, Any]]:
    return [dict(row) for row in read(f"SELECT * FROM {table} WHERE {where}")]  # noqa: S608 (tables are ours)


def _literal(value: object) -> str:
    """Return a value in SQL; another service, in which rows have other numbers, executes it too."""
    if isinstance(value, str):
        return f"CAST(x'{value.encode(errors='surrogateescape').hex()}' AS TEXT)"
    return f"x'{value.hex()}'" if isinstance(value, bytes) else "NULL" if value is None else repr(value)


def _printable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


# Checks -------------------------------------------------------------------------------------------


#: Rows that are in memory at once.
_BATCH = 500

#: Type of a column → type of its values.
_TYPES: Mapping[str, type] = {"TEXT": str, "INTEGER": int, "REAL": float}


def _quoted(values: Iterable[str]) -> str:
    return ", ".join(f"'{value}'" for value in values)


_FINISHED, _ORIGINS, _STEP_STATES = _quoted(FINAL_STATES), _quoted(get_args(Origin)), _quoted(get_args(StepState))

#: Table → condition for rows that are checked; by default all. Of the others, of which there may be a gigabyte, SQLite
#: checks the columns.
_CHECKED = {
    "plans": f"state NOT IN ({_FINISHED}) OR origin NOT IN ({_ORIGINS}) OR NOT (json_valid(request) "
    "AND json_valid(document))",
    "steps": f"state NOT IN ({_STEP_STATES}) OR NOT json_valid(document) "  # noqa: S608 (states are ours)
    f"OR plan IN (SELECT id FROM plans WHERE state NOT IN ({_FINISHED}))",
    "decisions": "FALSE",
    "decision_times": "FALSE",
}


def _tables(read: _Read) -> set[str]:
    return {row["name"] for row in read("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _damaged_rows(read: _Read) -> Iterator[DamagedRow]:
    """Yield the rows that cannot be read."""
    there = _tables(read)
    orphans = {(row["table"], row["rowid"]): row["parent"] for row in read("PRAGMA foreign_key_check")}
    for table, (keys, check) in _CHECKS.items():
        if table not in there:
            continue
        columns = read(f"PRAGMA table_info({table})")
        own = ", ".join(str(rowid) for name, rowid in orphans if name == table)
        checked = f"({_CHECKED.get(table, 'TRUE')}) OR rowid IN ({own}) OR {_has_damaged_column(columns)}"
        last = -1
        while rows := read(
            f"SELECT rowid AS rowid_, * FROM {table} WHERE rowid > ? AND ({checked}) ORDER BY rowid LIMIT {_BATCH}",  # noqa: S608 (tables are ours)
            last,
        ):
            for row in rows:
                content = dict(row)
                last = content.pop("rowid_")
                try:
                    for column in columns:
                        _check_column(content[column["name"]], column)
                    if (table, last) in orphans:
                        raise ValueError(f"belongs to no row of {orphans[table, last]}")
                    check(content)
                    if table == "plans":
                        _check_number_of_steps(read, content)
                except (ValueError, TypeError, KeyError, AttributeError) as error:
                    key = " ".join(str(content[name]) for name in keys)
                    yield DamagedRow(table, _printable(key), _printable(_reason(error)), content)


def _has_damaged_column(columns: Sequence[sqlite3.Row]) -> str:
    """Return the SQL condition for rows that `_check_column` refuses."""
    found = []
    for column in columns:
        null = "" if column["notnull"] or column["pk"] else ", 'null'"
        found.append(f"typeof(\"{column['name']}\") NOT IN ('{column['type'].lower()}'{null})")
    texts = [f"coalesce({column['name']}, '')" for column in columns if column["type"] == "TEXT"]
    is_text = f"is_utf8(CAST({' || char(10) || '.join(texts)} AS BLOB))" if texts else "TRUE"
    return f"{' OR '.join(found)} OR NOT {is_text}"


def _check_column(value: object, column: sqlite3.Row) -> None:
    """Raise ValueError if a value is of another type than its column, or no UTF-8."""
    if value is None and not column["notnull"] and not column["pk"]:
        return
    if not isinstance(value, _TYPES[column["type"]]):
        raise ValueError(f"{column['name']} should be {column['type']}")
    if isinstance(value, str) and not is_text(value):
        raise ValueError(f"{column['name']} is no UTF-8")


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _check_plan(row: Mapping[str, Any]) -> None:
    """Check a plan; of a finished one, of which there may be a gigabyte, the JSON is only parsed."""
    line = PlanSummary(by=row["author"], **{name: row[name] for name in ("state", "origin", "stage", "decision")})
    _object(row["request"], "request")
    _object(row["document"], "document")
    if line.state not in FINAL_STATES:
        plan_of_json(row["document"])


def _check_number_of_steps(read: _Read, plan: Mapping[str, Any]) -> None:
    """Raise ValueError if an unfinished plan has lost a step, as if the column ``plan`` of the step is damaged."""
    ((found,),) = read("SELECT count(*) FROM steps WHERE plan = ?", plan["id"])
    expected = orjson.loads(plan["document"]).get("step_count", 0)
    if plan["state"] not in FINAL_STATES and found != expected:
        raise ValueError(f"has {found} of {expected} steps")


def _check_step(row: Mapping[str, Any]) -> None:
    _STEP_STATE.validate_python(row["state"])
    step_of_json(row["document"])


def _check_move(row: Mapping[str, Any]) -> None:
    for name in ("before", "after"):
        if row[name] is not None:
            placement_of_json(row[name])
    shown = {name: row[name] for name in ("topology", "name", "pause_s", "failure")}
    shapes.MoveEntry(promised=_object(row["promised"], "promised"), evaluations=(), **shown)


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


#: Table → columns of its key, and the check of a row, which raises for a damaged one.
_CHECKS: Mapping[str, tuple[tuple[str, ...], Callable[[Mapping[str, Any]], object]]] = {
    "plans": (("id",), _check_plan),
    "steps": (("plan", "number"), _check_step),
    "decisions": (("n",), lambda _: None),
    "decision_times": (("decision_ms",), lambda _: None),
    "moves": (("n", "topology"), _check_move),
    "evaluations": (("n", "topology", "quantity"), _check_evaluation),
    "modes": (("one",), lambda row: Modes.model_validate_json(row["document"])),
    "drains": (("host",), _check_drain),
    "documents": (("name",), _check_document),
    "local_documents": (("name",), _check_document),
}
