"""``stormwright explain``: what is printed, and how it ends."""

from __future__ import annotations

import json

import pytest

from stormwright.formats import read_problem, write_assignment, write_problem
from stormwright.model import Assignment
from stormwright.schedulers import make_scheduler
from tests.case_files import all_cases
from tests.schedulers.builders import load, nodes, problem, topology

CASES = all_cases()
PLACEABLE = CASES["m03_5topo100_n12_r2"]
TOO_SMALL = CASES["m11-isolation-not-enough"]


@pytest.fixture
def answer(tmp_path):
    """Write the answer of a scheduler to a case; its path."""

    def write(case, name):
        of = read_problem(case)
        write_assignment(tmp_path / "answer.json", of, make_scheduler(name).schedule(of))
        return tmp_path / "answer.json"

    return write


def test_every_executor_without_a_slot(run, answer):
    code, out, err = run("explain", TOO_SMALL, answer(TOO_SMALL, "online"))
    assert (code, err) == (0, "")
    assert ": no slot\n  online: " in out or ": not placed yet\n  online: " in out
    assert " of " in out


def test_all_placed(run, answer):
    code, out, _ = run("explain", PLACEABLE, answer(PLACEABLE, "online"))
    assert code == 0
    assert out.startswith("Every executor has a slot")


def test_explain_reports_overloaded_nodes_with_their_executors(run, answer):
    path = answer(PLACEABLE, "even")
    code, out, _ = run("explain", PLACEABLE, path)
    assert code == 0
    lines = [line for line in out.splitlines() if line.startswith("overloaded: ")]
    assert len(lines) == 5
    assert lines[0].startswith("overloaded: node-00002: CPU 14.46 of 12.8 GHz, over by 1.659 GHz: ")
    document = json.loads(run("explain", PLACEABLE, path, "--json")[1])
    assert [round(one["used"] / 1e9, 2) for one in document["overloaded"]] == [14.46, 11.37, 10.11, 7.57, 11.66]
    options = ("--topology", read_problem(PLACEABLE).topologies[0].id)
    assert "overloaded" not in run("explain", PLACEABLE, path, *options)[1]


def test_explain_describes_single_executor(run, answer):
    of = read_problem(PLACEABLE)
    path = answer(PLACEABLE, "online")
    code, out, _ = run("explain", PLACEABLE, path, "--topology", of.topologies[0].id, "--executor", 3)
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith(f"{of.topologies[0].id}, component ")
    assert "of 11 other nodes could take it" in lines[1]
    assert 1 <= sum(line.startswith(("    +", "    -")) for line in lines) <= 5


def test_explain_without_assignment_describes_current_placement(run, tmp_path):
    of = read_problem(PLACEABLE)
    runs = of.with_current(make_scheduler("online").schedule(of).by_topology(of))
    write_problem(tmp_path / "runs.json", runs)
    write_assignment(tmp_path / "answer.json", runs, Assignment(runs.current_slot))
    options = ("--topology", of.topologies[0].id, "--executor", 0)
    explained = run("explain", tmp_path / "runs.json", *options)
    assert explained[0] == 0
    assert "other nodes could take it; the traffic cost (weighted tuples/s) would change by" in explained[1]
    assert explained == run("explain", tmp_path / "runs.json", tmp_path / "answer.json", *options)
    out = run("explain", PLACEABLE)[1]
    assert out.startswith("nothing runs in this problem; for a scheduler's answer: `stormwright schedule ")
    assert out.count(": not placed yet") > 1


def test_json_has_every_node(run, answer):
    of = read_problem(PLACEABLE)
    path = answer(PLACEABLE, "online")
    _, out, _ = run("explain", PLACEABLE, path, "--topology", of.topologies[0].id, "--executor", 3, "--json")
    (explanation,) = json.loads(out)["explanations"]
    assert len(explanation["nodes"]) == len(of.supervisors) - 1
    assert len(explanation["best"]) <= 5
    changes = [node["cost_change"] for node in explanation["best"]]
    assert changes == sorted(changes)
    ruled_out = [node for node in explanation["nodes"] if node["ruled_out_by"]]
    assert sum(group["nodes"] for group in explanation["ruled_out"]) == len(ruled_out)


def test_explain_summarizes_unplaced_component_on_one_line(run, tmp_path):
    of = problem(nodes(4, 4, 4, memory_mb=512), (topology("t", 2, 1), load(2, memory_mb=1024)))
    write_problem(tmp_path / "problem.json", of)
    write_assignment(tmp_path / "answer.json", of, make_scheduler("online").schedule(of))
    _, out, _ = run("explain", tmp_path / "problem.json", tmp_path / "answer.json")
    assert "t, component c, executors 0–1: not placed yet" in out
    assert "; c: 3 of 3 nodes: memory short by 512 MB\n" in out
    assert "    h0, h1, h2: memory short by 512 MB\n" in out, "nodes that differ in nothing together"


def test_explain_groups_equivalent_nodes(run, tmp_path):
    of = problem(nodes(*(4,) * 9), (topology("t", 2, 1), load(2, [(0, 1, 5)])))
    write_problem(tmp_path / "problem.json", of)
    write_assignment(tmp_path / "answer.json", of, make_scheduler("online").schedule(of))
    _, out, _ = run("explain", tmp_path / "problem.json", tmp_path / "answer.json", "--topology", "t")
    added = [line for line in out.splitlines() if line.startswith("    +")]
    assert len(added) == 1
    assert "h1, h2, h3 and 5 more, in a new worker" in added[0]


def test_many_are_cut_short(run, tmp_path):
    of = problem(nodes(4, 4), (topology("t", 30, 2), load(30, [(e, e + 1, e + 1) for e in range(29)])))
    write_problem(tmp_path / "problem.json", of)
    write_assignment(tmp_path / "answer.json", of, make_scheduler("even").schedule(of))
    _, out, _ = run("explain", tmp_path / "problem.json", tmp_path / "answer.json", "--topology", "t")
    assert "and 28 more; --executor picks one, --all shows them" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--topology", "zzz"], "no such topology"),
        (["--executor", "0"], "executors are numbered within a topology"),
        (["--executor", "x"], "'x' is not a valid integer"),
    ],
)
def test_bad_options(run, answer, arguments, message):
    code, out, err = run("explain", PLACEABLE, answer(PLACEABLE, "even"), *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_bad_files(run, tmp_path, answer):
    assert run("explain", "no-such-file", "neither")[0] == 2
    assert run("explain", PLACEABLE, "no-such-file")[0] == 2
    code, _, err = run("explain", PLACEABLE, answer(TOO_SMALL, "even"))
    assert code == 2
    assert "unknown topology" in err


@pytest.mark.parametrize("capacity", ["much", None, [1], -1, True, 101])
def test_explain_rejects_invalid_capacity(run, answer, capacity):
    path = answer(PLACEABLE, "online")
    document = json.loads(path.read_text())
    document["parameters"]["capacity"] = capacity
    path.write_text(json.dumps(document))
    code, out, err = run("explain", PLACEABLE, path)
    assert (code, out) == (2, "")
    assert "should be a number from 0 to 100, got" in err
    assert "$.parameters.capacity" in err


def test_assignment_without_a_scheduler_name(run, tmp_path):
    of = problem(nodes(4), (topology("t", 1, 1), load(1)))
    write_problem(tmp_path / "problem.json", of)
    write_assignment(tmp_path / "answer.json", of, Assignment(of.current_slot))
    code, out, _ = run("explain", tmp_path / "problem.json", tmp_path / "answer.json")
    assert code == 0
    assert "1 of 1 nodes: could take each one alone" in out
