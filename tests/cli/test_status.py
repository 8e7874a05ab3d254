"""``stormwright status``: what the first page says, of a running service."""

from __future__ import annotations

import json
from pathlib import Path

from stormwright.client import Client
from stormwright.client.shapes import Overview
from stormwright.errors import NotFoundError
from tests.service.dashboard.sites import SERVED
from tests.service.http.test_api import HOST, nimbus, port, running  # noqa: F401 (fixtures)
from tests.service.plans.nimbus import Nimbus


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
    assert f"; `stormwright apply {plan['id']}`" in run("status", *where)[1]
    run("apply", plan["id"], *where, "--reason", "as agreed", "--by", "anna")
    out = run("status", *where)[1]
    assert f"last change: entry 1, plan {plan['id']}, by anna, " in out
    assert "waits for approval: nothing" in out
    told = json.loads(run("status", *where, "--json")[1])
    assert (told["changes"][0]["plan"], told["healthy"], told["pending"]) == (plan["id"], False, [])
    assert (told["executors"], told["nodes"]) == (
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
