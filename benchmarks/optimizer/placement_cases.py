"""The placement problems that benchmarks share, each with the cost of the best placement that its makers found."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks.kit.results import ROOT
from stormwright.formats import problem_from_dict, read_json
from stormwright.model import Problem


def add_cases_argument(parser: argparse.ArgumentParser) -> None:
    """Let ``--cases DIRECTORY`` say where they are."""
    default = os.environ.get("STORMWRIGHT_CASES") or ROOT.parent / "shared" / "cases"
    parser.add_argument("--cases", type=Path, default=Path(default))


def case_files(cases: Path) -> list[Path]:
    """The files of all cases, by name; ends the program where there are none, as figures of nothing say nothing."""
    found = sorted((cases / "placement").glob("*.json.gz"))
    return found or sys.exit(f"{cases / 'placement'}: no cases (*.json.gz) there: name their directory with --cases")


def read_case(path: Path) -> tuple[Problem, float]:
    """The problem in a file, and the best known cost."""
    document: Any = read_json(path)
    return problem_from_dict(document, str(path)), document["reference"]["cost"]
