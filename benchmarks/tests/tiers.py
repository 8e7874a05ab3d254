"""What `make test` leaves to `make test-all`: lines that only slow tests reach, and mutants that only they kill.

    python -m benchmarks.tests.tiers [--mutants 200] [--processes 2]

All tests but those on a real cluster run once under coverage, each as a context of its own (half an hour). Then
expressions of lines that tests reach are changed, and the tests that reach the line run, those of `make test` before
the slow ones. Resumable: both are stored in ``build/tiers``. Left out: lines that only an import reaches, modules
that are compiled to machine code, whose lines coverage does not see, and what only processes of their own reach.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from queue import SimpleQueue

from coverage import CoverageData

from benchmarks.kit.results import ROOT, write_results

#: Code that the page measures.
MEASURES = ("tests",)

DIRECTORY = ROOT / "build" / "tiers"
DATA = DIRECTORY / "coverage"
KILLED = DIRECTORY / "mutants.jsonl"

#: Most tests that a mutant meets of each tier, and most seconds that they may take: some lines thousands reach.
MAX_TESTS = 120
MAX_S = 240.0

#: End of the name of a test that shares something with others of its process.
_GROUP = re.compile("@(storm|spark|zookeeper)$")

_COMPARISONS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not"}
_OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*"}


@dataclass(frozen=True)
class Mutant:
    """A change of an expression: the file, its line, and the source before and after it."""

    path: str
    line: int
    before: str
    after: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    if not DATA.exists():
        run_under_coverage(options.processes)
    slow = slow_tests()
    tests = tests_of_lines()
    every = sum(len(lines) for lines in tests.values())
    quick = sum(bool(names - slow) for lines in tests.values() for names in lines.values())
    outcomes = run_mutants(chosen(tests, options.mutants, options.seed), tests, slow, options.processes)
    by_quick, by_slow = outcomes["make test"], outcomes["make test-all"]
    rows = [
        ("lines that tests reach, without imports", "", f"{every:,}"),
        ("of these `make test` reaches", "≥ 99 %", f"{quick / every:.2%}"),
        ("random mutants of these lines", str(options.mutants), str(sum(outcomes.values()))),
        ("killed by a test", "", str(by_quick + by_slow)),
        ("of these killed by `make test`", "≥ 95 %", f"{by_quick / max(by_quick + by_slow, 1):.1%}"),
    ]
    missed = {path: sum(not names - slow for names in lines.values()) for path, lines in tests.items()}
    details = {"lines that only slow tests reach": {path: number for path, number in missed.items() if number}}
    write_results("test-tiers", "What `make test` leaves to `make test-all`", rows, details)


def run_under_coverage(processes: int) -> None:
    """Run all tests but those on a real cluster, each as a context of its own."""
    sources = [f"--cov={ROOT / each}" for each in ("src/stormwright", "lab/src/stormwright_lab")]
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(processes), "--dist", "loadgroup", "-m", "not storm"]
    settings = {**os.environ, "COVERAGE_FILE": str(DIRECTORY / "running")}
    subprocess.run([*command, *sources, "--cov-context=test", "--cov-report="], cwd=ROOT, env=settings, check=False)
    (DIRECTORY / "running").rename(DATA)


def slow_tests() -> set[str]:
    """Return the tests that only `make test-all` runs."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "slow"]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {line for line in out.splitlines() if "::" in line}


def tests_of_lines() -> dict[str, dict[int, set[str]]]:
    """Return the tests that reach each line, by file and line."""
    data = CoverageData(str(DATA))
    data.read()
    found: dict[str, dict[int, set[str]]] = {}
    for path in data.measured_files():
        name = str(Path(path).relative_to(ROOT))
        lines = {
            line: {_GROUP.sub("", context.rpartition("|")[0]) for context in contexts if context}
            for line, contexts in data.contexts_by_lineno(path).items()
        }
        found[name] = {line: names for line, names in lines.items() if names}
    return found


def chosen(tests: dict[str, dict[int, set[str]]], number: int, seed: int) -> list[Mutant]:
    """Return random mutants, of random lines."""
    rng = random.Random(seed)  # noqa: S311 (no secret)
    lines = [(path, line) for path, each in sorted(tests.items()) if not is_compiled(path) for line in sorted(each)]
    rng.shuffle(lines)
    found: list[Mutant] = []
    for path, line in lines:
        mutants = mutants_of(path).get(line)
        if mutants:
            found.append(rng.choice(mutants))
        if len(found) == number:
            break
    return found


def is_compiled(path: str) -> bool:
    """Whether a module is compiled to machine code."""
    return "stormwright.jit" in (ROOT / path).read_text(encoding="utf-8")


@cache
def mutants_of(path: str) -> dict[int, list[Mutant]]:
    """Return the mutants of a file by line."""
    source = (ROOT / path).read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    found: dict[int, list[Mutant]] = {}
    for node in ast.walk(ast.parse(source)):
        for at, text in _changes(node):
            if at.lineno != at.end_lineno:
                continue
            row = lines[at.lineno - 1].encode()
            changed = (row[: at.col_offset] + text.encode() + row[at.end_col_offset :]).decode()
            after = "".join([*lines[: at.lineno - 1], changed, *lines[at.lineno :]])
            found.setdefault(at.lineno, []).append(Mutant(path, at.lineno, row.decode().strip(), after))
    return found


def _changes(node: ast.AST) -> list[tuple[ast.expr, str]]:
    """Return expressions that change, and their new source."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            return [(node, f"({ast.unparse(left)} {_COMPARISONS[type(op)]} {ast.unparse(right)})")]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS and not isinstance(left, ast.JoinedStr):
            return [(node, f"(({ast.unparse(left)}) {_OPERATORS[type(op)]} ({ast.unparse(right)}))")]
        case ast.BoolOp(op=op, values=values):
            word = " or " if isinstance(op, ast.And) else " and "
            return [(node, f"({word.join(f'({ast.unparse(value)})' for value in values)})")]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return [(node, f"bool({ast.unparse(operand)})")]
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            return [(test, f"(not ({ast.unparse(test)}))")]
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            return [(value, "None")]
        case ast.Constant(value=bool() as value):
            return [(node, str(not value))]
        case ast.Constant(value=int() | float() as value):
            return [(node, str(value + 1))]
    return []


def run_mutants(
    mutants: list[Mutant], tests: dict[str, dict[int, set[str]]], slow: set[str], processes: int
) -> Counter[str]:
    """Run the tests that reach each mutant, and return how many each tier kills."""
    done = [json.loads(line) for line in KILLED.read_text(encoding="utf-8").splitlines()] if KILLED.exists() else []
    known = {(each["path"], each["line"], each["after"]): each["by"] for each in done}
    copies: SimpleQueue[Path] = SimpleQueue()
    for number in range(processes):
        copies.put(copy_of_repository(DIRECTORY / f"copy-{number}"))

    def run(mutant: Mutant) -> str:
        changed = mutant.after.splitlines()[mutant.line - 1].strip()
        by = known.get((mutant.path, mutant.line, changed))
        if by is None:
            copy = copies.get()
            by = killer(mutant, tests[mutant.path][mutant.line], slow, copy)
            copies.put(copy)
            row = {"path": mutant.path, "line": mutant.line, "before": mutant.before, "after": changed, "by": by}
            with KILLED.open("a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")
            print(f"{mutant.path}:{mutant.line}  {changed}  {by}", flush=True)
        return by

    with ThreadPoolExecutor(processes) as pool:
        return Counter(pool.map(run, mutants))


def killer(mutant: Mutant, names: set[str], slow: set[str], copy: Path) -> str:
    """Return the tier that kills a mutant, or ``none``."""
    target = copy / mutant.path
    target.write_text(mutant.after, encoding="utf-8")
    try:
        for tier, those in (("make test", names - slow), ("make test-all", names & slow)):
            if those and fails(sorted(those, key=lambda name: _distance(name, mutant.path)), copy):
                return tier
        return "none"
    finally:
        shutil.copy2(ROOT / mutant.path, target)


def _distance(test: str, path: str) -> tuple[int, str]:
    """Order tests by how many folders they share with a module, those of most first."""
    shared = set(Path(test.split("::")[0]).parts) & set(Path(path).parts)
    return -len(shared), test


def fails(tests: list[str], copy: Path) -> bool:
    """Whether one of the tests fails, or takes much too long."""
    folders = [copy / "src", copy / "lab" / "src", copy]
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:cov"]
    try:
        ended = subprocess.run(
            [*command, *tests[:MAX_TESTS]], cwd=copy, env=settings, capture_output=True, timeout=MAX_S, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    return ended.returncode != 0


def copy_of_repository(target: Path) -> Path:
    """Return a clone of the repository that uses its environment, Storm and machine code."""
    if target.exists():
        shutil.rmtree(target)
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(target)], check=True)
    for shared in (".venv", "build"):
        (target / shared).symlink_to(ROOT / shared)
    for made in ("java/target", "src/stormwright/optimize/machine_code", "src/stormwright/simulator/machine_code"):
        shutil.copytree(ROOT / made, target / made)
    return target


if __name__ == "__main__":
    main()
