"""``stormwright experiment``: the list, what needs no cluster, and what is wrong."""

from __future__ import annotations

import json

from stormwright_lab.evaluations.papers import PAPERS


def test_experiments_are_listed_with_their_minutes(run, tmp_path):
    code, out, err = run("experiment", "--output", tmp_path)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == ["experiment", *PAPERS, "all"]
    code, out, _ = run("experiment", "--json", "--output", tmp_path)
    rows = json.loads(out)
    assert [row["experiment"] for row in rows] == list(PAPERS)
    assert sum(row["minutes"] for row in rows) > 60
    assert not list(tmp_path.iterdir())


def test_experiment_without_cluster_is_computed(run, tmp_path):
    code, out, _ = run("experiment", "tag-aware", "--output", tmp_path / "made", "--json")
    assert code == 0
    (document,) = json.loads(out)
    assert {row["verdict"] for row in document["rows"]} == {"reproduced in magnitude", "not to be measured"}
    assert json.loads((tmp_path / "made" / "tag-aware.json").read_text()) == document
    assert "Bolt3" in (tmp_path / "made" / "tag-aware.html").read_text()


def test_experiment_exits_with_code_2_for_invalid_arguments(run, tmp_path):
    for arguments, expected in (
        (["no-such"], "there are"),
        ([""], "there are"),
        (["tag-awre"], "did you mean tag-aware"),
        (["--fresh"], "requires the NAME"),
    ):
        code, out, err = run("experiment", *arguments, "--output", tmp_path)
        assert (code, out) == (2, "")
        assert expected in err
    (tmp_path / "cells.jsonl").mkdir()
    assert run("experiment", "--output", tmp_path)[0] == 2
