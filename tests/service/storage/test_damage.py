"""Damaged rows of the database are set aside and named, and the service starts without them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from stormwright.cli import run
from stormwright.controller.planning.order import MoveBudget
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.propose import plan_of
from stormwright.errors import InputError
from stormwright.model import Assignment
from stormwright.plans.modes import Modes
from stormwright.plans.plan import Promise
from stormwright.service.plans.guard import Guard
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.store import PlanStore
from stormwright.service.safety.holds import Holds
from stormwright.service.storage.damage import check_database, set_aside_damaged
from stormwright.service.storage.database import FILE, State
from tests.controller.builders import on, problem, topology

T = topology("words")
NOW = problem([T], current={T.id: on("n0")})
WANTED = NOW.with_current({T.id: on("n1")}).current_slot
MADE = plan_of(NOW, plan_moves(NOW, Assignment(WANTED), MoveBudget(1, 100), cpu_limits=False)).model_copy(
    update={"gain": "more", "promises": {T.id: Promise(1.5)}}
)


#: Bytes that a text column cannot have; as a bound value they would be a BLOB.
INVALID_UTF8 = b"{\xff"

#: Texts in a table, with keys.
TEXTS = [
    ("plans", "why"),
    ("plans", "document"),
    ("steps", "document"),
    ("decisions", "text"),
    ("moves", "name"),
    ("moves", "topology"),
    ("evaluations", "document"),
    ("modes", "document"),
    ("drains", "host"),
    ("documents", "document"),
    ("local_documents", "name"),
]

JOURNAL = ("decisions", "decision_times", "moves", "evaluations")


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    """One row in every table, and a second plan."""
    made = State(tmp_path / FILE)
    plans, journal = PlanStore(made), Journal(made)
    (step,) = MADE.steps
    for reason in ("first", "second"):
        plan = plans.add("person", "throughput", "anna", reason, {"goals": []})
        plans.save(plan, MADE)
    n = journal.add_entry("person", "anna", "a try", plan=plan)
    journal.record_before(n, step, {T.id: Promise(1.5)})
    journal.link_decision(n, 5)
    with made.change() as to:
        outcome = {"quantity": "throughput", "predicted": 1.5, "measured": 1.4, "low": 1.3, "high": 1.5}
        outcome |= {"windows_before": 9, "windows_after": 9, "verdict": "as predicted"}
        to.execute("INSERT INTO evaluations VALUES (?, ?, 'throughput', ?)", (n, T.id, orjson.dumps(outcome).decode()))
        to.execute("INSERT INTO modes VALUES (1, ?)", (Modes(default="auto").model_dump_json(),))
        to.execute("INSERT INTO drains VALUES ('host1', '[\"n1\"]', 1, 'anna', 'disk', '')")
    made.document("node_names").save("{}")
    made.document("presence", replicated=False).save("{}")
    yield made
    made.close()


def count(state: State, table: str) -> int:
    return int(state.read(f"SELECT count(*) AS n FROM {table}")[0]["n"])  # noqa: S608 (tables of the test)


def damage(directory: Path, statement: str, *values: object) -> None:
    """Execute a statement without the checks of the database's own connection."""
    with closing(sqlite3.connect(directory / FILE)) as connection, connection:
        connection.execute(statement, values)


def test_healthy_database_has_no_damaged_rows(state: State, tmp_path: Path) -> None:
    assert set_aside_damaged(state) == []
    check_database(tmp_path / FILE)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("plans", "document", '{"gain": '),
        ("plans", "document", '{"topologies": "many"}'),
        ("plans", "document", '{"preconditions": []}'),
        ("plans", "document", '{"promises": {"words": 3}}'),
        ("plans", "state", "unknown"),
        ("plans", "created_ms", "yesterday"),
        ("steps", "document", '{"moves": [{"before": {}}]}'),
        ("steps", "document", "\x00\x00"),
        ("moves", "before", "{}"),
        ("moves", "promised", "null"),
        ("evaluations", "document", '{"quantity": "throughput"}'),
        ("modes", "document", '{"default": "sometimes"}'),
        ("drains", "nodes", "n1"),
        ("documents", "document", "{"),
        ("local_documents", "document", b"\xff\xfe"),
        *((table, column, INVALID_UTF8) for table, column in TEXTS),
        ("steps", "stage", "first"),
        ("decisions", "at_ms", "yesterday"),
        ("decision_times", "n", "one"),
        ("decision_times", "n", 1.5),
        ("decision_times", "n", 7),
        ("moves", "pauses", "many"),
        ("moves", "promised", '{"throughput": "more"}'),
        ("drains", "since_ms", "yesterday"),
    ],
)
def test_damaged_row_is_set_aside_and_named(
    state: State, tmp_path: Path, table: str, column: str, value: object
) -> None:
    as_text = "CAST(? AS TEXT)" if value is INVALID_UTF8 else "?"
    damage(tmp_path, f"UPDATE {table} SET {column} = {as_text} WHERE rowid IN (1, 5)", value)  # noqa: S608 (tables of the test)
    before = {name: count(state, name) for name in ("plans", "steps", "drains", *JOURNAL)}
    with pytest.raises(InputError) as caught:
        check_database(tmp_path / FILE)
    (fault,) = caught.value.faults
    assert str(tmp_path / FILE) in str(fault)
    assert table in str(fault)
    assert count(state, "damaged") == 0, "a check changes nothing"
    (text,) = set_aside_damaged(state)
    assert text.startswith(table)
    assert set_aside_damaged(state) == [text], "named at every start"
    check_database(tmp_path / FILE)
    gone = {"plans": 1, "steps": 1} if table in ("plans", "steps") else {table: 1}
    if table == "decisions":
        gone = {"decisions": 1, "decision_times": 1, "moves": 1, "evaluations": 1}
    assert {name: count(state, name) for name in before} == {
        name: rows - gone.get(name, 0) for name, rows in before.items()
    }
    stored = json.loads(state.read("SELECT content FROM damaged")[0]["content"])
    assert column in stored[table][0], "the row is stored whole"
    assert {name: len(rows) for name, rows in stored.items() if rows} == gone
    plans, journal = PlanStore(state), Journal(state)
    guard = Guard(state, plans, journal)
    assert guard.modes.default == ("observe" if table == "modes" else "auto")
    assert all(plans.plan(each.id).promises for each in plans.summaries())
    assert len(journal.entries(10).entries) == (0 if table == "decisions" else 1)


def test_all_steps_of_a_plan_with_a_damaged_step_are_stored(state: State) -> None:
    plans = PlanStore(state)
    plan = plans.add("person", "throughput", "anna", "third", {})
    (step,) = MADE.steps
    steps = tuple(replace(step, number=number) for number in range(3))
    plans.save(plan, MADE.model_copy(update={"steps": steps, "step_count": 3}))
    with state.change() as to:
        to.execute("UPDATE steps SET document = '{' WHERE plan = ? AND number = 1", (plan,))
    plan_row, step_rows = (
        [dict(row) for row in state.read(f"SELECT * FROM {table} WHERE {key} = ?", plan)]  # noqa: S608 (tables of the test)
        for table, key in (("plans", "id"), ("steps", "plan"))
    )
    (text,) = set_aside_damaged(state)
    assert text.startswith(f"steps {plan} 1")
    content = orjson.loads(state.read("SELECT content FROM damaged")[0]["content"])
    assert content == {"plans": plan_row, "steps": step_rows}
    assert (count(state, "plans"), count(state, "steps")) == (2, 2)


@pytest.mark.parametrize(("table", "column"), [("plans", "id"), ("steps", "plan")])
def test_plan_and_steps_are_set_aside_if_their_reference_is_damaged(
    state: State, tmp_path: Path, table: str, column: str
) -> None:
    damage(tmp_path, f"UPDATE {table} SET {column} = CAST(? AS TEXT) WHERE rowid = 1", INVALID_UTF8)  # noqa: S608 (tables of the test)
    assert sorted(text.split()[0] for text in set_aside_damaged(state)) == ["plans", "steps"]
    assert (count(state, "plans"), count(state, "steps")) == (1, 1)
    check_database(tmp_path / FILE)


@pytest.mark.parametrize(
    ("column", "value"), [("created_ms", "yesterday"), ("stage", "first"), ("origin", "unknown"), ("why", INVALID_UTF8)]
)
def test_columns_of_finished_plans_are_checked(state: State, tmp_path: Path, column: str, value: object) -> None:
    as_text = "CAST(? AS TEXT)" if value is INVALID_UTF8 else "?"
    damage(tmp_path, f"UPDATE plans SET state = 'done', {column} = {as_text} WHERE rowid = 1", value)  # noqa: S608 (columns of the test)
    assert len(set_aside_damaged(state)) == 1
    assert len(PlanStore(state).summaries()) == 1


@pytest.mark.parametrize("value", ["[]", "3", '{"a": 1'])
def test_documents_of_safeguards_have_defaults(state: State, value: str) -> None:
    """JSON of another kind is found where it is read."""
    with state.change() as to:
        to.execute("UPDATE documents SET document = ?", (value,))
        to.execute("UPDATE local_documents SET document = ?", (value,))
    Holds(state, Guard(state, PlanStore(state), Journal(state)).drains)


def test_check_of_serve_names_damaged_rows(state: State, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with state.change() as to:
        to.execute("UPDATE modes SET document = 'x'")
    state.close()
    code = run(["serve", "--check", "--simulated", "ready:two-node-chain", "--state", str(tmp_path), "--port", "7999"])
    out = capsys.readouterr().out
    assert code == 2
    assert FILE in out
    assert "modes" in out


def test_check_names_rows_that_were_set_aside_before(state: State, tmp_path: Path) -> None:
    damage(tmp_path, "UPDATE modes SET document = 'x'")
    texts = set_aside_damaged(state)
    assert check_database(tmp_path / FILE) == texts
    damage(tmp_path, "DELETE FROM damaged")  # as in docs/data.md
    assert check_database(tmp_path / FILE) == []
    assert set_aside_damaged(state) == []


def test_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"no database" * 100)
    with pytest.raises(InputError, match="cannot be used"):
        check_database(tmp_path / FILE)
