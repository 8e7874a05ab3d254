"""``stormwright predict`` and ``whatif``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import orjson
import pytest

import stormwright as sw
from stormwright.cli.predictions import print_predictions
from stormwright.formats import write_problem
from stormwright.model import Assignment
from stormwright.predict.answer import Assumptions, predict
from stormwright.predict.flow.layout import MAX_SPOUT_PENDING
from stormwright.testing.word_counts import WordCount, two_word_counts


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "words.json"
    write_problem(path, WordCount(cores=0.4).problem())
    return path


def test_predict_covers_current_placement(run, file):
    code, out, _ = run("predict", "--all", file)
    assert code == 0
    assert "now: at its highest rate limited by the CPU of node" in out
    assert "note: message costs were not fitted to this cluster" in out
    code, out, _ = run("predict", "--all", file, "--json")
    assert code == 0
    (topology,) = orjson.loads(out)["today"]["topologies"]
    highest = topology["highest_tps"]
    assert highest["low"] < highest["value"] < highest["high"]
    assert topology["bottleneck"] == {"kind": "cpu", "node": "n0", "text": "the CPU of node n0"}


@pytest.mark.long
def test_predict_compares_assignment_with_current_placement(run, file, tmp_path):
    answer = tmp_path / "answer.json"
    run("schedule", file, "--scheduler", "online", "--output", answer)
    code, out, _ = run("predict", "--all", file, answer)
    assert code == 0
    assert "now: at its highest rate limited by" in out
    assert "with the assignment: at its highest rate limited by" in out


@pytest.mark.long
def test_nothing_runs(run, tmp_path):
    path = tmp_path / "words.json"
    write_problem(path, WordCount().problem().with_current({}))
    code, _, err = run("predict", "--all", path)
    assert code == 2
    assert "nothing runs in this problem" in err
    first, then = (part.split()[1:] for part in err.split("`")[1::2])
    answer = str(tmp_path / "answer.json")
    for command in (first, then):
        assert run(*(answer if part == "ASSIGNMENT" else part for part in command))[0] == 0
    code, _, err = run("whatif", "--all", path, "--rate", "x2")
    assert code == 2
    assert "as in --scheduler optimizer, or an assignment, as `stormwright schedule FILE --output ASSIGNMENT`" in err


@pytest.mark.long
@pytest.mark.parametrize(
    ("word_count", "factor", "why"),
    [
        (WordCount(cores=0.4), 100, "the CPU of node n0 would be overloaded"),
        (WordCount(cores=4, pending=1), 10, f"more trees would have to be pending than {MAX_SPOUT_PENDING} allows"),
    ],
)
def test_missing_latency_is_explained(run, tmp_path, word_count, factor, why):
    path = tmp_path / "words.json"
    write_problem(path, word_count.problem())
    _, out, _ = run("whatif", "--all", path, "--rate", f"×{factor}")
    assert f"after: no latency, as {why}\n" in out
    assert "now: no latency" not in out
    found = orjson.loads(run("whatif", "--all", path, "--rate", f"×{factor}", "--json")[1])
    today, then = (found[column]["topologies"][0] for column in ("today", "then"))
    assert (today["no_latency"], then["no_latency"], then["latency_ms"]) == (None, why, None)
    assert why in str(predict(word_count.problem(), None, Assumptions(rate_tps={"words-1-0": 1_000.0 * factor})))


def test_a_bottleneck_of_its_own_is_named_where_another_is_fuller(run, tmp_path):
    """A link that is far too slow limits one topology; the other one asks too much of its node."""
    problem, path = two_word_counts(cores=0.4), tmp_path / "words.json"
    problem = problem.with_current(Assignment(np.array([0] * 12 + [2, 4] * 6)).by_topology(problem))
    write_problem(path, problem)
    document = orjson.loads(run("whatif", "--all", path, "--rate", "×100", "--link", "100kbit", "--json")[1])
    one, other = (each["no_latency"] for each in document["then"]["topologies"])
    assert "the CPU of node n0" in one
    assert "the link " in other


def test_partly_running_topology_has_no_predicted_limit(run, tmp_path):
    path = tmp_path / "words.json"
    write_problem(path, two_word_counts())  # of which one runs
    _, out, _ = run("predict", "--all", path)
    assert out.count("now: no latency, as not all of its executors have a slot") == 1
    assert "no known limit" not in out


def test_unknown_values_are_printed_as_text(run, tmp_path):
    path, problem = tmp_path / "words.json", WordCount().problem()
    write_problem(path, WordCount(rate_tps=0.0).problem())
    _, out, _ = run("predict", "--all", path)
    assert "trees/s if spouts were not limited  unknown" in out
    silent = str(predict(WordCount(rate_tps=0.0).problem()))
    assert silent.startswith("words-1-0: nothing is predicted, as its spouts began no trees while it was measured\n")
    first = replace(problem.supervisors[0], cpu_hz=0.0, resources={"memory.mb": 16_384.0})
    write_problem(path, replace(problem, supervisors=(first, *problem.supervisors[1:])))
    _, out, _ = run("predict", "--all", path)
    assert "has none" in out
    assert "fullest at the given rates: the CPU of node n0, of which there is none\n" in out


def test_conflicting_parallelism_options_are_rejected(run, file):
    twice = run("whatif", "--all", file, "--parallelism", "split=8", "--parallelism", "split=2")
    by_two_names = run("whatif", "--all", file, "--parallelism", "split=8", "--parallelism", "words/split=2")
    for (code, _, err), message in ((twice, "name it once"), (by_two_names, "got both 8 and 2 executors")):
        assert code == 2
        assert message in err


@pytest.mark.long
def test_several_changes_together(run, file):
    code, out, _ = run(
        "whatif", file, "--rate", "×1.5", "--rate", "words=x2", "--link", "1gbit", "--add-nodes", 1, "--json"
    )
    assert code == 0
    found = orjson.loads(out)
    assert found["then"]["topologies"][0]["rate_tps"] == pytest.approx(3_000)
    assert (found["scheduler"], found["moved"]) == (None, 0)
    assert len(found["then"]["nodes"]) == 4
    code, out, _ = run("whatif", "--all", file, "--kill-node", "n0", "--parallelism", "split=8", "--scheduler", "even")
    assert code == 0
    assert "placed by even" in out


@pytest.mark.long
def test_whatif_ignores_current_placement_unless_keep_running(run, tmp_path):
    file = tmp_path / "together.json"
    problem = WordCount().problem()
    write_problem(file, problem.with_current(Assignment(np.zeros(12, np.int32)).by_topology(problem)))
    for way, moved in ((), 8), (("--from-scratch",), 8), (("--keep-running",), 0):
        code, out, _ = run("whatif", "--all", file, "--scheduler", "even", *way)
        assert code == 0
        assert f"placed by even; {moved} executors would move" in out
    code, _, err = run("whatif", "--all", file, "--rate", "x2", "--keep-running")
    assert code == 2
    assert "--keep-running: requires --scheduler" in err


def test_whatif_reports_excessive_rate_as_not_sustained(run, file):
    code, out, _ = run("whatif", "--all", file, "--rate", "×100")
    assert code == 0
    assert "1 of 1 topology cannot sustain the requested rate: words-1-0." in out


def test_highest_and_given_rates_are_printed_separately(run, file):
    code, out, _ = run("predict", "--all", file)
    assert code == 0
    highest, given = (out.index(f"words-1-0: {what} rates") for what in ("highest", "at given"))
    assert highest < out.index("trees/s if spouts were not limited") < given < out.index("trees/s requested")


@pytest.mark.slow
def test_a_rate_within_the_interval_is_perhaps_not_sustained(run, file):
    """Its ends: what is sustained by all of it, by a part, by nothing of it."""
    _, out, _ = run("predict", "--all", file, "--json")
    (topology,) = orjson.loads(out)["today"]["topologies"]
    assert topology["sustained"] == "yes"
    pending, measured = topology["pending_tps"], topology["measured_tps"]
    for at, sustained, shown in (
        (0.97 * pending["low"], "yes", "yes"),
        (0.5 * (pending["low"] + pending["value"]), "perhaps", "perhaps"),
        (0.5 * (pending["high"] + pending["value"]), "perhaps", "perhaps"),
        (1.03 * pending["high"], "no", "no"),
    ):
        factor = f"×{at / measured:.6f}"
        _, out, _ = run("whatif", "--all", file, "--rate", factor, "--json")
        assert orjson.loads(out)["then"]["topologies"][0]["sustained"] == sustained
        _, out, _ = run("whatif", "--all", file, "--rate", factor)
        (row,) = [line for line in out.splitlines() if line.startswith("… sustained")]
        assert row.split() == ["…", "sustained", "yes", shown]


def test_notes_name_their_column(capsys):
    problem = WordCount(cores=0.4).problem()
    today = predict(problem)
    then = replace(today, notes=(*today.notes, "the moon is full"))
    print_predictions({"today": today, "then": then})
    out = capsys.readouterr().out
    assert "note on today and then: message costs were not fitted" in out
    assert "note on then: the moon is full" in out
    print_predictions({"then": then})
    assert "note: the moon is full" in capsys.readouterr().out


@pytest.mark.long
def test_predict_reports_assumed_load_before_predictions(run, tmp_path):
    path = tmp_path / "assumed.json"
    write_problem(path, replace(WordCount().problem(), load=None))
    for verb in (["predict", path], ["whatif", path, "--parallelism", "split=8"]):
        _, out, _ = run(*verb, "--all")
        assert out.splitlines()[1].startswith("the load was not measured, but assumed: 1 tuple/s from each spout")
        assert "trees/s assumed" in out
        assert "trees/s measured" not in out
    _, out, _ = run("whatif", "--all", path, "--parallelism", "split=8", "--json")
    assert [orjson.loads(out)[column]["topologies"][0]["assumed"] for column in ("today", "then")] == [True, True]
    first, *_ = str(sw.predict(sw.read_problem(path))).splitlines()
    assert "its load was not measured" in first


@pytest.mark.long
def test_whatif_predicts_given_assignment(run, file, tmp_path):
    spread, answer, again = (tmp_path / name for name in ("spread.json", "answer.json", "again.json"))
    write_problem(spread, WordCount(cores=0.4).problem().with_current({}))
    run("schedule", spread, "--scheduler", "round_robin", "--output", answer)
    code, out, _ = run("whatif", "--all", file, answer, "--rate", "×1.5", "--json", "--output", again)
    assert code == 0
    found = orjson.loads(out)
    assert found["scheduler"] == "round_robin"
    assert found["moved"] > 0
    assert [node["workers"] for node in found["then"]["nodes"]] == [1, 1, 1]
    _, out, _ = run("predict", "--all", file, answer, "--json")
    there = orjson.loads(out)["then"]["topologies"][0]
    assert found["then"]["topologies"][0]["highest_tps"] == pytest.approx(there["highest_tps"])
    assert orjson.loads(again.read_bytes())["assignments"] == orjson.loads(answer.read_bytes())["assignments"]
    code, out, _ = run("whatif", "--all", file, answer, "--json")
    assert code == 0, "an assignment is a change of its own"
    code, _, err = run("whatif", "--all", file, answer, "--output", answer)
    assert code == 2
    assert "is read here, and would be overwritten" in err


def test_whatif_writes_predicted_assignment(run, file, tmp_path):
    out = tmp_path / "out.json"
    code, _, _ = run("whatif", "--all", file, "--kill-node", "n0", "--output", out)
    assert code == 0
    assert b'"n0"' not in out.read_bytes()
    assert b'"n1"' in out.read_bytes()


def test_predict_exits_with_code_1_for_unplaced_executors(run, tmp_path):
    path = tmp_path / "small.json"
    problem = WordCount().problem()
    nodes = tuple(replace(node, cpu_hz=1e6) for node in problem.supervisors)
    write_problem(path, replace(problem, supervisors=nodes))
    code, out, _ = run("whatif", "--all", path, "--kill-node", "n0")
    assert code == 1
    assert "no slot for 12 executors of words-1-0: " in out


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--rate", "fast", "should be a factor above 0"),
        ("--rate", "×0", "should be a factor above 0"),
        ("--rate", "9000", "--rate: is a number without ×: write ×9000 for a factor"),
        ("--rate", "words=9000", "write words=×9000 for a factor"),
        ("--parallelism", "split", "should be COMPONENT=N"),
        ("--parallelism", "split=0", "N at least 1"),
        ("--parallelism", "nobody=3", "no such component"),
        ("--link", "fast", "should be a speed above 0"),
        ("--kill-node", "nobody", "no such node; known: "),
        ("--scheduler", "nobody", "unknown scheduler"),
        ("--set", "seed=1", "parameters require a scheduler"),
        ("--set", "seed=1", "no change is given"),
    ],
)
def test_whatif_rejects_invalid_options(run, file, option, value, expected):
    code, _, err = run("whatif", "--all", file, option, value)
    assert code == 2
    assert expected in err
