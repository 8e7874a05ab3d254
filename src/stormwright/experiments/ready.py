"""Problems of any source that users may name: files, and those that need no file."""

from __future__ import annotations

from pathlib import Path

from stormwright.errors import Fault, InputError, nearest
from stormwright.formats.files import problem_files
from stormwright.model import Problem

#: What the name of a ready problem begins with, where a file could be named instead.
READY_PREFIX = "ready:"


def read_problem(path: Path) -> Problem:
    """The problem in the file at `path`, or the ready one that ``ready:NAME`` names.

    Raises
    ------
    InputError
        There is no ready problem of that name; the file cannot be read or is not a problem.
    """
    if not str(path).startswith(READY_PREFIX):
        return problem_files.read_problem(path)
    # They bring how topologies are submitted, which no file needs.
    from stormwright.experiments.simulated.clusters import READY as CLUSTERS
    from stormwright.experiments.top_storm import READY as PAPERS

    ready, name = {**PAPERS, **CLUSTERS}, str(path).removeprefix(READY_PREFIX)
    if name not in ready:
        near = nearest(name, ready)
        hint = f"did you mean {READY_PREFIX}{near}?" if near else f"there are {', '.join(ready)}"
        raise InputError(str(path), [Fault(f"no such ready problem; {hint}", "$")])
    return ready[name]()
