"""``stormwright predict`` and ``whatif``."""

from __future__ import annotations

import orjson
import pytest

from stormwright.formats import write_problem
from stormwright.testing.word_counts import WordCount


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "words.json"
    write_problem(path, WordCount(cores=0.4).problem())
    return path


def test_what_runs_is_predicted(run, file):
    code, out, _ = run("predict", file)
    assert code == 0
    assert "today: at its highest rate limited by the CPU of node" in out
    assert "note: what messages cost was not fitted to this cluster" in out
    code, out, _ = run("predict", file, "--json")
    assert code == 0
    (topology,) = orjson.loads(out)["today"]["topologies"]
    highest = topology["highest_tps"]
    assert highest["low"] < highest["value"] < highest["high"]
    assert topology["bottleneck"] == {"kind": "cpu", "node": "n0", "text": "the CPU of node n0"}


def test_an_assignment_is_predicted_beside_what_runs(run, file, tmp_path):
    answer = tmp_path / "answer.json"
    run("schedule", file, "--scheduler", "online", "--output", answer)
    code, out, _ = run("predict", file, answer)
    assert code == 0
    assert "today: at its highest rate limited by" in out
    assert "then: at its highest rate limited by" in out


def test_nothing_runs(run, tmp_path):
    path = tmp_path / "words.json"
    write_problem(path, WordCount().problem().with_current({}))
    code, _, err = run("predict", path)
    assert code == 2
    assert "nothing runs in this problem" in err


def test_several_changes_together(run, file):
    code, out, _ = run(
        "whatif", file, "--rate", "×1.5", "--rate", "words=x2", "--link", "1gbit", "--add-nodes", 1, "--json"
    )
    assert code == 0
    found = orjson.loads(out)
    assert found["then"]["topologies"][0]["rate_tps"] == pytest.approx(3_000)
    assert (found["scheduler"], found["moved"]) == (None, 0)
    assert len(found["then"]["nodes"]) == 4
    code, out, _ = run("whatif", file, "--kill-node", "n0", "--parallelism", "split=8", "--scheduler", "even")
    assert code == 0
    assert "placed by even" in out


def test_a_rate_that_is_too_high_is_not_sustained(run, file):
    code, out, _ = run("whatif", file, "--rate", "100")
    assert code == 0
    assert "not sustained" in out


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--rate", "fast", "should be a factor above 0"),
        ("--rate", "×0", "should be a factor above 0"),
        ("--parallelism", "split", "should be COMPONENT=N"),
        ("--parallelism", "split=0", "N at least 1"),
        ("--parallelism", "nobody=3", "no such component"),
        ("--link", "fast", "should be a speed above 0"),
        ("--kill-node", "nobody", "no such node; there is"),
        ("--scheduler", "nobody", "unknown scheduler"),
        ("--set", "seed=1", "parameters of a scheduler need one"),
        ("--set", "seed=1", "name a change"),
    ],
)
def test_what_is_wrong_is_said(run, file, option, value, said):
    code, _, err = run("whatif", file, option, value)
    assert code == 2
    assert said in err
