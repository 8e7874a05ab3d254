"""Problems from files, and built-in problems by name."""

from __future__ import annotations

from pathlib import Path

from stormwright.errors import Fault, InputError, nearest
from stormwright.formats.files import problem_files
from stormwright.model import Problem

#: Prefix of the names of ready problems, in place of a file.
READY_PREFIX = "ready:"


def read_problem(path: Path) -> Problem:
    """Return the problem in the file at `path`, or the built-in one that ``ready:NAME`` names.

    Raises
    ------
    InputError
        There is no ready problem of that name; the file cannot be read or is not a problem.
    """
    if not str(path).startswith(READY_PREFIX):
        return problem_files.read_problem(path)
    # It imports how topologies are submitted, which files do not need.
    from stormwright.workbench.generated_problems import READY

    name = str(path).removeprefix(READY_PREFIX)
    if name not in READY:
        near = nearest(name, READY)
        hint = f"did you mean {READY_PREFIX}{near}?" if near else f"there are {', '.join(READY)}"
        raise InputError(str(path), [Fault(f"unknown built-in problem; {hint}", "$")])
    return READY[name]()
