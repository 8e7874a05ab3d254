"""Moves of a forbidden kind are neither planned nor applied, by people or by the service."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stormwright.client.shapes import ModesChange, PlanRequest
from stormwright.errors import ConflictError
from stormwright.model import Topology, WorkerSlot
from stormwright.plans.modes import KindRule
from stormwright.plans.plan import Plan
from tests.controller.builders import on, problem, topology
from tests.service.plans.nimbus import ANNA, Nimbus, settled


def windowed() -> Topology:
    """A topology with windows of 10 tuples in each of its 3 bolts: they end with new tuples only."""
    plain = topology("t")
    spout, bolt = plain.components
    return replace(plain, components=(spout, replace(bolt, conf={"topology.bolts.window.length.count": 10})))


@pytest.fixture
def nimbus(tmp_path: Path) -> Iterator[Nimbus]:
    start = problem([windowed()], current={"t-1-0": on("n0", "n1")})
    made = Nimbus(tmp_path, start)
    made.wants = np.full(4, start.slot_index[WorkerSlot("n0", 6700)], np.int32)
    yield made
    made.end()


def request(nimbus: Nimbus, **more: object) -> Plan:
    made = nimbus.plan_service.request(PlanRequest(by="anna", reason="a try", **more))  # type: ignore[arg-type]
    return settled(nimbus, made.id)


def set_rule(nimbus: Nimbus, *forbid: str, **more: float) -> None:
    rule = KindRule(forbid=forbid, **more)  # type: ignore[arg-type]
    nimbus.plan_service.change_modes(ModesChange(by="anna", reason="a rule", kinds={"t": rule}))


def test_replay_is_forbidden_by_default_and_the_plan_says_so(nimbus: Nimbus) -> None:
    plan = request(nimbus)
    assert plan.step_count == 0
    assert "--allow replay" in plan.blocked["t"]


def test_allowed_plan_has_kind_prediction_and_pause(nimbus: Nimbus) -> None:
    plan = request(nimbus, allow=("replay",))
    (moved,) = plan.predictions
    assert moved.kind is not None
    assert (moved.kind.kind, moved.kind.wait_s, moved.kind.replayed, moved.kind.lost) == ("window", None, 33, 0)
    assert moved.kind.reason
    assert moved.pause_s.value
    nimbus.plan_service.apply(plan.id, ANNA)
    nimbus.run()
    assert nimbus.plan_service.plan(plan.id).state == "done"


def test_mode_forbids_kind_whatever_the_request_allows(nimbus: Nimbus) -> None:
    set_rule(nimbus, "window")
    plan = request(nimbus, allow=("window", "replay"))
    assert plan.step_count == 0
    assert "forbidden by its mode" in plan.blocked["t"]


def test_plan_is_not_applied_once_a_mode_forbids_its_kind(nimbus: Nimbus) -> None:
    set_rule(nimbus)
    plan = request(nimbus)
    assert plan.step_count
    set_rule(nimbus, "replay")
    with pytest.raises(ConflictError, match="forbidden by its mode"):
        nimbus.plan_service.apply(plan.id, ANNA)


def test_move_by_permission_of_a_request_can_be_reverted(nimbus: Nimbus) -> None:
    plan = request(nimbus, allow=("replay",))
    nimbus.plan_service.apply(plan.id, ANNA)
    nimbus.run()
    entry = nimbus.plan_service.history().entries[0].n
    back = settled(nimbus, nimbus.plan_service.revert(entry, ANNA).id)
    while back.state == "planned":  # it starts automatically once it is made
        back = nimbus.plan_service.plan(back.id)
    nimbus.run()
    assert nimbus.plan_service.plan(back.id).state == "done"


def test_automatic_decisions_leave_forbidden_kinds_alone(nimbus: Nimbus) -> None:
    assert "t-1-0" in nimbus.guard.stay(nimbus.now())
    set_rule(nimbus, "never")
    assert nimbus.guard.stay(nimbus.now()).keys() == set()


def test_rules_survive_a_restart_and_decide_how_a_topology_is_drained(nimbus: Nimbus) -> None:
    assert nimbus.guard.drain_policy(windowed()).at_once
    set_rule(nimbus, "never", max_wait_s=300.0)
    nimbus.again()
    assert nimbus.guard.modes.kinds == {"t": KindRule(forbid=("never",), max_wait_s=300.0)}
    assert "kinds" in nimbus.plan_service.history().entries[0].text


def test_explanation_has_the_kind(nimbus: Nimbus) -> None:
    assert nimbus.plan_service.explain("t", 0).kinds["t-1-0"].kind == "window"
