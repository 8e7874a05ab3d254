"""Runs on a real cluster, which take minutes each: every one is kept in a file, and made where there is none yet."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.kit.results import show_progress, stamp


class Run(NamedTuple):
    """A run: the file that keeps it, what it is of, and what makes it.

    Parameters
    ----------
    file
        Without its directory.
    of
        What its file begins with.
    make
        From seconds of warming up and of measuring to what was found.
    """

    file: str
    of: Mapping[str, Any]
    make: Callable[[float, float], Mapping[str, Any]]


def make_or_compare(
    doc: str | None,
    directory: Path,
    runs: Callable[[str], Iterable[Run]],
    compare: Callable[[], None],
    seconds: float,
) -> None:
    """What ``run`` and ``compare`` of the command line ask for.

    Parameters
    ----------
    doc
        What it is about.
    directory
        Of the files.
    runs
        From what ``--only`` says, empty for all, to the runs that are wanted.
    compare
        Compares those that there are; it needs no cluster.
    seconds
        Of warming up and of measuring where nothing is said.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "compare"))
    parser.add_argument("--only", default="", help="only these")
    parser.add_argument("--warm-up", type=float, default=seconds)
    parser.add_argument("--measure", type=float, default=seconds)
    options = parser.parse_args()
    if options.what == "compare":
        compare()
        return
    show_progress()
    directory.mkdir(parents=True, exist_ok=True)
    for run in runs(options.only):
        file = directory / run.file
        if not file.exists():
            found = {**run.of, **stamp(), **run.make(options.warm_up, options.measure)}
            file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
