"""Once machine code is made, nothing compiles: whatever verb, scheduler and kind of problem."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from stormwright.optimize.search import budget
from stormwright.workbench import machine_code

ROOT = Path(__file__).parents[2]


@contextmanager
def no_compiling(what):
    """Fails if Numba compiles anything meanwhile."""
    from numba.core import event

    with event.install_recorder("numba:compile") as recorder:
        yield
    compiled = [each.data["dispatcher"].py_func.__qualname__ + str(each.data["args"]) for _, each in recorder.buffer]
    assert not compiled, f"{what} compiled {compiled}"


def run_verbs(cases):
    """Every verb that decides, on small files."""
    from stormwright.cli import run

    optimizer = ["--scheduler", "optimizer", "--set", "iterations=2000"]
    for arguments in (
        *(
            [*optimizer, "--set", f"{name}={value}"]
            for name, value in {
                "bound": "true",
                "threads": "2",
                "max_moves": "3",
                "restart_price": "5",
                "imbalance_price": "10",
            }.items()
        ),
        ["--scheduler", "optimizer", "--set", "time_budget_s=0.3"],
        ["--scheduler", "online"],
    ):
        with no_compiling(arguments):
            run(["schedule", *arguments, str(cases[0])])
    for verb, *more in (["bound", "--search", "0.2", "--seconds", "1"], ["compare"], ["tradeoff"]):
        with no_compiling(verb):
            run([verb, *more, str(cases[0])])


def run_schedulers(cases):
    """Every scheduler of ours, on problems of every kind that there are files of."""
    from stormwright.errors import StormwrightError
    from stormwright.formats import read_problem
    from stormwright.schedulers import make_scheduler
    from stormwright.schedulers.toolkit.registry import SCHEDULERS

    few = {
        "optimizer": {"iterations": 2000},
        "genetic": {"generations": 2},
        "learned": {"variants": 16},
        "n_version": {"schedulers": "online,optimizer", "settings": "optimizer.iterations=2000"},
    }
    for case in cases:
        for name in SCHEDULERS:
            with no_compiling(f"{name} on {case}"):
                try:
                    make_scheduler(name, few.get(name, {})).schedule(read_problem(case))
                except StormwrightError as error:
                    print(name, case, error)


def run_searches():
    """Searches of other kinds: flows, regions, levels, what runs, nodes with too little."""
    from stormwright.schedulers import make_scheduler
    from stormwright.testing.pipelines import shuffled_pipelines
    from tests.schedulers.builders import load, nodes, problem, running, topology

    rng = np.random.default_rng(0)
    pairs = [(a, (a + n) % 1200, float(rng.integers(1, 9))) for a in range(1200) for n in (1, 2, 7)]
    large = problem(nodes(*[40.0] * 20), (topology("t", 1200, 40), load(1200, pairs)))
    flowing = shuffled_pipelines(12)
    placed = make_scheduler("even").schedule(flowing).slot_of_executor
    crowded = problem(nodes(*[1.0] * 4), *[(topology(f"t{n}", 4, 2), load(4, [(0, 1, 5)], 0.4)) for n in range(4)])
    for what, of, settings in (
        ("levels", large, {"iterations": 200_000}),
        ("flows", flowing, {"iterations": 5_000}),
        ("what runs", running(flowing, placed.tolist()), {"iterations": 5_000}),
        ("staying near", running(flowing, placed.tolist()), {"iterations": 5_000, "max_moves": 5}),
        ("too little CPU", crowded, {"iterations": 5_000}),
    ):
        with no_compiling(what):
            make_scheduler("optimizer", settings).schedule(of)
    with no_compiling("regions"), pytest.MonkeyPatch.context() as patch:
        for name, value in (("_REGION", 50), ("_OF_LARGEST", 2), ("_FEWEST", 2)):
            patch.setattr(budget, name, value)
        make_scheduler("optimizer", {"iterations": 5_000, "threads": 2}).schedule(shuffled_pipelines(40))


def run_simulations():
    """Virtual clusters with and without quotas."""
    from tests.simulator.storm.cases import eventful

    for quota in (True, False):
        with no_compiling("a cluster"):
            eventful(0.5, quota)


def use_all():
    """All of it, in a process in which nothing was compiled before."""
    from tests.case_files import case_files

    placement = sorted(case_files("placement"))
    run_verbs([path for path in placement if path.name.startswith("s01")])
    run_searches()
    run_simulations()
    run_schedulers([path for path in placement if path.name.startswith(("s03", "m01"))])
    run_schedulers([path for path in sorted(case_files("peer")) if path.name.startswith(("m13", "m19", "m23", "m37"))])


@pytest.mark.slow
def test_nothing_compiles_once_machine_code_is_made():
    machine_code.make()  # nothing to do after the set-up
    code = "from tests.workbench.test_machine_code import use_all; use_all()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_machine_code_is_made_once():
    machine_code.make()
    before = {path: path.stat().st_mtime_ns for path in machine_code.files()}
    assert machine_code.make() == 0
    assert before == {path: path.stat().st_mtime_ns for path in machine_code.files()}
