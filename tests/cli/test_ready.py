"""Ready problems where a file could be named."""

from __future__ import annotations

import pytest


def test_verbs_take_its_name_for_a_file(run, tmp_path):
    name, answer = "ready:top-storm-exclamation-4", tmp_path / "answer.json"
    code, out, _ = run("schedule", name, "--scheduler", "top_storm", "--output", answer)
    assert code == 0
    assert out.startswith("top-storm-exclamation-4: 1 topology, 18 executors, 5 nodes, 20 slots; top_storm took")
    code, out, _ = run("compare", name, "--schedulers", "even,top_storm")
    assert code == 0
    assert out.startswith("top-storm-exclamation-4: 1 topology, 18 executors")
    assert run("explain", name, answer)[:2] == (
        0,
        "Every executor has a slot, and no node is overloaded; --topology explains the executors of a topology.\n",
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ready:top-storm-exclamation-7", "unknown built-in problem; did you mean ready:top-storm-exclamation-"),
        ("ready:", "unknown built-in problem; there are top-storm-word-count-1, "),
    ],
)
def test_unknown_ready_problem_names_are_rejected(run, name, message):
    code, out, err = run("schedule", name)
    assert (code, out) == (2, "")
    assert message in err
