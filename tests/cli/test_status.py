"""``stormwright status``: what the first page says, of a running service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stormwright.cli.plans import next_commands
from stormwright.client import Client
from stormwright.client.shapes import Concern, Overview
from stormwright.errors import NotFoundError
from stormwright.plans.plan import PlanSummary
from tests.service.dashboard.sites import SERVED
from tests.service.http.test_api import HOST, nimbus, port, running  # noqa: F401 (fixtures)
from tests.service.plans.nimbus import Nimbus


@pytest.mark.long
def test_status_reports_findings_pending_plans_and_recent_actions(
    run,
    nimbus: Nimbus,  # noqa: F811
    port: int,  # noqa: F811
    running: None,  # noqa: F811
) -> None:
    where = ("--service", f"http://{HOST}:{port}")
    code, out, err = run("status", *where)
    assert (code, err) == (1, ""), "an alarm is up"
    assert "found" in out.splitlines()[0]
    assert "Overload alarm on node" in out
    assert f"http://{HOST}:{port}, mode observe, scheduler {SERVED.scheduler}; last call from Nimbus 4 s ago" in out
    assert "waits for approval: nothing" in out
    assert "last change: none" in out
    less = ("--goal", "traffic", "--gain", 0, "--reason", "less traffic", "--by", "anna", "--json")
    plan = json.loads(run("plan", *where, *less)[1])
    assert f"next: stormwright apply {plan['id']}" in run("status", *where)[1]
    run("apply", plan["id"], *where, "--reason", "as agreed", "--by", "anna")
    out = run("status", *where)[1]
    assert f"last change: entry 1, plan {plan['id']}, by anna, " in out
    assert "waits for approval: nothing" in out
    answer = json.loads(run("status", *where, "--json")[1])
    assert (answer["changes"][0]["plan"], answer["healthy"], answer["pending"]) == (plan["id"], False, [])
    assert (answer["executors"], answer["nodes"]) == (
        nimbus.look().num_executors,
        len(nimbus.look().supervisors),
    )
    run("mode", *where, "--freeze", "month end")
    assert "mode observe, frozen" in run("status", *where)[1]


def test_status_exit_code_reports_health(run, monkeypatch) -> None:
    well = Overview(service="stormwright 1", healthy=True, verdict="Healthy", findings=(), load_age_s=-0.0004)
    monkeypatch.setattr(Client, "overview", lambda _: well)
    code, out, _ = run("status")
    assert (code, out.splitlines()[0]) == (0, "Healthy")
    assert "load measured 0 s ago" in out
    monkeypatch.setattr(Client, "overview", lambda _: well.model_copy(update={"healthy": False}))
    assert run("status")[0] == 1


def test_status_reports_unreachable_or_outdated_service(run, tmp_path: Path, monkeypatch) -> None:
    code, out, err = run("status", "--service", "http://127.0.0.1:1")
    assert (code, out) == (2, "")
    assert "no service answers there" in err
    assert "--token-file" in run("status", "--token-file", tmp_path / "none")[2]

    def old(_: Client, *__: object) -> Overview:
        raise NotFoundError("Not Found")

    monkeypatch.setattr(Client, "_ask", old)
    code, _, err = run("status", "--service", "http://127.0.0.1:1")
    assert (code, "http://127.0.0.1:1 has no overview: it is an older version" in err) == (2, True)


def summary(**changes: object) -> PlanSummary:
    made = {"id": "ab12", "state": "proposed", "why": "", "origin": "service", "goal": "nodes", "by": "stormwright"}
    numbers = {"created_ms": 0, "age_s": 600.0, "topologies": 134, "step_count": 138, "stages": 3}
    return PlanSummary(**made | {"reason": "fewer nodes", "gain": "nodes 200 → 75"} | numbers | changes)


def printed(run, monkeypatch, **changes: object) -> list[str]:
    well = Overview(service="stormwright 1", healthy=False, verdict="1 problem found", findings=())
    monkeypatch.setattr(Client, "overview", lambda _: well.model_copy(update=changes))
    out = run("status")[1]
    lines: list[str] = out.splitlines()
    assert len(lines) <= 15
    assert max(map(len, lines)) <= 200
    return lines


def test_commands_of_a_stopped_plan_are_listed_safest_first(run, monkeypatch) -> None:
    why = "clicks-3 does not drain, " * 20
    for state in ("stopped", "waiting"):
        plan = summary(state=state, why=why, decision=7)
        found = Concern(level="warn", text=f"Plan ab12 is {state} and needs a person: {why}", page="/plans/ab12")
        others = [Concern(level="note", text=f"note {n}", page="/") for n in range(5)]
        lines = printed(run, monkeypatch, active=(plan,), findings=(found, *others))
        assert lines[1].startswith(f"warning: Plan ab12 is {state}")
        assert sum("does not drain" in line for line in lines) == 1, "said once"
        commands = [line.split(": ")[1].split("  (")[0] for line in lines if line.startswith(("next: ", "or: "))]
        assert commands == [
            "stormwright apply ab12 --resume",
            "stormwright revert 7",
            "stormwright plan --discard ab12",
        ]
        assert [command for command, _ in next_commands(plan)] == commands


def test_proposals_overtaken_by_changes_do_not_wait_for_approval(run, monkeypatch) -> None:
    lines = printed(run, monkeypatch, pending=(summary(),))
    assert any(line.startswith("waits for approval: plan ab12") for line in lines)
    assert any("stormwright apply ab12" in line for line in lines)
    lines = printed(run, monkeypatch, pending=(summary(outdated="node n3 is gone"),))
    assert not any("apply ab12" in line for line in lines)
    assert any("ab12" in line and "make a new plan" in line for line in lines)


def test_a_reason_is_printed_once(run, monkeypatch) -> None:
    why = "135 topologies are being measured, about 22 s to go"
    finding = Concern(level="note", text=f"Nothing moves (unmeasured): {why}", page="/timeline")
    lines = printed(run, monkeypatch, findings=(finding,), decision=why, waits=(why,))
    assert sum(why in line for line in lines) == 1
