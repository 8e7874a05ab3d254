"""What becomes of the service's own decisions under each mode."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stormwright.client.shapes import ModesChange, PlanRequest
from stormwright.controller.planning.order import UNLIMITED
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.propose import plan_of
from stormwright.controller.requests import NoPlan
from stormwright.errors import ConflictError, InputError, NotFoundError, StormwrightError
from stormwright.model import Assignment, Problem
from stormwright.plans.modes import Mode
from stormwright.plans.plan import Plan
from stormwright.service.loop import Loop
from stormwright.service.plans.guard import Guard
from stormwright.service.plans.plan_queue import MAX_WAITING
from stormwright.service.plans.plan_service import PlanMakers
from stormwright.service.plans.store import PROPOSED_S, PlanExpiry
from stormwright.service.storage.database import FILE, MIGRATIONS, State
from tests.service.plans.nimbus import ANNA, Nimbus, settled
from tests.service.plans.test_applying import many


@pytest.fixture
def nimbus(tmp_path: Path) -> Iterator[Nimbus]:
    made = Nimbus(tmp_path, many()[0])
    yield made
    made.end()


class Service:
    """The loop of a service whose scheduler always wants the same placement."""

    def __init__(self, nimbus: Nimbus) -> None:
        self._nimbus, self.acted = nimbus, list[Plan]()
        #: What happens between a look and what is made of it.
        self.meanwhile: Callable[[], None] = lambda: None
        self._stop = threading.Event()
        expiry = PlanExpiry(nimbus.plans, nimbus.journal, 90)
        decider = SimpleNamespace(decide=self._decide)
        execute = lambda decision, _: self.acted.append(decision)  # noqa: E731
        executor = SimpleNamespace(advance=nimbus.executor.advance, execute=execute)
        suggest = nimbus.plan_service.suggest
        self._loop = Loop(cast(Any, decider), nimbus.guard, suggest, cast(Any, executor), [expiry.expire])

    def _decide(self) -> Plan | NoPlan:
        self._stop.set()
        now = self._nimbus.look()
        assert now is not None
        stay = self._nimbus.guard.stay(now)
        self.meanwhile()
        order = plan_moves(now, Assignment(many()[1]), UNLIMITED, stay, cpu_limits=False)
        if not order.steps:
            return NoPlan("nothing_to_do", "it is there")
        return plan_of(now, order).model_copy(update={"reason": "better"})

    def once(self) -> None:
        """A look, or as many turns as a plan under way takes."""
        self._stop.clear()
        for _ in range(200):
            self._loop._advance(self._stop)  # noqa: SLF001
            if self._stop.is_set():
                return


def change(nimbus: Nimbus, **modes: object) -> None:
    nimbus.plan_service.change_modes(ModesChange(by="anna", reason="a try", **modes))  # type: ignore[arg-type]


def test_default_mode_only_observes(nimbus: Nimbus) -> None:
    service = Service(nimbus)
    service.once()
    assert (service.acted, nimbus.plans.summaries()) == ([], [])


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


@pytest.mark.long
def test_suggestion_waits_for_approval_and_is_not_repeated(nimbus: Nimbus) -> None:
    service = Service(nimbus)
    change(nimbus, default="suggest", topologies={"t5": "observe"})
    service.once()
    service.once()
    (plan,) = nimbus.plans.summaries()
    assert (plan.state, plan.by, plan.reason) == ("proposed", "stormwright", "better")
    moving = {move.name for step in nimbus.plans.plan(plan.id).steps for move in step.moves}
    assert "t5" not in moving
    nimbus.plan_service.apply(plan.id, ANNA)
    service.once()
    assert nimbus.plan_service.plan(plan.id).state == "done"
    assert service.acted == []


def test_decision_on_topology_killed_meanwhile_is_not_suggested(nimbus: Nimbus) -> None:
    service = Service(nimbus)
    change(nimbus, default="suggest")
    service.meanwhile = lambda: nimbus.kill("t3-1-0")
    service.once()
    assert nimbus.plans.summaries() == []


def test_decision_on_several_topologies_uses_most_cautious_mode(nimbus: Nimbus) -> None:
    service = Service(nimbus)
    change(nimbus, default="auto", topologies={"t0": "suggest"})
    service.once()
    assert service.acted == []
    assert len(nimbus.plans.summaries(["proposed"])) == 1


@pytest.mark.parametrize(("option", "expected"), [(None, "auto"), ("suggest", "suggest")])
def test_mode_option_of_serve_overrides_stored_mode(nimbus: Nimbus, option: Mode | None, expected: Mode) -> None:
    change(nimbus, default="auto")
    assert Guard(nimbus.state, nimbus.plans, nimbus.journal, option).modes.default == expected


def test_newer_or_damaged_state_file_is_left_untouched(tmp_path: Path) -> None:
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


def test_failed_transaction_leaves_no_changes(tmp_path: Path) -> None:
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


@pytest.mark.long
def test_expired_proposal_is_replaced(nimbus: Nimbus, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(nimbus)
    change(nimbus, default="suggest")
    service.once()
    (first,) = nimbus.plans.proposed()
    an_hour_later = time.time() + PROPOSED_S + 1
    monkeypatch.setattr(time, "time", lambda: an_hour_later)
    service.once()
    assert nimbus.plan_service.plan(first).why == "not applied within an hour"
    assert len(nimbus.plans.proposed()) == 1


@pytest.mark.long
def test_plans_and_history_are_retained_for_90_days(nimbus: Nimbus, monkeypatch: pytest.MonkeyPatch) -> None:
    change(nimbus, default="suggest")
    done, halted = (nimbus.propose(many()[1]) for _ in range(2))
    nimbus.plan_service.apply(done, ANNA)
    nimbus.run()
    n = nimbus.plan_service.plan(done).decision
    begun = nimbus.journal.add_entry("plan", "anna", "a try", plan=halted)
    nimbus.plans.begin(halted, begun, "anna")
    nimbus.plans.transition(halted, "stopped")
    now = time.time()
    for days in (89, 91):
        monkeypatch.setattr(time, "time", lambda days=days: now + days * 86_400)
        PlanExpiry(nimbus.plans, nimbus.journal, 90).expire()
        numbers = {entry.n for entry in nimbus.plan_service.history().entries}
        assert ({n, begun} <= numbers) == (days == 89)
    assert [row.id for row in nimbus.plans.summaries()] == [halted]
    assert numbers == {begun}
    with pytest.raises(NotFoundError):
        nimbus.plans.plan(done)
    assert nimbus.journal.before_entry(n or 0).placements == {}


class Slow:
    """Takes until `go`, and moves nothing."""

    def __init__(self) -> None:
        self.calls, self.go = 0, threading.Event()

    def schedule(self, of: Problem) -> Assignment:
        self.calls += 1
        self.go.wait(10)
        return Assignment(of.current_slot)


@pytest.fixture
def slow(nimbus: Nimbus) -> Slow:
    made = Slow()
    nimbus.plan_service._makers = PlanMakers("traffic", lambda _: made, made)  # noqa: SLF001
    return made


@pytest.mark.long
def test_number_of_queued_plan_requests_is_limited(nimbus: Nimbus, slow: Slow) -> None:
    requested = [nimbus.plan_service.request(PlanRequest(by="anna", reason="a try")).id for _ in range(MAX_WAITING)]
    with pytest.raises(ConflictError, match="20 plans wait to be made"):
        nimbus.plan_service.request(PlanRequest(by="anna", reason="one more"))
    slow.go.set()
    settled(nimbus, requested[-1])
    assert nimbus.plan_service.request(PlanRequest(by="anna", reason="one more")).state == "planning"


def test_request_for_an_unknown_topology_is_refused_at_once(nimbus: Nimbus) -> None:
    """Each mistyped name left a failed plan in all lists."""
    for wrong in ({"topologies": ("nosuch",)}, {"nodes": ("nosuch",)}):
        with pytest.raises(InputError, match="nosuch"):
            nimbus.plan_service.request(PlanRequest(by="anna", reason="a try", **wrong))
    assert nimbus.plan_service.plans().plans == ()


def test_discarded_plan_request_is_not_computed(nimbus: Nimbus, slow: Slow) -> None:
    requested = [nimbus.plan_service.request(PlanRequest(by="anna", reason="a try")).id for _ in range(2)]
    nimbus.plan_service.discard(requested[1], ANNA)
    slow.go.set()
    settled(nimbus, requested[0])
    after = threading.Event()
    nimbus.plan_service._queue.submit(after.set)  # noqa: SLF001
    assert after.wait(10)
    assert slow.calls == 1
    assert nimbus.plan_service.plan(requested[1]).state == "discarded"


def test_anomaly_response_check_limits_decisions_to_suggestions(nimbus: Nimbus) -> None:
    change(nimbus, default="auto", responses={"overload": "check"})
    plan = plan_of(nimbus.now(), plan_moves(nimbus.now(), Assignment(many()[1]), UNLIMITED, cpu_limits=False))
    for because, mode in (("overload", "suggest"), ("drift", "auto"), ("", "auto")):
        assert nimbus.guard.verdict(plan.model_copy(update={"because": because}))[0] == mode
    change(nimbus, default="observe", responses={"overload": "check"})
    assert nimbus.guard.verdict(plan.model_copy(update={"because": "overload"}))[0] == "observe"


def test_expired_freeze_allows_moves(nimbus: Nimbus, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    change(nimbus, default="auto", frozen="month end", frozen_until_ms=round(1000 * now) + 60_000)
    service = Service(nimbus)
    service.once()
    assert service.acted == []
    monkeypatch.setattr(time, "time", lambda: now + 61)
    assert nimbus.guard.modes.frozen == ""
    service.once()
    assert len(service.acted) == 1
