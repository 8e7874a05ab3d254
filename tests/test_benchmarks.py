"""Benchmarks that need no cluster run, small, and write their figures: the ones that nobody runs for weeks rot."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CASES = Path(__file__).parent / "cases"

#: Benchmark → options with which it is done within some twenty seconds.
SMALL = {
    "prediction.advice": "--cases 1 --loops 0",
    "optimizer.coarsening": "--executors 1000 --within 0.8 --budgets 0.2 --seeds 1",
    "simulator.exploration": "--worlds 0 --minutes 0.05",
    "optimizer.flow_placement": "--topologies 4 --seconds 0.2 --no-storm",
    "optimizer.bound": f"--cases {CASES} --search 0.1 --seconds 0.3",
    "optimizer.comparison": f"--cases {CASES} --budgets 0.05",
    "optimizer.quality": f"--cases {CASES} --budgets 0.05",
    "service.plan_scale": "--time-budget 0.2 --topologies 200",
    "prediction.rates_scale": "--time-budgets 0.5 --sizes 1000",
    "service.reading": "--executors 1000 --nodes 50 --pairs 10000 --runs 1",
    "service.plans": "--sizes 1000 --plans 1 --reads 3",
    "service.slow_nodes": "--node-hours 20 --trials 5",
    "schedulers.scale": "--executors 1000 --nodes 50 --pairs 10000 --runs 1 --schedulers even,online",
    "simulator.recorded_cells": "--only star --seconds 0.2",
    "simulator.speed": "--hops 20000 --simpy 2000 --flat 200000",
}


def names_in(path: Path) -> set[str]:
    """What a module defines or imports at its top level."""
    tops = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if not isinstance(node, ast.Expr)]
    inner = [node for top in tops for node in ast.walk(top)]
    return (
        {top.name for top in tops if isinstance(top, (ast.ClassDef, ast.FunctionDef))}
        | {node.id for node in inner if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        | {node.asname or node.name for node in inner if isinstance(node, ast.alias)}
    )


def test_names_imported_by_benchmarks_and_tools_exist():
    """Of all of them, those too that need a cluster; they are not looked at by mypy."""
    missing = []
    for path in [*(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("stormwright."):
                continue
            place = ROOT / "src" / node.module.replace(".", "/")
            package = place / "__init__.py"
            known = names_in(package if package.exists() else place.with_suffix(".py"))
            known |= {each.stem for each in place.glob("*")}
            missing += [f"{path.name}: {node.module}.{each.name}" for each in node.names if each.name not in known]
    assert missing == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_benchmark_runs_and_writes_its_figures(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", f"benchmarks.{name}", *SMALL[name].split()]
    environment = {**os.environ, "STORMWRIGHT_RESULTS": str(tmp_path), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (written,) = tmp_path.glob("*.json")
    assert json.loads(written.read_text(encoding="utf-8"))["figures"]


def test_every_page_of_results_is_listed_with_its_benchmark():
    listed = {}
    for line in (ROOT / "docs" / "results" / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| ["):
            listed[line[3:].partition("]")[0]] = line.split("`")[-2]
    pages = {path.stem for path in (ROOT / "docs" / "results").glob("*.md")} - {"README"}
    assert listed.keys() == pages
    for benchmark in listed.values():
        assert (ROOT / "benchmarks" / f"{benchmark.replace('.', '/')}.py").is_file()
