"""Benchmarks that need no cluster run, small, and write their figures: those that are not run for weeks rot."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools.results_status import Repository, listed_pages, measured_code, status_of

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
    "schedulers.default_answer": "--drawn 1 --built-in 1",
    "schedulers.scale": "--executors 1000 --nodes 50 --pairs 10000 --runs 1 --schedulers even,online",
    "simulator.recorded_cells": "--only star --seconds 0.2",
    "simulator.transients": "simulate --starts 1",
    "simulator.speed": "--hops 20000 --flat 200000",
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


@pytest.mark.slow
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
    listed = dict(listed_pages(ROOT))
    pages = {path.stem for path in (ROOT / "docs" / "results").glob("*.md")} - {"README"}
    assert listed.keys() == pages
    for benchmark in listed.values():
        for path in measured_code(benchmark, ROOT):
            assert (ROOT / path).exists(), f"{benchmark.name} measures {path}"


SEARCH = '"""A search."""\n\n\ndef search(cost):\n    """Search."""\n    return min(cost)\n'
PROBE = "class Probe {\n  // counts\n  int count = 1;\n}\n"


@pytest.fixture
def measured(tmp_path: Path) -> Repository:
    """A repository with one page, measured at its only commit."""
    files = {
        "docs/results/README.md": "| [quality](quality.md) | cost | `search.quality` |\n",
        "benchmarks/search/quality.py": 'from benchmarks.kit.results import x\n\nMEASURES = ("src/search", "java")\n',
        "benchmarks/kit/results.py": "x = 1\n",
        "src/search/search.py": SEARCH,
        "src/other.py": "",
        "java/Probe.java": PROBE,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    commit = commit_all(tmp_path)
    page = {"date": "2026-11-28", "commit": commit[:8]}
    (tmp_path / "docs" / "results" / "quality.json").write_text(json.dumps(page))
    return Repository(tmp_path)


def commit_all(root: Path) -> str:
    identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    subprocess.run(["git", "add", "--all"], cwd=root, check=True)
    subprocess.run(["git", *identity, "commit", "--quiet", "--message", "change"], cwd=root, check=True)
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True)
    return found.stdout.strip()


def outdated(repository: Repository, changes: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return why the page is outdated after some files have changed, and the files that count."""
    for name, text in changes.items():
        (repository.root / name).write_text(text)
    commit_all(repository.root)
    ((page, benchmark),) = listed_pages(repository.root)
    found = status_of(page, benchmark, Repository(repository.root))
    return found.reason, list(found.changed)


@pytest.mark.parametrize(
    ("changes", "files"),
    [
        ({"src/search/search.py": SEARCH.replace("min", "max")}, ["src/search/search.py"]),
        ({"src/search/search.py": SEARCH.replace("Search", "Look") + "\n# done\n"}, []),
        ({"java/Probe.java": PROBE.replace("1", "2")}, ["java/Probe.java"]),
        ({"java/Probe.java": PROBE.replace("counts", "counts tuples").replace("  int", "int")}, []),
        ({"src/search/annealing.py": ""}, ["src/search/annealing.py"]),
        ({"src/other.py": "x = 1\n", "benchmarks/kit/results.py": "x = 2\n"}, []),
        ({"benchmarks/search/quality.py": 'MEASURES = ("src/search", "java")\n'}, ["benchmarks/search/quality.py"]),
    ],
)
def test_a_page_is_outdated_when_the_code_that_it_measures_has_changed(measured, changes, files):
    reason, changed = outdated(measured, changes)
    assert changed == files
    assert bool(reason) == bool(files)


def test_a_listed_page_without_a_measurement_is_outdated(measured):
    (measured.root / "docs" / "results" / "quality.json").unlink()
    ((page, benchmark),) = listed_pages(measured.root)
    assert status_of(page, benchmark, measured).reason == "it was not measured yet"


@pytest.mark.parametrize("commit", ["0123456", "{} with changes"])
def test_a_page_of_unknown_code_is_outdated(measured, commit):
    page = measured.root / "docs" / "results" / "quality.json"
    at = json.loads(page.read_text())["commit"]
    reason, _ = outdated(measured, {str(page): json.dumps({"date": "", "commit": commit.format(at)})})
    assert reason
