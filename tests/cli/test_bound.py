"""``stormwright bound``, and what `optimizer` proves on request."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

import stormwright as sw
from stormwright.errors import InputError
from stormwright.formats import write_problem
from stormwright.model.humanize import proof_text
from stormwright.predict.calibration.calibration import Calibration
from stormwright.predict.calibration.document import costs_to_dict
from stormwright.testing.word_counts import WordCount
from tests.case_files import all_cases

CASES = all_cases()
SMALL, LARGER = CASES["s01_excl18_n5"], CASES["m03_5topo100_n12_r2"]


@pytest.mark.long
def test_a_small_problem_is_proven(run):
    code, out, _ = run("bound", SMALL, "--objective", "traffic", "--search", 0.5, "--seconds", 60)
    assert code == 0
    assert "cost 4,441, proven to be the least" in out


@pytest.mark.slow
def test_bound_of_larger_problem_reports_gap(run):
    by_traffic = ("--objective", "traffic", "--search", 0.2, "--seconds", 1)
    code, out, _ = run("bound", LARGER, *by_traffic, "--json")
    assert code == 0
    found = orjson.loads(out)
    assert not found["optimal"]
    assert 0 < found["bound"] < found["cost"]
    assert found["gap"] == pytest.approx(1 - found["bound"] / found["cost"])
    _, out, _ = run("bound", LARGER, *by_traffic)
    assert "no placement costs less than" in out


@pytest.mark.slow
def test_optimizer_reports_optimality_proof(run):
    settings = ("--set", "bound=true", "--set", "bound_budget_s=60")
    code, out, _ = run("schedule", SMALL, "--scheduler", "optimizer", *settings, "--json")
    assert code == 0
    proof = orjson.loads(out)["parameters"]["proof"]
    assert proof["optimal"]
    assert proof["gap"] == 0.0
    assert proof["bound"] == pytest.approx(proof["cost"])
    _, out, _ = run("schedule", SMALL, "--scheduler", "optimizer", *settings)
    assert "proven to be the least" in out
    settings = ("--set", "optimizer.bound=true", "--set", "optimizer.bound_budget_s=60")
    _, out, _ = run("compare", SMALL, "--schedulers", "optimizer,online", *settings)
    assert "optimizer: cost 4,441, proven to be the least" in out


@pytest.fixture
def word_count(tmp_path):
    path = tmp_path / "problem.json"
    write_problem(path, WordCount(nodes=3, cores=0.4).problem())
    return path


@pytest.mark.slow
def test_rates_are_proven(run, word_count):
    code, out, _ = run("bound", word_count, "--objective", "throughput", "--search", 0.5, "--seconds", 20)
    assert code == 0
    assert "all rates can grow to ×13.37 of those that were measured, proven to be the most" in out
    code, out, _ = run("bound", word_count, "--objective", "throughput", "--search", 0.5, "--seconds", 20, "--json")
    found = orjson.loads(out)
    assert (code, found["objective"], found["optimal"]) == (0, "throughput", True)
    assert found["factor"] <= found["bound"] == pytest.approx(found["factor"] * (1 + found["gap"]))


@pytest.mark.long
def test_nodes_are_proven(run, word_count):
    code, out, _ = run("bound", word_count, "--objective", "nodes", "--search", 0.5)
    assert code == 0
    assert "1 node in use, proven to be the fewest for the measured rates with 20% of everything free" in out
    _, out, _ = run("bound", word_count, "--objective", "nodes", "--search", 0.5, "--headroom", 99)
    assert "no placement on these nodes sustains the measured rates with 99% of everything free" in out


@pytest.mark.slow
def test_bound_objective_is_throughput_by_default(run, word_count, tmp_path):
    """As `optimizer` decides; the first line and the JSON say so."""
    quickly = ("--search", 0.2, "--seconds", 0.5)
    _, out, _ = run("bound", word_count, *quickly)
    assert "the proof of highest rates took" in out.splitlines()[0]
    problem, path = sw.read_problem(word_count), tmp_path / "measured.json"
    measured = problem.with_load(replace(problem.load, costs=costs_to_dict(Calibration())))
    write_problem(path, measured)
    _, out, _ = run("bound", path, *quickly)
    assert "the proof of highest rates took" in out.splitlines()[0]
    assert "all rates can grow to" in out
    assert orjson.loads(run("bound", path, *quickly, "--json")[1])["objective"] == "throughput"
    assert orjson.loads(run("bound", path, *quickly, "--objective", "traffic", "--json")[1])["objective"] == "traffic"
    assert sw.bound(measured, sw.place(measured, "even"), seconds=0.5)["objective"] == "throughput"
    assert sw.bound(problem, sw.place(problem, "even"), seconds=0.5)["objective"] == "throughput"


@pytest.mark.parametrize("objective", ["auto", "traffic", "throughput"])
def test_headroom_is_for_nodes(run, word_count, objective):
    code, out, err = run("bound", word_count, "--objective", objective, "--headroom", 20)
    assert (code, out) == (2, "")
    assert "--headroom: has no effect: it needs --objective nodes" in err


def test_latency_objective_has_no_bound(run, word_count):
    code, _, err = run("bound", word_count, "--objective", "latency")
    assert code == 2
    assert "'latency' is not one of 'traffic', 'throughput', 'nodes'" in err


@pytest.mark.long
def test_bound_reports_assumed_load(run, tmp_path):
    path = tmp_path / "assumed.json"
    write_problem(path, replace(WordCount().problem(), load=None))
    _, out, _ = run("bound", path, "--objective", "throughput", "--search", 0.2)
    assert "the load was not measured, but assumed" in out


@pytest.mark.long
def test_at_a_prompt():
    problem = WordCount(nodes=2, cores=0.4).problem().with_current({})
    found = sw.bound(problem, sw.place(problem, "even"), objective="throughput", seconds=5)
    assert not found["optimal"]
    assert found["bound"] == pytest.approx(found["factor"] * (1 + found["gap"]))
    assert "no placement allows more than ×13.37" in found["text"]
    with pytest.raises(InputError, match="should be one of traffic, throughput, nodes, auto, got 'latency'"):
        sw.bound(problem, objective="latency")
    with pytest.raises(InputError, match="headroom_percent: should be a number from 0 to 99, got 100"):
        sw.bound(problem, sw.place(problem, "even"), objective="nodes", headroom_percent=100)


def test_unproven_bounds_are_described_in_text():
    rates = {"objective": "throughput", "factor": 2.0, "bound": 3.0, "gap": 0.5, "optimal": False}
    assert proof_text(rates).endswith("measured; proven: no placement allows more than ×3, 50.0% above")
    assert proof_text(rates | {"factor": None}) == "nothing that is known limits the rates"
    assert "was not proven" in proof_text(rates | {"bound": None, "gap": None})
    assert proof_text(rates | {"factor": 0.0, "gap": None}).startswith("not all have a slot")
    nodes = {"objective": "nodes", "nodes": 3, "bound": 2, "headroom": 0.2, "sustained": True, "optimal": False}
    assert proof_text(nodes).startswith(
        "3 nodes in use; proven: at least 2 are needed for the measured rates with 20% of everything free"
    )
    assert "3 nodes in use, which do not sustain that" in proof_text(nodes | {"sustained": False})
