"""Where the case files are: small ones beside the tests, all of them where `STORMWRIGHT_CASES` or ../shared says."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from stormwright.formats import problem_from_dict, read_json
from stormwright.model import Problem

_HERE = Path(__file__).parent / "cases"
_ALL = Path(os.environ.get("STORMWRIGHT_CASES") or Path(__file__).parents[2] / "shared" / "cases")


def case_files(kind: str) -> list[Path]:
    """The files of `kind` (``peer`` or ``placement``), each name once, in order of their names."""
    found = {path.name: path for place in (_ALL, _HERE) for path in (place / kind).glob("*.json.gz")}
    return [found[name] for name in sorted(found)]


def case_name(path: Path) -> str:
    """Short name of a case, for test ids."""
    return path.name.removesuffix(".json.gz")


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
