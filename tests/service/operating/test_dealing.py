"""What becomes of the service's own decisions under each mode."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stormwright.client.shapes import Mode, Modes, ModesChange
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.plans.back import WHOLE
from stormwright.controller.policy import Decision
from stormwright.errors import StormwrightError
from stormwright.model import Assignment
from stormwright.service.loop import Loop
from stormwright.service.operating.dealing import Dealing
from stormwright.service.operating.guard import Guard
from stormwright.service.operating.state import FILE, MIGRATIONS, State
from tests.service.operating.nimbus import ANNA, Nimbus
from tests.service.operating.test_applying import many


@pytest.fixture
def nimbus(tmp_path: Path) -> Iterator[Nimbus]:
    made = Nimbus(tmp_path, many()[0])
    yield made
    made.end()


class Service:
    """The loop of a service whose scheduler always wants the same placement."""

    def __init__(self, nimbus: Nimbus) -> None:
        self._nimbus, self.acted = nimbus, list[Decision]()
        self._stop = threading.Event()
        dealing = Dealing(nimbus.guard, nimbus.desk, nimbus.applying, cast(Any, SimpleNamespace(problem=nimbus.look)))
        looking = SimpleNamespace(look=self._look)
        acting = SimpleNamespace(act=lambda decision, _: self.acted.append(decision))
        self._loop = Loop(cast(Any, looking), cast(Any, acting), lambda: None, lambda: None, dealing)

    def _look(self) -> Decision:
        self._stop.set()
        now = self._nimbus.look()
        assert now is not None
        stay = self._nimbus.guard.stay(now)
        return Decision(True, "better", plan_moves(now, Assignment(many()[1]), WHOLE, stay, cpu_limits=False))

    def once(self) -> None:
        """A look, or as many turns as a plan under way takes."""
        self._stop.clear()
        for _ in range(200):
            self._loop._once(self._stop)  # noqa: SLF001
            if self._stop.is_set():
                return


def change(nimbus: Nimbus, **modes: object) -> None:
    nimbus.desk.change_modes(ModesChange(by="anna", reason="a try", **modes))  # type: ignore[arg-type]


def test_by_default_it_only_observes(nimbus: Nimbus) -> None:
    service = Service(nimbus)
    service.once()
    assert (service.acted, nimbus.plans.rows()) == ([], [])


def test_auto_moves_and_not_while_frozen_or_outside_of_its_windows(nimbus: Nimbus) -> None:
    service = Service(nimbus)
    change(nimbus, default="auto")
    service.once()
    assert len(service.acted) == 1
    change(nimbus, default="auto", frozen="month end")
    service.once()
    another = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[(datetime.now(UTC).weekday() + 3) % 7]
    change(nimbus, default="auto", windows=(f"{another} 00:00-24:00",))
    service.once()
    assert len(service.acted) == 1


def test_what_is_suggested_waits_for_a_person_and_is_not_suggested_twice(nimbus: Nimbus) -> None:
    service = Service(nimbus)
    change(nimbus, default="suggest", topologies={"t5": "observe"})
    service.once()
    service.once()
    (plan,) = nimbus.plans.rows()
    assert (plan.state, plan.who, plan.reason) == ("proposed", "stormwright", "better")
    moving = {move["name"] for step in nimbus.plans.steps(plan.id) for move in step.told["moves"]}
    assert "t5" not in moving
    nimbus.desk.apply(plan.id, ANNA)
    service.once()
    assert nimbus.desk.plan(plan.id).state == "done"
    assert service.acted == []


def test_a_decision_about_several_is_made_as_the_most_careful_of_them_says(nimbus: Nimbus) -> None:
    service = Service(nimbus)
    change(nimbus, default="auto", topologies={"t0": "suggest"})
    service.once()
    assert service.acted == []
    assert len(nimbus.plans.rows(["proposed"])) == 1


@pytest.mark.parametrize(("told", "kept"), [(None, "auto"), ("suggest", "suggest")])
def test_what_serve_is_told_goes_before_what_was_kept(nimbus: Nimbus, told: Mode | None, kept: Mode) -> None:
    change(nimbus, default="auto")
    assert Guard(nimbus.state, nimbus.plans, nimbus.ledger, told).modes == Modes(default=kept)


def test_a_state_of_a_later_version_or_one_that_is_damaged_is_not_touched(tmp_path: Path) -> None:
    state = State(tmp_path / FILE)
    with state.change() as to:
        to.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    state.close()
    with pytest.raises(StormwrightError, match="was written by a later version of stormwright"):
        State(tmp_path / FILE)
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"no database" * 100)
    with pytest.raises(StormwrightError, match="cannot be used"):
        State(damaged)
    assert damaged.read_bytes() == b"no database" * 100


def test_a_transaction_that_fails_leaves_nothing(tmp_path: Path) -> None:
    state = State(tmp_path / FILE)

    def fail() -> None:
        with state.change() as to:
            to.execute("INSERT INTO modes VALUES (1, '{}')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert state.read("SELECT * FROM modes") == []
    state.close()
    assert State(tmp_path / FILE).read("PRAGMA journal_mode")[0][0] == "wal"
