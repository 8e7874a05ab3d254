"""``stormwright plan``, ``apply``, ``revert``, ``mode`` and ``history``: of a file, and beside a service."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stormwright import place as place_with
from stormwright import sketch
from stormwright.base.clock import WallClock
from stormwright.cli.plans import verdict
from stormwright.client import Client
from stormwright.errors import ConflictError
from stormwright.formats import write_problem
from stormwright.model import LoadProfile
from stormwright.model.constraints.heaps import WORKER_BASE_MB
from stormwright.model.humanize import in_utc
from stormwright.model.load import assumed_load
from stormwright.plans.plan import PlanSummary
from tests.controller.builders import on, place, problem, topology
from tests.service.http.test_api import HOST, nimbus, port, running  # noqa: F401 (fixtures)
from tests.service.plans.nimbus import Nimbus

A, B = topology("a"), topology("b")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    current = {A.id: on("n0", "n1"), B.id: place([("n0", 6701), ("n2", 6700)], [0, 1, 0, 1])}
    load = LoadProfile({each.id: assumed_load(each, 3e9) for each in (A, B)}, start_ms=0, end_ms=1000)
    path = tmp_path / "problem.json"
    write_problem(path, problem([A, B], nodes=4, slots=3, current=current, load=load))
    return path


@pytest.mark.long
def test_plan_of_file_reports_moves_and_expected_gains(run, file):
    code, out, _ = run("plan", file, "--goal", "traffic", "--steps")
    assert code == 0
    assert out.splitlines()[1].startswith("Moves 2 topologies in 2 steps and 2 stages; traffic between nodes falls ")
    labels = ("reachable throughput, trees/s", "latency", "score, 0 to 100", "limit: ", ": modelled", "pauses: a, b")
    for label in labels:
        assert label in out
    code, out, _ = run("plan", file, "--goal", "traffic", "--json")
    plan = json.loads(out)
    assert (code, plan["topologies"]) == (0, 2)
    assert plan["score_after"] > plan["score_before"]
    assert plan["after"]["traffic_tps"] == 0
    assert plan["after"]["reachable_tps"]["low"] <= plan["after"]["reachable_tps"]["value"]


@pytest.mark.long
def test_plan_of_file_lists_heaps_that_change(run, tmp_path):
    load = replace(assumed_load(A, 3e9), live_heap_mb=np.full(4, 20.0))
    profile = LoadProfile({A.id: load}, start_ms=0, end_ms=1000)
    now = place([("n0", 6700), ("n1", 6700)], [0, 1, 0, 1])
    write_problem(tmp_path / "small.json", problem([A], current={A.id: now}, load=profile))
    _, out, _ = run("plan", tmp_path / "small.json", "--goal", "traffic", "--steps")
    assert re.search(r"a: heap of host\d:670\d 256 → \d+ MB, used \d+\n", out), out
    _, out, _ = run("plan", tmp_path / "small.json", "--goal", "traffic", "--json")
    (moved,) = json.loads(out)["predictions"]
    for each in moved["heaps"]:
        executors = each["after_mb"] / 128
        assert (each["before_mb"], each["used_mb"], each["too_small"]) == (256, WORKER_BASE_MB + 20 * executors, False)
    assert moved["heaps"]


@pytest.mark.long
def test_large_figures_are_printed_in_full(run, tmp_path):
    words = sketch("lines 2 -> split 4 -> count 4 fields")
    write_problem(tmp_path / "words.json", words.with_current(place_with(words, "even").by_topology(words)))
    _, out, _ = run("plan", tmp_path / "words.json")
    figure = next(line for line in out.splitlines() if line.startswith("reachable throughput, trees/s"))
    assert re.search(r" \d{1,3}(,\d{3})+ \(\d{1,3}(,\d{3})+ to \d{1,3}(,\d{3})+\)", figure), figure


@pytest.mark.long
def test_exit_codes_as_terraform_has_them(run, file, tmp_path):
    assert run("plan", file, "--goal", "traffic", "--detailed-exitcode")[0] == 2
    assert run("plan", file, "--only", "overloaded", "--detailed-exitcode")[0] == 0
    code, _, err = run("plan", tmp_path / "none.json", "--detailed-exitcode")
    assert (code, "No such file" in err) == (1, True)
    assert run("plan", tmp_path / "none.json")[0] == 2
    assert run("plan", file, "--goal", "luck", "--detailed-exitcode")[0] == 1, "2 would say that there are changes"
    assert run("plan", "--nope", "--detailed-exitcode")[0] == 1
    assert run("plan", "--nope")[0] == 2


def test_topology_and_node_patterns_select_moves(run, file):
    _, out, _ = run("plan", file, "--goal", "traffic", "--topology", "a*", "--json")
    assert [each["name"] for each in json.loads(out)["predictions"]] == ["a"]
    _, out, _ = run("plan", file, "--goal", "traffic", "--node", "host2", "--json")
    assert [each["name"] for each in json.loads(out)["predictions"]] == ["b"]


def test_unmatched_patterns_are_rejected(run, file):
    code, _, err = run("plan", file, "--topology", "nope-*", "--topology", "a", "--node", "none")
    assert code == 2
    assert "nope-*: fits no topology; known: a, b" in err
    assert "none: fits no node; known: host0, host1, host2, …" in err


def test_planning_options_are_rejected_without_planning(run, file):
    code, _, err = run("plan", "--show", "x", "--discard", "y", "--goal", "latency")
    assert code == 2
    assert "--discard: has no effect: --show makes no plan" in err
    assert "--goal: has no effect: --show makes no plan" in err
    assert "--gain: has no effect: --only looks for" in run("plan", file, "--only", "overloaded", "--gain", 5)[2]


def test_options_without_effect_are_refused(run, file):
    code, _, err = run("plan", file, "--list", "--by", "anna")
    assert code == 2
    assert "--list: has no effect: a plan of a FILE is not stored" in err
    assert "--by: has no effect" in err
    assert "--scheduler: has no effect: a running service decides" in run("plan", "--scheduler", "even")[2]


@pytest.mark.long
def test_plan_and_apply_work_against_running_service(run, nimbus: Nimbus, port: int, running: None) -> None:  # noqa: F811
    before = nimbus.where()
    where = ("--service", f"http://{HOST}:{port}", "--by", "anna")
    code, out, _ = run("plan", *where, "--goal", "traffic", "--gain", 0, "--reason", "less traffic", "--json")
    assert code == 0
    plan = json.loads(out)["id"]
    assert "less traffic" in run("plan", *where, "--list")[1]
    assert f"next: stormwright apply {plan}" in run("plan", *where, "--show", plan)[1]
    code, out, err = run("apply", plan, *where, "--reason", "as agreed")
    assert (code, err) == (0, "")
    assert "done: step" in out
    assert "next: stormwright revert 1" in out
    assert nimbus.where() != before
    code, out, _ = run("history", *where)
    assert (code, "less traffic" in out, "anna" in out) == (0, True, True)
    code, out, err = run("revert", 1, *where)
    assert (code, err) == (0, "")
    assert nimbus.is_back(before)
    assert run("revert", 1, *where)[1].splitlines()[-1] == "done: nothing was to move"
    assert "there is no plan ''" in run("plan", "--show", "", *where)[2]
    code, _, err = run("apply", plan, *where)
    assert code == 2
    assert f"plan {plan} is done: only one that is planned or proposed is applied" in err


@pytest.mark.long
def test_waiting_message_is_printed_once_while_plan_is_made(run, port: int, monkeypatch) -> None:  # noqa: F811
    where, looks = ("--service", f"http://{HOST}:{port}"), iter(["planning", "planning"])
    show = Client.show

    def slowly(client: Client, plan: str):
        found = show(client, plan)
        return found.model_copy(update={"state": next(looks, found.state)})

    monkeypatch.setattr(Client, "show", slowly)
    code, _, err = run("plan", *where, "--goal", "traffic", "--gain", 0)
    assert (code, err.count("is being made …; `stormwright plan --show ")) == (0, 1)


def test_mode_command_shows_and_changes_modes(run, port: int) -> None:  # noqa: F811
    where = ("--service", f"http://{HOST}:{port}")
    assert run("mode", *where)[1] == "mode observe\n"
    code, out, _ = run("mode", "suggest", *where, "--topology", "pay-*=observe", "--window", "22:00-04:00")
    *lines, warning = out.splitlines()
    assert (code, lines) == (0, ["mode suggest", "pay-*: observe", "moves automatically in 22:00-04:00 (UTC)"])
    assert warning.startswith("warning: pay-* matches no running topology, so its mode has no effect yet; ")
    assert [f"warning: {each}" for each in json.loads(run("mode", *where, "--json")[1])["warnings"]] == [warning]
    assert "frozen: month end" in run("mode", *where, "--freeze", "month end")[1]
    assert run("mode", *where, "--unfreeze", "--any-time", "--topology", "pay-*=default")[1] == "mode suggest\n"
    until = ("--freeze", "month end", "--until", "2999-12-31T06:00")
    assert run("mode", *where, *until)[1] == "mode suggest; frozen until 2999-12-31 06:00:00 UTC: month end\n"
    assert "frozen until" in run("mode", *where, "--freeze", "month end", "--until", "8h")[1]
    assert run("mode", *where, "--freeze", "for good")[1] == "mode suggest; frozen: for good\n"
    run("mode", *where, "--unfreeze")
    assert "--until: is in the past: 2020-01-01" in run("mode", *where, "--freeze", "x", "--until", "2020-01-01")[2]
    assert "--until: should be as in" in run("mode", *where, "--freeze", "x", "--until", "soon")[2]
    assert "--until: has no effect without --freeze" in run("mode", *where, "--until", "8h")[2]
    zone = run("mode", *where, "--window", "Mon-Fri 01:00-05:00", "--time-zone", "Europe/Berlin")[1]
    assert "moves automatically in Mon-Fri 01:00-05:00 (Europe/Berlin)" in zone
    wrong = run("mode", *where, "--time-zone", "Mars/Olympus", "--window", "whenever")[2]
    assert "--time-zone: should be a time zone" in wrong
    assert "--window: should be as in 22:00-04:00" in wrong
    assert "on slow-node: fix" in run("mode", *where, "--on", "slow-node=fix")[1]
    assert "should be KIND=RESPONSE, with KIND one of slow-node" in " ".join(
        run("mode", *where, "--on", "slow=fix")[2].split()
    )
    assert "--freeze: should say why" in run("mode", *where, "--freeze", " ")[2]
    assert "contradicts --unfreeze" in run("mode", *where, "--freeze", "x", "--unfreeze")[2]
    assert "contradicts --any-time" in run("mode", *where, "--window", "22:00-04:00", "--any-time")[2]
    assert "should be PATTERN=MODE" in run("mode", *where, "--topology", "x=lucky")[2]


def test_mode_command_forbids_and_allows_kinds_of_moves(run, port: int) -> None:  # noqa: F811
    where = ("--service", f"http://{HOST}:{port}")

    def rules(*options: object) -> dict[str, tuple[list[str], float]]:
        code, out, err = run("mode", *where, *options, "--json")
        assert code == 0, err
        return {pattern: (rule["forbid"], rule["max_wait_s"]) for pattern, rule in json.loads(out)["kinds"].items()}

    assert rules("--topology", "*", "--allow", "replay") == {"*": (["never"], 120)}
    both = rules("--topology", "pay-*", "--forbid", "window,drain", "--max-wait", 300)
    assert list(both.items()) == [("pay-*", (["drain", "window", "replay", "never"], 300)), ("*", (["never"], 120))]
    assert rules("--topology", "pay-*", "--allow", "drain")["pay-*"] == (["window", "replay", "never"], 300)
    assert "pay-*: forbids window, replay, never; waits at most 300 s for windows" in run("mode", *where)[1]
    assert rules("--topology", "pay-*", "--topology", "*", "--forbid", "default") == {}


def test_mode_command_refuses_unclear_kinds(run, port: int) -> None:  # noqa: F811
    where = ("--service", f"http://{HOST}:{port}")
    assert "--topology: names topologies" in run("mode", *where, "--forbid", "replay")[2]
    assert "should be PATTERN=MODE" in run("mode", *where, "--topology", "pay-*")[2]
    wrong = run("mode", *where, "--topology", "x", "--forbid", "replays", "--allow", "all")[2]
    assert "--forbid: should be some of drain, checkpoint" in " ".join(wrong.split())
    assert "got all" in wrong
    assert "contradicts --forbid" in run("mode", *where, "--topology", "x", "--forbid", "drain", "--allow", "drain")[2]


class Ahead(WallClock):
    """It stands still, an hour ahead of this machine's."""

    now_s = 0.0

    def time(self) -> float:
        return self.now_s


def test_freeze_ending_before_service_clock_is_rejected(
    run,
    port: int,  # noqa: F811
    nimbus: Nimbus,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where, clock = ("--service", f"http://{HOST}:{port}"), Ahead()
    clock.now_s = time.time() + 3600
    monkeypatch.setattr(nimbus.state, "clock", clock)
    code, _, err = run("mode", *where, "--freeze", "sale", "--until", "30m")
    assert code == 2
    assert f"is over already: by the clock of the service it is {in_utc(round(1000 * clock.now_s))}" in err
    assert "--until: " in err
    assert run("mode", *where)[1] == "mode observe\n"
    assert run("mode", *where, "--freeze", "sale", "--until", "90m")[0] == 0


def test_unreachable_service_is_reported(run) -> None:
    code, _, err = run("apply", "x", "--service", "http://127.0.0.1:1")
    assert code == 2
    assert "no service answers there (Connection refused): `stormwright serve` starts one, --service names " in err


@pytest.mark.slow
def test_a_node_is_drained_listed_and_uncordoned(run, port: int, monkeypatch) -> None:  # noqa: F811
    where = ("--service", f"http://127.0.0.1:{port}", "--by", "anna")
    assert run("drain", *where)[1] == "no node is drained\n"
    code, out, _ = run("drain", "host1", *where, "--only-cordon", "--reason", "new disks")
    assert (code, out.partition(";")[0].strip()) == (0, "host1 is cordoned")
    code, out, _ = run("drain", "host0", *where, "--plan-only", "--reason", "new disks")
    assert code == 0
    assert out.startswith("host0 is cordoned")
    listed = run("drain", *where)[1]
    assert all(text in listed for text in ("host0", "host1", "anna", "new disks"))
    assert {each["host"] for each in json.loads(run("drain", *where, "--json")[1])["drained"]} == {"host0", "host1"}
    assert run("uncordon", "n1", *where)[1] == "host1 is schedulable again\n"
    with monkeypatch.context() as patch:
        patch.setattr(
            Client,
            "wait_until_planned",
            lambda *_: (_ for _ in ()).throw(ConflictError("it could not be made: no room")),
        )
        code, out, err = run("drain", "host2", *where, "--plan-only")
    assert (code, "no room" in err) == (2, True)
    assert out.startswith("host2 is cordoned"), "it is drained all the same"
    assert json.loads(run("uncordon", "host2", *where, "--json")[1])["host"] == "host2"
    run("mode", *where, "--freeze", "month end")
    code, out, err = run("drain", "host0", *where)
    assert (code, err) == (1, "")
    *_, why, following, _ = out.splitlines()
    assert why.endswith("everything is frozen: month end")
    assert following.startswith("next: stormwright apply ")
    code, out, _ = run("drain", "host0", *where, "--json")
    printed = json.loads(out)
    assert (code, printed["drained"]["host"]) == (1, "host0")
    assert printed["plan"]["id"] == printed["drained"]["plan"]
    run("mode", *where, "--unfreeze")
    code, _, err = run("uncordon", "host1", *where)
    assert (code, "host1 is not drained; host0 is" in err) == (2, True)
    code, _, err = run("drain", "host9", *where)
    assert (code, "there is no node host9" in err) == (2, True)


def test_verdict_of_a_plan_without_steps_depends_on_its_state_and_not_on_words():
    of = {"id": "1", "why": "no move is worth it, they say", "origin": "person", "goal": "traffic", "by": "anna"}
    of |= {"reason": "", "created_ms": 0, "age_s": 0.0}
    texts = {state: verdict(PlanSummary(state=state, **of)) for state in ("planned", "proposed", "failed", "done")}
    assert texts["planned"] == texts["proposed"] == "No move is worth it: no move is worth it, they say."
    assert texts["failed"] == texts["done"] == "No move is worth it, they say."
