"""``stormwright apply`` over answers of a service: how long it follows a plan."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from stormwright.cli import apply
from stormwright.client.client import Client
from stormwright.plans.plan import Plan
from stormwright.plans.states import PlanState

HALTED = ("planned", "proposed", "waiting", "stopped", "done", "rolled_back", "failed", "discarded")


def plan_in(state: PlanState) -> Plan:
    return Plan(
        id="7", state=state, why="", origin="person", goal="traffic", by="anna", reason="", created_ms=0, age_s=0.0
    )


@pytest.mark.parametrize("state", [state for state in get_args(PlanState) if state not in HALTED])
def test_apply_follows_a_plan_through_every_state_in_progress(run, monkeypatch, state) -> None:
    answers = [plan_in(state), plan_in(state), plan_in("done")]
    monkeypatch.setattr(apply, "POLL_S", 0.0)
    monkeypatch.setattr(Client, "apply", lambda *_: None)
    monkeypatch.setattr(Client, "show", lambda *_: answers.pop(0))
    code, out, _ = run("apply", "7", "--service", "http://127.0.0.1:1", "--json")
    assert (code, json.loads(out)["state"], answers) == (0, "done", [])


@pytest.mark.parametrize("state", [state for state in HALTED if state != "done"])
def test_apply_exits_with_1_for_a_plan_that_halts_before_done(run, monkeypatch, state) -> None:
    monkeypatch.setattr(Client, "apply", lambda *_: None)
    monkeypatch.setattr(Client, "show", lambda *_: plan_in(state))
    code, out, _ = run("apply", "7", "--service", "http://127.0.0.1:1", "--json")
    assert (code, json.loads(out)["state"]) == (1, state)
