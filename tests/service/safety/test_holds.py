"""Nothing moves, on any request, while much of the cluster is missing or another program moves things."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stormwright.errors import ConflictError
from stormwright.model import WorkerSlot
from stormwright.service.plans.outcomes import MoveOutcomes
from stormwright.service.safety.holds import Holds
from tests.service.plans.nimbus import ANNA, Nimbus
from tests.service.plans.test_applying import many
from tests.service.plans.test_dealing import Service, change
from tests.service.virtual import AllOn, Deciding, Place, VirtualStorm


@pytest.fixture
def nimbus(tmp_path: Path) -> Iterator[Nimbus]:
    made = Nimbus(tmp_path, many()[0])
    yield made
    made.end()


def test_missing_nodes_or_foreign_rebalance_prevent_moves(nimbus: Nimbus) -> None:
    service = Service(nimbus)
    change(nimbus, default="auto")
    nimbus.rebalanced = ["t3"]
    service.once()
    assert service.acted == []
    assert nimbus.guard.holds.last is not None
    assert nimbus.guard.holds.last.code == "rebalancing"
    assert nimbus.guard.holds.last.why == "another client rebalances t3: no moves until it ends"
    nimbus.rebalanced = []
    service.once()
    assert len(service.acted) == 1


@pytest.mark.long
def test_hold_blocks_new_plans_and_pauses_running_ones(nimbus: Nimbus) -> None:
    plan = nimbus.propose(many()[1])
    nimbus.rebalanced = ["t0"]
    with pytest.raises(ConflictError, match="another client rebalances t0"):
        nimbus.plan_service.apply(plan, ANNA)
    nimbus.rebalanced = []
    nimbus.plan_service.apply(plan, ANNA)
    before = nimbus.where()
    nimbus.rebalanced = ["t0"]
    for _ in range(20):
        assert nimbus.executor.advance()
    assert nimbus.where() == before
    assert nimbus.plan_service.plan(plan).state == "applying"
    nimbus.rebalanced = []
    nimbus.run()
    assert nimbus.plan_service.plan(plan).state == "done"


def test_known_number_of_nodes_survives_restart(nimbus: Nimbus) -> None:
    whole = nimbus.now()
    assert nimbus.guard.holds.look(whole) is None
    again = Holds(nimbus.state, nimbus.guard.drains)
    half = replace(whole, supervisors=whole.supervisors[: len(whole.supervisors) // 2], current={})
    hold = again.look(half)
    assert hold is not None
    assert hold.code == "missing"
    gone = whole.supervisors[-1]
    assert f"{gone.host})" in hold.why, "by the name that it had"
    assert again.names.of_slot(WorkerSlot(gone.id, 6700)) == f"{gone.host}:6700"
    assert again.look(whole) is None


@pytest.mark.long
def test_skipped_look_reports_its_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    storm = VirtualStorm(monkeypatch, lambda _: Place(1000.0, 20.0))
    service = Deciding(storm, tmp_path, AllOn(2))
    view = service.decider._view  # noqa: SLF001
    try:
        service.run(2)
        assert service.memory.hold is not None
        assert service.memory.hold.code == "unmeasured"
        service.moved(300)
        assert service.memory.hold is None
        whole = view.problem
        monkeypatch.setattr(view, "problem", lambda: replace(whole(), supervisors=whole().supervisors[2:]))
        service.run(1)
        assert service.memory.hold is not None
        assert service.memory.hold.code == "missing"
        monkeypatch.setattr(view, "problem", whole)
        monkeypatch.setattr(view, "age_s", lambda: 61.0)
        service.run(1)
        assert (service.memory.hold.code, service.memory.hold.why) == (
            "silent",
            "Nimbus last called 61 s ago: is it running?",
        )
    finally:
        service.end()


def test_hold_reason_is_available_to_plan_execution(nimbus: Nimbus) -> None:
    watched = MoveOutcomes(*[None] * 5, nimbus.guard)  # type: ignore[arg-type]
    assert watched.held() == ""
    nimbus.rebalanced = ["t0"]
    assert watched.held().startswith("another client rebalances t0")
