"""Where the case files are: small ones beside the tests, all of them where `STORMWRIGHT_CASES` or ../shared says."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from stormwright.formats import problem_from_dict, read_json
from stormwright.model import Assignment, Problem, WorkerSlot

#: Topology → slot of each of its executors, and topology → how many of them are unplaced, where some are.
Placed = tuple[dict[str, list[WorkerSlot | None]], dict[str, int]]

_HERE = Path(__file__).parent / "cases"
_ALL = Path(os.environ.get("STORMWRIGHT_CASES") or Path(__file__).parents[2] / "shared" / "cases")


def case_files(kind: str) -> list[Path]:
    """The files of `kind` (``peer`` or ``placement``), each name once, in order of their names."""
    found = {path.name: path for place in (_ALL, _HERE) for path in (place / kind).glob("*.json.gz")}
    return [found[name] for name in sorted(found)]


def case_name(path: Path) -> str:
    """Short name of a case, for test ids."""
    return path.name.removesuffix(".json.gz")


def all_cases() -> dict[str, Path]:
    """Short name → file, of every kind."""
    return {case_name(path): path for path in case_files("peer") + case_files("placement")}


def small_cases() -> list[Path]:
    """The files of kind ``placement`` that even slow searches and oracles finish within seconds."""
    return [path for path in case_files("placement") if case_name(path)[0] in "sm"]


@cache
def read_case(path: Path) -> dict[str, Any]:
    """The whole case; not to be changed."""
    case = read_json(path)
    assert isinstance(case, dict)
    return case


@cache
def case_problem(path: Path) -> Problem:
    """The case's problem."""
    return problem_from_dict(read_case(path), str(path))


def placed_by(answer: Assignment, problem: Problem) -> Placed:
    """An answer of ours, to be compared with `placed_in`."""
    slots = {t: _by_executor(p.slots, p.slot_of_executor) for t, p in answer.by_topology(problem).items()}
    return slots, dict(Counter(executor.topology for executor in answer.unplaced))


def placed_in(answer: dict[str, Any], problem: Problem) -> Placed:
    """An answer in a case, which leaves out topologies that were not placed."""
    slots: dict[str, list[WorkerSlot | None]] = {t.id: [None] * t.num_executors for t in problem.topologies}
    slots |= {t: _by_executor(p["slots"], p["slot_of_executor"]) for t, p in answer["assignments"].items()}
    return slots, {t: count for t, count in answer["unplaced_executors"].items() if count}


def _by_executor(slots: Sequence[Any], slot_of_executor: Sequence[int | None]) -> list[WorkerSlot | None]:
    return [None if s is None or s < 0 else WorkerSlot(*slots[s]) for s in slot_of_executor]


def one_in(number: int, cases: Sequence[tuple[str, str]]) -> list[Any]:
    """Cases as parameters of a test, of which `make test` runs one in a number, and `make test-all` all."""
    return [case if not n % number else pytest.param(*case, marks=pytest.mark.slow) for n, case in enumerate(cases)]
