"""``stormwright learn``."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from stormwright_lab.evaluations.learning.examples import random_examples, random_problem, read_examples, write_examples

from stormwright.formats import write_problem
from stormwright.model.arrays import frozen_ints
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.portfolio.model import read_model
from stormwright.workbench.comparison import measure
from stormwright.workbench.sweep.cells import SweepCell, SweepProblem, read_cells
from stormwright.workbench.sweep.table import LocalTable
from stormwright.workbench.sweep.work import ROW, row

NAMES = ("binpack", "round_robin", "spread", "t_storm")


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """Examples of a few random problems, which take some seconds each."""
    path = tmp_path_factory.mktemp("learn") / "kept.json.gz"
    write_examples(path, random_examples(6, 1), "6 problems drawn with seed 1")
    return path


@pytest.mark.slow
def test_learn_writes_model_used_by_learned_scheduler(run, examples, tmp_path):
    model = tmp_path / "model.json"
    code, out, _ = run("learn", "--problems", "0", "--examples", str(examples), "-o", str(model), "--json")
    assert code == 0
    assert json.loads(out)["data"]["groups"] == len(read_examples(examples))
    of = random_problem(np.random.default_rng(9), "drawn")
    write_problem(tmp_path / "problem.json", of)
    code, out, _ = run(
        "schedule",
        str(tmp_path / "problem.json"),
        "--from-scratch",
        "--scheduler",
        "learned",
        "--set",
        f"model={model}",
    )
    assert code == 0
    assert "by what was learned" in out


@pytest.mark.slow
def test_the_same_again_is_the_same_file(run, examples, tmp_path):
    for name in ("first.json", "again.json"):
        assert run("learn", "--problems", "0", "--examples", str(examples), "-o", str(tmp_path / name))[0] == 0
    assert (tmp_path / "first.json").read_bytes() == (tmp_path / "again.json").read_bytes()
    assert read_model(tmp_path / "first.json").data["made"] == f"{len(read_examples(examples))} groups of files"


@pytest.mark.slow
def test_learn_uses_cells_of_a_sweep(run, examples, tmp_path):
    of = random_problem(np.random.default_rng(2), "drawn").with_nothing_running()
    write_problem(tmp_path / "problem.json", of)
    spec = {"schema": "stormwright-sweep/1", "problems": ["problem.json"], "schedulers": dict.fromkeys(NAMES)}
    (tmp_path / "sweep.json").write_text(json.dumps(spec), encoding="utf-8")
    sweep = read_cells(tmp_path / "sweep.json")
    rows = [row_of(cell, sweep.problems[cell.problem]) for cell in sweep.cells]
    rows[0]["cost"] = rows[0]["cost"] + 1  # of another version, say
    LocalTable(tmp_path / "cells").append(pa.Table.from_pylist(rows, ROW))
    options = ("--sweep", str(tmp_path / "sweep.json"), "--table", str(tmp_path / "cells"))
    keep = tmp_path / "all.json"
    code, _, err = run(
        "learn",
        "--problems",
        "0",
        "--examples",
        str(examples),
        *options,
        "--keep",
        str(keep),
        "-o",
        str(tmp_path / "m.json"),
    )
    assert code == 0
    assert "1 cell came out otherwise than the table says" in err
    assert len(read_examples(keep)[-1].badness) in (2, 3)


def row_of(cell: SweepCell, problem: SweepProblem):
    unpacked = problem.unpacked()
    slots = frozen_ints(make_scheduler(cell.scheduler).schedule(unpacked).slot_of_executor)
    return row(cell, problem, cost=measure(unpacked, slots).cost.total, valid=True)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--table", "cells"), "requires --sweep"),
        (("--problems", "0"), "should be at least 5 problems, got 0"),
        (("--problems", "0", "--examples", "nothing.json"), "cannot be read"),
        (("--problems", "0", "--state", "nowhere"), "no such directory"),
    ],
)
def test_learn_rejects_invalid_options(run, tmp_path, options, why):
    code, _, err = run("learn", *options, "-o", str(tmp_path / "model.json"))
    assert code == 2
    assert why in err
    assert not (tmp_path / "model.json").exists()


@pytest.mark.long
def test_learn_stores_examples_when_too_few_for_a_model(run, tmp_path):
    examples, model = tmp_path / "kept.json", tmp_path / "model.json"
    code, _, err = run("learn", "--problems", "1", "--keep", examples, "-o", model)
    assert (code, "at least 5 problems" in err) == (2, True)
    assert len(read_examples(examples)) == 1
    code, _, err = run("learn", "--problems", "1", "--keep", model, "-o", model)
    assert (code, "--keep: is the output file of the model" in err) == (2, True)
