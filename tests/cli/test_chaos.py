"""``stormwright chaos``: the list, and runs in virtual time."""

from __future__ import annotations

import json

from stormwright_lab.chaos.catalogue import CATALOGUE


def test_scenarios_are_listed(run):
    code, out, err = run("chaos", "list")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[1:]] == list(CATALOGUE)
    rows = json.loads(run("chaos", "list", "--scenario", "kill-spark", "--json")[1])
    assert [(row["name"], bool(row["not_virtual"])) for row in rows] == [("kill-spark", True)]


def test_runs_in_virtual_time_are_stored_and_not_repeated(run, tmp_path):
    arguments = ("chaos", "run", "--virtual", "--scenario", "kill-nimbus", "--moment", "paused", "--output", tmp_path)
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    line, verdict = out.splitlines()
    assert line.startswith("kill-nimbus at paused, seed 1, virtual: ok")
    assert verdict.startswith("all invariants hold in 1 runs")
    assert (tmp_path / "chaos.html").exists()
    assert len(run(*arguments)[1].splitlines()) == 1
    document = json.loads(run(*arguments, "--runs", "2", "--json")[1])
    assert [each["seed"] for each in document["runs"]] == [1, 2]
    assert run("chaos", "report", "--output", tmp_path)[0] == 0


def test_unknown_scenarios_and_moments_are_refused(run, tmp_path):
    assert run("chaos", "run", "--scenario", "no-such", "--output", tmp_path)[0] == 2
    assert run("chaos", "run", "--moment", "never", "--output", tmp_path)[0] == 2
    (tmp_path / "runs.jsonl").mkdir()
    assert run("chaos", "run", "--virtual", "--output", tmp_path)[0] == 2
