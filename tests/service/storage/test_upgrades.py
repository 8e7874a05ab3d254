"""State of earlier versions: a plan in the middle goes on, and the file of before lies beside it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from stormwright.controller.propose import propose
from stormwright.controller.requests import Place, PlanInputs
from stormwright.plans.plan import Plan
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.store import PlanStore
from stormwright.service.storage.database import FILE, MIGRATIONS, State
from tests.controller.builders import on, problem, topology

#: Fields of a plan that depend on the time of the look at it, or on the process that carries it out.
OF_THE_MOMENT = {"age_s", "moving", "moving_s", "left_s"}

#: Version from which plans are one document.
ONE_DOCUMENT = 4


def write_current(path: Path) -> Plan:
    """Write a state with a plan that is being applied, and return the plan."""
    known = topology("t", workers=1)
    made = propose(problem([known], current={known.id: on("n0")}), Place({known.id: on("n1")}), PlanInputs())
    assert isinstance(made, Plan)
    state = State(path)
    plans, journal = PlanStore(state), Journal(state)
    plan = plans.add("person", "placement", "ann", "as n0 is old", {})
    plans.save(plan, made)
    plans.begin(plan, journal.add_entry("person", "ann", "as n0 is old", made.gain, plan), "ann")
    plans.set_step(plan, 0, "moving")
    found = plans.plan(plan)
    state.close()
    return found


def write_earlier(path: Path, current: Path, version: int) -> None:
    """Write the same state as an earlier version did."""
    with closing(sqlite3.connect(path)) as to, closing(sqlite3.connect(current)) as now:
        now.row_factory = sqlite3.Row
        for statements in MIGRATIONS[:version]:
            for statement in statements:
                to.execute(statement)
        for table in ("plans", "steps", "decisions"):
            columns = [row[1] for row in to.execute(f"PRAGMA table_info({table})")]
            for row in now.execute(f"SELECT * FROM {table}"):  # noqa: S608 (names are ours)
                values = dict(row)
                if table == "plans" and version < ONE_DOCUMENT:
                    document = json.loads(values["document"])
                    for column, name in (("promised", "promises"), ("preconditions", "preconditions")):
                        values[column] = json.dumps(document.pop(name))
                    values["document"] = json.dumps(document)
                marks = ",".join("?" * len(columns))
                to.execute(f"INSERT INTO {table} VALUES ({marks})", [values[each] for each in columns])  # noqa: S608
        to.execute(f"PRAGMA user_version = {version}")
        to.commit()


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_state_of_each_earlier_version_goes_on_and_is_backed_up(tmp_path: Path, version: int) -> None:
    running = write_current(tmp_path / "current.db")
    write_earlier(tmp_path / FILE, tmp_path / "current.db", version)
    before = sqlite3.connect(tmp_path / FILE)
    lines = list(before.iterdump())
    before.close()
    state = State(tmp_path / FILE)
    now = PlanStore(state).plan(running.id)
    assert now.model_dump(exclude=OF_THE_MOMENT) == running.model_dump(exclude=OF_THE_MOMENT)
    assert (now.state, [step.state for step in now.steps]) == ("applying", ["moving"])
    assert [entry.reason for entry in Journal(state).entries(most=9).entries] == ["as n0 is old"]
    state.close()
    copy = sqlite3.connect(tmp_path / f"{FILE}.version-{version}")
    assert copy.execute("PRAGMA user_version").fetchone() == (version,)
    assert list(copy.iterdump()) == lines
    copy.close()


def test_current_state_needs_no_backup(tmp_path: Path) -> None:
    write_current(tmp_path / FILE)
    State(tmp_path / FILE).close()
    assert list(tmp_path.glob("*.version-*")) == []
