"""``stormwright bound``, and what `optimizer` proves on request."""

from __future__ import annotations

import orjson
import pytest

from tests.case_files import all_cases

CASES = all_cases()
SMALL, LARGER = CASES["s01_excl18_n5"], CASES["m03_5topo100_n12_r2"]


def test_a_small_problem_is_proven(run):
    code, out, _ = run("bound", SMALL, "--search", 3, "--seconds", 60)
    assert code == 0
    assert "cost 4,441.3, proven to be the least" in out


def test_a_larger_one_has_a_gap(run):
    code, out, _ = run("bound", LARGER, "--search", 0.2, "--seconds", 1, "--json")
    assert code == 0
    found = orjson.loads(out)
    assert not found["optimal"]
    assert 0 < found["bound"] < found["cost"]
    assert found["gap"] == pytest.approx(1 - found["bound"] / found["cost"])
    _, out, _ = run("bound", LARGER, "--search", 0.2, "--seconds", 1)
    assert "no placement costs less than" in out


def test_optimizer_tells_its_proof(run):
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
    assert "optimizer: cost 4,441.3, proven to be the least" in out
